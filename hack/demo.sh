#!/usr/bin/env bash
# Starts the dev cluster and walks through the main features with kubectl, as different users of
# the cluster. The cluster keeps running afterwards. Every line that begins with "$ " is a command that
# can be pasted into a shell: it is printed from the text that is run.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
source hack/walk.sh
reviews=artifacts/examples/reviews

# answer prints the status or response of a review.
answer() { run "kubectl --context $1 create -f ${reviews}/$2.yaml -o jsonpath='{.status}{.response}${newline}'"; }

title "1. A control plane on this machine: etcd, kube-apiserver, and Proviso registered with it"
hack/dev-up.sh
say "The commands are for the root of the repository, and a shell with these variables:"
run 'export KUBECONFIG=$PWD/_output/dev/kubeconfig PATH=$PWD/_output/bin:$PATH'
say "Deletes what examples have left, so that they can be tried again:"
run 'kubectl delete --ignore-not-found -f artifacts/examples/storage-class/policy.yaml -f artifacts/examples/csr-signer-name/policy.yaml -f artifacts/enforcement/policy.yaml -f artifacts/front-door/example.yaml -f artifacts/examples/fine-grained/operator.yaml -f artifacts/examples/fine-grained/exclusion.yaml -f artifacts/impersonation/targets.yaml -f artifacts/impersonation/labelled.yaml -f artifacts/impersonation/read-only.yaml'
run 'kubectl delete --ignore-not-found -f artifacts/examples/virtualmachine.yaml -f artifacts/enforcement/dev.yaml -f artifacts/impersonation/machine.yaml'

title "2. kube-apiserver serves a second version of authorization.k8s.io, through Proviso"
run 'kubectl get apiservice v1.authorization.k8s.io v1alpha1.authorization.k8s.io v1alpha1.authorization.proviso.dev'
# If the server has been replaced, kube-apiserver needs some seconds to read the new schemas.
for _ in {1..60}; do kubectl explain subjectaccessreviews --api-version=authorization.k8s.io/v1alpha1 >/dev/null 2>&1 && break; sleep 1; done
run 'kubectl explain authorizationconditionsreviews.request.conditionSets.conditions --api-version=authorization.k8s.io/v1alpha1'

title "3. Who may do what? alice creates a SubjectAccessReview"
answer alice access-allowed
say "bob may create machines: RBAC says so, and no condition applies."
answer alice access-not-allowed
say "alice may not: no authorizer has an opinion, which is not a permission."
answer alice self-access
say "alice may read machines. A review about oneself needs no permission."
run "sed 's#^apiVersion: authorization.k8s.io/#apiVersion: authorization.proviso.dev/#' ${reviews}/self-access.yaml | kubectl --context alice create -f - -o jsonpath='{.apiVersion} {.status}${newline}'"
say "The same review in a group of Proviso's own, which no version of kube-apiserver serves."

title "4. A policy: alice may create volumes, but only of class dev"
example=artifacts/examples/storage-class
run "kubectl apply -f ${example}/policy.yaml"
run 'kubectl wait --for=condition=Ready clusterauthorizationpolicy/alice-dev-volumes'
run 'kubectl get clusterauthorizationpolicies'
run "kubectl --context alice create -f ${example}/review.yaml -o jsonpath='{.status}${newline}'"
say "The known part of the request has been evaluated; the residual condition is about the object."
say "The same conditions, evaluated for a claim of class dev, and for one of class gold:"
run "chain=\$(kubectl --context alice create -f ${example}/review.yaml -o jsonpath='{.status.conditionsChain}')"
# evaluate reviews the conditions with the object in a file of the example.
evaluate() { run "{ cat $1; echo \"  conditionSets: \${chain}\"; } | kubectl --context alice create -f - -o jsonpath='{.response}${newline}'"; }
evaluate "${example}/passes.yaml"
evaluate "${example}/fails.yaml"

title "5. Do the conditions hold for this object? An AuthorizationConditionsReview"
answer alice conditions-allow
say "\"alice manages volumes of class dev only\" holds for a claim of class dev."
answer alice conditions-no-opinion
say "It does not hold for class prod. That is not a denial: another authorizer could allow it."
answer alice conditions-deny-wins
say "A Deny condition that holds beats an Allow condition that holds."
answer alice conditions-error-denies
say "A Deny condition that cannot be evaluated denies: errors fail closed."
answer alice conditions-chain
say "Authorizers in a chain: the first answer that is not NoOpinion is final."
answer alice conditions-unknown-type
say "A condition in an unknown language is a failure. It is never skipped."
answer alice conditions-impersonation
say "Only half of the data is known: the review evaluates the conditions on it and returns the rest."

title "6. carol may not review other users, and the answer names the missing permission"
fails "kubectl --context carol create -f ${reviews}/conditions-allow.yaml"

title "7. The same server on its own port, with the same client certificate"
answer alice-direct conditions-allow
say "kube-apiserver passes the user of the certificate to Proviso; forged headers are ignored."

