#!/usr/bin/env bash
# Builds the servers of the node into _output/bin, from Go modules. containerd, runc, the CNI plugins, nft and busybox are packages of Debian, which
# it extracts and does not install. Later runs do nothing, as with hack/controlplane/build.sh.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

((EUID == 0)) || { echo "this machine lacks for a node: root" >&2; exit 1; }
"${root}/hack/controlplane/build.sh" etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy

# The libraries are for runc and nft: a small machine may lack them.
debian=(containerd runc containernetworking-plugins nftables busybox-static
  libseccomp2 libnftables1 libnftnl11 libmnl0 libxtables12 libjansson4 libgmp10 libedit2 libbsd0 libmd0 libtinfo6)
stamp=${packages}/.stamp
if [[ -f ${stamp} && $(cat "${stamp}") == "${debian[*]}" ]]; then exit; fi
echo "fetching packages of Debian …"
for command in apt-get dpkg; do
  command -v "${command}" >/dev/null || { echo "this machine lacks for a node: ${command}, which fetches containerd, runc and others from packages of Debian or Ubuntu" >&2; exit 1; }
done
unset LD_LIBRARY_PATH
rm -rf "${packages}"
mkdir -p "${packages}"
cd "${packages}"
download() { apt-get -qq -o APT::Sandbox::User=root download "${debian[@]}"; }
# A machine may have no lists of packages, or lists with versions that are gone.
download 2>/dev/null || { apt-get -qq update && download; } || { echo "this machine lacks for a node: packages of Debian or Ubuntu" >&2; exit 1; }
for file in *.deb; do
  dpkg -x "${file}" .
  rm "${file}"
done
echo "${debian[*]}" >"${stamp}"
