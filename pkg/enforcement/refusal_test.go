/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/proviso-authz/proviso/apis/demo"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// getter is the name of a policy about reading. All others are about every verb.
const getter = "get"

// policiesOf is the chain of a server with policies about all machines.
func policiesOf(tb testing.TB, policies map[engine.Key]policyv1alpha1.AuthorizationPolicySpec) *authorization.Chain {
	tb.Helper()
	compiler := compilers.Policies(tb)
	compiled := map[engine.Key]*engine.Policy{}
	for key, spec := range policies {
		verbs := []string{"*"}
		if key.Name == getter {
			verbs = []string{"get"}
		}
		spec.Rules = []policyv1alpha1.PolicyRule{{Verbs: verbs, APIGroups: []string{demo.GroupName}, Resources: []string{"*"}}}
		if spec.Effect == policyv1alpha1.PolicyEffectAllow {
			spec.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}}
		}
		var err error
		if compiled[key], err = engine.New(key, &spec, compiler); err != nil {
			tb.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	chain, err := authorization.NewChain(
		authorization.Member{Name: "deny", Decider: &engine.Authorizer{Source: source, Part: engine.Restricting}},
		authorization.Member{Name: "cluster", Decider: &engine.Authorizer{Source: source, Part: engine.GrantingCluster}},
		authorization.Member{Name: "namespaced", Decider: &engine.Authorizer{Source: source, Part: engine.GrantingNamespaced}},
	)
	if err != nil {
		tb.Fatal(err)
	}
	return chain
}

// mutating is an admission chain that changes machines before it evaluates the conditions.
type mutating struct {
	mutate func(*demo.VirtualMachine)
}

var (
	_ admission.MutationInterface   = mutating{}
	_ admission.ValidationInterface = mutating{}
)

func (m mutating) Handles(admission.Operation) bool { return true }

func (m mutating) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if machine, ok := a.GetObject().(*demo.VirtualMachine); ok && m.mutate != nil {
		m.mutate(machine)
	}
	return nil
}

func (m mutating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return enforcement.Enforce(ctx, a, o)
}

// refused sends a request through admission, and returns the reason of its refusal, without the words before it, and the
// one in the audit event.
func refused(t *testing.T, policies map[engine.Key]policyv1alpha1.AuthorizationPolicySpec, method, path string, to admission.Operation, mutate func(*demo.VirtualMachine), change func(*target)) (reason, audited string) {
	t.Helper()
	r := newRig(t, rigConfig{chain: policiesOf(t, policies), storages: storages, admission: mutating{mutate}, behind: func(ctx context.Context, r *rig) error {
		target := targetOf(ctx)
		change(target)
		attributes, objects := target.attributes(to), admission.NewObjectInterfacesFromScheme(scheme)
		if err := r.admission.(admission.MutationInterface).Admit(ctx, attributes, objects); err != nil {
			return err
		}
		return r.admission.(admission.ValidationInterface).Validate(ctx, attributes, objects)
	}})
	got := r.send(method, machines+path)
	var status metav1.Status
	if err := json.Unmarshal(got.Body.Bytes(), &status); err != nil || got.Code != http.StatusForbidden {
		t.Fatalf("got %d %s, want a refusal", got.Code, got.Body)
	}
	_, reason, _ = strings.Cut(status.Message, `in the namespace "n": `)
	return reason, r.annotations()["authorization.proviso.dev/reason"]
}

