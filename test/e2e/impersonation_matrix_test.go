/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// impersonationMatrix makes the requests of its rows.
type impersonationMatrix struct {
	rows   []impersonationRow
	kube   kubernetes.Interface
	tokens []string // of the rows whose requester is a service account
	// messages are what the server says when it refuses.
	messages []string
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

// created ignores that something is there already.
func created[T any](_ T, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// prepare makes the requesters, the nodes that they run on, and their permissions.
func (m *impersonationMatrix) prepare(t *testing.T) {
	t.Helper()
	m.kube, _ = clients(t, "admin")
	m.tokens, m.messages = make([]string, len(m.rows)), make([]string, len(m.rows))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: impersonationNamespace}}
	if err := created(m.kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"n1", "n2"} {
		if err := created(m.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})); err != nil {
			t.Fatal(err)
		}
	}
	forEach(t, len(m.rows), func(ctx context.Context, i int) (err error) {
		if requester := m.rows[i].requester; requester.node != "" || requester.account {
			m.tokens[i], err = m.serviceAccountToken(ctx, m.rows[i])
		}
		return err
	})
	m.grant(t)
}

// serviceAccountToken makes a service account, a pod in which it runs if the requester has
// a node, and a token.
func (m *impersonationMatrix) serviceAccountToken(ctx context.Context, row impersonationRow) (string, error) {
	meta := metav1.ObjectMeta{Name: row.short(), Namespace: impersonationNamespace}
	accounts := m.kube.CoreV1().ServiceAccounts(impersonationNamespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{}
	if row.requester.node != "" {
		pod, err := m.kube.CoreV1().Pods(impersonationNamespace).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			ServiceAccountName: row.short(), NodeName: row.requester.node, Containers: []corev1.Container{{Name: "agent", Image: "agent"}},
		}}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := accounts.CreateToken(ctx, row.short(), request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// grant gives each requester its permissions: a role for each permission that somebody
// has, bound to all who have it. The last role of each kind is one of the test's own, and
// once it has effect, so have those before it.
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
			if err != nil {
				t.Fatal(err)
			}
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

func (m *impersonationMatrix) bind(ctx context.Context, name string, grant impersonationGrant, subjects ...rbacv1.Subject) error {
	rbac, meta := m.kube.RbacV1(), metav1.ObjectMeta{Name: name, Namespace: grant.namespace}
	rules := []rbacv1.PolicyRule{grant.rule}
	if grant.namespace == "" {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
		_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		_, bindErr := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		return errors.Join(err, bindErr)
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}
	_, err := rbac.Roles(grant.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	_, bindErr := rbac.RoleBindings(grant.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	return errors.Join(err, bindErr)
}

func (m *impersonationMatrix) waitForGrants(t *testing.T, namespace string) {
	t.Helper()
	name := "impersonation-last" + namespace
	grant := impersonationGrant{namespace: namespace, rule: rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	if err := m.bind(t.Context(), name, grant, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}); err != nil {
		t.Fatal(err)
	}
	retry(t, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: name, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "configmaps", Namespace: namespace},
		}}
		review, err := m.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("the permissions have no effect yet: %+v", review.Status)
		}
		return err
	})
}

