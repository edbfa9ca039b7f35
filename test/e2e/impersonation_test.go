/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/impersonation"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

const (
	impersonationOn  = "ConditionalImpersonation=true"
	impersonationOff = "ConditionalImpersonation=false"
)

// frontProxyUser is the user of the front proxy's certificate.
const frontProxyUser = "front-proxy-client"

// impersonationMarks are the marks of rows: the modes, and what reviews show.
var impersonationMarks = []string{"legacy", "user-info", "conditional", "residual", "checks"}

// constraints are what audit and reviews say of the constrained modes.
var constraints = map[string]string{"conditional": "constrainedimpersonate", "user-info": "impersonate:user-info"}

// impersonationTests are the tests that share two replicas, with the mode conditional and without it.
type impersonationTests struct {
	*requests.Table
	// tokens are the conditions in the tokens of jane.
	tokens  map[string]string
	on, off *impersonator
	// frontProxy has the certificate with which kube-apiserver passes requests on.
	frontProxy rest.TLSClientConfig
}

// TestImpersonation sends the requests of the tables with headers that impersonate, or that a front proxy sets, to replicas with the mode conditional on and off.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	var about struct{ Tokens map[string]string }
	i := &impersonationTests{Table: requests.ReadFile(t, filepath.Join("testdata", "impersonation.yaml"), &about, impersonationMarks...), tokens: about.Tokens}
	sender := i.newSender(t)
	i.on, i.off = newImpersonator(t, sender, impersonationOn), newImpersonator(t, sender, impersonationOff)
	stories := readStories(t)
	manifest := i.Manifest()
	for _, s := range stories {
		manifest += "\n---\n" + s.manifest
	}
	i.apply(t, manifest)
	for name, test := range map[string]func(*testing.T){
		"matrix": i.testMatrix, "extra": i.testExtra, "between servers": i.testBetweenServers, "gates": i.testGates,
		"privileged": i.testPrivileged, "conditional": i.testConditional, "delegation": i.testDelegation, "tokens": i.testTokens,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
	for _, s := range stories {
		t.Run("stories/"+s.name, func(t *testing.T) {
			t.Parallel()
			s.test(t, i.on)
		})
	}
}

// newSender returns a sender for the users of the tables, and for the front proxy.
func (i *impersonationTests) newSender(t *testing.T) *requests.Sender {
	t.Helper()
	var err error
	if i.frontProxy.CertFile, i.frontProxy.KeyFile, err = stack.FrontProxy(frontProxyUser); err != nil {
		t.Fatal(err)
	}
	i.frontProxy.CAFile = stack.CAFile()
	return requests.NewSender(config(t, "admin"), func(name string, groups ...string) (certFile, keyFile string, err error) {
		if name == frontProxyUser {
			return i.frontProxy.CertFile, i.frontProxy.KeyFile, nil
		}
		return stack.NewUser(name, groups...)
	})
}

// apply applies a manifest: the policies, which the replicas store, to a replica, and the rest to kube-apiserver. It waits until the policies are ready.
func (i *impersonationTests) apply(t *testing.T, manifest string) {
	t.Helper()
	var policies, others []string
	for _, document := range strings.Split(manifest, "---\n") {
		if strings.Contains(document, "ClusterAuthorizationPolicy") {
			policies = append(policies, document)
		} else {
			others = append(others, document)
		}
	}
	run := func(user string, documents []string, args ...string) {
		t.Helper()
		if _, errs, err := kubectlWithInput(t, user, strings.Join(documents, "\n---\n"), append(args, "-f", "-")...); err != nil {
			t.Errorf("kubectl %v: %v: %s", args, err, errs)
		}
	}
	run("admin", others, "apply")
	replica := []string{"--server", i.on.url, "--certificate-authority", stack.CAFile(), "--tls-server-name", cluster.ServerName}
	t.Cleanup(func() { run("admin-direct", policies, append(replica, "delete")...) })
	run("admin-direct", policies, append(replica, "apply")...)
	run("admin-direct", policies, append(replica, "wait", "--for=condition=Ready", "--timeout=30s")...)
}

// impersonator sends rows to a replica with an audit log, and reviews them.
type impersonator struct {
	requests.Runner
	url, log string
	admin    versioned.Interface
	stop     func()
}

