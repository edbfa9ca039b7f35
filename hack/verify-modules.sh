#!/usr/bin/env bash
# Fails if a go.mod or go.sum is not what `go mod tidy` would write.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
git ls-files --cached --others --exclude-standard '*go.mod' | while read -r file; do
  (cd "$(dirname "${file}")" && go mod tidy -diff) || { echo "${file} is not tidy" >&2; exit 1; }
done
