#!/usr/bin/env bash
# Fails if `go mod tidy` would change a go.mod or go.sum, or if the sums of make next lack a module.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
git ls-files --cached --others --exclude-standard '*go.mod' | while read -r file; do
  (cd "$(dirname "${file}")" && go mod tidy -diff) || { echo "${file} is not tidy: run go mod tidy" >&2; exit 1; }
done
# The sums of make next, which has some of the modules in later versions.
awk 'NR == FNR { if (NF == 2 && $1 ~ /\./) wanted[$1] = 1; next } $1 in wanted { print $1, $2 }' go.mod hack/next/next.mod | while read -r module version; do
  grep -q "^${module} ${version} h1:" hack/next/next.sum || { echo "hack/next/next.sum lacks ${module} ${version}: run go mod tidy in a copy that hack/next.sh makes" >&2; exit 1; }
done