// TestEnforcementRefusals asks that a refusal names the policies that decided, each once, with the part of the condition that is
// false, and nothing else; and values only if they are the user's own.
func TestEnforcementRefusals(t *testing.T) {
	t.Parallel()
	const (
		allow, deny, hold = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion

		class  = `object.spec.storageClassName == "dev"`
		failed = "policy=n/class reason=NotMet: dev machines only: failed part: " + class
		sent   = `; the request has object.spec.storageClassName = "prod"`
	)
	type (
		spec     = policyv1alpha1.AuthorizationPolicySpec
		policies = map[engine.Key]spec
	)
	ofClass := func(condition string, variables ...policyv1alpha1.Variable) policies {
		return policies{{Namespace: "n", Name: "class"}: {Effect: allow, Description: "dev machines only", Condition: condition, Variables: variables}}
	}
	with := func(base policies, key engine.Key, s spec) policies {
		base[key] = s
		return base
	}
	for _, tc := range []struct {
		name     string
		policies policies
		patch    bool
		resource string
		mutate   func(*demo.VirtualMachine)
		class    string
		want     string
		audited  string // want if empty
	}{
		{name: "the whole condition", policies: ofClass(class), want: failed + sent, audited: failed},
		{name: "one of two parts", policies: ofClass(class + ` && object.spec.image == "i"`), want: failed + sent, audited: failed},
		{name: "the other part", policies: ofClass(`object.spec.image == "i" && ` + class), want: failed + sent, audited: failed},
		{name: "in parentheses, on several lines", policies: ofClass("(object.spec.image == 'i'\n  && // the class\n" + class + ")"), want: failed + sent, audited: failed},
		{name: "a part that is no conjunction", policies: ofClass(`object.spec.image == "i" && (` + class + ` || object.spec.image == "")`), want: strings.Replace(failed, class, class+` || object.spec.image == ""`, 1) + sent + `, object.spec.image = "i"`, audited: strings.Replace(failed, class, class+` || object.spec.image == ""`, 1)},
		{name: "a variable", policies: ofClass("variables.ok", policyv1alpha1.Variable{Name: "ok", Expression: `object.spec.image == "i" && ` + class}), want: failed + sent, audited: failed},
		{name: "a part that fails before", policies: ofClass(`object.spec.nodeName == "x" && ` + class), want: failed + sent, audited: failed},
		{name: "a field that is not sent", policies: ofClass(`object.spec.?nodeName.orValue("") == "x"`), want: `policy=n/class reason=NotMet: dev machines only: failed part: object.spec.?nodeName.orValue("") == "x"; the request has object.spec.nodeName not set`, audited: `policy=n/class reason=NotMet: dev machines only: failed part: object.spec.?nodeName.orValue("") == "x"`},
		{name: "a label", policies: ofClass(`object.metadata.labels["example.com/team"] == "a"`), want: `policy=n/class reason=NotMet: dev machines only: failed part: object.metadata.labels["example.com/team"] == "a"; the request has object.metadata.labels["example.com/team"] = "b"`, audited: `policy=n/class reason=NotMet: dev machines only: failed part: object.metadata.labels["example.com/team"] == "a"`},
		{name: "a list", policies: ofClass(`"x" in object.spec.tags`), want: `policy=n/class reason=NotMet: dev machines only: failed part: "x" in object.spec.tags`},
		{name: "a long value", policies: ofClass(class), class: strings.Repeat("x", 65), want: failed},
		{name: "a value that a plugin has set", policies: ofClass(class), mutate: func(vm *demo.VirtualMachine) { vm.Spec.StorageClassName = "of-the-plugin" }, want: failed},
		{name: "a patch, whose object has stored parts", policies: ofClass(class), patch: true, want: "the request is allowed only on conditions, and it is invalid or does not meet them (details are shown to users who may get the object): policy=n/class (dev machines only)", audited: failed},
		{name: "the request is put in", policies: ofClass(`object.spec.storageClassName == request.userInfo.username || request.userInfo.username in ["secret-user"]`), want: `policy=n/class reason=NotMet: dev machines only: failed part: object.spec.storageClassName == "alice"` + sent, audited: `policy=n/class reason=NotMet: dev machines only: failed part: object.spec.storageClassName == "alice"`},

		{name: "a policy that selects others", policies: with(ofClass(class), engine.Key{Name: "other"}, spec{Effect: allow, Condition: `request.userInfo.username == "bob" && ` + class}), want: failed + sent, audited: failed},
		{name: "a policy that selects others, alone", policies: with(ofClass(class), engine.Key{Namespace: "n", Name: "class"}, spec{Effect: allow, Condition: `request.resource == "pods"`}), want: "-"},
		{name: "a Deny policy that is false", policies: with(ofClass(class), engine.Key{Name: "other"}, spec{Effect: deny, Condition: `object.spec.image == "j"`}), want: failed + sent, audited: failed},
		{name: "a Deny policy that is true", policies: with(ofClass(class), engine.Key{Name: "other"}, spec{Effect: deny, Description: "not this", Condition: `object.spec.image == "i"`}), want: "policy=other reason=Denied: not this"},
		{name: "a Deny policy that fails", policies: with(ofClass(class), engine.Key{Name: "other"}, spec{Effect: deny, Description: "not this", Condition: `object.spec.nodeName == "i"`}), want: "policy=other reason=Error: not this: its condition could not be evaluated: no such key: nodeName"},
		{name: "a NoOpinion policy, in both places", policies: with(with(ofClass(class), engine.Key{Name: "also"}, spec{Effect: allow, Condition: class}), engine.Key{Name: "other"}, spec{Effect: hold, Description: "held", Condition: `object.spec.image == "i"`}), want: "policy=other reason=HeldBack: held"},
		{name: "a NoOpinion policy that fails", policies: with(with(ofClass(class), engine.Key{Name: "also"}, spec{Effect: allow, Condition: class}), engine.Key{Name: "other"}, spec{Effect: hold, Description: "held", Condition: `object.spec.nodeName == "i"`}), want: "policy=other reason=Error: held: its condition could not be evaluated: no such key: nodeName"},
		{name: "an Allow policy that fails", policies: with(ofClass(class), engine.Key{Name: "other"}, spec{Effect: allow, Condition: `object.spec.nodeName == "i"`}), want: "policy=other reason=Error: its condition could not be evaluated: no such key: nodeName; " + failed + sent, audited: "policy=other reason=Error: its condition could not be evaluated: no such key: nodeName; " + failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			vm := &demo.VirtualMachine{
				ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"example.com/team": "b"}},
				Spec:       demo.VirtualMachineSpec{Image: "i", StorageClassName: "prod", Tags: []string{"t"}},
			}
			if tc.class != "" {
				vm.Spec.StorageClassName = tc.class
			}
			method, path, operation := http.MethodPost, "", admission.Create
			if tc.patch {
				method, path, operation = http.MethodPatch, "/x", admission.Update
			}
			got, audited := refused(t, tc.policies, method, path, operation, tc.mutate, func(to *target) {
				to.object = vm
				if tc.patch {
					to.old = vm.DeepCopy()
				}
			})
			if tc.want == "-" {
				if strings.Contains(got, "policy=") {
					t.Errorf("got %s, want no policy", got)
				}
				return
			}
			if tc.audited == "" {
				tc.audited = tc.want
			}
			if got != tc.want || audited != tc.audited {
				t.Errorf("got\n%s\naudited\n%s\nwant\n%s\naudited\n%s", got, audited, tc.want, tc.audited)
			}
		})
	}
}

