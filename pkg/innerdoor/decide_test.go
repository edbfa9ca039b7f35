/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

const (
	allow = policyv1alpha1.PolicyEffectAllow
	deny  = policyv1alpha1.PolicyEffectDeny
	hold  = policyv1alpha1.PolicyEffectNoOpinion
)

// policy is a policy about alice's writes to persistent volume claims.
type policy struct {
	effect    policyv1alpha1.PolicyEffect
	verbs     []string
	names     []string
	resource  string
	condition string
	// enforcement is Enforce if it is empty.
	enforcement policyv1alpha1.PolicyEnforcement
}

func sourceOf(tb testing.TB, policies []policy) *engine.Source {
	tb.Helper()
	source, _ := compiledOf(tb, policies)
	return source
}

// compiledOf returns a source of policies, and the policies.
func compiledOf(tb testing.TB, policies []policy) (*engine.Source, map[engine.Key]*engine.Policy) {
	tb.Helper()
	compiler := compilers.Policies(tb)
	compiled := map[engine.Key]*engine.Policy{}
	for i, p := range policies {
		if p.resource == "" {
			p.resource = "persistentvolumeclaims"
		}
		key := engine.Key{Name: "p" + string(rune('0'+i))}
		var err error
		if compiled[key], err = engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
			Effect: p.effect, Condition: p.condition, Enforcement: p.enforcement, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: p.verbs, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{p.resource}, ResourceNames: p.names}},
		}, compiler); err != nil {
			tb.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	return source, compiled
}

func deciderOf(tb testing.TB, source *engine.Source) *innerdoor.Decider {
	tb.Helper()
	return &innerdoor.Decider{Chain: chainOf(tb, source, nil)}
}

// chainOf returns a chain of policies, whose conditions may ask checks.
func chainOf(tb testing.TB, source *engine.Source, checks *authorization.Chain) *authorization.Chain {
	tb.Helper()
	restricting, granting := &engine.Authorizer{Source: source, Part: engine.Restricting}, &engine.Authorizer{Source: source, Part: engine.Granting}
	if checks != nil {
		restricting.Checks, granting.Checks = checks, checks
	}
	chain, err := authorization.NewChain(
		authorization.Member{Name: engine.RestrictingName, Decider: restricting}, authorization.Member{Name: engine.GrantingName, Decider: granting},
	)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

const (
	devClaim  = `{"metadata": {"name": "c"}, "spec": {"storageClassName": "dev"}}`
	prodClaim = `{"metadata": {"name": "c"}, "spec": {"storageClassName": "prod"}}`
	isDev     = `object.spec.storageClassName == "dev"`
	wasDev    = `oldObject.spec.storageClassName == "dev"`
)

func raw(text string) (extension runtime.RawExtension) {
	if text != "" {
		extension.Raw = []byte(text)
	}
	return extension
}

// claim returns an AdmissionReview's request about alice's claim c in demo.
func claim(operation admissionv1.Operation, object, old string) *admissionv1.AdmissionRequest {
	kind, resource := metav1.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	return &admissionv1.AdmissionRequest{
		UID: "1", Kind: kind, Resource: resource, RequestKind: &kind, RequestResource: &resource,
		Name: "c", Namespace: "demo", Operation: operation, UserInfo: authenticationv1.UserInfo{Username: "alice"},
		Object: raw(object), OldObject: raw(old),
	}
}

func create(object string) *admissionv1.AdmissionRequest {
	return claim(admissionv1.Create, object, "")
}

func update(object, old string) *admissionv1.AdmissionRequest {
	return claim(admissionv1.Update, object, old)
}

func remove(old string) *admissionv1.AdmissionRequest { return claim(admissionv1.Delete, "", old) }

// of changes a request.
func of(request *admissionv1.AdmissionRequest, change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
	change(request)
	return request
}

// about makes a request one about another resource of the core group.
func about(name, subresource string) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) {
		r.Resource.Resource, r.SubResource, r.RequestSubResource = name, subresource, subresource
		resource := r.Resource
		r.RequestResource = &resource
	}
}

