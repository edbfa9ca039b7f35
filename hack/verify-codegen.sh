#!/usr/bin/env bash
# Fails if generated code differs from the output of hack/update-codegen.sh. The tree is not
# changed: the generators run on a copy.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT
cd "${root}"
# Copies tracked and new files, but not deleted ones, so that a missing generated file is noticed.
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
