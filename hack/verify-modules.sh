#!/usr/bin/env bash
# Fails if `go mod tidy` would change a go.mod or go.sum.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
git ls-files --cached --others --exclude-standard '*go.mod' | while read -r file; do
  (cd "$(dirname "${file}")" && go mod tidy -diff) || { echo "${file} is not tidy: run go mod tidy" >&2; exit 1; }
done
