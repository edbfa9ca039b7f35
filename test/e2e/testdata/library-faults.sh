# TestLibraryFromAnEmptyFolder runs this in the shell of the trial of docs/library.md. While the APIService is not the one of the configuration, or not available, and without the
# configuration, conditions are folded, so that carol is refused by the front door, and bob denied whatever he creates.
echo '--- faults'
n=0
# until_folded WHAT, until_passes WHAT wait for what happens to things of class dev.
until_folded() {
  for i in $(seq 60); do
    n=$((n+1))
    if ! through carol "f$n" dev 2>refusal && grep -q 'policy=things/dev reason=Error' refusal && ! through bob "g$n" dev 2>refusal && grep -q 'policy=things/no-prod reason=Error' refusal; then
      echo "folded: $1"
      return 0
    fi
    sleep 1
  done
  echo "$1: carol and bob are not refused" >&2; cat refusal >&2
  return 1
}
until_passes() {
  for i in $(seq 60); do
    n=$((n+1))
    if through carol "p$n" dev 2>refusal && through bob "q$n" dev 2>refusal; then echo "passes: $1"; return 0; fi
    sleep 1
  done
  echo "$1: carol and bob are refused" >&2; cat refusal >&2
  return 1
}
enforcement() {
  kubectl --namespace things get authorizationpolicy dev no-prod -o jsonpath='{range .items[*]}{.metadata.name}={.status.enforcement[*].at}={.status.enforcement[*].result} {end}'
}
until_enforcement() {
  for i in $(seq 90); do if [ "$(enforcement)" = "$1" ]; then return 0; fi; sleep 1; done
  echo "got $(enforcement), want $1" >&2
  return 1
}
until_enforcement 'dev=AggregatedServer=Enforced no-prod=AggregatedServer=Enforced '
kubectl get enforcementconfigurations
review() {
  printf 'apiVersion: authorization.k8s.io/v1alpha1\nkind: SubjectAccessReview\nspec: {user: carol, resourceAttributes: {verb: create, group: things.example.com, version: v1, resource: things, namespace: things}, conditionalAuthorization: {mode: HumanReadable}}\n' |
    kubectl create -o yaml -f - 2>&1
}
if review | grep Warning; then echo "a review warns of conditions that the server enforces" >&2; false; fi

# The controller of namespaces prefers protobuf, which the types do not have.
of_admin() { kubectl config view --raw -o jsonpath="{.users[?(@.name==\"admin\")].user.client-$1}"; }
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/vnd.kubernetes.protobuf,application/json\r\nConnection: close\r\n\r\n' "$things" |
  openssl s_client -quiet -connect localhost:7443 -cert "$(of_admin certificate)" -key "$(of_admin key)" 2>/dev/null >answer || true
head -n 1 answer
grep -q '^HTTP/1.1 200' answer

# Who may write configurations, and about what.
if kubectl --context carol apply -f configuration.yaml; then echo "carol must not write configurations" >&2; false; fi
if sed 's/things.example.com/apps/' configuration.yaml | kubectl apply -f - 2>refusal; then echo "apps belongs to kube-apiserver" >&2; false; fi
grep 'kube-apiserver serves this group' refusal

# Another Service, although it leads to the same server.
printf 'apiVersion: v1\nkind: Service\nmetadata: {name: other, namespace: things}\nspec: {type: ExternalName, externalName: localhost, ports: [{port: 7443}]}\n' | kubectl apply -f -
kubectl patch apiservice v1.things.example.com --type=merge -p '{"spec": {"service": {"name": "other"}}}'
until_folded 'another Service'
kubectl wait --for=jsonpath='{.status.conditions[?(@.type=="Effective")].reason}'=AnotherService --timeout=2m enforcementconfiguration/things
until_enforcement 'dev=FrontDoor=GrantsNothing no-prod=FrontDoor=DeniesUnconditionally '
review | grep 'Warning: conditions on create things.things.example.com are not evaluated'
kubectl patch apiservice v1.things.example.com --type=merge -p '{"spec": {"service": {"name": "things"}}}'
until_passes 'the Service again'

# Unavailable.
kubectl patch apiservice v1.things.example.com --type=merge -p "{\"spec\": {\"caBundle\": \"$(kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | grep . || base64 < "$(kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority}')" | tr -d '\n')\"}}"
until_folded 'unavailable'
kubectl patch apiservice v1.things.example.com --type=merge -p "{\"spec\": {\"caBundle\": \"$ca\"}}"
until_passes 'available again'

# Without the configuration.
kubectl delete enforcementconfiguration things
until_folded 'deleted'
kubectl apply -f configuration.yaml
until_passes 'the configuration again'