func decide(ctx context.Context, d *innerdoor.Decider, request *admissionv1.AdmissionRequest) authorization.Decision {
	write, err := innerdoor.NewWrite(request, nil)
	if err != nil {
		return authorization.Deny("", err)
	}
	return d.Decide(ctx, write)
}

// TestInnerDoorDecide has writes whose way through kube-apiserver is not known at admission, and conditions on their objects.
func TestInnerDoorDecide(t *testing.T) {
	t.Parallel()
	creates := func(condition string) policy {
		return policy{effect: allow, verbs: []string{"create"}, condition: condition}
	}
	for _, tc := range []struct {
		name     string
		policies []policy
		request  *admissionv1.AdmissionRequest
		want     bool
		reason   string
	}{
		{name: "no policy", request: create(devClaim)},
		{name: "create: the condition holds", policies: []policy{creates(isDev)}, request: create(devClaim), want: true},
		{name: "create: the condition is false", policies: []policy{creates(isDev)}, request: create(prodClaim), reason: "policy=p0 reason=NotMet: failed part: " + isDev},
		{name: "create: the condition fails", policies: []policy{creates(isDev)}, request: create(`{"metadata": {}}`), reason: "policy=p0 reason=Error: its condition could not be evaluated: no such key"},
		{name: "create: without a condition", policies: []policy{creates("")}, request: create(prodClaim), want: true},
		{name: "create: a denial with a condition", policies: []policy{creates(""), {effect: deny, verbs: []string{"create"}, condition: isDev}}, request: create(devClaim), reason: "policy=p1 reason=Denied"},
		{name: "create: a denial whose condition is false", policies: []policy{creates(""), {effect: deny, verbs: []string{"create"}, condition: isDev}}, request: create(prodClaim), want: true},
		{name: "create: a denial whose condition fails", policies: []policy{creates(""), {effect: deny, verbs: []string{"create"}, condition: `object.spec.a == 1`}}, request: create(devClaim), reason: "policy=p1 reason=Error"},
		{name: "create: held back", policies: []policy{creates(""), {effect: hold, verbs: []string{"create"}, condition: isDev}}, request: create(devClaim), reason: "policy=p1 reason=HeldBack"},
		{name: "create: by name and patch", policies: []policy{{effect: allow, verbs: []string{"create", "patch"}, names: []string{"c"}, condition: isDev}}, request: create(devClaim), want: true},
		{name: "create: by name, without patch", policies: []policy{{effect: allow, verbs: []string{"create"}, names: []string{"c"}, condition: isDev}}, request: create(devClaim)},
		{name: "create: patch holds, create does not", policies: []policy{{effect: allow, verbs: []string{"create"}, names: []string{"c"}, condition: "!(" + isDev + ")"}, {effect: allow, verbs: []string{"patch"}, condition: isDev}}, request: create(devClaim)},
		{name: "create: a condition on the verb", policies: []policy{{effect: allow, verbs: []string{"create", "patch"}, condition: `request.verb == "patch"`}}, request: create(devClaim)},
		{name: "create: update does not create claims", policies: []policy{{effect: allow, verbs: []string{"create", "update"}, names: []string{"c"}}}, request: create(devClaim)},
		{name: "create: PUT creates services", policies: []policy{{effect: allow, verbs: []string{"create", "update"}, names: []string{"c"}, resource: "services"}}, request: of(create(devClaim), about("services", "")), want: true},
		{name: "create: a denial of update does not deny a POST", policies: []policy{creates(isDev), {effect: deny, verbs: []string{"update"}}}, request: create(devClaim), want: true},

		{name: "update: by update", policies: []policy{{effect: allow, verbs: []string{"update"}, condition: isDev}}, request: update(devClaim, prodClaim), want: true},
		{name: "update: by patch", policies: []policy{{effect: allow, verbs: []string{"patch"}, condition: isDev + " && " + wasDev}}, request: update(devClaim, devClaim), want: true},
		{name: "update: the old object", policies: []policy{{effect: allow, verbs: []string{"update", "patch"}, condition: wasDev}}, request: update(devClaim, prodClaim), reason: "policy=p0 reason=NotMet"},
		{name: "update: one denied, the other not allowed", policies: []policy{{effect: deny, verbs: []string{"update"}}, {effect: allow, verbs: []string{"patch"}, condition: isDev}}, request: update(prodClaim, devClaim)},
		{name: "update: create is another verb", policies: []policy{creates("")}, request: update(devClaim, devClaim)},
		{name: "update: a subresource", policies: []policy{{effect: allow, verbs: []string{"update"}, resource: "persistentvolumeclaims/status", condition: isDev}}, request: of(update(devClaim, devClaim), about("persistentvolumeclaims", "status")), want: true},
		{name: "update: the object is not its subresource", policies: []policy{{effect: allow, verbs: []string{"update", "patch"}}}, request: of(update(devClaim, devClaim), about("persistentvolumeclaims", "status"))},

		{name: "delete: the condition holds", policies: []policy{{effect: allow, verbs: []string{"delete"}, condition: wasDev}}, request: remove(devClaim), want: true},
		{name: "delete: the condition is false", policies: []policy{{effect: allow, verbs: []string{"delete"}, condition: wasDev}}, request: remove(prodClaim)},
		{name: "delete: a collection is another verb", policies: []policy{{effect: allow, verbs: []string{"deletecollection"}}}, request: remove(devClaim)},
		{name: "collection: object by object", policies: []policy{{effect: allow, verbs: []string{"deletecollection"}, condition: wasDev}}, request: of(remove(devClaim), func(r *admissionv1.AdmissionRequest) { r.Name = "" }), want: true},
		{name: "collection: delete is another verb", policies: []policy{{effect: allow, verbs: []string{"delete"}}}, request: of(remove(devClaim), func(r *admissionv1.AdmissionRequest) { r.Name = "" })},

		{name: "collection: a condition on a selector, which is not seen", policies: []policy{{effect: allow, verbs: []string{"deletecollection"}, condition: `request.labelSelector.requirements.size() == 0 || ` + wasDev}}, request: of(remove(devClaim), func(r *admissionv1.AdmissionRequest) { r.Name = "" })},
		{name: "create: a condition on the path, which is not seen", policies: []policy{creates(`request.path == "" || ` + isDev)}, request: create(devClaim)},
		{name: "create: a denial on the path", policies: []policy{creates(isDev), {effect: deny, verbs: []string{"create"}, condition: `request.path == ""`}}, request: create(devClaim), reason: "policy=p1 reason=Denied"},

		{name: "another user", policies: []policy{creates("")}, request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "bob" })},
		{name: "another version", policies: []policy{creates("")}, request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) {
			r.Resource.Version = "v2"
			r.RequestResource = &r.Resource
		})},
		{name: "another group", policies: []policy{creates("")}, request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) {
			r.Resource.Group = "example.com"
			r.RequestResource = &r.Resource
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := decide(t.Context(), deciderOf(t, sourceOf(t, tc.policies)), tc.request)
			if got.IsAllow() != tc.want || !got.IsUnconditional() || !tc.want && !got.IsDeny() {
				t.Errorf("got Allow %t, Deny %t (%s: %v), want Allow %t", got.IsAllow(), got.IsDeny(), got.Reason(), got.Err(), tc.want)
			}
			if !strings.Contains(got.Reason(), tc.reason) {
				t.Errorf("got the reason %q, want %q", got.Reason(), tc.reason)
			}
		})
	}
}

