#!/usr/bin/env bash
# Prints what the project weighs: lines of hand-written Go, or with the argument words the words of its documents.
#
# Lines are those of pkg and cmd without tests, generated code and the markers of guards, and those of all tests. Words are prose: neither
# blocks of code nor what is generated.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

lines() { xargs -r cat | grep -vc '^[[:space:]]*//guard:' || true; }

# prose prints a document without its blocks of code and its generated sections.
prose() { sed '/^<!-- begin generated/,/^<!-- end generated/d' "$1" | awk '/^ *```/ {inside = !inside; next} !inside && !/^    /'; }

words() {
  local file total=0 group n
  for group in 'documents:README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md docs/*.md' 'decision records:docs/adr/*.md' 'change log:CHANGELOG.md'; do
    total=0
    for file in ${group#*:}; do
      n=$(prose "${file}" | wc -w)
      printf '%7d  %s\n' "${n}" "${file}"
      total=$((total + n))
    done
    printf '%7d  %s in all\n' "${total}" "${group%%:*}"
  done
}

if [[ ${1:-} == words ]]; then
  words
  exit
fi
printf '%7d  pkg and cmd\n' "$(git ls-files 'pkg/*.go' 'cmd/*.go' | grep -v -e '_test\.go$' -e zz_generated -e /testdata/ | lines)"
printf '%7d  tests: files that end in _test.go\n' "$(git ls-files '*_test.go' | lines)"
printf '%7d  tests: packages that only tests use\n' "$(git ls-files 'test/*.go' | grep -v '_test\.go$' | lines)"
