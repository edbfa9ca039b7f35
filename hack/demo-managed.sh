#!/usr/bin/env bash
# Starts a cluster whose kube-apiserver has no flag for Proviso, and walks through barriers with kubectl. KUBERNETES is oldest, for the
# kube-apiserver of the oldest Kubernetes with which Proviso works, or newest. The cluster keeps running afterwards. Every line that
# begins with "$ " is a command that can be pasted into a shell: it is printed from the text that is run.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
source hack/walk.sh
files=artifacts/managed
mode=managed-${KUBERNETES:-oldest}
secret=prod-secrets.cluster.policy.proviso.dev # the names of the generated objects
pods=host-network.cluster.policy.proviso.dev

title "1. A cluster as others run it: kube-apiserver has no flag and no file for Proviso"
hack/dev-up.sh "${mode}"
say "The commands are for the root of the repository, and a shell with these variables:"
run 'export KUBECONFIG=$PWD/_output/managed/kubeconfig PATH=$PWD/_output/bin:$PATH'
run "kubectl get --raw /version | grep gitVersion"
run "tr '\\0' '\\n' </proc/\$(cat _output/managed/kube-apiserver.pid)/cmdline | grep -e ^--authorization -e ^--admission -e ^--enable -e ^--feature"
run 'kubectl get apiservice v1alpha1.policy.proviso.dev'
say "Deletes what is left of an earlier walk, so that it can be tried again:"
run "kubectl delete --ignore-not-found -f ${files}/prod-secrets.yaml -f ${files}/host-network.yaml"
run "kubectl delete --ignore-not-found --wait=false pods,secrets --all --namespace shop && kubectl delete --ignore-not-found --wait=false pods --all --namespace infra"

title "2. RBAC lets alice write secrets and pods everywhere"
run "kubectl apply -f ${files}/users.yaml"
run "kubectl --context alice apply -f ${files}/secrets.yaml"
say "kube-apiserver may know the barrier of an earlier walk for a second more:"
run "until kubectl --context alice --namespace shop patch secret payments --patch='{\"stringData\":{\"password\":\"second\"}}'; do sleep 1; done"

title "3. A policy in Audit: secrets of tier prod stay as they are"
say "A dry run says what kube-apiserver would enforce:"
run "kubectl apply --dry-run=server -f ${files}/prod-secrets.yaml"
run "kubectl apply -f ${files}/prod-secrets.yaml"
run "kubectl wait --for=condition=Ready clusterauthorizationpolicy/prod-secrets"
run "kubectl wait --for=create --timeout=1m validatingadmissionpolicy/${secret}"
run "kubectl get validatingadmissionpolicy ${secret} -o jsonpath='{.spec.failurePolicy} {.spec.validations[*].message}${newline}'"
run "until kubectl --context alice --namespace shop label secret payments seen=\$RANDOM --overwrite 2>&1 | tee /dev/stderr | grep -q ^Warning: ; do sleep 1; done"
say "The request passes, with a warning."
say "kube-apiserver counts what the policy would have refused:"
run "kubectl get --raw /metrics | grep ^apiserver_validating_admission_policy_check_total"
run "kubectl get clusterauthorizationpolicy prod-secrets"

title "4. From Audit to Enforce is one edit"
run "kubectl patch clusterauthorizationpolicy prod-secrets --type=merge --patch='{\"spec\":{\"enforcement\":\"Enforce\"}}'"
run "kubectl wait --for=condition=Effective --timeout=1m clusterauthorizationpolicy/prod-secrets"
say "kube-apiserver has loaded the new text:"
fails "kubectl --context alice --namespace shop patch secret payments --patch='{\"stringData\":{\"password\":\"third\"}}'"
fails "kubectl --context alice --namespace shop delete secret payments"
fails "kubectl --context alice --namespace shop label secret payments tier-"
run "kubectl --context alice --namespace shop patch secret scratch --patch='{\"stringData\":{\"password\":\"third\"}}'"
say "A review shows the condition beforehand:"
run "kubectl --context alice create -f ${files}/review.yaml -o jsonpath='{.status.conditionsChain}${newline}'"
say "kube-apiserver itself decides, by a ValidatingAdmissionPolicy that Proviso has generated:"
run "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings"
run "kubectl get validatingadmissionpolicy ${secret} -o yaml"

title "5. No host network outside infra"
run "kubectl apply -f ${files}/host-network.yaml"
run "kubectl wait --for=condition=Effective --timeout=1m clusterauthorizationpolicy/host-network"
run "while kubectl --context alice --namespace shop create --dry-run=server -f ${files}/pod.yaml; do sleep 1; done"
fails "kubectl --context alice --namespace shop create -f ${files}/pod.yaml"
run "kubectl --context alice --namespace infra create -f ${files}/pod.yaml"
run "kubectl get clusterauthorizationpolicies"

title "6. Proviso is not in the path of a request"
run 'kill -9 $(cat _output/managed/proviso-apiserver.pid)'
fails "kubectl --context alice --namespace shop create -f ${files}/pod.yaml"
run "kubectl --context alice --namespace shop patch secret scratch --patch='{\"stringData\":{\"password\":\"fourth\"}}'"
run "hack/dev-up.sh ${mode}"

title "7. A barrier goes with its policy"
run "kubectl delete -f ${files}/host-network.yaml"
run "kubectl wait --for=delete --timeout=1m validatingadmissionpolicy/${pods}"
run "until kubectl --context alice --namespace shop create -f ${files}/pod.yaml; do sleep 1; done"

title "The cluster keeps running. Try:"
cat <<TRY
  export KUBECONFIG=\$PWD/_output/managed/kubeconfig PATH=\$PWD/_output/bin:\$PATH
  kubectl describe clusterauthorizationpolicy prod-secrets
  kubectl --context alice --namespace shop get secrets --show-labels
  make down                                       # stops everything
TRY
