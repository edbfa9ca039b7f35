/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// testMatrix makes every request of the rows to kube-apiserver, with Impersonate- headers, and reviews it. The outcome, the user that the server sees, the constraint and the
// message of a refusal must be the same. Each row has a requester of its own, because the server remembers which mode a requester used last. Then it makes the requests to the
// replica with the mode conditional, whose filter must do the same, because no requester has permissions of that mode.
func (i *impersonationTests) testMatrix(t *testing.T) {
	rows := impersonationRows(t)
	if len(rows) < 300 {
		t.Fatalf("there are %d rows, want at least 300", len(rows))
	}
	matrix := &impersonationMatrix{rows: rows}
	matrix.prepare(t)
	want := matrix.send(t, i.on.Sender.At(stack.KubeAPIServerURL()), stack.AuditLog())
	matrix.checkReviews(t, want)
	got := matrix.send(t, i.on.Sender, i.on.log)
	seen := map[string]int{}
	for i, row := range rows {
		if diff := cmp.Diff(want[i], got[i], cmpopts.EquateEmpty(), cmpopts.IgnoreFields(impersonationOutcome{}, "requester")); diff != "" || want[i].requester.Username != got[i].requester.Username {
			t.Errorf("%s: (-kube-apiserver +proviso)\n%s\nrequesters %q and %q", row, diff, want[i].requester.Username, got[i].requester.Username)
		}
		seen[want[i].verdict()]++
	}
	t.Logf("%d rows: %v", len(rows), seen)
	for _, verdict := range []string{"refused", "legacy", "impersonate:user-info", "impersonate:serviceaccount", "impersonate:arbitrary-node", "impersonate:associated-node"} {
		if seen[verdict] < 8 {
			t.Errorf("only %d rows are %q, so the matrix proves little", seen[verdict], verdict)
		}
	}
}

// impersonationMatrix makes the requests of its rows.
type impersonationMatrix struct {
	rows   []impersonationRow
	kube   kubernetes.Interface
	tokens []string // of the rows whose requester is a service account
}