// TestChecksSeeTheirPaths has conditions that ask for authorization for a path, which an Allow policy grants by the path: the path
// of the write is not seen at admission, and the path of the check is.
func TestChecksSeeTheirPaths(t *testing.T) {
	t.Parallel()
	const isQuarantined = `authorizer.path("/quarantine/alice").check("get").allowed()`
	compiler := compilers.Policies(t)
	creates := policyv1alpha1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumeclaims"}}
	gets := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/quarantine/*"}}
	for _, tc := range []struct {
		name  string
		specs []policyv1alpha1.AuthorizationPolicySpec
	}{
		{name: "NoOpinion", specs: []policyv1alpha1.AuthorizationPolicySpec{
			{Effect: allow, Condition: isDev, Rules: []policyv1alpha1.PolicyRule{creates}}, {Effect: hold, Condition: isQuarantined, Rules: []policyv1alpha1.PolicyRule{creates}}}},
		{name: "Deny", specs: []policyv1alpha1.AuthorizationPolicySpec{
			{Effect: allow, Condition: isDev, Rules: []policyv1alpha1.PolicyRule{creates}}, {Effect: deny, Condition: isQuarantined, Rules: []policyv1alpha1.PolicyRule{creates}}}},
		{name: "Allow unless", specs: []policyv1alpha1.AuthorizationPolicySpec{
			{Effect: allow, Condition: isDev + " && !" + isQuarantined, Rules: []policyv1alpha1.PolicyRule{creates}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			compiled := map[engine.Key]*engine.Policy{}
			for i, spec := range append(slices.Clone(tc.specs), policyv1alpha1.AuthorizationPolicySpec{Effect: allow, Condition: `request.path == "/quarantine/alice"`, Rules: []policyv1alpha1.PolicyRule{gets}}) {
				spec.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}}
				key := engine.Key{Name: "p" + string(rune('0'+i))}
				p, err := engine.New(key, &spec, compiler)
				if err != nil {
					t.Fatal(err)
				}
				compiled[key] = p
			}
			source := &engine.Source{}
			source.Publish(engine.NewBuilder().Apply(compiled))
			decider := &innerdoor.Decider{Chain: chainOf(t, source, chainOf(t, source, nil))}
			if got := decide(t.Context(), decider, create(devClaim)); got.IsAllow() {
				t.Errorf("got Allow (%s), want a refusal: alice may get the path", got.Reason())
			}
		})
	}
}

// TestRefused has requests that the inner door must not be asked about, or that are not as kube-apiserver sends them. A policy
// allows alice everything.
func TestRefused(t *testing.T) {
	t.Parallel()
	decider := deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"*"}, resource: "*"}, {effect: allow, verbs: []string{"*"}, resource: "*/*"}}))
	const secret = "s3cr3t"
	for _, tc := range []struct {
		name    string
		request *admissionv1.AdmissionRequest
	}{
		{name: "an empty request", request: &admissionv1.AdmissionRequest{}},
		{name: "no requestResource", request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.RequestResource = nil })},
		{name: "no requestKind", request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.RequestKind = nil })},
		{name: "objects of another version", request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.Resource.Version = "v2" })},
		{name: "objects of another resource", request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "secrets" })},
		{name: "another requestSubResource", request: of(update(devClaim, devClaim), func(r *admissionv1.AdmissionRequest) { r.RequestSubResource = "status" })},
		{name: "a connection", request: of(claim(admissionv1.Connect, devClaim, ""), about("pods", "exec"))},
		{name: "no operation", request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.Operation = "" })},
		{name: "another operation", request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.Operation = "create" })},
		{name: "an eviction", request: of(create(devClaim), about("pods", "eviction"))},
		{name: "a create of a subresource", request: of(create(devClaim), about("pods", "status"))},
		{name: "a create without an object", request: create("")},
		{name: "a create of null", request: create("null")},
		{name: "a create with an old object", request: claim(admissionv1.Create, devClaim, devClaim)},
		{name: "an update without the old object", request: update(devClaim, "")},
		{name: "an update without the object", request: update("", devClaim)},
		{name: "a delete without the old object", request: remove("")},
		{name: "a delete with an object", request: claim(admissionv1.Delete, devClaim, devClaim)},
		{name: "a list", request: create(`["` + secret + `"]`)},
		{name: "a number", request: create(`1`)},
		{name: "not JSON", request: create(`{"a": "` + secret)},
		{name: "two objects", request: create(devClaim + devClaim)},
		{name: "options that are a list", request: of(create(devClaim), func(r *admissionv1.AdmissionRequest) { r.Options.Raw = []byte(`["` + secret + `"]`) })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := decide(t.Context(), decider, tc.request)
			if !got.IsDeny() || got.Reason() == "" && got.Err() == nil {
				t.Errorf("got Allow %t (%s: %v), want Deny with a reason", got.IsAllow(), got.Reason(), got.Err())
			}
			if err := got.Err(); strings.Contains(got.Reason(), secret) || err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the reason quotes the object: %s: %v", got.Reason(), err)
			}
		})
	}
	if got := decide(t.Context(), decider, create(devClaim)); !got.IsAllow() {
		t.Errorf("a good request is refused as well: %s: %v", got.Reason(), got.Err())
	}
}

