#!/usr/bin/env bash
# Fails if generated code is not what hack/update-codegen.sh generates. The tree is left as
# it is: the generators run on a copy.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT
cd "${root}"
# What git tracks, and what it would; generated files must be removed to be seen missing.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [[ -e "${file}" ]] && printf '%s\0' "${file}"
done | tar --null --files-from=- -cf - | tar -xf - -C "${copy}"
"${copy}/hack/update-codegen.sh" >"${copy}/update.log" 2>&1 || { cat "${copy}/update.log"; exit 1; }
for path in apis generated hack/api-rules.list; do
  diff -Naur --brief "${path}" "${copy}/${path}" || failed=1
done
if [[ -n "${failed:-}" ]]; then
  echo "generated code is out of date: run make generate" >&2
  exit 1
fi
