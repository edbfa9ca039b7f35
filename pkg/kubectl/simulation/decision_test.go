/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package simulation_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// policies are the policies of a test by their names. The effect comes before the condition: "Allow: true".
type policies map[string]string

// newSource returns compilers, and the source of policies about things.
func newSource(t *testing.T, p policies) (*simulation.Compilers, *engine.Source) {
	t.Helper()
	c, err := simulation.NewCompilers()
	if err != nil {
		t.Fatal(err)
	}
	specs := map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}
	for name, text := range p {
		effect, condition, _ := strings.Cut(text, ":")
		specs[engine.Key{Name: name}] = &policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffect(effect), Condition: strings.TrimSpace(condition), Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"update"}, APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"things"}}},
		}
	}
	source, err := c.SourceOf(specs)
	if err != nil {
		t.Fatal(err)
	}
	return c, source
}

const thing = `{"apiVersion": "v1", "kind": "Thing", "class": "dev"}`

// TestWhatConditionsRead has each part of a request in a condition that is true for it.
func TestWhatConditionsRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, condition string
		other           func(*simulation.Request) // for which the condition is false
	}{
		{"the user", `request.userInfo.username == "alice"`, func(r *simulation.Request) { r.Spec.User = "bob" }},
		{"a group that is added", `"system:serviceaccounts:n" in request.userInfo.groups || request.userInfo.username == "alice"`, func(r *simulation.Request) { r.Spec.User = "system:serviceaccount:m:s" }},
		{"the name in the request", `request.name == "a"`, func(r *simulation.Request) { r.Spec.ResourceAttributes.Name = "b" }},
		{"the namespace", `request.namespace == "n"`, func(r *simulation.Request) { r.Spec.ResourceAttributes.Namespace = "m" }},
		{"the object", `object.class == "dev"`, func(r *simulation.Request) {
			r.Data.Object = raw(`{"apiVersion": "v1", "kind": "Thing", "class": "prod"}`)
		}},
		{"the stored object", `oldObject.class == "old"`, func(r *simulation.Request) { r.Data.OldObject = nil }},
		{"the options", `options.fieldManager == "kubectl"`, func(r *simulation.Request) {
			r.Data.Options = raw(`{"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions"}`)
		}},
		{"the operation", `operation == "UPDATE"`, func(r *simulation.Request) { r.Data.Operation = "CREATE" }},
		{"a dry run", `dryRun`, func(r *simulation.Request) { r.Data.DryRun = false }},
		{"the Namespace", `namespaceObject.metadata.name == "n"`, func(r *simulation.Request) { r.Data.NamespaceObject = nil }},
		{"a permission that the request comes with", `authorizer.group("").resource("secrets").check("get").allowed()`, func(r *simulation.Request) { r.Permissions = nil }},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c, source := newSource(t, policies{"p": "Allow: " + tc.condition})
			r := &simulation.Request{Spec: spec(nil), Data: data(thing), Permissions: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}}
			r.Data.OldObject, r.Data.Options, r.Data.DryRun = raw(`{"apiVersion": "v1", "kind": "Thing", "class": "old"}`), raw(`{"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions", "fieldManager": "kubectl"}`), true
			r.Data.NamespaceObject = raw(`{"metadata": {"name": "n"}}`)
			for _, want := range []answer.Verdict{answer.Yes, answer.No} {
				d, err := c.Decide(t.Context(), source, r)
				if err != nil || d.Outcome != want || d.Last() != want {
					t.Errorf("got %+v, %v, want %s", d, err, want)
				}
				tc.other(r)
			}
		})
	}
}

