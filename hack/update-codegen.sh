#!/usr/bin/env bash
# Generates deepcopy, defaults, conversions, OpenAPI, apply configurations, clientset, listers and
# informers for all packages under apis/. It needs only Go; the generators are pinned in
# hack/tools/go.mod.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=github.com/proviso-authz/proviso
cd "${root}"

(cd hack/tools && go mod download k8s.io/code-generator)
codegen=$(cd hack/tools && go list -m -f '{{.Dir}}' k8s.io/code-generator)

# kube_codegen.sh installs its generators into GOBIN, which should not be the user's.
export GOBIN=${root}/_output/tools
export GOFLAGS=-buildvcs=false
mkdir -p "${GOBIN}"
# shellcheck source=/dev/null
source "${codegen}/kube_codegen.sh"
GOBIN=${root}/_output/tools
KUBE_CODEGEN_READONLY_PKGS+=(k8s.io/api/authorization/v1 k8s.io/api/authentication/v1 k8s.io/api/rbac/v1)

kube::codegen::gen_helpers \
  --boilerplate "${root}/hack/boilerplate.go.txt" \
  "${root}/apis"

kube::codegen::gen_openapi \
  --extra-pkgs k8s.io/api/authorization/v1 \
  --extra-pkgs k8s.io/api/authentication/v1 \
  --extra-pkgs k8s.io/api/rbac/v1 \
  --output-dir "${root}/generated/openapi" \
  --output-pkg "${module}/generated/openapi" \
  --output-model-name-file zz_generated.model_name.go \
  --report-filename "${root}/hack/api-rules.list" \
  --update-report \
  --boilerplate "${root}/hack/boilerplate.go.txt" \
  "${root}/apis"

# The generator of apply configurations needs the schemas that the step above generated.
copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT
go run "${module}/hack/models-schema" >"${copy}/schema.json"

# The kinds of authorization.proviso.dev are aliases, for which the generators make no client. The input is a
# copy in which they are types of their own, with the same names, so that the clients fit the aliases.
cp -r apis go.mod go.sum "${copy}"
cp apis/authorization/v1alpha1/{types,zz_generated.deepcopy}.go "${copy}/apis/authorizationproviso/v1alpha1"
cd "${copy}"
kube::codegen::gen_client \
  --with-watch \
  --with-applyconfig \
  --applyconfig-openapi-schema "${copy}/schema.json" \
  --output-dir "${root}/generated" \
  --output-pkg "${module}/generated" \
  --boilerplate "${root}/hack/boilerplate.go.txt" \
  "${copy}/apis"