// forEach calls a function for each of n items, some at a time.
func forEach(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	const workers = 8
	var group sync.WaitGroup
	next := make(chan int)
	for range workers {
		group.Go(func() {
			for i := range next {
				if err := do(t.Context(), i); err != nil {
					t.Errorf("item %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// prepare creates the requesters and their permissions.
func (m *impersonationMatrix) prepare(t *testing.T) {
	t.Helper()
	m.kube, _ = clients(t, "admin")
	m.tokens = make([]string, len(m.rows))
	forEach(t, len(m.rows), func(ctx context.Context, i int) (err error) {
		if row := m.rows[i]; row.requester.node != "" || row.requester.account {
			m.tokens[i], err = podToken(ctx, m.kube, impersonationNamespace, row.short(), row.requester.node)
		}
		return err
	})
	m.grant(t)
}

// grant creates a role for each permission, bound to all requesters who have it. The last binding of each kind is of the test's own, and once it is in effect, so are those
// before it.
func (m *impersonationMatrix) grant(t *testing.T) {
	t.Helper()
	type role struct {
		impersonationGrant
		subjects []rbacv1.Subject
	}
	roles := map[string]*role{}
	for _, row := range m.rows {
		for _, grant := range row.grants {
			key, err := json.Marshal([]any{grant.namespace, grant.rule})
			must(t, err)
			if roles[string(key)] == nil {
				roles[string(key)] = &role{impersonationGrant: grant}
			}
			r := roles[string(key)]
			r.subjects = append(r.subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: row.name()})
		}
	}
	ordered := slices.Sorted(maps.Keys(roles))
	forEach(t, len(ordered), func(ctx context.Context, i int) error {
		r := roles[ordered[i]]
		return m.bind(ctx, fmt.Sprintf("impersonation-%03d", i), r.impersonationGrant, r.subjects...)
	})
	for _, namespace := range []string{"", impersonationNamespace} {
		m.waitForGrants(t, namespace)
	}
}

// bind grants a permission to subjects.
func (m *impersonationMatrix) bind(ctx context.Context, name string, grant impersonationGrant, subjects ...rbacv1.Subject) error {
	rbac, meta, ref := m.kube.RbacV1(), metav1.ObjectMeta{Name: name, Namespace: grant.namespace}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{grant.rule}}
	if _, err := rbac.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	if grant.namespace != "" {
		_, err := rbac.RoleBindings(grant.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		return err
	}
	_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	return err
}

// waitForGrants waits until the last grant in a namespace, or in all, is in effect.
func (m *impersonationMatrix) waitForGrants(t *testing.T, namespace string) {
	t.Helper()
	name := "impersonation-last" + namespace
	grant := impersonationGrant{namespace: namespace, rule: rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	must(t, m.bind(t.Context(), name, grant, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}))
	poll.Holds(t, "the permissions are in effect", func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: name, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "configmaps", Namespace: namespace},
		}}
		review, err := m.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed
	})
}

// send sends the requests to a server, and returns their outcomes. The front proxy authenticates the users.
func (m *impersonationMatrix) send(t *testing.T, sender *requests.Sender, log string) []*impersonationOutcome {
	t.Helper()
	outcomes, ids := make([]*impersonationOutcome, len(m.rows)), make([]string, len(m.rows))
	forEach(t, len(m.rows), func(ctx context.Context, i int) error {
		row, as := m.rows[i], &requests.User{Name: frontProxyUser, Certificate: true}
		if m.tokens[i] != "" {
			as = &requests.User{Token: m.tokens[i]}
		}
		answer, err := sender.Do(ctx, as, requests.Request{Method: row.request.Method, Path: row.request.Path, Header: row.header(m.tokens[i] != "")})
		if err != nil {
			return err
		}
		outcomes[i], ids[i] = &impersonationOutcome{}, answer.Header.Get(auditv1.HeaderAuditID)
		var status metav1.Status
		if json.Unmarshal([]byte(answer.Body), &status) == nil && status.Kind == "Status" {
			outcomes[i].Reason = status.Message
		}
		return nil
	})
	events := auditEvents(t, log, ids...)
	for i, id := range ids {
		outcomes[i].read(events[id])
	}
	return outcomes
}

// header returns the headers of a row. Without a token, the front proxy says who the requester is.
func (r impersonationRow) header(hasToken bool) http.Header {
	header := http.Header{authenticationv1.ImpersonateUserHeader: {r.target.Username}, authenticationv1.ImpersonateGroupHeader: r.target.Groups}
	if !hasToken {
		header["X-Remote-User"], header["X-Remote-Group"] = []string{r.name()}, r.requester.groups
		for key, value := range r.requester.extra {
			header.Set("X-Remote-Extra-"+escapeKey(key), value)
		}
	}
	if r.target.UID != "" {
		header.Set(authenticationv1.ImpersonateUIDHeader, r.target.UID)
	}
	for key, values := range r.target.Extra {
		header[authenticationv1.ImpersonateUserExtraHeaderPrefix+escapeKey(key)] = values
	}
	return header
}

// escapeKey encodes what does not stay as it is in the name of a header.
func escapeKey(key string) string {
	var escaped strings.Builder
	for i := range len(key) {
		if c := key[i]; c == '/' || c == '%' || c >= 'A' && c <= 'Z' {
			fmt.Fprintf(&escaped, "%%%02X", c)
		} else {
			escaped.WriteByte(c)
		}
	}
	return escaped.String()
}

// checkReviews reviews each request, by turns through kube-apiserver and directly, as a resource and as a subresource, and compares.
func (m *impersonationMatrix) checkReviews(t *testing.T, want []*impersonationOutcome) {
	t.Helper()
	_, proxied := clients(t, "admin")
	_, direct := clients(t, "admin-direct")
	forEach(t, len(m.rows), func(ctx context.Context, i int) error {
		client := proxied
		if i%2 == 0 {
			client = direct
		}
		resource, path := m.rows[i].request.attributes()
		review, err := postImpersonation(ctx, client, impersonationReview(want[i].requester, m.rows[i].target, resource, path), i%4 < 2)
		if err != nil {
			return fmt.Errorf("%s: %w", m.rows[i], err)
		}
		got := reviewOutcome(want[i].requester, review.Status)
		if diff := cmp.Diff(want[i], got, cmpopts.EquateEmpty(), cmp.AllowUnexported(impersonationOutcome{})); diff != "" {
			t.Errorf("%s: (-kube-apiserver +review)\n%s\nchecks: %+v", m.rows[i], diff, review.Status.Checks)
		}
		return nil
	})
}

func postImpersonation(ctx context.Context, client versioned.Interface, review *authorizationv1alpha1.ImpersonationReview, asSubresource bool) (*authorizationv1alpha1.ImpersonationReview, error) {
	if !asSubresource {
		return client.AuthorizationV1alpha1().ImpersonationReviews().Create(ctx, review, metav1.CreateOptions{})
	}
	name := review.Spec.Impersonate.Username
	if strings.Contains(name, "/") {
		name = "-"
	}
	result := &authorizationv1alpha1.ImpersonationReview{}
	err := client.AuthorizationV1alpha1().RESTClient().Post().Resource("authorizationconditionsreviews").Name(name).SubResource("impersonation").Body(review).Do(ctx).Into(result)
	return result, err
}

// impersonationOutcome is the outcome of a row, which must be the same in reviews, of kube-apiserver and of Proviso.
type impersonationOutcome struct {
	// requester is the user who impersonates, as the server saw them.
	requester authenticationv1.UserInfo

	Allowed    bool
	User       authenticationv1.UserInfo
	Constraint string
	// Reason is why it was refused, with the name of the request.
	Reason string
	// Request says whether the impersonated user may make the request.
	Request bool
}

// read reads the outcome of a request, which has the message of the answer, from its audit event.
func (o *impersonationOutcome) read(event *auditv1.Event) {
	o.requester = event.User
	if event.ImpersonatedUser == nil {
		return
	}
	o.Allowed, o.User, o.Reason = true, *event.ImpersonatedUser, ""
	o.Request = event.Annotations["authorization.k8s.io/decision"] == "allow"
	if event.AuthenticationMetadata != nil {
		o.Constraint = event.AuthenticationMetadata.ImpersonationConstraint
	}
}

// verdict returns the constraint, or whether the legacy mode allowed or refused the impersonation.
func (o *impersonationOutcome) verdict() string {
	switch {
	case !o.Allowed:
		return "refused"
	case o.Constraint == "":
		return "legacy"
	}
	return o.Constraint
}

// reviewOutcome returns the outcome that a review says.
func reviewOutcome(requester authenticationv1.UserInfo, status authorizationv1alpha1.ImpersonationReviewStatus) *impersonationOutcome {
	outcome := &impersonationOutcome{requester: requester, Allowed: status.Allowed && !status.Denied, Constraint: status.Constraint, Reason: status.Reason}
	if status.ImpersonatedUser != nil {
		outcome.User = *status.ImpersonatedUser
	}
	if status.RequestDecision != nil {
		outcome.Request = status.RequestDecision.Allowed
	}
	return outcome
}