title "8. An imaginary resource for trying policies"
run 'kubectl --context bob apply --server-side -f artifacts/examples/virtualmachine.yaml'
run 'kubectl --context alice get virtualmachines --namespace demo'
fails 'kubectl --context alice delete virtualmachine one --namespace demo'
say "alice may read machines, but not delete them."

title "9. The front door: kube-apiserver applies policies, too"
fails 'kubectl --context carol get virtualmachines --namespace demo'
say "RBAC grants carol nothing, so that kube-apiserver refuses the request without proxying it."
run 'kubectl apply -f artifacts/front-door/example.yaml'
run 'kubectl wait --for=condition=Ready clusterauthorizationpolicy/carol-looks-at-machines clusterauthorizationpolicy/bob-keeps-off-claims'
run 'kubectl --context carol get virtualmachines --namespace demo'
say "Now a policy allows it. On a resource of kube-apiserver, a policy denies a request that RBAC allows:"
fails 'kubectl --context bob get persistentvolumeclaims --namespace demo'
run 'kubectl delete -f artifacts/front-door/example.yaml'

title "10. Conditions are enforced: alice has no RBAC permission on machines, and a policy lets her write machines of class dev"
run 'kubectl apply -f artifacts/enforcement/policy.yaml'
run 'kubectl wait --for=condition=Ready clusterauthorizationpolicy/alice-dev-machines'
run 'kubectl --context alice create -f artifacts/enforcement/dev.yaml'
fails 'kubectl --context alice create -f artifacts/enforcement/prod.yaml'
say "The request passed authorization on a condition. At admission, when the object was known, the condition did not hold."
fails "kubectl --context alice --namespace demo patch virtualmachine alice-dev --type=merge --patch='{\"spec\":{\"storageClassName\":\"prod\"}}'"
fails "kubectl --context alice-direct --namespace demo patch virtualmachine alice-dev --type=merge --patch='{\"spec\":{\"storageClassName\":\"prod\"}}'"
run 'kubectl --context alice --namespace demo label virtualmachine alice-dev tier=web'
run 'kubectl --context alice --namespace demo delete virtualmachine alice-dev'
say "A review shows the condition to alice beforehand:"
run "kubectl --context alice create -f artifacts/enforcement/review.yaml -o jsonpath='{.status.conditionsChain}${newline}'"
run 'kubectl delete -f artifacts/enforcement/policy.yaml'

title "11. Permission on fields: carol may write labels under super.safe.com/, and alice may write all fields except for one value"
fields=artifacts/examples/fine-grained
run "kubectl apply -f ${fields}/operator.yaml -f ${fields}/exclusion.yaml"
run 'kubectl wait --for=condition=Ready fieldpermissionmapping/admin-access'
run 'kubectl get fieldpermissionmappings'
run 'kubectl --context carol --namespace demo label virtualmachine one super.safe.com/checked=true --overwrite'
fails 'kubectl --context carol --namespace demo label virtualmachine one team=red --overwrite'
say "RBAC grants carol no permission to write machines, but the verb granular and the verbs of some labels."
run 'kubectl --context alice --namespace demo label virtualmachine one tier=web --overwrite'
fails "kubectl --context alice --namespace demo patch virtualmachine one --type=merge --patch='{\"spec\":{\"adminAccess\":true}}'"
say "RBAC lets alice write machines now. This value is excluded from that permission, and needs its own verb."
run "kubectl delete -f ${fields}/operator.yaml -f ${fields}/exclusion.yaml"

title "12. Impersonation on conditions: agent acts as alice, and must label the objects that it writes"
run 'kubectl apply -f artifacts/impersonation/targets.yaml -f artifacts/impersonation/labelled.yaml'
run 'kubectl wait --for=condition=Ready clusterauthorizationpolicy/agent-leaves-a-label'
fails 'kubectl --context agent-direct --as alice create -f artifacts/enforcement/dev.yaml'
run 'kubectl --context agent-direct --as alice create -f artifacts/impersonation/machine.yaml'
fails 'kubectl --context agent-direct --as alice --namespace demo delete virtualmachine by-agent'
run 'kubectl --context bob --namespace demo delete virtualmachine by-agent'
say "The request passed impersonation on a condition on the label, which was checked when the object was known."
run "kubectl --context alice create -f artifacts/impersonation/review.yaml -o jsonpath='{.status.mode} {.status.conditionsChain[*].conditions[*].condition}${newline}'"
run 'kubectl delete -f artifacts/impersonation/targets.yaml -f artifacts/impersonation/labelled.yaml'

title "The cluster keeps running. Try:"
cat <<TRY
  export KUBECONFIG=\$PWD/_output/dev/kubeconfig PATH=\$PWD/_output/bin:\$PATH
  kubectl config get-contexts                     # all users, through kube-apiserver and -direct
  ls ${reviews}                       # more reviews, each with its answer
  kubectl --context alice create -f ${reviews}/conditions-namespace.yaml -o yaml
  kubectl explain subjectaccessreviews.status --api-version=authorization.k8s.io/v1alpha1
  make down                                       # stops everything
TRY