// deciderFunc decides all requests.
type deciderFunc func(context.Context, authorizer.Attributes) authorization.Decision

func (f deciderFunc) Decide(ctx context.Context, a authorizer.Attributes) authorization.Decision {
	return f(ctx, a)
}

// TestOneMoment changes the policies between the checks of one write: both must be decided from the same policies.
func TestOneMoment(t *testing.T) {
	t.Parallel()
	both := policy{effect: allow, verbs: []string{"create", "patch"}, names: []string{"c"}}
	source := sourceOf(t, []policy{both})
	none := sourceOf(t, nil)
	changes := deciderFunc(func(context.Context, authorizer.Attributes) authorization.Decision {
		source.Publish(none.Snapshot())
		return authorization.NoOpinion("", nil)
	})
	chain, err := authorization.NewChain(
		authorization.Member{Name: "changes", Decider: changes},
		authorization.Member{Name: engine.GrantingName, Decider: &engine.Authorizer{Source: source, Part: engine.Granting}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if got := decide(t.Context(), &innerdoor.Decider{Chain: chain}, create(devClaim)); !got.IsAllow() {
		t.Errorf("got %s: %v, want Allow by the policies at the begin", got.Reason(), got.Err())
	}
	if got := decide(t.Context(), &innerdoor.Decider{Chain: chain}, create(devClaim)); got.IsAllow() {
		t.Error("the next write is allowed by policies that are gone")
	}
}

// TestAuthorizersAreAskedForConditions asks authorizers, such as webhooks, for conditions, and has them evaluated.
func TestAuthorizersAreAskedForConditions(t *testing.T) {
	t.Parallel()
	chain, err := authorization.NewChain(authorization.Member{Name: "example.com", Decider: deciderFunc(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
		if authorization.RequestOf(a).Mode == "" {
			return authorization.Deny("no conditions are wanted", nil)
		}
		return authorization.Conditions(authorization.Condition{
			ID: "example.com/small", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: `object.spec == "small"`,
			EvaluateFunc: func(_ context.Context, data authorizer.ConditionsData) authorization.Outcome {
				return authorization.Bool(data.GetObject().(*unstructured.Unstructured).Object["spec"] == "small")
			},
		})
	})})
	if err != nil {
		t.Fatal(err)
	}
	for object, want := range map[string]bool{`{"spec": "small"}`: true, `{"spec": "big"}`: false} {
		if got := decide(t.Context(), &innerdoor.Decider{Chain: chain}, create(object)); got.IsAllow() != want {
			t.Errorf("%s: got %s", object, got.Reason())
		}
	}
}

// TestNothingOpens has decisions that end early.
func TestNothingOpens(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	always := deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"create"}}}))
	if got := decide(ended, always, create(devClaim)); !got.IsDeny() || !errors.Is(got.Err(), context.Canceled) {
		t.Errorf("after the end of the context: got %s: %v, want Deny", got.Reason(), got.Err())
	}
	if got := decide(t.Context(), deciderOf(t, &engine.Source{}), create(devClaim)); !got.IsDeny() {
		t.Error("a write is not denied before policies are loaded")
	}
	panics := deciderFunc(func(context.Context, authorizer.Attributes) authorization.Decision { panic("s3cr3t") })
	chain, err := authorization.NewChain(authorization.Member{Name: "panics", Decider: panics})
	if err != nil {
		t.Fatal(err)
	}
	if got := decide(t.Context(), &innerdoor.Decider{Chain: chain}, create(devClaim)); !got.IsDeny() || strings.Contains(got.Reason()+got.Err().Error(), "s3cr3t") {
		t.Errorf("after a panic: got %s: %v, want Deny without the value", got.Reason(), got.Err())
	}
	costly := `object.metadata.a.all(x, object.metadata.a.all(y, object.metadata.a.all(z, x + y + z >= 0)))`
	numbers, err := json.Marshal(map[string]any{"metadata": map[string]any{"a": make([]int, 3000)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := decide(t.Context(), deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"create"}, condition: costly}})), create(string(numbers))); !got.IsDeny() {
		t.Error("a condition over its budget does not deny")
	}
}

