#!/usr/bin/env bash
# Builds servers of the control plane into _output/bin, from Go modules alone: those that are named, or etcd, kube-apiserver and
# kubectl. Tests that need kube-controller-manager have it built by its name.
#
# The versions are in hack/controlplane/go.mod. The first build compiles a few thousand packages
# and takes minutes. Later runs do nothing until go.mod, go.sum, this script or the Go toolchain
# changes; a stamp file for each binary records them.
set -o errexit -o nounset -o pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "${here}/../.." && pwd)
bin=${root}/_output/bin

version_of() { (cd "${here}" && go list -m -f '{{.Version}}' "$1"); }

# progress counts the package names that `go build -v` prints, so that a long build shows its
# progress, and passes on all other output.
progress() {
  awk -v name="$1" '
    /^[a-zA-Z0-9._~\/-]+$/ { n++; if (n % 100 == 0) { printf "  %s: %d packages compiled\n", name, n; fflush() } next }
    { print; fflush() }'
}

build() { # name, package, ldflags
  local started=${SECONDS}
  echo "building $1 …"
  (cd "${here}" && CGO_ENABLED=0 go build -v -trimpath -buildvcs=false -ldflags "-s -w $3" -o "${bin}/$1" "$2" 2>&1) | progress "$1"
  echo "  $1 done in $((SECONDS - started)) s"
}

want=$( (cat "${here}/go.mod" "${here}/go.sum" "${BASH_SOURCE[0]}"; go version) | sha256sum | cut -d' ' -f1)
mkdir -p "${bin}"
missing=()
(($#)) || set -- etcd kube-apiserver kubectl
for name in "$@"; do
  stamp=${bin}/.${name}.stamp
  [[ -f "${stamp}" && "$(cat "${stamp}")" == "${want}" && -x "${bin}/${name}" ]] || missing+=("${name}")
done
((${#missing[@]})) || exit 0

kube=$(version_of k8s.io/kubernetes)
etcd=$(version_of go.etcd.io/etcd/server/v3)
IFS=. read -r major minor _ <<<"${kube#v}"
echo "control plane: Kubernetes ${kube}, etcd ${etcd}; the first build takes some minutes"

pkg=k8s.io/component-base/version
stamped="-X ${pkg}.gitVersion=${kube} -X ${pkg}.gitMajor=${major} -X ${pkg}.gitMinor=${minor} -X ${pkg}.gitTreeState=clean"
for name in "${missing[@]}"; do
  rm -f "${bin}/.${name}.stamp"
  case "${name}" in
    etcd) build etcd go.etcd.io/etcd/server/v3 "" ;;
    *) build "${name}" "k8s.io/kubernetes/cmd/${name}" "${stamped}" ;;
  esac
  echo "${want}" >"${bin}/.${name}.stamp"
done
