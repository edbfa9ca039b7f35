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
schema=$(mktemp)
trap 'rm -f "${schema}"' EXIT
go run "${module}/hack/models-schema" >"${schema}"

kube::codegen::gen_client \
  --with-watch \
  --with-applyconfig \
  --applyconfig-openapi-schema "${schema}" \
  --output-dir "${root}/generated" \
  --output-pkg "${module}/generated" \
  --boilerplate "${root}/hack/boilerplate.go.txt" \
  "${root}/apis"