// TestOthersAreAskedLast has an authorizer that asks kube-apiserver: it is only asked about what policies leave open, and objects
// are only decoded if they could matter.
func TestOthersAreAskedLast(t *testing.T) {
	t.Parallel()
	const broken = `{"metadata": `
	dev := policy{effect: allow, verbs: []string{"create"}, condition: isDev}
	for _, tc := range []struct {
		name      string
		policies  []policy
		allows    []string
		request   *admissionv1.AdmissionRequest
		want      bool
		wantAsked []string
		reason    string
	}{
		{name: "a policy allows", policies: []policy{dev}, request: create(devClaim), want: true},
		{name: "a condition is false", policies: []policy{dev}, request: create(prodClaim), wantAsked: []string{"create ", "patch c"}, reason: "policy=p0 reason=NotMet"},
		{name: "a condition is false, and RBAC allows", policies: []policy{dev}, allows: []string{"create "}, request: create(prodClaim), want: true, wantAsked: []string{"create "}},
		{name: "RBAC allows another name", allows: []string{"create d", "patch d"}, request: create(devClaim), wantAsked: []string{"create ", "create c"}, reason: "no policy and no other authorizer allows it"},
		{name: "RBAC allows PATCH that creates", allows: []string{"create c", "patch c"}, request: create(devClaim), want: true, wantAsked: []string{"create ", "create c", "patch c"}},
		{name: "a denial", policies: []policy{{effect: deny, verbs: []string{"create"}}}, allows: []string{"create ", "create c", "patch c"}, request: create(devClaim), reason: "policy=p0 reason=Denied"},
		{name: "a denial on a condition that is true", policies: []policy{{effect: deny, verbs: []string{"create"}, condition: isDev}}, allows: []string{"create "}, request: create(devClaim), wantAsked: []string{"create ", "create c"}, reason: "policy=p0 reason=Denied"},
		{name: "a denial on a condition that is false", policies: []policy{{effect: deny, verbs: []string{"create"}, condition: isDev}}, allows: []string{"create "}, request: create(prodClaim), want: true, wantAsked: []string{"create "}},
		{name: "RBAC allows patch, and not update", allows: []string{"patch c"}, request: update(devClaim, devClaim), want: true, wantAsked: []string{"update c", "patch c"}},
		{name: "RBAC and policies each allow half of a PATCH", policies: []policy{{effect: allow, verbs: []string{"patch"}, condition: isDev}}, allows: []string{"create c"}, request: create(devClaim), want: true, wantAsked: []string{"create ", "create c"}},
		{name: "an object that is not decoded", request: create(broken), wantAsked: []string{"create ", "create c"}, reason: "no policy and no other authorizer allows it"},
		{name: "an object that cannot be decoded", allows: []string{"create "}, request: create(broken), wantAsked: []string{"create ", "create c"}, reason: "object: is not a JSON object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			others := deciderFunc(func(_ context.Context, a authorizer.Attributes) authorization.Decision {
				question := a.GetVerb() + " " + a.GetName()
				asked = append(asked, question)
				if slices.Contains(tc.allows, question) {
					return authorization.Allow("RBAC", nil)
				}
				return authorization.NoOpinion("", nil)
			})
			source := sourceOf(t, tc.policies)
			chain, err := authorization.NewChain(
				authorization.Member{Name: engine.RestrictingName, Decider: &engine.Authorizer{Source: source, Part: engine.Restricting}},
				authorization.Member{Name: engine.GrantingName, Decider: &engine.Authorizer{Source: source, Part: engine.Granting}},
				authorization.Member{Name: "others", Decider: others},
			)
			if err != nil {
				t.Fatal(err)
			}
			got := decide(t.Context(), &innerdoor.Decider{Chain: chain}, tc.request)
			if got.IsAllow() != tc.want || !tc.want && !got.IsDeny() || !strings.Contains(got.Reason(), tc.reason) {
				t.Errorf("got Allow %t (%s: %v), want %t (%s)", got.IsAllow(), got.Reason(), got.Err(), tc.want, tc.reason)
			}
			if !slices.Equal(asked, tc.wantAsked) {
				t.Errorf("asked %q, want %q", asked, tc.wantAsked)
			}
		})
	}
}

