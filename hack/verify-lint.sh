#!/usr/bin/env bash
# Runs the linters in .golangci.yml over every module that has code of its own. The version is
# pinned in hack/tools/go.mod.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
lint=${root}/_output/tools/golangci-lint
echo "building the linters, which takes a minute or two the first time …"
(cd hack/tools && go build -o "${lint}" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
git ls-files '*go.mod' | while read -r file; do
  module=$(dirname "${file}")
  # The module of the tools has no packages of its own.
  if [[ -n $(cd "${module}" && go list ./... 2>/dev/null) ]]; then
    echo "linting ${module} …"
    (cd "${module}" && "${lint}" run --config "${root}/.golangci.yml" ./...)
  fi
done
for script in hack/*.sh hack/controlplane/*.sh hack/node/*.sh .ci/run; do bash -n "${script}"; done
