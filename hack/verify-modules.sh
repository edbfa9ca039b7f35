#!/usr/bin/env bash
# Fails if `go mod tidy` would change a go.mod or go.sum, or if hack/next/next.sum lacks a direct requirement.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
git ls-files --cached --others --exclude-standard '*go.mod' | while read -r file; do
  (cd "$(dirname "${file}")" && go mod tidy -diff) || { echo "${file} is not tidy: run go mod tidy" >&2; exit 1; }
done
# next.sum must have a sum for each direct requirement of go.mod that next.mod has, in the version of next.mod.
awk 'NR == FNR { if (NF == 2 && $1 ~ /\./) wanted[$1] = 1; next } $1 in wanted { print $1, $2 }' go.mod hack/next/next.mod | while read -r module version; do
  grep -q "^${module} ${version} h1:" hack/next/next.sum || { echo "hack/next/next.sum lacks ${module} ${version}: add Sum and GoModSum of go mod download -json ${module}@${version}" >&2; exit 1; }
done