// TestDecisions checks the decisions in both phases, and what is said about them.
func TestDecisions(t *testing.T) {
	t.Parallel()
	type decisions struct {
		First, Last answer.Verdict
		Policies    []string
		Failed      bool
	}
	masters := func(r *simulation.Request) { r.Spec.Groups = []string{"system:masters"} }
	for _, tc := range []struct {
		name     string
		policies policies
		change   func(*simulation.Request)
		want     decisions
	}{
		{"no policy", nil, nil, decisions{First: answer.No, Last: answer.No}},
		{"an Allow", policies{"a": "Allow"}, nil, decisions{First: answer.Yes, Last: answer.Yes, Policies: []string{"a"}}},
		{"a Deny", policies{"a": "Allow", "d": "Deny"}, nil, decisions{First: answer.No, Last: answer.No, Policies: []string{"d"}}},
		{"a Deny, by a privileged user", policies{"d": "Deny"}, masters, decisions{First: answer.Yes, Last: answer.Yes}},
		{"a condition that is true", policies{"a": `Allow: object.class == "dev"`}, nil, decisions{First: answer.YesIf, Last: answer.Yes, Policies: []string{"a"}}},
		{"a condition without data", policies{"a": `Allow: object.class == "dev"`}, func(r *simulation.Request) { r.Data = nil }, decisions{First: answer.YesIf, Last: answer.YesIf}},
		{"conditions that can only deny", policies{"d": `Deny: object.class == "prod"`}, nil, decisions{First: answer.No, Last: answer.No}},
		{"a condition that fails", policies{"a": `Allow: object.missing == "dev"`}, nil, decisions{First: answer.YesIf, Last: answer.No, Policies: []string{"a"}, Failed: true}},
		{"a condition of a Deny that fails", policies{"a": "Allow", "d": `Deny: object.missing == "dev"`}, nil, decisions{First: answer.YesIf, Last: answer.No, Policies: []string{"d"}, Failed: true}},
		{"two policies", policies{"a": `Allow: object.class == "dev"`, "b": "Allow"}, nil, decisions{First: answer.Yes, Last: answer.Yes, Policies: []string{"b"}}},
		{"NoOpinion", policies{"a": "Allow", "n": `NoOpinion: object.class == "dev"`}, nil, decisions{First: answer.YesIf, Last: answer.No, Policies: []string{"n"}}},
		{"a permission is of the user alone", policies{"a": `Allow: object.class == "dev" && authorizer.serviceAccount("n", "s").group("").resource("secrets").check("get").allowed()`}, func(r *simulation.Request) {
			r.Permissions = []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
		}, decisions{First: answer.YesIf, Last: answer.No, Policies: []string{"a"}}},
		{"a permission of another resource", nil, func(r *simulation.Request) {
			r.Permissions = []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
		}, decisions{First: answer.No, Last: answer.No}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c, source := newSource(t, tc.policies)
			r := &simulation.Request{Spec: spec(nil), Data: data(thing)}
			if tc.change != nil {
				tc.change(r)
			}
			d, err := c.Decide(t.Context(), source, r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, decisions{d.Decision, d.Last(), d.Policies(), d.Failed()}); diff != "" {
				t.Errorf("%s: other decisions (-want +got):\n%s", d.Reason, diff)
			}
			if (d.Err != nil) != tc.want.Failed {
				t.Errorf("got the error %v, want one: %v", d.Err, tc.want.Failed)
			}
		})
	}
}

// TestPolicies names each policy of a reason once.
func TestPolicies(t *testing.T) {
	t.Parallel()
	d := &simulation.Decisions{Entries: []authorization.ReasonEntry{{Name: "policy=b"}, {Name: "policy=n/a"}, {Name: "policy=b", Word: authorization.WordError}}}
	if diff := cmp.Diff([]string{"b", "n/a"}, d.Policies()); diff != "" || !d.Failed() {
		t.Errorf("failed: %v, other policies (-want +got):\n%s", d.Failed(), diff)
	}
}

// TestChecksByAnotherChain decides a request by one chain, and the checks of its conditions by another one, with other permissions.
func TestChecksByAnotherChain(t *testing.T) {
	t.Parallel()
	c, source := newSource(t, policies{"p": `Allow: object.class == "dev" && authorizer.group("").resource("secrets").check("get").allowed()`})
	permissions := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
	with, without := &simulation.Request{Spec: spec(nil), Data: data(thing), Permissions: permissions}, &simulation.Request{Spec: spec(nil), Data: data(thing)}
	for _, tc := range []struct {
		name            string
		request, checks *simulation.Request
		want            answer.Verdict
	}{
		{"the checks have permissions", without, with, answer.Yes},
		{"only the request has permissions", with, without, answer.No},
	} {
		checks, err := simulation.ChainOf(source, tc.checks, nil)
		if err != nil {
			t.Fatal(err)
		}
		chain, err := simulation.ChainOf(source, tc.request, checks)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := c.DecideBy(t.Context(), chain, tc.request); err != nil || d.Outcome != tc.want {
			t.Errorf("%s: got %+v, %v, want %s", tc.name, d, err, tc.want)
		}
	}
}

