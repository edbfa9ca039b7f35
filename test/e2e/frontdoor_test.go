/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	policyclient "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/webhook"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// inNamespace makes a namespace in which carol, who may do nothing elsewhere, may read
// ConfigMaps by RBAC.
func inNamespace(t *testing.T, namespace string) {
	t.Helper()
	mustKubectl(t, "admin", "create", "namespace", namespace)
	mustKubectl(t, "admin", "create", "role", "reader", "--verb=get,list", "--resource=configmaps", "--namespace", namespace)
	mustKubectl(t, "admin", "create", "rolebinding", "reader", "--role=reader", "--user=carol", "--namespace", namespace)
	mustKubectl(t, "admin", "create", "configmap", "c", "--namespace", namespace)
}

// namespacedPolicy applies a policy for carol, unless it says otherwise.
func namespacedPolicy(t *testing.T, namespace, name, spec string) {
	t.Helper()
	manifest := fmt.Sprintf(`
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: %s, namespace: %s}
spec:
  subjects: [{kind: User, name: carol}]
%s`, name, namespace, spec)
	if _, errs, err := kubectlWithInput(t, "admin", manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	mustKubectl(t, "admin", "wait", "--for=condition=Ready", "--namespace", namespace, "authorizationpolicy/"+name)
}

// accessReview asks kube-apiserver, by the v1 API that it serves itself.
func accessReview(t *testing.T, spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	t.Helper()
	kube, _ := clients(t, "admin")
	answer, err := kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status
}

func carolAsks(verb, group, version, resource, namespace string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{User: "carol", Groups: []string{"system:authenticated"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Version: version, Resource: resource, Namespace: namespace,
	}}
}

func withMarker(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewSpec {
	spec.Extra = map[string]authorizationv1.ExtraValue{webhook.DelegationMarker: {"true"}}
	return spec
}

// TestFrontDoorAllows lets carol, whom RBAC gives nothing, through kube-apiserver by a policy,
// and only as long as there is one.
func TestFrontDoorAllows(t *testing.T) {
	t.Parallel()
	const namespace = "front-door-allows"
	inNamespace(t, namespace)
	refused := func() bool {
		_, errs, err := kubectl(t, "carol", "get", "virtualmachines", "--namespace", namespace)
		return err != nil && strings.Contains(errs, "Forbidden")
	}
	if !refused() {
		t.Error("without a policy, carol may list")
	}
	namespacedPolicy(t, namespace, "carol-looks", `
  effect: Allow
  rules: [{verbs: [get, list], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
`)
	poll.Holds(t, "the policy takes effect", func() bool { return !refused() })
	if out := mustKubectl(t, "carol", "get", "virtualmachines", "--namespace", namespace, "-o", "name"); out != "" {
		t.Errorf("got %s, want no machines", out)
	}
	for _, args := range [][]string{{"get", "virtualmachines", "--namespace", "default"}, {"delete", "virtualmachine", "a", "--namespace", namespace}, {"get", "secrets", "--namespace", namespace}} {
		if _, errs, err := kubectl(t, "carol", args...); err == nil || !strings.Contains(errs, "Forbidden") {
			t.Errorf("%v: got %v: %s, want a refusal", args, err, errs)
		}
	}

	// The delegated check must not be answered by the policy: the server applies it itself.
	lists := carolAsks("list", "demo.proviso.dev", "v1alpha1", "virtualmachines", namespace)
	if got := accessReview(t, lists); !got.Allowed || !strings.Contains(got.Reason, `policy=front-door-allows/carol-looks reason=Allowed: `) {
		t.Errorf("kube-apiserver: got %+v, want allowed, by the policy", got)
	}
	if got := accessReview(t, withMarker(lists)); got.Allowed || got.Denied {
		t.Errorf("kube-apiserver, when Proviso asks: got %+v, want that it has no opinion", got)
	}
	mustKubectl(t, "carol-direct", "get", "virtualmachines", "--namespace", namespace)

	mustKubectl(t, "admin", "delete", "authorizationpolicy", "carol-looks", "--namespace", namespace)
	poll.Holds(t, "the policy is gone", refused)
}

// TestFrontDoorDenies denies on a resource of kube-apiserver what RBAC allows.
func TestFrontDoorDenies(t *testing.T) {
	t.Parallel()
	const namespace = "front-door-denies"
	inNamespace(t, namespace)
	mustKubectl(t, "carol", "get", "configmap", "c", "--namespace", namespace)
	namespacedPolicy(t, namespace, "not-this-one", `
  effect: Deny
  description: nobody reads "c"
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps], resourceNames: [c]}]
`)
	const want = `policy=front-door-denies/not-this-one reason=Denied: nobody reads "c"`
	poll.Holds(t, "the policy takes effect", func() bool {
		_, errs, err := kubectl(t, "carol", "get", "configmap", "c", "--namespace", namespace)
		return err != nil && strings.Contains(errs, "Forbidden") && strings.Contains(errs, want)
	})
	mustKubectl(t, "carol", "get", "configmaps", "--namespace", namespace)
	mustKubectl(t, "admin", "get", "configmap", "c", "--namespace", namespace)
	if code, body := longList(t, "carol", "/api/v1/namespaces/"+namespace+"/configmaps"); code != http.StatusForbidden || !strings.Contains(body, "the most that policies decide about") {
		t.Errorf("a list with a long selector: got %d %.300s, want 403 by the front door", code, body)
	}
	reads := carolAsks("get", "", "v1", "configmaps", namespace)
	reads.ResourceAttributes.Name = "c"
	for name, spec := range map[string]authorizationv1.SubjectAccessReviewSpec{"kube-apiserver": reads, "kube-apiserver, when Proviso asks": withMarker(reads)} {
		if got := accessReview(t, spec); got.Allowed || !got.Denied || !strings.Contains(got.Reason, want) {
			t.Errorf("%s: got %+v, want denied, by the policy", name, got)
		}
	}
}

// longList lists with a selector of some hundred kilobytes, of which kube-apiserver makes a
// review that is too long to be read. It must not be left to RBAC alone. A client of
// client-go would escape the selector.
func longList(t *testing.T, user, path string) (code int, body string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config(t, user))
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(stack.KubeAPIServerURL() + path)
	if err != nil {
		t.Fatal(err)
	}
	target.RawQuery = "labelSelector=" + strings.Repeat("!a,", 230_000) + "!a"
	return sent(t, client, &http.Request{Method: http.MethodGet, URL: target, Header: http.Header{}})
}

// TestFrontDoorConditions asks what becomes of conditions at the front door.
func TestFrontDoorConditions(t *testing.T) {
	t.Parallel()
	const namespace = "front-door-conditions"
	inNamespace(t, namespace)
	namespacedPolicy(t, namespace, "debian-only", `
  effect: Allow
  rules:
  - {verbs: [create, get], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines, virtualmachines/console]}
  - {verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}
  condition: object.spec.image == "debian-12"
`)
	namespacedPolicy(t, namespace, "not-empty", `
  effect: Deny
  rules: [{verbs: [update], apiGroups: ["", demo.proviso.dev], apiVersions: [v1, v1alpha1], resources: [configmaps, secrets, virtualmachines]}]
  condition: object.data == null
`)
	poll.Holds(t, "the policies are in force", func() bool {
		return accessReview(t, carolAsks("create", "demo.proviso.dev", "v1alpha1", "virtualmachines", namespace)).Allowed &&
			accessReview(t, carolAsks("update", "", "v1", "secrets", namespace)).Denied
	})
	for _, tc := range []struct {
		name                string
		spec                authorizationv1.SubjectAccessReviewSpec
		wantAllowed, wantNo bool
		wantReason          string
	}{
		{"a creation that Proviso admits", carolAsks("create", "demo.proviso.dev", "v1alpha1", "virtualmachines", namespace), true, false, "policy=front-door-conditions/debian-only"},
		{"when Proviso asks", withMarker(carolAsks("create", "demo.proviso.dev", "v1alpha1", "virtualmachines", namespace)), false, false, ""},
		{"every version", carolAsks("create", "demo.proviso.dev", "*", "virtualmachines", namespace), false, false, ""},
		{"no version, which is every version", carolAsks("create", "demo.proviso.dev", "", "virtualmachines", namespace), false, false, ""},
		{"a read, which has no admission", carolAsks("get", "demo.proviso.dev", "v1alpha1", "virtualmachines", namespace), false, false, "cannot be evaluated for this request"},
		{"a creation that kube-apiserver admits", carolAsks("create", "", "v1", "configmaps", namespace), false, false, "cannot be evaluated for this request"},
		{"a conditional Deny elsewhere", carolAsks("update", "", "v1", "configmaps", namespace), false, true, "policy=front-door-conditions/not-empty"},
		{"a conditional Deny elsewhere, when Proviso asks", withMarker(carolAsks("update", "", "v1", "configmaps", namespace)), false, false, ""},
		{"a conditional Deny that Proviso evaluates", carolAsks("update", "demo.proviso.dev", "v1alpha1", "virtualmachines", namespace), false, false, ""},
	} {
		if got := accessReview(t, tc.spec); got.Allowed != tc.wantAllowed || got.Denied != tc.wantNo || !strings.Contains(got.Reason, tc.wantReason) {
			t.Errorf("%s: got %+v, want allowed %v, denied %v, %s", tc.name, got, tc.wantAllowed, tc.wantNo, tc.wantReason)
		}
	}
	// Whoever asks Proviso sees the conditions that the front door folds: carol may read
	// ConfigMaps by RBAC, and only the policy is in the way.
	namespacedPolicy(t, namespace, "not-full", `
  effect: Deny
  rules: [{verbs: [get], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.data != null
`)
	poll.Holds(t, "the policy takes effect", func() bool { return accessReview(t, carolAsks("get", "", "v1", "configmaps", namespace)).Denied })
	_, proviso := clients(t, "admin")
	answer, err := proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
		User: "carol", Groups: []string{"system:authenticated"},
		ResourceAttributes:       carolAsks("get", "", "v1", "configmaps", namespace).ResourceAttributes,
		ConditionalAuthorization: &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: "HumanReadable"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Status.ConditionsChain; len(got) != 2 || len(got[0].Conditions) != 1 || got[0].Conditions[0].Condition != "object.data != null" || !got[1].Allowed {
		t.Errorf("got %+v, want the condition, and that RBAC allows", answer.Status)
	}
}

// TestFrontDoorKnowsNamespaces decides reads of ConfigMaps, which kube-apiserver serves, by a label of their namespace, and asks
// what the statuses of policies say about it.
func TestFrontDoorKnowsNamespaces(t *testing.T) {
	t.Parallel()
	const namespace = "front-door-namespaces"
	inNamespace(t, namespace)
	namespacedPolicy(t, namespace, "closed", `
  effect: Deny
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps]}]
  condition: namespaceObject.metadata.?labels["closed"].orValue("") == "true"
`)
	namespacedPolicy(t, namespace, "open", `
  effect: Allow
  rules: [{verbs: [get], apiGroups: [""], resources: [secrets]}]
  condition: namespaceObject.metadata.?labels["closed"].orValue("") == "false"
`)
	mayGet := func(resource string) bool {
		_, errs, err := kubectl(t, "carol", "get", resource, "--namespace", namespace, "c")
		if err != nil && !strings.Contains(errs, "Forbidden") && !strings.Contains(errs, "NotFound") {
			t.Fatalf("%v: %s", err, errs)
		}
		return err == nil || strings.Contains(errs, "NotFound")
	}
	for _, tc := range []struct {
		label                      string
		wantConfigMaps, wantSecret bool
	}{{"closed-", true, false}, {"closed=true", false, false}, {"closed=false", true, true}} {
		mustKubectl(t, "admin", "label", "--overwrite", "namespace", namespace, tc.label)
		poll.Holds(t, tc.label+" takes effect", func() bool { return mayGet("configmaps") == tc.wantConfigMaps && mayGet("secrets") == tc.wantSecret })
	}
	namespacedPolicy(t, namespace, "not-empty", `
  effect: Deny
  rules:
  - {verbs: [update], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}
  - {verbs: [update], apiGroups: [""], apiVersions: [v1], resources: [secrets]}
  condition: has(object.data)
`)
	for name, want := range map[string]string{
		"closed":    `True Enforced [{"at":"FrontDoor","message":"requests are decided at authorization, once the namespace is in the cache of this server","resources":["configmaps"],"result":"Enforced","rule":0,"verbs":["get"]}]`,
		"not-empty": `False DeniesUnconditionally [{"at":"Server","message":"the condition is evaluated at admission","resources":["virtualmachines.demo.proviso.dev"],"result":"Enforced","rule":0,"verbs":["update"]},{"at":"FrontDoor","message":"conditions on objects are not evaluated for these requests to kube-apiserver, so that the policy denies all of them, unless the request alone makes the condition false","resources":["secrets"],"result":"DeniesUnconditionally","rule":1,"verbs":["update"]}]`,
	} {
		const effective = `{.status.conditions[?(@.type=="Effective")].`
		poll.Holds(t, name+" has a status", func() bool {
			return mustKubectl(t, "admin", "get", "authorizationpolicy", "--namespace", namespace, name, "-o", `jsonpath=`+effective+`status}`) != ""
		})
		got := mustKubectl(t, "admin", "get", "authorizationpolicy", "--namespace", namespace, name, "-o", `jsonpath=`+effective+`status} `+effective+`reason} {.status.enforcement}`)
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestFrontDoorMatchConditions asks as those for whom kube-apiserver does not ask Proviso,
// and as one without groups, for whom it does.
func TestFrontDoorMatchConditions(t *testing.T) {
	t.Parallel()
	const namespace = "front-door-match"
	inNamespace(t, namespace)
	manifest := `
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: nobody, namespace: front-door-match}
spec:
  effect: Deny
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps]}]
`
	if _, errs, err := kubectlWithInput(t, "admin", manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	get := carolAsks("get", "", "v1", "configmaps", namespace)
	poll.Holds(t, "the policy takes effect", func() bool { return accessReview(t, get).Denied })
	for _, tc := range []struct {
		user   string
		groups []string
		want   bool
	}{
		{"carol", nil, true},
		{"system:anonymous", []string{"system:unauthenticated"}, true},
		{"system:serviceaccount:default:default", []string{"system:serviceaccounts", "system:serviceaccounts:default"}, true},
		{"system:node:n", []string{"system:nodes"}, false},
		{"system:kube-scheduler", nil, false},
		{"system:serviceaccount:kube-system:namespace-controller", []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}, false},
		{"system:serviceaccount:proviso-system:proviso-apiserver", []string{"system:serviceaccounts"}, false},
	} {
		get.User, get.Groups = tc.user, tc.groups
		if got := accessReview(t, get); got.Denied != tc.want {
			t.Errorf("%s %v: got %+v, want denied %v", tc.user, tc.groups, got, tc.want)
		}
	}
}

// TestNobodyImpersonatesIntoTheMarker asks as somebody who may impersonate anybody.
func TestNobodyImpersonatesIntoTheMarker(t *testing.T) {
	t.Parallel()
	const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-impersonator}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [impersonate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-impersonator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-impersonator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: agent}]
`
	if _, errs, err := kubectlWithInput(t, "admin", rights, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	t.Cleanup(func() {
		_, _, _ = kubectl(t, "admin", "delete", "clusterrolebinding/e2e-impersonator", "clusterrole/e2e-impersonator")
	})
	const want = "is reserved for Proviso and cannot be impersonated"
	for _, user := range []string{"agent", "agent-direct"} {
		mustKubectl(t, user, "get", "--raw", "/version", "--as=carol", "--as-user-extra=example.com/x=true")
		for _, value := range []string{"true", "proviso"} {
			_, errs, err := kubectl(t, user, "get", "--raw", "/version", "--as=carol", "--as-user-extra="+webhook.DelegationMarker+"="+value)
			if err == nil || !strings.Contains(errs, want) {
				t.Errorf("%s, %s: got %v: %s, want a refusal", user, value, err, errs)
			}
		}
	}
}

const carolReads = `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "carol", "resourceAttributes": {"verb": "get", "resource": "pods"}}}`

// withCA is a client with a certificate, of a server whose certificate is of another CA.
func withCA(t *testing.T, caFile, certFile, keyFile string) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	c := withCertificate(t, certFile, keyFile)
	c.Transport.(*http.Transport).TLSClientConfig.RootCAs.AppendCertsFromPEM(ca)
	return c
}

func post(t *testing.T, c *http.Client, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	return sent(t, c, request)
}

// TestFrontDoorClients knocks without the certificate of kube-apiserver.
func TestFrontDoorClients(t *testing.T) {
	t.Parallel()
	ask := func(c *http.Client) int {
		t.Helper()
		code, _ := post(t, c, stack.FrontDoorURL()+frontdoor.AuthorizePath, carolReads)
		return code
	}
	certFile, keyFile, err := stack.FrontDoorCertificate()
	if err != nil {
		t.Fatal(err)
	}
	if code := ask(withCertificate(t, certFile, keyFile)); code != http.StatusOK {
		t.Errorf("kube-apiserver: got %d", code)
	}
	if code := ask(anonymous(t)); code != http.StatusUnauthorized {
		t.Errorf("without a certificate: got %d, want 401", code)
	}
	admin, err := tls.LoadX509KeyPair(stack.UserCertificate("admin"))
	if err != nil {
		t.Fatal(err)
	}
	if code := ask(insisting(t, admin)); code != http.StatusUnauthorized {
		t.Errorf("with a certificate of the cluster: got %d, want 401", code)
	}
}

// TestFrontDoorIsUpFirst starts a server while kube-apiserver is down: its front door answers
// from the policies, and the rest follows once kube-apiserver is there.
func TestFrontDoorIsUpFirst(t *testing.T) {
	restore(t)
	urls, stopReplica, err := stack.Replicas(t.Context(), 1)
	t.Cleanup(stopReplica)
	if err != nil {
		t.Fatal(err)
	}
	policies := func(url string) policyclient.ClusterAuthorizationPolicyInterface {
		return stack.ClientAt(t, "admin-direct", url).PolicyV1alpha1().ClusterAuthorizationPolicies()
	}
	if _, err := policies(urls[0]).Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "up-first"},
		Spec: policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectDeny, Subjects: []rbacv1.Subject{{Kind: "User", Name: "carol"}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stopReplica()

	if err := stack.KillKubeAPIServer(); err != nil {
		t.Fatal(err)
	}
	alone, err := stack.AloneAt(t.Context(), stack.EtcdURL())
	t.Cleanup(alone.Stop)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := post(t, withCA(t, stack.CAFile(), alone.CertFile, alone.KeyFile), alone.FrontDoorURL+frontdoor.AuthorizePath, carolReads); code != http.StatusOK || !strings.Contains(body, `"denied":true`) {
		t.Errorf("with kube-apiserver down: got %d %s, want denied", code, body)
	}
	if list, err := policies(alone.URL).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("with kube-apiserver down, somebody unknown reads policies: %v", list)
	}
	if err := stack.StartKubeAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "the server knows who its clients are", func() bool {
		// A new connection each time: on an old one, the server has not asked for a certificate.
		list, err := policies(alone.URL).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 1
	})
}

// TestKubeAPIServerStartsWithoutProviso restarts kube-apiserver while Proviso is down: RBAC
// decides alone, as the failure policy says.
func TestKubeAPIServerStartsWithoutProviso(t *testing.T) {
	restore(t)
	const namespace = "without-proviso"
	inNamespace(t, namespace)
	if err := stack.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := stack.KillKubeAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := stack.StartKubeAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustKubectl(t, "carol", "get", "configmap", "c", "--namespace", namespace)
	// kube-apiserver answers 500 where nobody allows and one could not be asked.
	if out, errs, err := kubectl(t, "carol", "get", "secrets", "--namespace", namespace); err == nil || out != "" || (!strings.Contains(errs, "Forbidden") && !strings.Contains(errs, "InternalError")) {
		t.Errorf("what RBAC does not allow: got %v: %s%s", err, out, errs)
	}
}
