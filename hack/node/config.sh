#!/usr/bin/env bash
# Writes the certificates, kubeconfigs and configuration files of the node, and an image with busybox.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

pki=${dir}/pki
mkdir -p "${pki}" "${dir}"/{cni,volume-plugins,volume,images}
: >"${dir}/resolv.conf"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "${pki}/$1.key"; }
ca() {
  key "$1"
  openssl req -x509 -new -sha256 -days 30 -key "${pki}/$1.key" -subj "/CN=$1" -addext basicConstraints=critical,CA:TRUE -out "${pki}/$1.crt"
}
sign() { # name, CA, subject, extensions
  key "$1"
  openssl req -new -sha256 -key "${pki}/$1.key" -subj "$3" |
    openssl x509 -req -sha256 -days 30 -CA "${pki}/$2.crt" -CAkey "${pki}/$2.key" -CAcreateserial \
      -extfile <(printf '%s\n' keyUsage=critical,digitalSignature "${@:4}") -out "${pki}/$1.crt" 2>/dev/null
}
server() { sign "$1" ca "$2" extendedKeyUsage=serverAuth,clientAuth "subjectAltName=$3"; }
client() { sign "$1" "${3:-ca}" "$2" extendedKeyUsage=clientAuth; }
# kubeconfig writes a kubeconfig with a context for each user. The first one is the current one.
kubeconfig() { # file, users
  local user
  echo "{apiVersion: v1, kind: Config, current-context: $2, clusters: [{name: node, cluster: {server: https://${node_ip}:6443, certificate-authority: ${pki}/ca.crt}}], contexts: ["
  for user in "${@:2}"; do echo "{name: ${user}, context: {cluster: node, user: ${user}}},"; done
  echo "], users: ["
  for user in "${@:2}"; do echo "{name: ${user}, user: {client-certificate: ${pki}/${user}.crt, client-key: ${pki}/${user}.key}},"; done
  echo "]}"
} >"$1"

ca ca
ca front-proxy-ca
key service-accounts
server etcd /CN=etcd IP:127.0.0.1
server kube-apiserver /CN=kube-apiserver "IP:10.96.0.1,IP:127.0.0.1,IP:${node_ip},DNS:localhost,DNS:kubernetes.default.svc"
server kubelet-serving "/O=system:nodes/CN=system:node:${node}" "DNS:${node},IP:${node_ip}"
client front-proxy /CN=front-proxy-client front-proxy-ca
client kubelet-client /CN=kube-apiserver-kubelet-client
client admin /O=system:masters/CN=admin
client alice /O=developers/CN=alice
for user in bob carol agent; do client "${user}" "/CN=${user}"; done
client kubelet "/O=system:nodes/CN=system:node:${node}"
kubeconfig "${KUBECONFIG}" admin alice bob carol agent
for name in kubelet kube-controller-manager kube-scheduler kube-proxy; do
  [[ ${name} == kubelet ]] || client "${name}" "/CN=system:${name}"
  kubeconfig "${dir}/${name}.kubeconfig" "${name}"
done

# Without CAP_SYS_RESOURCE, which some machines lack, no process can lower its oom_score_adj: containerd and kubelet leave theirs.
cat >"${dir}/containerd.toml" <<TOML
version = 2
root = "${dir}/containerd"
state = "/run/containerd"
[plugins."io.containerd.internal.v1.opt"]
  path = "${dir}/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/busybox:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${packages}/usr/lib/cni"
    conf_dir = "${dir}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "${packages}/usr/sbin/runc"
TOML
cat >"${dir}/cni/bridge.conflist" <<JSON
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "${bridge}", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "${pod_cidr}"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}}]}
JSON
# kubelet enforces no limits on the node itself, evicts nothing for want of space, and needs no iptables.
cat >"${dir}/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication:
  anonymous: {enabled: false}
  x509: {clientCAFile: ${pki}/ca.crt}
address: ${node_ip}
tlsCertFile: ${pki}/kubelet-serving.crt
tlsPrivateKeyFile: ${pki}/kubelet-serving.key
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /${cgroup}
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
oomScoreAdj: 0
resolvConf: ${dir}/resolv.conf
volumePluginDir: ${dir}/volume-plugins
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
YAML
# kube-proxy leaves the bounds of connection tracking, which belong to the machine.
cat >"${dir}/kube-proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: ${node}
clientConnection: {kubeconfig: ${dir}/kube-proxy.kubeconfig}
clusterCIDR: ${pod_cidr}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
YAML
# A volume for the claim of the manifests, and the default class that most clusters have.
cat >"${dir}/storage.yaml" <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: local
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: data}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOncePod]
  storageClassName: local
  local: {path: ${dir}/volume}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [${node}]}]}]}}
YAML

# The image is for pods, and for the process with which containerd holds the namespaces of a pod.
layer=${dir}/layer
mkdir -p "${layer}"/{bin,tmp,etc}
cp "$(command -v busybox)" "${layer}/bin/busybox"
for name in sh sleep cat ls id echo; do ln -s busybox "${layer}/bin/${name}"; done
cd "${dir}/images"
tar --create --file=layer.tar --owner=0 --group=0 --directory="${layer}" .
cat >config.json <<JSON
{"architecture": "$(go env GOARCH)", "os": "linux", "config": {"Env": ["PATH=/bin"], "Cmd": ["sleep", "infinity"]},
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum layer.tar | cut -d' ' -f1)"]}}
JSON
echo '[{"Config": "config.json", "RepoTags": ["localhost/busybox:1"], "Layers": ["layer.tar"]}]' >manifest.json
tar --create --file=busybox.tar manifest.json config.json layer.tar