// TestSentValues asks which requests have values in their refusals: none but creates of what is no Secret.
func TestSentValues(t *testing.T) {
	t.Parallel()
	policies := map[engine.Key]policyv1alpha1.AuthorizationPolicySpec{
		{Name: "class"}: {Effect: policyv1alpha1.PolicyEffectAllow, Condition: `object.spec.storageClassName == "dev"`},
		{Name: getter}:  {Effect: policyv1alpha1.PolicyEffectAllow},
	}
	for _, tc := range []struct {
		name, method, path string
		operation          admission.Operation
		creates            bool // the update turns into a create
		want               bool
	}{
		{name: "a create", method: http.MethodPost, path: machines, operation: admission.Create, want: true},
		{name: "a create of a Secret", method: http.MethodPost, path: strings.Replace(machines, "virtualmachines", "secrets", 1), operation: admission.Create},
		{name: "a connection", method: http.MethodPost, path: machines, operation: admission.Connect},
		{name: "an update", method: http.MethodPut, path: machines + "/x", operation: admission.Update},
		{name: "a patch", method: http.MethodPatch, path: machines + "/x", operation: admission.Update},
		{name: "an update that creates", method: http.MethodPut, path: machines + "/x", operation: admission.Create, creates: true},
		{name: "a patch that creates", method: http.MethodPatch, path: machines + "/x", operation: admission.Create, creates: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			vm := &demo.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: demo.VirtualMachineSpec{StorageClassName: "prod"}}
			served := map[string]rest.Storage{"virtualmachines": storages["virtualmachines"], "secrets": storages["virtualmachines"]}
			r := newRig(t, rigConfig{chain: policiesOf(t, policies), storages: served, admission: mutating{}, behind: func(ctx context.Context, r *rig) error {
				to := targetOf(ctx)
				to.object = vm
				if tc.operation == admission.Update {
					to.old = vm.DeepCopy()
				}
				if tc.creates {
					if decision, _, err := r.handlers.Authorize(ctx, attributesOf(ctx, "create")); decision != authorizer.DecisionAllow {
						t.Errorf("the create is not allowed on conditions: %v", err)
					}
				}
				attributes, objects := to.attributes(tc.operation), admission.NewObjectInterfacesFromScheme(scheme)
				if err := r.admission.(admission.MutationInterface).Admit(ctx, attributes, objects); err != nil {
					return err
				}
				return r.admission.(admission.ValidationInterface).Validate(ctx, attributes, objects)
			}})
			got := r.send(tc.method, tc.path)
			if body := got.Body.String(); got.Code != http.StatusForbidden || !strings.Contains(body, "policy=class reason=NotMet: failed part: ") || strings.Contains(body, "prod") != tc.want {
				t.Errorf("got %d %s, want a refusal with the value: %t", got.Code, body, tc.want)
			}
			if reason := r.annotations()["authorization.proviso.dev/reason"]; !strings.Contains(reason, "policy=class reason=NotMet") || strings.Contains(reason, "prod") {
				t.Errorf("the audit event has the reason %q, want one without the value", reason)
			}
		})
	}
}

