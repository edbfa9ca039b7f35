#!/usr/bin/env bash
# Builds the servers of the node into _output/bin, from Go modules. containerd, runc, the CNI plugins, nft and busybox are packages of Debian, which
# it extracts and does not install. Later runs do nothing, as with hack/controlplane/build.sh.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

"${root}/hack/controlplane/build.sh" etcd kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy

# The libraries are for runc and nft: a small machine may lack them.
debian=(containerd runc containernetworking-plugins nftables busybox-static
  libseccomp2 libnftables1 libnftnl11 libmnl0 libxtables12 libjansson4 libgmp10 libedit2 libbsd0 libmd0 libtinfo6)
stamp=${packages}/.stamp
if [[ -f ${stamp} && $(cat "${stamp}") == "${debian[*]}" ]]; then exit; fi
echo "fetching packages of Debian …"
for command in apt-get dpkg; do
  command -v "${command}" >/dev/null || { echo "${command} is missing: the node takes containerd, runc and others from packages of Debian or Ubuntu" >&2; exit 1; }
done
unset LD_LIBRARY_PATH
rm -rf "${packages}"
mkdir -p "${packages}"
cd "${packages}"
apt-get -qq -o APT::Sandbox::User=root download "${debian[@]}" || { echo "packages are missing: apt-get update may help" >&2; exit 1; }
for file in *.deb; do
  dpkg -x "${file}" .
  rm "${file}"
done
echo "${debian[*]}" >"${stamp}"