// retry tries until it succeeds.
func retry(t *testing.T, try func() error) {
	t.Helper()
	poll.Eventually(t, "it succeeds", func() string {
		if err := try(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// makeRequests makes the requests to a server, and returns what it says when it refuses.
// Users are vouched for by the front proxy's certificate.
func (m *impersonationMatrix) makeRequests(t *testing.T, url string) (messages []string) {
	t.Helper()
	certFile, keyFile, err := stack.FrontProxy("front-proxy-client")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := os.ReadFile(stack.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	vouched := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}}}
	bearer := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(vouched.CloseIdleConnections)
	t.Cleanup(bearer.CloseIdleConnections)
	messages = make([]string, len(m.rows))
	forEach(t, len(m.rows), func(ctx context.Context, i int) (err error) {
		client := vouched
		if m.tokens[i] != "" {
			client = bearer
		}
		messages[i], err = m.rows[i].do(ctx, client, url, m.tokens[i])
		return err
	})
	return messages
}

// do makes the request and returns the message of a failure.
func (r impersonationRow) do(ctx context.Context, client *http.Client, url, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, methods[r.request.Verb], url+r.request.url(), nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Audit-ID", r.auditID())
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	} else {
		request.Header.Set("X-Remote-User", r.name())
		request.Header["X-Remote-Group"] = r.requester.groups
		for key, value := range r.requester.extra {
			request.Header.Set("X-Remote-Extra-"+escapeKey(key), value)
		}
	}
	request.Header.Set(authenticationv1.ImpersonateUserHeader, r.target.Username)
	if r.target.UID != "" {
		request.Header.Set(authenticationv1.ImpersonateUIDHeader, r.target.UID)
	}
	request.Header[authenticationv1.ImpersonateGroupHeader] = r.target.Groups
	for key, values := range r.target.Extra {
		request.Header[authenticationv1.ImpersonateUserExtraHeaderPrefix+escapeKey(key)] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		return "", nil
	}
	return status.Message, nil
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

// impersonationEvents waits until there is an event for each row.
func impersonationEvents(t *testing.T, file string, rows []impersonationRow) map[string]auditv1.Event {
	t.Helper()
	events := map[string]auditv1.Event{}
	retry(t, func() error {
		log, err := os.Open(file)
		if err != nil {
			return err
		}
		defer log.Close()
		lines := bufio.NewScanner(log)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var event auditv1.Event
			// The last line may not be complete yet.
			if json.Unmarshal(lines.Bytes(), &event) == nil && strings.HasPrefix(string(event.AuditID), "impersonation-matrix-") && event.Stage == auditv1.StageResponseComplete {
				events[string(event.AuditID)] = event
			}
		}
		if err := lines.Err(); err != nil {
			return err
		}
		if len(events) < len(rows) {
			return fmt.Errorf("there are %d audit events for %d requests", len(events), len(rows))
		}
		return nil
	})
	return events
}

// checkReviews reviews each request, by turns through kube-apiserver and directly, as a
// resource and as a subresource, and compares.
func (m *impersonationMatrix) checkReviews(t *testing.T, events map[string]auditv1.Event) {
	t.Helper()
	_, proxied := clients(t, "admin")
	_, direct := clients(t, "admin-direct")
	forEach(t, len(m.rows), func(ctx context.Context, i int) error {
		row, event := m.rows[i], events[m.rows[i].auditID()]
		client := proxied
		if i%2 == 0 {
			client = direct
		}
		review, err := postImpersonation(ctx, client, row.review(event.User), i%4 < 2)
		if err != nil {
			return fmt.Errorf("%s: %w", row, err)
		}
		if diff := cmp.Diff(wantedStatus(event, m.messages[i]), gotStatus(review.Status), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-kube-apiserver +review)\n%s\nchecks: %+v", row, diff, review.Status.Checks)
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

// review asks about the row as the requester whom the server saw.
func (r impersonationRow) review(requester authenticationv1.UserInfo) *authorizationv1alpha1.ImpersonationReview {
	spec := authorizationv1alpha1.ImpersonationReviewSpec{User: requester.Username, UID: requester.UID, Groups: requester.Groups, Impersonate: r.target}
	for key, values := range requester.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if r.request.path != "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: httpVerb(r.request.Verb), Path: r.request.path}
	} else {
		spec.ResourceAttributes = r.request.DeepCopy()
	}
	return &authorizationv1alpha1.ImpersonationReview{Spec: spec}
}

// httpVerb is the verb of a request that is not for a resource.
func httpVerb(verb string) string { return strings.ToLower(methods[verb]) }

// impersonationOutcome is what must be the same.
type impersonationOutcome struct {
	Allowed    bool
	User       authenticationv1.UserInfo
	Constraint string
	// Reason is why it was refused, with the name of the request.
	Reason string
	// Request says whether the impersonated user may make the request.
	Request bool
}

func wantedStatus(event auditv1.Event, message string) impersonationOutcome {
	outcome := impersonationOutcome{Allowed: event.ImpersonatedUser != nil}
	if !outcome.Allowed {
		outcome.Reason = message
		return outcome
	}
	outcome.User = *event.ImpersonatedUser
	outcome.Request = event.Annotations["authorization.k8s.io/decision"] == "allow"
	if event.AuthenticationMetadata != nil {
		outcome.Constraint = event.AuthenticationMetadata.ImpersonationConstraint
	}
	return outcome
}

func gotStatus(status authorizationv1alpha1.ImpersonationReviewStatus) impersonationOutcome {
	outcome := impersonationOutcome{Allowed: status.Allowed && !status.Denied, Constraint: status.Constraint, Reason: status.Reason}
	if status.ImpersonatedUser != nil {
		outcome.User = *status.ImpersonatedUser
	}
	if status.RequestDecision != nil {
		outcome.Request = status.RequestDecision.Allowed
	}
	return outcome
}
