#!/usr/bin/env bash
# Builds and unit-tests a copy of the tree with the versions of hack/next/next.mod: the next minor version of the Kubernetes
# libraries, so that changes in them are found early. The copy imports the version of structured-merge-diff that these
# libraries have, has the files below hack/next instead of its own, and is changed by the patches there. It needs the Go
# toolchain of next.mod, which the go command downloads.
#
# Arguments are packages; without any, all that unit tests cover.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT
cd "${root}"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [[ -e "${file}" ]] && printf '%s\0' "${file}"
done | tar --null --files-from=- -cf - | tar -xf - -C "${copy}"

cd "${copy}"
cp hack/next/next.mod go.mod
cp hack/next/next.sum go.sum
(cd hack/next && find . -name '*.go.next') | while read -r file; do cp "hack/next/${file}" "${file%.next}"; done
git apply hack/next/*.patch
export GOTOOLCHAIN=auto GOFLAGS="-buildvcs=false -trimpath"
merge=$(go list -m -f '{{.Path}}' all | grep '^sigs.k8s.io/structured-merge-diff/' | tail -n 1)
grep -rlZ --include='*.go' 'sigs.k8s.io/structured-merge-diff/' . | xargs -0 sed -i -E "s#sigs.k8s.io/structured-merge-diff/v[0-9]+#${merge}#"

go version
packages=("$@")
if [[ ${#packages[@]} == 0 ]]; then
  mapfile -t packages < <(go list ./... | grep -v -e /test/integration -e /test/e2e -e /test/node)
fi
echo "building …"
go build ./...
echo "testing …"
go test -timeout 20m "${packages[@]}"
