#!/usr/bin/env bash
# Starts the dev cluster and walks through the main job with kubectl, as different users of the cluster, on
# resources that kube-apiserver serves. The cluster keeps running afterwards. Every line that begins with "$ " is
# a command that can be pasted into a shell: it is printed from the text that is run.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
source hack/walk.sh
files=artifacts/demo
in_shop="--namespace shop"
effective="kubectl ${in_shop} wait --for=condition=Effective --timeout=1m authorizationpolicy"

title "1. A control plane on this machine: etcd, kube-apiserver, and Proviso registered with it"
hack/dev-up.sh
say "The commands are for the root of the repository, and a shell with these variables:"
run 'export KUBECONFIG=$PWD/_output/dev/kubeconfig PATH=$PWD/_output/bin:$PATH'
say "Deletes what is left of an earlier walk, and makes a namespace in which RBAC lets bob write, and the others read:"
run "kubectl delete --ignore-not-found -f ${files}/policy-claims.yaml -f ${files}/policy-scale.yaml -f ${files}/policy-databases.yaml -f ${files}/policy-secrets.yaml"
run "kubectl apply -f ${files}/cluster.yaml && kubectl wait --for=condition=Established crd/databases.shop.example.com"

title "2. \"But only\": alice may write claims, but only of class dev"
fails "kubectl --context alice create -f ${files}/claim-dev.yaml"
say "RBAC grants alice no write. A policy does, on a condition about the object:"
run "cat ${files}/policy-claims.yaml"
run "kubectl apply -f ${files}/policy-claims.yaml"
run "${effective}/dev-claims"
run "kubectl --context alice create -f ${files}/claim-dev.yaml"
fails "kubectl --context alice create -f ${files}/claim-gold.yaml"
say "kube-apiserver let the request in on the condition, and asked Proviso again when it had read the object."

title "3. Users see their conditions before they try"
run "kubectl --context alice create -f ${files}/review.yaml -o jsonpath='{range .status.conditionsChain[*].conditions[*]}{.effect}, if {.condition}: {.description}${newline}{end}'"

title "4. A subresource: carol scales Deployments, but to five replicas at most"
run "kubectl apply -f ${files}/policy-scale.yaml"
run "${effective}/scale-to-five"
run "kubectl --context carol ${in_shop} scale deployment web --replicas=3"
fails "kubectl --context carol ${in_shop} scale deployment web --replicas=50"
fails "kubectl --context carol ${in_shop} set image deployment/web web=example.com/mine"

title "5. A custom resource: agent changes what carries its label"
run "kubectl apply -f ${files}/databases.yaml -f ${files}/policy-databases.yaml"
run "${effective}/own-databases"
run "kubectl --context agent ${in_shop} patch database orders --type=merge --patch='{\"spec\":{\"size\":\"large\"}}'"
fails "kubectl --context agent ${in_shop} patch database customers --type=merge --patch='{\"spec\":{\"size\":\"large\"}}'"
fails "kubectl --context agent ${in_shop} label database customers owner=agent --overwrite"

title "6. See before you forbid: secrets of tier prod stay as they are, in Audit"
run "kubectl apply -f ${files}/policy-secrets.yaml"
run "kubectl wait --for=create --timeout=1m validatingadmissionpolicy/prod-secrets.shop.namespace.policy.proviso.dev"
say "RBAC lets bob write secrets. The write passes, with a warning as soon as kube-apiserver has loaded the rule:"
run "until kubectl --context bob ${in_shop} label secret payments seen=\$RANDOM --overwrite 2>&1 | tee /dev/stderr | grep -q ^Warning: ; do sleep 1; done"

title "7. Enforce is one edit, and binds bob, whom RBAC allows everything here"
run "kubectl ${in_shop} patch authorizationpolicy prod-secrets --type=merge --patch='{\"spec\":{\"enforcement\":\"Enforce\"}}'"
run "${effective}/prod-secrets"
fails "kubectl --context bob ${in_shop} patch secret payments --patch='{\"stringData\":{\"password\":\"second\"}}'"
run "kubectl ${in_shop} get authorizationpolicies"

title "8. While Proviso is down, no permission is added, and other users go on"
run 'kill -9 $(cat _output/dev/proviso-apiserver.pid)'
fails "kubectl --context alice create -f ${files}/claim-dev.yaml"
fails "kubectl --context bob ${in_shop} delete --wait=false secret payments"
run "kubectl --context bob ${in_shop} create configmap note-\$RANDOM"
say "Writes that only a policy allows need Proviso. kube-apiserver itself refuses the writes that a Deny policy denies, and goes on with those that RBAC allows."
run "hack/dev-up.sh"

title "The cluster keeps running. Try:"
cat <<TRY
  export KUBECONFIG=\$PWD/_output/dev/kubeconfig PATH=\$PWD/_output/bin:\$PATH
  kubectl config get-contexts                     # all users, through kube-apiserver and -direct
  kubectl ${in_shop} describe authorizationpolicy dev-claims
  less docs/first-steps.md                        # write a policy of your own
  less docs/tutorial.md                           # tests of policies, reviews, impersonation and permission on fields
  make down                                       # stops everything
TRY
