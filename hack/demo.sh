#!/usr/bin/env bash
# Starts the dev cluster and walks through the main job with kubectl, as the users of the
# cluster. What it starts goes on running.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
export KUBECONFIG=${root}/_output/dev/kubeconfig
export PATH=${root}/_output/bin:${PATH}
reviews=artifacts/examples/reviews

if [[ -t 1 ]]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi

title() { printf '\n%s%s%s\n' "${bold}" "$*" "${plain}"; }
say() { printf '%s# %s%s\n' "${dim}" "$*" "${plain}"; }
# run shows a command as one would type it, and what it prints.
run() { printf '$ %s\n' "$*"; "$@" | sed 's/^/  /'; }
# fails is run for a command that must be refused.
fails() {
  printf '$ %s\n' "$*"
  if output=$("$@" 2>&1); then echo "this should have been refused: ${output}" >&2; exit 1; fi
  printf '%s\n' "${output}" | sed 's/^/  /'
}
# answer shows what a review was answered: its status or response.
answer() { run kubectl --context "$1" create -f "${reviews}/$2.yaml" -o "jsonpath={.status}{.response}{'\n'}"; }

title "1. A control plane on this machine: etcd, kube-apiserver, and Proviso registered with it"
hack/dev-up.sh

title "2. kube-apiserver serves a second version of authorization.k8s.io, through Proviso"
run kubectl get apiservice v1.authorization.k8s.io v1alpha1.authorization.k8s.io
run kubectl explain authorizationconditionsreviews.request.conditionSets.conditions --api-version=authorization.k8s.io/v1alpha1

title "3. Who may do what? alice asks by SubjectAccessReview"
answer alice access-allowed
say "bob may create machines: RBAC says so, and no condition applies."
answer alice access-not-allowed
say "alice may not: nobody has an opinion on it, which is no permission."
answer alice self-access
say "alice may look at machines; to ask about oneself takes no permission at all."

title "4. A policy: alice may create volumes, but only of class dev"
example=artifacts/examples/storage-class
run kubectl apply -f "${example}/policy.yaml"
run kubectl wait --for=condition=Ready clusterauthorizationpolicy/alice-dev-volumes
run kubectl get clusterauthorizationpolicies
review() { kubectl --context alice create -f "${example}/review.yaml" -o "jsonpath={.status.conditionsChain}" 2>/dev/null; }
run kubectl --context alice create -f "${example}/review.yaml" -o "jsonpath={.status}{'\n'}"
say "What is known of the request is gone from the condition; what is left is about the object."
# evaluate asks what the conditions say about the object in a file of the example.
evaluate() {
  printf '$ { cat %s; echo "  conditionSets: ${chain}"; } | kubectl --context alice create -f -\n' "$1"
  { cat "$1"; echo "  conditionSets: $(review)"; } | kubectl --context alice create -f - -o "jsonpath={.response}{'\n'}" | sed 's/^/  /'
}
say "The same conditions, evaluated for a claim of class dev, and for one of class gold:"
evaluate "${example}/passes.yaml"
evaluate "${example}/fails.yaml"

title "5. What do conditions say about this object? An AuthorizationConditionsReview"
answer alice conditions-allow
say "\"alice manages volumes of class dev only\" holds for a claim of class dev."
answer alice conditions-no-opinion
say "It does not hold for class prod. That is no denial: another authorizer might allow."
answer alice conditions-deny-wins
say "A Deny condition that holds beats an Allow condition that holds."
answer alice conditions-error-denies
say "A Deny condition that cannot be evaluated denies. Nothing opens by mistake."
answer alice conditions-chain
say "Authorizers in a chain: the first answer that is not NoOpinion is final."
answer alice conditions-unknown-type
say "A language that nobody here knows is a failure, never skipped."
answer alice conditions-impersonation
say "Half of the data known: what is decided is decided, the rest comes back as conditions."

title "6. carol may not ask about others, and is told what she lacks"
fails kubectl --context carol create -f "${reviews}/conditions-allow.yaml"

title "7. The same server on its own port, with the same client certificate"
answer alice-direct conditions-allow
say "kube-apiserver tells Proviso whose certificate it is; forged headers are ignored."

title "8. An imaginary resource to try things on"
# What a walk that was interrupted has left.
kubectl delete --ignore-not-found -f artifacts/enforcement/policy.yaml -f artifacts/front-door/example.yaml \
  -f artifacts/examples/fine-grained/operator.yaml -f artifacts/examples/fine-grained/exclusion.yaml \
  -f artifacts/impersonation/targets.yaml -f artifacts/impersonation/labelled.yaml > /dev/null
