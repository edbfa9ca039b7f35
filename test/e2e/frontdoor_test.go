/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	policyclient "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// doorTest sends the rows of testdata/front-door.yaml in a namespace of its own.
type doorTest struct {
	*requests.Runner
	table     *requests.Table
	namespace string
}

// newDoorTest makes the namespace.
func newDoorTest(t *testing.T, namespace string) *doorTest {
	t.Helper()
	d := &doorTest{table: readRequests(t, "front-door.yaml"), namespace: namespace}
	inNamespace(t, namespace)
	d.Runner = &requests.Runner{Sender: newSender(t, "admin"), Values: map[string]string{"ns": namespace, "long": strings.Repeat("!a,", 230_000) + "!a"}}
	return d
}

// inNamespace makes a namespace in which carol, who may do nothing elsewhere, may read
// ConfigMaps by RBAC.
func inNamespace(t *testing.T, namespace string) {
	t.Helper()
	apply(t, strings.ReplaceAll(readRequests(t, "front-door.yaml").Manifest(), "{ns}", namespace))
}

// run runs groups of rows once.
func (d *doorTest) run(t *testing.T, groups ...string) {
	t.Helper()
	for _, group := range groups {
		d.Run(t, d.table.Rows[group])
	}
}

// await waits until the rows of a group are as wanted.
func (d *doorTest) await(t *testing.T, group string) {
	t.Helper()
	awaitRows(t, d.Runner, d.table.Rows[group])
}

// namespacedPolicy applies a policy for carol.
func namespacedPolicy(t *testing.T, namespace, name, spec string) {
	t.Helper()
	apply(t, fmt.Sprintf("apiVersion: policy.proviso.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: %s, namespace: %s}\nspec:\n  subjects: [{kind: User, name: carol}]\n%s", name, namespace, spec))
}

// TestFrontDoorAllows lets carol, whom RBAC gives nothing, through kube-apiserver by a policy,
// and only as long as there is one.
func TestFrontDoorAllows(t *testing.T) {
	t.Parallel()
	d := newDoorTest(t, "front-door-allows")
	d.run(t, "allows, before")
	d.AwaitEach(t, d.table.Rows["allows"])
	d.run(t, "allows")
	direct := *d.Runner
	direct.Sender = newSender(t, "admin-direct")
	direct.Run(t, d.table.Rows["allows, direct"])
	d.run(t, "allows, after")
	d.await(t, "allows, gone")
}

// TestFrontDoorDenies denies on a resource of kube-apiserver what RBAC allows.
func TestFrontDoorDenies(t *testing.T) {
	t.Parallel()
	d := newDoorTest(t, "front-door-denies")
	d.run(t, "denies, before")
	d.AwaitEach(t, d.table.Rows["denies"])
	d.run(t, "denies")
}

// TestFrontDoorConditions asks what becomes of conditions at the front door.
func TestFrontDoorConditions(t *testing.T) {
	t.Parallel()
	d := newDoorTest(t, "front-door-conditions")
	d.run(t, "conditions, before")
	d.AwaitEach(t, d.table.Rows["conditions"])
	d.run(t, "conditions")
	shown := d.table.Rows["conditions, shown"]
	d.Run(t, shown[:1])
	awaitRows(t, d.Runner, shown[1:])
}

