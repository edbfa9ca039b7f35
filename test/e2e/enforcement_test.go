/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// TestEnforcement makes every request of the table on every route: each ends as it should,
// each refusal names its policies, and nothing is written that should not be. Reviews and an
// evaluation in one phase must come to the same.
func TestEnforcement(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	table.sets, table.oracle = readTable(t), newOracle(t, table.kube)
	for _, set := range table.sets {
		t.Run(set.Set, func(t *testing.T) {
			t.Parallel()
			table.install(t, set)
			for _, route := range routes {
				for _, row := range set.Rows {
					c := &tableCase{tableRow: row, set: set, route: route.name}
					t.Run(route.name+"/"+row.Name, func(t *testing.T) {
						t.Parallel()
						table.run(t, c, row.As+route.suffix)
					})
				}
			}
		})
	}
}

// table has what all rows need.
type table struct {
	sets    []*tableSet
	kube    kubernetes.Interface
	proviso versioned.Interface // of admin, direct
	clients map[string]versioned.Interface
	oracle  *oracle
	// reviewed is the only route on which reviews are tried besides requests; empty is every one.
	reviewed   string
	namespaces sync.Map // by name
}

// reviews reports whether reviews are tried on the route of a row.
func (x *table) reviews(c *tableCase) bool { return x.reviewed == "" || x.reviewed == c.route }

// newTable returns a table without rows.
func newTable(t *testing.T) *table {
	t.Helper()
	table := &table{clients: map[string]versioned.Interface{}}
	table.kube, _ = clients(t, "admin")
	_, table.proviso = clients(t, "admin-direct")
	for _, user := range []string{"alice", "bob", "carol"} {
		for _, route := range routes {
			_, table.clients[user+route.suffix] = clients(t, user+route.suffix)
		}
	}
	return table
}

// admin makes requests of admin's, to which no policy applies.
func (x *table) admin() rest.Interface { return x.proviso.DemoV1alpha1().RESTClient() }

// adminOf makes requests of admin's about what a row is about.
func (x *table) adminOf(c *tableCase) rest.Interface {
	if c.of != nil { // which kube-apiserver serves
		return x.kube.CoreV1().RESTClient()
	}
	return x.admin()
}

// install makes the namespace of a set, with the rights of bob and alice, and its policies,
// and waits until those are in force.
func (x *table) install(t *testing.T, set *tableSet) {
	t.Helper()
	create := func(err error) {
		t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	namespace := set.namespace()
	_, err := x.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"env": set.label()},
	}}, metav1.CreateOptions{})
	create(err)
	for _, right := range tableRights {
		_, err = x.kube.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: right.user},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{demov1alpha1.GroupName, handledMachines.Group}, Resources: right.resources, Verbs: right.verbs}},
		}, metav1.CreateOptions{})
		create(err)
		_, err = x.kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: right.user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: right.user},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: right.user}},
		}, metav1.CreateOptions{})
		create(err)
	}
	for i := range set.Policies {
		x.installPolicy(t, namespace, &set.Policies[i])
	}
}

// tableRights are what users may do with machines by RBAC.
var tableRights = []struct {
	user             string
	resources, verbs []string
}{
	{"alice", []string{machines}, []string{"get", "list", "watch"}},
	{"bob", []string{machines, machines + "/status", machines + "/console"}, []string{"*"}},
}

func (x *table) installPolicy(t *testing.T, namespace string, p *tablePolicy) {
	t.Helper()
	var err error
	var conditions func() ([]metav1.Condition, error)
	if p.Cluster {
		policies := x.proviso.PolicyV1alpha1().ClusterAuthorizationPolicies()
		_, err = policies.Create(t.Context(), &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.spec()}, metav1.CreateOptions{})
		t.Cleanup(func() { _ = policies.Delete(context.Background(), p.Name, metav1.DeleteOptions{}) })
		conditions = func() ([]metav1.Condition, error) {
			policy, err := policies.Get(t.Context(), p.Name, metav1.GetOptions{})
			return policy.Status.Conditions, err
		}
	} else {
		policies := x.proviso.PolicyV1alpha1().AuthorizationPolicies(namespace)
		_, err = policies.Create(t.Context(), &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.spec()}, metav1.CreateOptions{})
		t.Cleanup(func() { _ = policies.Delete(context.Background(), p.Name, metav1.DeleteOptions{}) })
		conditions = func() ([]metav1.Condition, error) {
			policy, err := policies.Get(t.Context(), p.Name, metav1.GetOptions{})
			return policy.Status.Conditions, err
		}
	}
	if err != nil {
		t.Fatalf("policy %s: %v", p.Name, err)
	}
	poll.Holds(t, "policy "+p.Name, func() bool {
		found, err := conditions()
		return err == nil && meta.IsStatusConditionTrue(found, policyv1alpha1.PolicyReady)
	})
}