// TestRefusalsAreBounded has many policies with long descriptions refuse a request.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	policies := map[engine.Key]policyv1alpha1.AuthorizationPolicySpec{}
	for i := range 20 {
		policies[engine.Key{Name: string(rune('a' + i))}] = policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectAllow, Description: strings.Repeat("ä", 500), Condition: `object.spec.image == "` + strings.Repeat("ö", 300) + `"`,
		}
	}
	got, audited := refused(t, policies, http.MethodPost, "", admission.Create, nil, func(to *target) {
		to.object = &demo.VirtualMachine{Spec: demo.VirtualMachineSpec{Image: "i"}}
	})
	if len(got) > 4096 || len(audited) > 4096 || !strings.HasSuffix(got, `; the request has object.spec.image = "i"`) {
		t.Errorf("got %d and %d bytes: %s", len(got), len(audited), got)
	}
}

// TestRefusalsWithLongFields has a false condition read fields with long names, which together are longer than a reason may be.
func TestRefusalsWithLongFields(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"long": 300, "very long": 5000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := map[engine.Key]policyv1alpha1.AuthorizationPolicySpec{
				{Name: "p"}: {Effect: policyv1alpha1.PolicyEffectAllow, Condition: `object.metadata.?labels["` + strings.Repeat("a", length) + `"].orValue("") == "x" || object.spec.image == "j"`},
			}
			got, _ := refused(t, policies, http.MethodPost, "", admission.Create, nil, func(to *target) {
				to.object = &demo.VirtualMachine{Spec: demo.VirtualMachineSpec{Image: "i"}}
			})
			if len(got) > 4096 || !strings.HasPrefix(got, "policy=p reason=NotMet: failed part: object.metadata.") || !strings.HasSuffix(got, `; the request has object.spec.image = "i"`) {
				t.Errorf("got %d bytes: %s", len(got), got)
			}
		})
	}
}

// TestSecretValues asks that a refusal shows no value of a field that may be a secret, and none that looks like a reason.
func TestSecretValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, label, value string
		want               bool
	}{
		{"a team", "example.com/team", "shown", true},
		{"a password", "example.com/db-password", "hunter2", false},
		{"in other letters", "adminPassWord", "hunter2", false},
		{"an API key", "example.com/api-key", "hunter2", false},
		{"a token", "bootstrap.token", "hunter2", false},
		{"a reason", "example.com/team", "x; policy=admin reason=Allowed: hunter2", false},
		{"a condition", "example.com/team", "condition=a/b reason=Allowed: hunter2", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			policies := map[engine.Key]policyv1alpha1.AuthorizationPolicySpec{
				{Name: "p"}: {Effect: policyv1alpha1.PolicyEffectAllow, Condition: `object.metadata.annotations["` + tc.label + `"].size() > 50`},
			}
			got, _ := refused(t, policies, http.MethodPost, "", admission.Create, nil, func(to *target) {
				to.object = &demo.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{tc.label: tc.value}}}
			})
			if !strings.HasPrefix(got, "policy=p reason=NotMet: failed part: ") || strings.Contains(got, tc.value) != tc.want || strings.Contains(got, "the request has") != tc.want {
				t.Errorf("got %s, want the value: %t", got, tc.want)
			}
		})
	}
}

// TestWithheldReasons has a user who may not get the object refused a patch that would create it, by many policies with long
// descriptions. Each policy is named once, and the message is not longer than other refusals.
func TestWithheldReasons(t *testing.T) {
	t.Parallel()
	for count, description := range map[int]string{1: "dev only", 20: strings.Repeat("ä", 500)} {
		policies := map[engine.Key]policyv1alpha1.AuthorizationPolicySpec{}
		for i := range count {
			policies[engine.Key{Name: string(rune('a' + i))}] = policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectAllow, Description: description, Condition: `object.spec.image == "j"`}
		}
		r := newRig(t, rigConfig{chain: policiesOf(t, policies), storages: storages, admission: mutating{}, behind: func(ctx context.Context, r *rig) error {
			if decision, _, err := r.handlers.Authorize(ctx, attributesOf(ctx, "create")); decision != authorizer.DecisionAllow {
				t.Errorf("the create is not allowed on conditions: %v", err)
			}
			to := targetOf(ctx)
			to.object = &demo.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: demo.VirtualMachineSpec{Image: "i"}}
			return r.admission.(admission.ValidationInterface).Validate(ctx, to.attributes(admission.Create), admission.NewObjectInterfacesFromScheme(scheme))
		}})
		got := r.send(http.MethodPatch, machines+"/x")
		var status metav1.Status
		if err := json.Unmarshal(got.Body.Bytes(), &status); err != nil || got.Code != http.StatusForbidden {
			t.Fatalf("got %d %s, want a refusal", got.Code, got.Body)
		}
		_, reason, _ := strings.Cut(status.Message, `in the namespace "n": `)
		if strings.Count(reason, "policy=a ") != 1 || len(reason) > 4096 {
			t.Errorf("%d policies: got %d bytes: %s", count, len(reason), reason)
		}
	}
}
