#!/usr/bin/env bash
# The first process in the namespaces of the node. When it ends, the kernel ends all processes in them, and removes their interfaces, rules and
# mounts.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

hostname "${node}"
mount --no-mtab --make-rshared / # without a table of mounts in /run of the machine
# Paths that cannot be configured, such as /run/containerd and /var/log/pods, are in memory.
mount --no-mtab -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var
mkdir -p /var/lib /var/log /var/tmp /run/lock /run/sysctl
ln -s /run /var/run
# kubelet sets these, which have no namespace. It gets files instead, and the machine keeps its own.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  name=${setting%=*}
  file=/run/sysctl/${name//\//-}
  echo "${setting#*=}" >"${file}"
  mount --bind "${file}" "/proc/sys/${name}"
done
ip link set lo up
ip link add "${bridge}" type bridge
ip address add "${node_ip}/24" dev "${bridge}"
ip link set "${bridge}" up
ip route add default dev "${bridge}" # an address of a Service needs a route before it is translated
echo 1 >/proc/sys/net/ipv4/ip_forward

pki=${dir}/pki
logs=${dir}/logs
mkdir -p "${logs}"
declare -A names=()
start() { # name, command
  "${@:2}" >>"${logs}/$1.log" 2>&1 &
  names[$!]=$1
}
# await waits for a command to succeed. It ends the node if a server has ended.
await() { # what, command
  local pid deadline=$((SECONDS + 120))
  until "${@:2}" >/dev/null 2>&1; do
    for pid in "${!names[@]}"; do
      kill -0 "${pid}" 2>/dev/null || { echo "${names[${pid}]} has ended:"; tail -n 5 "${logs}/${names[${pid}]}.log"; exit 1; }
    done
    ((SECONDS < deadline)) || { echo "not in time: $1"; tail -n 3 "${logs}"/*.log; exit 1; }
    sleep 0.2
  done
}
# kube_apiserver starts kube-apiserver, and again when it has ended, with the flags in a file that node.sh writes.
kube_apiserver() {
  local flags
  while true; do
    mapfile -t flags <"${dir}/kube-apiserver.flags"
    kube-apiserver --secure-port=6443 --advertise-address="${node_ip}" --service-cluster-ip-range="${service_cidr}" --allow-privileged --enable-admission-plugins=NodeRestriction \
      --etcd-servers=https://127.0.0.1:2379 --etcd-cafile="${pki}/ca.crt" --etcd-certfile="${pki}/etcd.crt" --etcd-keyfile="${pki}/etcd.key" \
      --tls-cert-file="${pki}/kube-apiserver.crt" --tls-private-key-file="${pki}/kube-apiserver.key" --client-ca-file="${pki}/ca.crt" \
      --kubelet-client-certificate="${pki}/kubelet-client.crt" --kubelet-client-key="${pki}/kubelet-client.key" \
      --kubelet-certificate-authority="${pki}/ca.crt" --kubelet-preferred-address-types=InternalIP \
      --requestheader-client-ca-file="${pki}/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client --requestheader-username-headers=X-Remote-User \
      --requestheader-uid-headers=X-Remote-Uid --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
      --proxy-client-cert-file="${pki}/front-proxy.crt" --proxy-client-key-file="${pki}/front-proxy.key" \
      --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="${pki}/service-accounts.key" \
      --service-account-signing-key-file="${pki}/service-accounts.key" "${flags[@]}" &
    echo $! >"${dir}/kube-apiserver.pid"
    wait $! || sleep 0.2
  done
}
# component starts a controller of the control plane.
component() { # name, flags
  start "$1" "$1" --kubeconfig="${dir}/$1.kubeconfig" --authentication-kubeconfig="${dir}/$1.kubeconfig" --authorization-kubeconfig="${dir}/$1.kubeconfig" \
    --bind-address=127.0.0.1 --leader-elect=false --cert-dir="${dir}/$1" "${@:2}"
}
import() { ctr --namespace k8s.io images import "$1" >>"${logs}/images.log" 2>&1; }

start etcd etcd --data-dir="${dir}/etcd" --unsafe-no-fsync --log-level=warn --listen-client-urls=https://127.0.0.1:2379 --advertise-client-urls=https://127.0.0.1:2379 \
  --client-cert-auth --trusted-ca-file="${pki}/ca.crt" --cert-file="${pki}/etcd.crt" --key-file="${pki}/etcd.key"
start containerd containerd --config "${dir}/containerd.toml"
start kube-apiserver kube_apiserver
await "containerd" ctr version
import "${dir}/images/busybox.tar"
image=${root}/_output/image/proviso-apiserver-image.tar
if [[ -f ${image} ]]; then
  import "${image}"
  # The manifests have the image by this name.
  ctr --namespace k8s.io images tag "$(ctr --namespace k8s.io images ls -q | grep /proviso-apiserver:)" docker.io/library/proviso-apiserver:latest >>"${logs}/images.log"
fi
await "kube-apiserver" kubectl get --raw /readyz
await "a binding" kubectl create clusterrolebinding kube-apiserver:kubelet --clusterrole=system:kubelet-api-admin --user=kube-apiserver-kubelet-client
await "the volume" kubectl apply --filename="${dir}/storage.yaml"
component kube-controller-manager --use-service-account-credentials --service-account-private-key-file="${pki}/service-accounts.key" --root-ca-file="${pki}/ca.crt"
component kube-scheduler
start kubelet kubelet --config="${dir}/kubelet.yaml" --kubeconfig="${dir}/kubelet.kubeconfig" --root-dir="${dir}/kubelet" --hostname-override="${node}" --node-ip="${node_ip}"
await "the node" kubectl wait --for=condition=Ready "node/${node}" --timeout=1s
# kube-proxy ends when the addresses of its node change, and a slow kubelet would write them after it has started.
start kube-proxy kube-proxy --config="${dir}/kube-proxy.yaml"
touch "${dir}/ready"
while true; do wait || true; sleep 1; done
