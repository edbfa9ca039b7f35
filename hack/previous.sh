#!/usr/bin/env bash
# Builds proviso-apiserver of the version before this one, whose commit hack/previous.txt names, into _output/previous.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
read -r version commit < <(grep -v '^#' hack/previous.txt)
output=${PWD}/_output/previous
if [[ -x ${output}/proviso-apiserver && $(cat "${output}/commit" 2>/dev/null) == "${commit}" ]]; then
  exit 0
fi
if ! git cat-file -e "${commit}^{commit}" 2>/dev/null; then
  echo "this clone does not have the commit ${commit} of ${version}, which may be because it is shallow: run git fetch --unshallow, and try again" >&2
  exit 1
fi
echo "building proviso-apiserver ${version} …"
rm -rf "${output}"
mkdir -p "${output}/source"
git archive "${commit}" | tar -x -C "${output}/source"
(cd "${output}/source" && go build -ldflags "-s -w -X github.com/proviso-authz/proviso/pkg/version.gitVersion=${version} -X github.com/proviso-authz/proviso/pkg/version.gitCommit=${commit}" \
  -o "${output}/proviso-apiserver" ./cmd/proviso-apiserver)
rm -rf "${output}/source"
echo "${commit}" >"${output}/commit"
