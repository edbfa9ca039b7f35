#!/usr/bin/env bash
# Stops the dev clusters and removes all of their files.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
go run ./hack/devcluster down "${root}"