// TestFrontDoorKnowsNamespaces decides reads of ConfigMaps, which kube-apiserver serves, by a label of their namespace, and asks
// what the statuses of policies say about it.
func TestFrontDoorKnowsNamespaces(t *testing.T) {
	t.Parallel()
	d := newDoorTest(t, "front-door-namespaces")
	d.run(t, "namespaces, before")
	d.await(t, "namespaces, no label")
	for _, group := range []string{"namespaces, closed", "namespaces, open"} {
		rows := d.table.Rows[group]
		d.Run(t, rows[:1])
		awaitRows(t, d.Runner, rows[1:])
	}
	d.run(t, "namespaces, statuses")
	for name, want := range map[string]string{
		"closed":    `True Enforced [{"at":"FrontDoor","message":"requests are decided at authorization, once the namespace is in the cache of this server","resources":["configmaps"],"result":"Enforced","rule":0,"verbs":["get"]}]`,
		"not-empty": `False DeniesUnconditionally [{"at":"Server","message":"the condition is evaluated at admission","resources":["virtualmachines.demo.proviso.dev"],"result":"Enforced","rule":0,"verbs":["update","patch"]},{"at":"FrontDoor","message":"conditions on objects are not evaluated for these requests to kube-apiserver, so that the policy denies all of them, unless the request or its namespace makes the condition false","resources":["secrets"],"result":"DeniesUnconditionally","rule":1,"verbs":["update","patch"]}]`,
	} {
		const effective = `{.status.conditions[?(@.type=="Effective")].`
		poll.Holds(t, name+" has a status", func() bool {
			return mustKubectl(t, "admin", "get", "authorizationpolicy", "--namespace", d.namespace, name, "-o", `jsonpath=`+effective+`status}`) != ""
		})
		got := mustKubectl(t, "admin", "get", "authorizationpolicy", "--namespace", d.namespace, name, "-o", `jsonpath=`+effective+`status} `+effective+`reason} {.status.enforcement}`)
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestFrontDoorMatchConditions asks as those for whom kube-apiserver does not ask Proviso,
// and as one without groups, for whom it does.
func TestFrontDoorMatchConditions(t *testing.T) {
	t.Parallel()
	d := newDoorTest(t, "front-door-match")
	d.run(t, "match")
	d.Await(t, d.table.Rows["match, asked"][0])
	d.run(t, "match, asked")
}

// TestFrontDoorWithoutFields asks the front door of a server with the gate off: the verb
// granular means nothing.
func TestFrontDoorWithoutFields(t *testing.T) {
	t.Parallel()
	grantMachines(t, "e2e-without-fields", "granular", "granular:metadata", "granular:specification", "granular:status")
	d := &doorTest{Runner: &requests.Runner{Sender: newSender(t, "admin"), Values: map[string]string{"ns": "demo"}}, table: readRequests(t, "front-door.yaml")}
	d.Await(t, d.table.Rows["without fields"][0])
	d.run(t, "without fields")
}

// TestNobodyImpersonatesIntoTheMarker asks as somebody who may impersonate anybody.
func TestNobodyImpersonatesIntoTheMarker(t *testing.T) {
	t.Parallel()
	grant(t, "agent", []string{"impersonate"}, []string{"*"}, "*")
	const want = "is reserved for Proviso and cannot be impersonated"
	for _, user := range []string{"agent", "agent-direct"} {
		mustKubectl(t, user, "get", "--raw", "/version", "--as=carol", "--as-user-extra=example.com/x=true")
		for _, value := range []string{"true", "proviso"} {
			_, errs, err := kubectl(t, user, "get", "--raw", "/version", "--as=carol", "--as-user-extra="+authorization.DelegationMarker+"="+value)
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
	ca := readText(t, caFile)
	c := withCertificate(t, certFile, keyFile)
	c.Transport.(*http.Transport).TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(ca))
	return c
}

func post(t *testing.T, c *http.Client, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	must(t, err)
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
	must(t, err)
	if code := ask(withCertificate(t, certFile, keyFile)); code != http.StatusOK {
		t.Errorf("kube-apiserver: got %d", code)
	}
	if code := ask(anonymous(t)); code != http.StatusUnauthorized {
		t.Errorf("without a certificate: got %d, want 401", code)
	}
	admin, err := tls.LoadX509KeyPair(stack.UserCertificate("admin"))
	must(t, err)
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
	must(t, err)
	policies := func(url string) policyclient.ClusterAuthorizationPolicyInterface {
		return stack.ClientAt(t, "admin-direct", url).PolicyV1alpha1().ClusterAuthorizationPolicies()
	}
	if _, err := policies(urls[0]).Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "up-first"}, Spec: policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectDeny, Subjects: users("carol"), Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stopReplica()

	must(t, stack.KillKubeAPIServer())
	alone, err := stack.AloneAt(t.Context(), stack.EtcdURL())
	t.Cleanup(alone.Stop)
	must(t, err)
	if code, body := post(t, withCA(t, stack.CAFile(), alone.CertFile, alone.KeyFile), alone.FrontDoorURL+frontdoor.AuthorizePath, carolReads); code != http.StatusOK || !strings.Contains(body, `"denied":true`) {
		t.Errorf("with kube-apiserver down: got %d %s, want denied", code, body)
	}
	if list, err := policies(alone.URL).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("with kube-apiserver down, somebody unknown reads policies: %v", list)
	}
	must(t, stack.StartKubeAPIServer(t.Context()))
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
	must(t, stack.Kill())
	must(t, stack.KillKubeAPIServer())
	must(t, stack.StartKubeAPIServer(t.Context()))
	mustKubectl(t, "carol", "get", "configmap", "c", "--namespace", namespace)
	// kube-apiserver answers 500 where nobody allows and one could not be asked.
	if out, errs, err := kubectl(t, "carol", "get", "secrets", "--namespace", namespace); err == nil || out != "" || (!strings.Contains(errs, "Forbidden") && !strings.Contains(errs, "InternalError")) {
		t.Errorf("what RBAC does not allow: got %v: %s%s", err, out, errs)
	}
}