run kubectl --context bob apply --server-side -f artifacts/examples/virtualmachine.yaml
run kubectl --context alice get virtualmachines --namespace demo
fails kubectl --context alice delete virtualmachine one --namespace demo
say "alice may look at machines, but not delete them."

title "9. The front door: policies decide in kube-apiserver too"
fails kubectl --context carol get virtualmachines --namespace demo
say "RBAC gives carol nothing, so kube-apiserver does not even ask the server behind it."
run kubectl apply -f artifacts/front-door/example.yaml
run kubectl wait --for=condition=Ready clusterauthorizationpolicy/carol-looks-at-machines clusterauthorizationpolicy/bob-keeps-off-claims
run kubectl --context carol get virtualmachines --namespace demo
say "Now a policy does. And on what kube-apiserver serves itself, a policy denies what RBAC allows:"
fails kubectl --context bob get persistentvolumeclaims --namespace demo
run kubectl delete -f artifacts/front-door/example.yaml

title "10. Conditions hold: alice, who may not write machines by RBAC, writes those of class dev"
run kubectl apply -f artifacts/enforcement/policy.yaml
run kubectl wait --for=condition=Ready clusterauthorizationpolicy/alice-dev-machines
run kubectl --context alice create -f artifacts/enforcement/dev.yaml
fails kubectl --context alice create -f artifacts/enforcement/prod.yaml
say "The request got past authorization on a condition. At admission, with the object at hand, it did not hold."
fails kubectl --context alice --namespace demo patch virtualmachine alice-dev --type=merge --patch='{"spec":{"storageClassName":"prod"}}'
fails kubectl --context alice-direct --namespace demo patch virtualmachine alice-dev --type=merge --patch='{"spec":{"storageClassName":"prod"}}'
run kubectl --context alice --namespace demo label virtualmachine alice-dev tier=web
run kubectl --context alice --namespace demo delete virtualmachine alice-dev
say "alice can find that out beforehand:"
run kubectl --context alice create -f artifacts/enforcement/review.yaml -o "jsonpath={.status.conditionsChain}{'\\n'}"
run kubectl delete -f artifacts/enforcement/policy.yaml

title "11. Permission on fields: carol writes what is under super.safe.com/, and alice all but one value"
fields=artifacts/examples/fine-grained
run kubectl apply -f "${fields}/operator.yaml" -f "${fields}/exclusion.yaml"
run kubectl wait --for=condition=Ready fieldpermissionmapping/admin-access
run kubectl get fieldpermissionmappings
run kubectl --context carol --namespace demo label virtualmachine one super.safe.com/checked=true --overwrite
fails kubectl --context carol --namespace demo label virtualmachine one team=red --overwrite
say "RBAC lets carol write no machines, but has the verb granular for her, and those of some labels."
run kubectl --context alice --namespace demo label virtualmachine one tier=web --overwrite
fails kubectl --context alice --namespace demo patch virtualmachine one --type=merge --patch='{"spec":{"adminAccess":true}}'
say "RBAC lets alice write machines now. That value is excluded from it, and takes a verb of its own."
run kubectl delete -f "${fields}/operator.yaml" -f "${fields}/exclusion.yaml"

title "12. Impersonation on conditions: agent acts as alice, and must leave a label on what it writes"
run kubectl apply -f artifacts/impersonation/targets.yaml -f artifacts/impersonation/labelled.yaml
run kubectl wait --for=condition=Ready clusterauthorizationpolicy/agent-leaves-a-label
fails kubectl --context agent-direct --as alice create -f artifacts/enforcement/dev.yaml
run kubectl --context agent-direct --as alice create -f artifacts/impersonation/machine.yaml
fails kubectl --context agent-direct --as alice --namespace demo delete virtualmachine by-agent
run kubectl --context bob --namespace demo delete virtualmachine by-agent
say "The label is known when the object is: the request passed impersonation on a condition that only then held, or did not."
run kubectl --context alice create -f artifacts/impersonation/review.yaml -o "jsonpath={.status.mode} {.status.conditionsChain[*].conditions[*].condition}{'\\n'}"
run kubectl delete -f artifacts/impersonation/targets.yaml -f artifacts/impersonation/labelled.yaml

title "It goes on running. Try:"
cat <<TRY
  export KUBECONFIG=${KUBECONFIG} PATH=${root}/_output/bin:\$PATH
  kubectl config get-contexts                     # everybody, through kube-apiserver and -direct
  ls ${reviews}                       # more reviews; each has its answer beside it
  kubectl --context alice create -f ${reviews}/conditions-namespace.yaml -o yaml
  kubectl explain subjectaccessreviews.status --api-version=authorization.k8s.io/v1alpha1
  make down                                       # stops everything
TRY
