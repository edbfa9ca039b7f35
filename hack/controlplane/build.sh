#!/usr/bin/env bash
# Builds servers of the control plane into _output/bin, from Go modules alone: those that are named, or etcd, kube-apiserver and
# kubectl. Tests that need kube-controller-manager have it built by its name, and those of managed clusters kube-apiserver-NAME, where NAME is
# in versions.txt: oldest, or a minor version. `make node` also needs kubelet, kube-proxy and kube-scheduler.
#
# The versions are in go.mod here and in node below, and in versions.txt. The first build compiles a few thousand packages
# and takes minutes. Later runs do nothing until the version, go.mod, go.sum, this script or the Go toolchain
# changes; a stamp file for each binary records them.
set -o errexit -o nounset -o pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
script=${here}/$(basename "${BASH_SOURCE[0]}")
root=$(cd "${here}/../.." && pwd)
bin=${root}/_output/bin

# module_of prints the directory of the module that has the source of a binary.
module_of() {
  case "$1" in
    kube-apiserver-*) echo "${root}/_output/controlplane/$1" ;;
    kubelet | kube-proxy | kube-scheduler) echo "${here}/node" ;;
    *) echo "${here}" ;;
  esac
}

version_of() { (cd "$(module_of "$1")" && go list -m -f '{{.Version}}' "$2"); }

# listed prints the version that versions.txt has for a binary.
listed() { awk -v name="${1#kube-apiserver-}" '$1 == name { print $2 }' "${here}/versions.txt"; }

# write_module writes the module of a kube-apiserver in versions.txt: the go.mod of k8s.io/kubernetes itself, but with its staging modules as they
# are published. The go command verifies all modules by its checksum database.
write_module() {
  local module dir version
  dir=$(module_of "$1") version=$(listed "$1")
  [[ -n ${version} ]] || { echo "hack/controlplane/versions.txt has no ${1#kube-apiserver-}" >&2; exit 1; }
  module=$(go list -m -f '{{.GoMod}}' "k8s.io/kubernetes@v${version}")
  mkdir -p "${dir}"
  sed -E -e "s,^module .*,module controlplane\nrequire k8s.io/kubernetes v${version}," -e "s,=> \./staging/src/(.*),=> \1 v0.${version#*.}," "${module}" >"${dir}/go.mod"
  rm -f "${dir}/go.sum"
  (cd "${dir}" && go list -mod=mod -deps k8s.io/kubernetes/cmd/kube-apiserver >/dev/null)
}

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
  (cd "$(module_of "$1")" && CGO_ENABLED=0 go build -v -trimpath -buildvcs=false -ldflags "-s -w $3" -o "${bin}/$1" "$2" 2>&1) | progress "$1"
  echo "  $1 done in $((SECONDS - started)) s"
}

# build_kubernetes builds a command of Kubernetes that reports its version.
build_kubernetes() { # name, command
  local kube major minor pkg=k8s.io/component-base/version
  kube=$(version_of "$1" k8s.io/kubernetes)
  echo "$2 ${kube}"
  IFS=. read -r major minor _ <<<"${kube#v}"
  build "$1" "k8s.io/kubernetes/cmd/$2" "-X ${pkg}.gitVersion=${kube} -X ${pkg}.gitMajor=${major} -X ${pkg}.gitMinor=${minor} -X ${pkg}.gitTreeState=clean"
}

# want prints what the stamp file of a binary that is up to date has.
want() { (listed "$1" | grep . || cat "$(module_of "$1")/go.mod" "$(module_of "$1")/go.sum"; cat "${script}"; go version) | sha256sum | cut -d' ' -f1; }

mkdir -p "${bin}"
missing=()
(($#)) || set -- etcd kube-apiserver kubectl
for name in "$@"; do
  stamp=${bin}/.${name}.stamp
  [[ -f "${stamp}" && "$(cat "${stamp}")" == "$(want "${name}")" && -x "${bin}/${name}" ]] || missing+=("${name}")
done
((${#missing[@]})) || exit 0

echo "control plane: the first build takes some minutes"
for name in "${missing[@]}"; do
  rm -f "${bin}/.${name}.stamp"
  case "${name}" in
    kube-apiserver-*) write_module "${name}"; build_kubernetes "${name}" kube-apiserver ;;
    etcd) echo "etcd $(version_of etcd go.etcd.io/etcd/server/v3)"; build etcd go.etcd.io/etcd/server/v3 "" ;;
    *) build_kubernetes "${name}" "${name}" ;;
  esac
  want "${name}" >"${bin}/.${name}.stamp"
done