// TestInnerDoorOwners has the admission plugin OwnerReferencesPermissionEnforcement: an update that changes the owners needs delete, too.
func TestInnerDoorOwners(t *testing.T) {
	t.Parallel()
	const (
		one  = `{"metadata": {"name": "c", "ownerReferences": [{"uid": "1"}]}}`
		two  = `{"metadata": {"name": "c", "ownerReferences": [{"uid": "1"}, {"uid": "2"}]}}`
		none = `{"metadata": {"name": "c", "ownerReferences": []}}`
		odd  = `{"metadata": {"name": "c", "ownerReferences": {"uid": "1"}}}`
		bare = `{"metadata": {"name": "c"}}`
	)
	updates := policy{effect: allow, verbs: []string{"patch"}}
	deletes := policy{effect: allow, verbs: []string{"delete"}, condition: `oldObject.metadata.name == "c"`}
	never := policy{effect: allow, verbs: []string{"delete"}, condition: `oldObject.metadata.name == "d"`}
	for _, tc := range []struct {
		name        string
		old, object string
		policies    []policy
		without     bool
		want        bool
	}{
		{name: "the same owners", old: one, object: one, policies: []policy{updates}, want: true},
		{name: "no owners", old: bare, object: none, policies: []policy{updates}, want: true},
		{name: "another owner", old: one, object: two, policies: []policy{updates}},
		{name: "the first owner", old: bare, object: one, policies: []policy{updates}},
		{name: "the last owner", old: one, object: none, policies: []policy{updates}},
		{name: "owners that are no list", old: odd, object: odd, policies: []policy{updates}},
		{name: "another owner, with delete", old: one, object: two, policies: []policy{updates, deletes}, want: true},
		{name: "another owner, with delete on a condition that is false", old: one, object: two, policies: []policy{updates, never}},
		{name: "another owner, without the plugin", old: one, object: two, policies: []policy{updates}, without: true, want: true},
		{name: "delete alone", old: one, object: two, policies: []policy{deletes}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			decider := deciderOf(t, sourceOf(t, tc.policies))
			decider.OwnerReferences = !tc.without
			if got := decide(t.Context(), decider, update(tc.object, tc.old)); got.IsAllow() != tc.want {
				t.Errorf("got Allow %t (%s: %v), want %t", got.IsAllow(), got.Reason(), got.Err(), tc.want)
			}
		})
	}
	decider := deciderOf(t, sourceOf(t, []policy{{effect: allow, verbs: []string{"create"}}}))
	decider.OwnerReferences = true
	if got := decide(t.Context(), decider, create(one)); !got.IsAllow() {
		t.Errorf("a create with an owner: got %s, want Allow: the plugin asks nothing", got.Reason())
	}
}

// FuzzDecide has any text as a request of an AdmissionReview: no panic, and never Allow, because no policy allows anything.
func FuzzDecide(f *testing.F) {
	for _, request := range []*admissionv1.AdmissionRequest{create(devClaim), update(devClaim, prodClaim), remove(devClaim), of(create("{}"), about("namespaces", "")), {}} {
		text, err := json.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, body := range recorded(f) {
		var review struct{ Request json.RawMessage }
		if err := json.Unmarshal(body, &review); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(strings.Replace(string(review.Request), `"dana"`, `"alice"`, 1)))
	}
	decider := deciderOf(f, sourceOf(f, []policy{{effect: allow, verbs: []string{"*"}, resource: "*", condition: "object.metadata.never == oldObject.metadata.never && false"}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		request := &admissionv1.AdmissionRequest{}
		if json.Unmarshal(text, request) != nil {
			return
		}
		if got := decide(t.Context(), decider, request); !got.IsDeny() {
			t.Errorf("got %s: %v, want Deny", got.Reason(), got.Err())
		}
	})
}
