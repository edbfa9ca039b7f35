#!/usr/bin/env bash
# Stops the dev clusters and the node, and removes all of their files.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
go run ./hack/devcluster down "${root}"
if [[ -e _output/node ]]; then hack/node/node.sh down; fi
