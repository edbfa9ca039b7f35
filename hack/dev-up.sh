#!/usr/bin/env bash
# Starts the dev cluster in _output/dev: etcd, kube-apiserver and proviso-apiserver on loopback
# addresses, with the kubeconfig _output/dev/kubeconfig. Servers that are already running are kept.
# With managed-newest or managed-oldest it starts a cluster without flags for Proviso in _output/managed instead.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
go run ./hack/devcluster up "${root}" "$@"
