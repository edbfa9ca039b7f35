#!/usr/bin/env bash
# Runs the tests in modules of their own. It leaves out those whose inputs are the same as when they last passed here: the files of the
# module, and those of the packages of Proviso on which it depends. ALWAYS=1 runs all. Arguments are modules; without any, all.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
stamps=${root}/_output/stamps
mkdir -p "${stamps}"

# inputs prints a hash of each file on which the tests of the module in the working directory depend, and of some more.
inputs() {
  go version
  {
    go list -deps -test -f '{{if not .Standard}}{{.Dir}}{{end}}' ./... | grep -F "${root}/"
    printf '%s\n' "${PWD}" "${root}/artifacts" "${root}/docs/operations.md" "${root}/go.mod" "${root}/go.sum"
  } | while read -r path; do find "${path}" -type f; done | sort -u | sed "s,^${root}/,," | (cd "${root}" && xargs -d '\n' sha256sum)
}

failed=()
(($#)) || set -- test/bench/rbac hack/release test/browser
for module in "$@"; do
  cd "${root}/${module}"
  stamp=${stamps}/${module//\//-}
  want=$(inputs | sha256sum)
  if [[ -z ${ALWAYS:-} && -f ${stamp} && $(cat "${stamp}") == "${want}" ]]; then
    echo "${module}: nothing has changed since its tests passed"
    continue
  fi
  rm -f "${stamp}"
  if [[ ${module} == hack/release ]]; then "${root}/hack/controlplane/build.sh" kubectl; fi
  if go test -count=1 -vet=off -timeout 10m ./...; then echo "${want}" >"${stamp}"; else failed+=("${module}"); fi
done
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