// TestSimulationConditions shows the conditions of a request. The data do not matter.
func TestSimulationConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		policies policies
		want     []string
	}{
		{"an Allow", policies{"a": "Allow"}, nil},
		{"nothing", nil, nil},
		{"a condition", policies{"a": `Allow: object.class == "dev"`}, []string{`Allow object.class == "dev"`}},
		{"a condition about what is known", policies{"a": `Allow: request.name == "a"`}, nil},
		{"what is known is left out", policies{"a": `Allow: request.name == "a" && object.class == request.namespace`}, []string{`Allow object.class == "n"`}},
		{"a Deny before an Allow", policies{"a": "Allow", "d": `Deny: object.class == "dev"`}, []string{`Deny object.class == "dev"`}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c, source := newSource(t, tc.policies)
			sets, err := c.Conditions(t.Context(), source, &simulation.Request{Spec: spec(nil), Data: data("not an object")})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, set := range sets {
				for _, condition := range set.Conditions {
					got = append(got, string(condition.Effect)+" "+condition.Condition)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("other conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestErrors checks that what cannot be decided is an error that does not quote the data, and no decision.
func TestErrors(t *testing.T) {
	t.Parallel()
	const secret = "c2VjcmV0"
	for _, tc := range []struct {
		name   string
		change func(*authorizationv1alpha1.AuthorizationConditionsRequest)
		absent []cel.Variable
	}{
		{"an object without a kind", func(r *authorizationv1alpha1.AuthorizationConditionsRequest) {
			r.Object = raw(`{"apiVersion": "v1", "a": "` + secret + `"}`)
		}, nil},
		{"a stored object that is a list", func(r *authorizationv1alpha1.AuthorizationConditionsRequest) { r.OldObject = raw(`["` + secret + `"]`) }, nil},
		{"options that are no JSON", func(r *authorizationv1alpha1.AuthorizationConditionsRequest) { r.Options = raw(secret) }, nil},
		{"an empty object", func(r *authorizationv1alpha1.AuthorizationConditionsRequest) { r.Object = raw("") }, nil},
		{"a Namespace that is a text", func(r *authorizationv1alpha1.AuthorizationConditionsRequest) {
			r.NamespaceObject = raw(`"` + secret + `"`)
		}, nil},
		{"an object without a kind, and an absent one", func(r *authorizationv1alpha1.AuthorizationConditionsRequest) { r.Object = raw("{}") }, []cel.Variable{cel.OldObject}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c, source := newSource(t, policies{"p": `Allow: object.class == "dev"`})
			r := &simulation.Request{Spec: spec(nil), Data: data(thing), Absent: tc.absent}
			tc.change(r.Data)
			d, err := c.Decide(t.Context(), source, r)
			if err == nil || d != nil || strings.Contains(err.Error(), secret) {
				t.Errorf("decide: got %+v, %v, want an error", d, err)
			}
			if steps, err := c.Steps(t.Context(), source, r); err == nil || steps != nil || strings.Contains(err.Error(), secret) {
				t.Errorf("steps: got %+v, %v, want an error", steps, err)
			}
		})
	}
	c, err := simulation.NewCompilers()
	if err != nil {
		t.Fatal(err)
	}
	source, err := c.SourceOf(map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{{Namespace: "n", Name: "p"}: {Effect: "Allow", Condition: "object."}})
	if err == nil || !strings.Contains(err.Error(), `AuthorizationPolicy "n/p"`) || source != nil {
		t.Errorf("a policy that does not compile: got %v, %v, want an error with its name", source, err)
	}
}

// TestSimulationSteps shows the opinion of each authorizer, also of those that do not decide, and the policies that match.
func TestSimulationSteps(t *testing.T) {
	t.Parallel()
	c, source := newSource(t, policies{"a": `Allow: object.class == "dev"`, "d": "Deny"})
	for _, tc := range []struct {
		name   string
		change func(*simulation.Request)
		want   []string
	}{
		{"with data", func(*simulation.Request) {}, []string{"always-allow-groups.proviso.dev: no opinion", "deny.policy.proviso.dev: deny d", "kube-apiserver: no opinion", "policy.proviso.dev: allow a", "namespaced.policy.proviso.dev: no opinion"}},
		{"without data", func(r *simulation.Request) { r.Data = nil }, []string{"always-allow-groups.proviso.dev: no opinion", "deny.policy.proviso.dev: deny d", "kube-apiserver: no opinion", "policy.proviso.dev: conditions a?", "namespaced.policy.proviso.dev: no opinion"}},
		{"an object that is absent", func(r *simulation.Request) { r.Data.Object, r.Absent = nil, []cel.Variable{cel.Object} }, []string{"always-allow-groups.proviso.dev: no opinion", "deny.policy.proviso.dev: deny d", "kube-apiserver: no opinion", "policy.proviso.dev: conditions a?", "namespaced.policy.proviso.dev: no opinion"}},
		{"a privileged user with permissions", func(r *simulation.Request) {
			r.Spec.Groups, r.Permissions = []string{"system:masters"}, []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
		}, []string{"always-allow-groups.proviso.dev: allow", "deny.policy.proviso.dev: deny d", "kube-apiserver: allow", "policy.proviso.dev: allow a", "namespaced.policy.proviso.dev: no opinion"}},
		{"a path", func(r *simulation.Request) {
			r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes, r.Data = nil, &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/healthz"}, nil
		}, []string{"always-allow-groups.proviso.dev: no opinion", "deny.policy.proviso.dev: no opinion", "kube-apiserver: no opinion", "policy.proviso.dev: no opinion", "namespaced.policy.proviso.dev: no opinion"}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			r := &simulation.Request{Spec: spec(nil), Data: data(thing)}
			tc.change(r)
			steps, err := c.Steps(t.Context(), source, r)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, step := range steps {
				line := step.Name + ": "
				switch d := step.Decision; {
				case d.IsAllow():
					line += "allow"
				case d.IsDeny():
					line += "deny"
				case d.IsNoOpinion():
					line += "no opinion"
				default:
					line += "conditions"
				}
				for _, p := range step.Policies {
					line += " " + p.Key.Name
				}
				if step.IsUnknown() {
					line += "?"
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("other opinions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEndedContext checks that a decision that is cancelled allows nothing that depends on a condition.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, source := newSource(t, policies{"a": `Allow: object.class == "dev"`})
	if d, err := c.Decide(ctx, source, &simulation.Request{Spec: spec(nil), Data: data(thing)}); err == nil && d.Outcome != answer.No {
		t.Errorf("got %+v, want an error or a denial", d)
	}
}