// newImpersonator starts a replica.
func newImpersonator(t *testing.T, sender *requests.Sender, gates string) *impersonator {
	t.Helper()
	policy, log := writeFile(t, "policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"), filepath.Join(t.TempDir(), "audit.log")
	url, stop, err := stack.Replica(t.Context(), "--feature-gates="+gates, "--audit-policy-file="+policy, "--audit-log-path="+log)
	t.Cleanup(stop)
	must(t, err)
	return &impersonator{Runner: requests.Runner{Sender: sender.At(url)}, url: url, log: log, admin: stack.ClientAt(t, "admin-direct", url), stop: stop}
}

// runner returns a copy of the runner of requests. server is in the names of objects that it creates.
func (i *impersonator) runner(server string) *requests.Runner {
	runner := i.Runner
	runner.Values = map[string]string{"server": server, "long": strings.Repeat(" ", impersonation.MaxExtraBytes)}
	return &runner
}

// run sends rows, and compares what audit and reviews say about them with their marks. First it waits until policies and roles are in effect: for the first row, and for those
// whose impersonation is allowed. All other refusals must be refusals from the start.
func (i *impersonator) run(t *testing.T, runner *requests.Runner, rows []*requests.Row) {
	t.Helper()
	for n, row := range rows {
		if n == 0 || modeOf(row) != "" {
			runner.Await(t, row)
		}
	}
	ids := map[*requests.Row]string{}
	runner.After = func(row *requests.Row, answer *requests.Answer, _ []*admissionv1.AdmissionRequest) {
		ids[row] = answer.Header.Get(auditv1.HeaderAuditID)
	}
	runner.Run(t, rows)
	events := auditEvents(t, i.log, slices.Collect(maps.Values(ids))...)
	for _, row := range rows {
		i.check(t, runner, row, events[ids[row]])
	}
}

// modeOf returns the mode that a row has as a mark, or an empty string.
func modeOf(row *requests.Row) string {
	for _, mode := range []string{"legacy", "user-info", "conditional"} {
		if row.Is(mode) {
			return mode
		}
	}
	return ""
}

// impersonationVerdict is what audit and a review say about a row.
type impersonationVerdict struct {
	// Mode and Constraint are in the review, and Recorded is the constraint in the audit event.
	Requester, Impersonated, Mode, Constraint, Recorded string
	// Denied and Residual are of the impersonation. Allowed is of the request, with its conditions evaluated.
	Denied, Residual, Allowed bool
	// Checks says that a check shows conditions.
	Checks bool
}

// wantedVerdict returns the verdict that the marks and the code of a row say.
func wantedVerdict(row *requests.Row) *impersonationVerdict {
	mode := modeOf(row)
	v := &impersonationVerdict{
		Requester: requests.Administrator, Mode: mode, Constraint: constraints[mode], Recorded: constraints[mode],
		Denied: mode == "", Residual: row.Is("residual"), Allowed: row.Code < 300, Checks: row.Is("checks"),
	}
	if row.User != nil {
		v.Requester = row.User.Name
	}
	if mode != "" {
		v.Impersonated = row.Headers[authenticationv1.ImpersonateUserHeader][0]
	}
	return v
}

// check compares the verdict on a row.
func (i *impersonator) check(t *testing.T, runner *requests.Runner, row *requests.Row, event *auditv1.Event) {
	t.Helper()
	want, request := wantedVerdict(row), runner.Checks(t, row)[0]
	as := authenticationv1.UserInfo{Username: row.Headers[authenticationv1.ImpersonateUserHeader][0], Groups: row.Headers[authenticationv1.ImpersonateGroupHeader]}
	review := impersonationReview(event.User, as, request, nil)
	review.Spec.ConditionalAuthorization = &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable}
	review, err := i.admin.AuthorizationV1alpha1().ImpersonationReviews().Create(t.Context(), review, metav1.CreateOptions{})
	must(t, err)
	status := &review.Status
	got := &impersonationVerdict{
		Requester: event.User.Username, Mode: string(status.Mode), Constraint: status.Constraint, Denied: status.Denied, Residual: len(status.ConditionsChain) > 0,
		Checks: want.Checks && slices.ContainsFunc(status.Checks, func(check authorizationv1alpha1.ImpersonationCheck) bool { return len(check.ConditionsChain) > 0 }),
	}
	if event.ImpersonatedUser != nil {
		got.Impersonated = event.ImpersonatedUser.Username
	}
	if event.AuthenticationMetadata != nil {
		got.Recorded = event.AuthenticationMetadata.ImpersonationConstraint
	}
	if decision := status.RequestDecision; decision != nil {
		got.Allowed = status.Allowed && decision.Allowed
		if got.Residual && !decision.Denied && (decision.Allowed || len(decision.ConditionsChain) > 0) {
			got.Allowed = i.evaluate(t, request, runner.Body(t, row), status)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || status.Allowed == (status.Denied || got.Residual) {
		t.Errorf("%s: audit and the review (-want +got):\n%s\n%+v", row, diff, status)
	}
}

// impersonationReview returns a review about a requester who impersonates a user for a request.
func impersonationReview(requester, as authenticationv1.UserInfo, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) *authorizationv1alpha1.ImpersonationReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range requester.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return &authorizationv1alpha1.ImpersonationReview{Spec: authorizationv1alpha1.ImpersonationReviewSpec{
		User: requester.Username, UID: requester.UID, Groups: requester.Groups, Extra: extra, Impersonate: as, ResourceAttributes: resource, NonResourceAttributes: path,
	}}
}