// run makes one request.
func (x *table) run(t *testing.T, c *tableCase, as string) {
	t.Helper()
	x.prepare(t, c)
	wantOutcome, _ := c.wanted()
	var data []admitted
	switch {
	case !c.decides():
	case c.Do == "deletecollection" && !x.reviews(c):
		data = x.admittedOf(t, c)
	case x.reviews(c):
		data = x.admittedOf(t, c)
		if got := x.oracle.decide(t, c.set, c.As, data); got != (wantOutcome == outcomeAllowed) {
			t.Errorf("evaluated in one phase: allowed is %t, want %s", got, c.Want)
		}
		x.review(t, c, data, as)
	}
	before := x.state(t, c)
	outcome, message := c.make(t, x.clients[as].DemoV1alpha1().RESTClient(), as)
	if outcome != wantOutcome {
		t.Fatalf("the request was %s, want %s: %s", outcome, c.Want, message)
	}
	if outcome == outcomeForbidden {
		checkRefusal(t, c, message)
		x.checkReason(t, c, data, message)
	}
	x.checkState(t, c, data, before, outcome)
}

// prepare makes the machines that are there before.
func (x *table) prepare(t *testing.T, c *tableCase) {
	t.Helper()
	olds, names := c.Olds, []string{c.object()}
	if c.Old != nil {
		olds = []map[string]any{c.Old}
	} else {
		names = nil
		for i := range olds {
			names = append(names, fmt.Sprintf("%s-%d", c.object(), i))
		}
	}
	for i, old := range olds {
		machine := c.machine(names[i], old)
		create := apiRequest{method: http.MethodPost, path: c.collection(), body: machine, contentType: "application/json", query: url.Values{"fieldManager": {"setup"}}}
		stored, err := create.send(t.Context(), x.adminOf(c))
		if err == nil && machine["status"] != nil {
			status := apiRequest{method: http.MethodPut, path: c.collection() + "/" + names[i] + "/status", body: mergeJSON(stored, map[string]any{"status": machine["status"]}), contentType: "application/json"}
			stored, err = status.send(t.Context(), x.adminOf(c))
		}
		must(t, err)
		c.stored = append(c.stored, stored)
	}
}

// state returns the versions of the machines of a row, by name.
func (x *table) state(t *testing.T, c *tableCase) map[string]string {
	t.Helper()
	list, err := x.proviso.DemoV1alpha1().VirtualMachines(c.set.namespace()).List(t.Context(), metav1.ListOptions{LabelSelector: c.label()})
	must(t, err)
	state := map[string]string{}
	for _, vm := range list.Items {
		state[vm.Name] = vm.ResourceVersion
	}
	return state
}

// checkState compares what is there afterwards with what was there before: something has
// been written if and only if a request to write was allowed.
func (x *table) checkState(t *testing.T, c *tableCase, data []admitted, before map[string]string, outcome string) {
	t.Helper()
	after := x.state(t, c)
	if c.Do == "deletecollection" && outcome == outcomeForbidden && !c.DryRun {
		for _, o := range data {
			name := o.name
			if _, still := after[name]; !still && !x.oracle.decide(t, c.set, c.As, []admitted{o}) {
				t.Errorf("%s was deleted", name)
			}
		}
		return
	}
	diff := cmp.Diff(before, after)
	writes := outcome == outcomeAllowed && !c.DryRun && !c.reads() && !c.connects() && (c.Do != "deletecollection" || len(before) > 0)
	if writes != (diff != "") {
		t.Errorf("something was written: %t, want %t; (-before +after):\n%s", diff != "", writes, diff)
	}
}

// checkRefusal finds in a refusal the policies that are to be named, with their
// descriptions, and no others. Where nothing would allow the request, none need be named.
func checkRefusal(t *testing.T, c *tableCase, message string) {
	t.Helper()
	_, policies := c.wanted()
	if len(policies) == 0 {
		return
	}
	for _, p := range c.set.Policies {
		name := "policy=" + c.set.namespace() + "/" + p.Name + " "
		if p.Cluster {
			name = "policy=" + p.Name + " "
		}
		named := strings.Contains(message, name)
		described := strings.Contains(message, p.Description)
		if want := slices.Contains(policies, p.Name); named != want || described != want {
			t.Errorf("the refusal names %s: %t, and describes it: %t; want %t: %s", p.Name, named, described, want, message)
		}
	}
}
