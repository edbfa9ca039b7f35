# Settings of the node. The other scripts here source them.
# shellcheck shell=bash disable=SC2034
set -o errexit -o nounset -o pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "${here}/../.." && pwd)
bin=${root}/_output/bin
packages=${bin}/packages # of Debian, extracted and not installed
dir=${root}/_output/node # all other files of the node
node="node-1"
cgroup=proviso-node-$(sha256sum <<<"${root}" | cut -c1-8) # the parent of the cgroups of all pods, in each hierarchy
bridge=pods0
node_ip=10.244.0.1
pod_cidr=10.244.0.0/24
service_cidr=10.96.0.0/24

libraries=("${packages}"/lib/*-linux-gnu "${packages}"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH PATH=${bin}:${packages}/usr/sbin:${packages}/usr/bin:${packages}/bin:${PATH} KUBECONFIG=${dir}/kubeconfig
LD_LIBRARY_PATH=$(IFS=:; echo "${libraries[*]}")