// evaluate evaluates the conditions of a review for the machine that a request writes.
func (i *impersonator) evaluate(t *testing.T, request *authorizationv1.ResourceAttributes, body string, status *authorizationv1alpha1.ImpersonationReviewStatus) bool {
	t.Helper()
	sets := slices.Concat(status.ConditionsChain, status.RequestDecision.ConditionsChain)
	if status.RequestDecision.Allowed {
		sets = append(sets, authorizationv1alpha1.SubjectAccessReviewConditionSet{AuthorizerName: "request", Allowed: true})
	}
	machine := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian"}}
	if err := json.Unmarshal([]byte(body), machine); err != nil { // a patch changes some of it
		t.Fatal(err)
	}
	kind := demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine")
	machine.SetGroupVersionKind(kind)
	data := &authorizationv1alpha1.AuthorizationConditionsRequest{
		ConditionSets: sets, Operation: authorizationv1alpha1.OperationCreate, Kind: &metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Resource: &metav1.GroupVersionResource{Group: request.Group, Version: request.Version, Resource: request.Resource},
		Name:     machine.Name, Namespace: request.Namespace, UserInfo: status.ImpersonatedUser, Object: &runtime.RawExtension{Raw: mustJSON(machine)},
	}
	if request.Verb != "create" {
		data.Operation, data.OldObject = authorizationv1alpha1.OperationUpdate, data.Object
	}
	review, err := i.admin.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), &authorizationv1alpha1.AuthorizationConditionsReview{Request: data}, metav1.CreateOptions{})
	must(t, err)
	return review.Response.Allowed
}

// testGates sends requests that are impersonated by a grant of each kind to replicas with the feature gates on, off and on again (KEP-5284, "Are there any tests for feature
// enablement/disablement?").
func (i *impersonationTests) testGates(t *testing.T) {
	for _, step := range []struct {
		gates   string
		replica *impersonator // nil for a new one
	}{
		{impersonationOn, i.on},
		{impersonationOff, i.off},
		{impersonationOn + ",ConstrainedImpersonation=false", nil},
		{impersonationOff + ",ConstrainedImpersonation=false", nil},
		{impersonationOn, nil},
	} {
		replica := step.replica
		if replica == nil {
			replica = newImpersonator(t, i.on.Sender, step.gates)
		}
		replica.run(t, replica.runner(""), i.Rows[step.gates])
		if step.replica == nil {
			replica.stop()
		}
	}
}

func (i *impersonationTests) testPrivileged(t *testing.T) {
	i.on.run(t, i.on.runner(""), i.Rows["privileged"])
}

// testConditional sends requests with policies of the mode conditional, which have no effect if the mode is off.
func (i *impersonationTests) testConditional(t *testing.T) {
	i.on.run(t, i.on.runner(""), i.Rows["conditional"])
	i.off.run(t, i.off.runner(""), i.Rows["conditional, off"])
}

// testDelegation sends policies that hand on permissions to kube-apiserver.
func (i *impersonationTests) testDelegation(t *testing.T) {
	rows := i.Rows["delegation"]
	runner := &requests.Runner{Sender: i.on.Sender.At(stack.KubeAPIServerURL())}
	runner.Await(t, rows[0])
	runner.Run(t, rows)
}
