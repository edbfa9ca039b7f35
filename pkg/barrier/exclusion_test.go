/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// compileFields compiles the first of some mappings.
func compileFields(tb testing.TB, mappings ...*policy.FieldPermissionMapping) *barrier.Barrier {
	tb.Helper()
	exclusions, err := mapping.NewTable(mappings...).Exclusions(mappings[0].Name)
	if err != nil {
		tb.Fatal(err)
	}
	return newLaw(tb).barriers.CompileMapping(mappings[0].Name, exclusions)
}

// in returns a mapping for resources of a group.
func in(group string, resources ...string) *policy.FieldPermissionMapping {
	m := &policy.FieldPermissionMapping{}
	m.Name, m.Spec.Fields = "fields", []policy.FieldPermission{things.Excluded("spec.a", "booms", "")}
	for _, r := range resources {
		m.Spec.Resources = append(m.Spec.Resources, policy.FieldPermissionResource{APIGroup: group, Resource: r})
	}
	return m
}

// TestExclusionReport has what is translated, and why other exclusions are not.
func TestExclusionReport(t *testing.T) {
	t.Parallel()
	of := func(path, permission, newValues string) *policy.FieldPermissionMapping {
		return things.Mapping("fields", things.Spec(things.Excluded(path, permission, newValues)))
	}
	parameter := things.Parameterized("spec.disks[*]", "disk", policy.FieldPermissionParameter{})
	parameter.Exclusion = &policy.FieldExclusion{}
	for name, tc := range map[string]struct {
		mapping *policy.FieldPermissionMapping
		want    string
	}{
		"a field":                           {of("spec.boom", "booms", ""), ""},
		"some values":                       {of("spec.boom", "booms", "value == true"), ""},
		"each key":                          {of("spec.disks[*]", "disks", ""), ""},
		"a field of each key":               {of("spec.disks[*].size", "sizes", ""), "elements of a list or a map"},
		"an element":                        {of(`spec.disks[name="a"]`, "disks", ""), "elements of a list or a map"},
		"a finalizer":                       {of(`metadata.finalizers["a"]`, "boomFinalizers", ""), "elements of a list or a map"},
		"a parameter":                       {things.Mapping("fields", things.Spec(parameter)), "the verb has a parameter"},
		"values of each key":                {of("spec.disks[*]", "disks", "value == 1"), "newValues is about each element"},
		"values of the metadata":            {of("metadata", "metadata", "value == 1"), "newValues reads the metadata"},
		"a calculation":                     {of("spec.a", "booms", "value + 1 > 3"), "newValues calls _+_"},
		"a type":                            {of("spec.a", "booms", "type(value) == int"), "newValues calls type"},
		"a quotation":                       {of("spec.a", "booms", "oldValue.matches(value)"), "an error of matches would quote stored data"},
		"elements of a value":               {of("spec.a", "booms", "value.exists(v, v == \"q\")"), "newValues visits all elements of a value with exists"},
		"elements of an element":            {of("spec.a", "booms", "[1, 2].exists(n, n == value.size && value.all(v, v != n))"), "newValues visits all elements of a value with all"},
		"an index":                          {of("spec.a", "booms", "value[oldValue] == 1"), "newValues calls _[_]"},
		"reviews":                           {in("authorization.k8s.io", "subjectaccessreviews"), "admission policies do not see reviews"},
		"Proviso":                           {in("demo.proviso.dev", "virtualmachines"), "Proviso serves it"},
		"policies":                          {in("admissionregistration.k8s.io", "validatingadmissionpolicies"), "admission policies do not see other admission policies"},
		"webhooks":                          {in("admissionregistration.k8s.io", "validatingwebhookconfigurations"), ""},
		"without an exclusion":              {things.Mapping("fields", things.Spec(things.Field("spec.a", "booms"))), "-"},
		"with a comment that hides the end": {of("spec.boom", "booms", "value == true //"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := compileFields(t, tc.mapping)
			if tc.want == "-" {
				if b.Policy != nil || len(b.Report) > 0 {
					t.Errorf("got %+v", b)
				}
				return
			}
			if len(b.Report) == 0 {
				t.Fatal("no report")
			}
			if r := b.Report[0]; r.Reason != tc.want && (tc.want == "" || !strings.Contains(r.Reason, tc.want)) {
				t.Errorf("got %q, want %q", r.Reason, tc.want)
			}
			if (b.Policy == nil) != (tc.want != "") || (b.Binding == nil) != (tc.want != "") {
				t.Errorf("there is a barrier: %v", b.Policy != nil)
			}
		})
	}
}

// TestExclusionVerbs has a mapping with more verbs than kube-apiserver checks for one barrier. The barrier has those that it does check,
// also if a request needs all of them.
func TestExclusionVerbs(t *testing.T) {
	t.Parallel()
	var fields []policy.FieldPermission
	var verbs []string
	spec := map[string]any{}
	for i := range 17 {
		name := fmt.Sprintf("f%d", i)
		fields, verbs = append(fields, things.Excluded("spec."+name, "verb"+string(rune('a'+i)), "")), append(verbs, "verb"+string(rune('a'+i)))
		spec[name] = "y"
	}
	b := compileFields(t, things.Mapping("fields", things.Spec(fields...)))
	if len(b.Report) != 17 || b.Report[15].Reason != "" || !strings.Contains(b.Report[16].Reason, "the most that kube-apiserver checks") {
		t.Fatalf("got %+v", b.Report)
	}
	loaded := newAdmissionCluster(t, fieldVerbs{}, barrierlaw.Namespaces...).load(t, b)
	defer loaded.close()
	write := fieldWrite{kind: things.Kind, before: machine(map[string]any{}), after: machine(spec), user: &user.DefaultInfo{UID: "/a"}}
	for _, tc := range []struct{ verbs, want string }{{strings.Join(verbs[:16], ","), ""}, {strings.Join(verbs[:15], ","), "the field spec.f15 is excluded"}} {
		write.user.Name = "bob=" + tc.verbs
		admitted, _ := write.attributes()
		if err := loaded.Validate(t.Context(), admitted, objectInterfaces{}); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}

// TestExclusionVersions has two mappings that contradict each other in one version. The barrier of the first one refuses every change of the
// field there, needs the verb in the other version, and needs it for all changes in versions that neither names.
func TestExclusionVersions(t *testing.T) {
	t.Parallel()
	b := compileFields(t, things.Mapping("fields", things.Spec(things.Excluded("spec.boom", "booms", "")), "v1", "v2"), things.Mapping("other", things.Spec(things.Excluded("spec.boom", "others", "")), "v2"))
	loaded := newAdmissionCluster(t, fieldVerbs{}, barrierlaw.Namespaces...).load(t, b)
	defer loaded.close()
	for _, tc := range []struct{ version, verb, want string }{
		{version: "v1", verb: "booms"},
		{version: "v1", verb: "others", want: `needs the verb "granular:booms"`},
		{version: "v2", verb: "booms", want: "no permission covers it"},
		{version: "v3", verb: "booms"},
		{version: "v3", verb: "others", want: "the request may change an excluded field that its object does not show"},
	} {
		write := fieldWrite{kind: things.Kind, before: machine(map[string]any{}), after: machine(map[string]any{"boom": true}), user: &user.DefaultInfo{Name: "bob=" + tc.verb, UID: "/a"}}
		write.kind.Version = tc.version
		admitted, _ := write.attributes()
		if err := loaded.Validate(t.Context(), admitted, objectInterfaces{}); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s in %s: got %v, want %q", tc.verb, tc.version, err, tc.want)
		}
	}
}

// TestExclusionIndirect has requests that change fields of another object, or without showing them, and the reasons of the barrier and of
// Proviso.
func TestExclusionIndirect(t *testing.T) {
	t.Parallel()
	object := func(kind string, content map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "a", "namespace": "demo"}, "content": content}
	}
	target := map[string]any{"kind": "Node", "name": "n"}
	binding := object("Binding", nil)
	binding["target"] = target
	labeled := object("Binding", nil)
	labeled["target"], labeled["metadata"] = target, map[string]any{"name": "a", "namespace": "demo", "labels": map[string]any{"tier": "prod"}}
	const (
		notShown = "the request may change an excluded field that its object does not show"
		label    = "the field metadata.labels.tier is excluded"
	)
	node, tier, prod := things.Excluded("spec.nodeName", "nodeAssignment", ""), things.Excluded(`metadata.labels["tier"]`, "tier", ""), things.Excluded(`metadata.labels["tier"]`, "tier", `value == "prod"`)
	for name, tc := range map[string]struct {
		of      string // the resource of the mapping
		field   policy.FieldPermission
		to      string // the resource of the request
		object  map[string]any
		refusal string
	}{
		"the node, by a binding":                     {of: "pods", field: node, to: "pods/binding", object: binding, refusal: notShown},
		"the node, by the resource bindings":         {of: "pods", field: node, to: "bindings", object: binding, refusal: notShown},
		"conditions, by a binding":                   {of: "pods", field: things.Excluded("status", "status", ""), to: "bindings", object: binding, refusal: notShown},
		"another field, by a binding":                {of: "pods", field: things.Excluded("spec.hostNetwork", "hosts", ""), to: "bindings", object: binding},
		"a label, by a binding":                      {of: "pods", field: tier, to: "pods/binding", object: labeled, refusal: label},
		"a label, by the resource bindings":          {of: "pods", field: tier, to: "bindings", object: labeled, refusal: label},
		"a binding without the label":                {of: "pods", field: tier, to: "bindings", object: binding},
		"values of a label, by a binding without it": {of: "pods", field: prod, to: "pods/binding", object: binding, refusal: notShown},
		"a field of bindings":                        {of: "bindings", field: things.Excluded("target.name", "targets", ""), to: "pods/binding", object: binding, refusal: "the field target.name is excluded"},
		"a field of bindings, in a pod":              {of: "bindings", field: tier, to: "pods", object: labeled},
		"the node of a pod and of a binding":         {of: "pods", field: things.Excluded("target.name", "targets", ""), to: "bindings", object: binding, refusal: "the field target.name is excluded"},
		"conditions, by an eviction":                 {of: "pods", field: things.Excluded("status.conditions", "conditions", ""), to: "pods/eviction", object: object("Eviction", nil), refusal: notShown},
		"the node, by an eviction":                   {of: "pods", field: node, to: "pods/eviction", object: object("Eviction", nil)},
		"the node, by an ephemeral container":        {of: "pods", field: node, to: "pods/ephemeralcontainers", object: object("Pod", nil)},
		"an event":                                   {of: "events", field: things.Excluded("note", "notes", ""), to: "events", object: object("Event", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := in("", tc.of)
			m.Spec.Fields = []policy.FieldPermission{tc.field}
			loaded := newAdmissionCluster(t, fieldVerbs{}, barrierlaw.Namespaces...).load(t, compileFields(t, m))
			defer loaded.close()
			resource, subresource, _ := strings.Cut(tc.to, "/")
			sent := &unstructured.Unstructured{Object: tc.object}
			to, bob := schema.GroupVersionResource{Version: "v1", Resource: resource}, &user.DefaultInfo{Name: "bob"}
			err := loaded.Validate(t.Context(), admission.NewAttributesRecord(sent, nil, sent.GroupVersionKind(), "demo", "a", to, subresource, admission.Create, &metav1.CreateOptions{}, false, bob), objectInterfaces{})
			if (err == nil) != (tc.refusal == "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("the barrier: got %v, want %q", err, tc.refusal)
			}
			changed, err := changes.Differ{}.Changes(t.Context(), sent.GroupVersionKind(), nil, sent)
			if err != nil {
				t.Fatal(err)
			}
			result := granular.Checker{Authorizer: fieldVerbs{}}.Exclude(t.Context(), mapping.NewTable(m).ForSubresource(to, subresource), changed,
				authorizer.AttributesRecord{User: bob, Verb: "create", APIVersion: "v1", Resource: resource, Subresource: subresource, Namespace: "demo", Name: "a", ResourceRequest: true})
			if result.Allowed != (tc.refusal == "") || !strings.Contains(result.Reason, tc.refusal) {
				t.Errorf("Proviso: got %q, want %q", result.Reason, tc.refusal)
			}
		})
	}
}

// TestExclusionBounds has a mapping with more fields than a barrier has room for.
func TestExclusionBounds(t *testing.T) {
	t.Parallel()
	var fields []policy.FieldPermission
	for i := range 256 {
		fields = append(fields, things.Excluded(fmt.Sprintf("spec.f%d", i), "booms", ""))
	}
	few, many := compileFields(t, things.Mapping("fields", things.Spec(fields[:20]...))), compileFields(t, things.Mapping("fields", things.Spec(fields...)))
	if few.Policy == nil || many.Policy != nil || !strings.Contains(many.Report[0].Reason, "the expressions of the barrier have more than") {
		t.Errorf("got %v %v, %+v", few.Policy != nil, many.Policy != nil, many.Report[0])
	}
}

// TestExclusionsAreDeterministic compiles mappings several times, in different orders.
func TestExclusionsAreDeterministic(t *testing.T) {
	t.Parallel()
	first := things.Mapping("fields", things.Spec(things.Excluded("spec.boom", "booms", ""), things.Excluded("spec", "specification", ""), things.Excluded("metadata.labels", "labels", "")), "v2", "v1")
	other := things.Mapping("other", things.Spec(things.Excluded("spec.boom", "others", "")), "v2")
	want := compileFields(t, first, other)
	if got := want.Policy.Name; got != "fields.mapping.policy.proviso.dev" || want.Binding.Spec.PolicyName != got {
		t.Errorf("the name is %q", got)
	}
	table := mapping.NewTable(other, first)
	for range 5 {
		exclusions, err := table.Exclusions("fields")
		if err != nil {
			t.Fatal(err)
		}
		got := newLaw(t).barriers.CompileMapping("fields", exclusions)
		if diff := cmp.Diff(want.Policy, got.Policy); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestExclusionMessages has the messages of refusals, which have the form of the refusals by Proviso.
func TestExclusionMessages(t *testing.T) {
	t.Parallel()
	m := things.Mapping("fields", things.Spec(things.Excluded(`metadata.labels["example.com/tier"]`, "tier", ""), things.Excluded("spec.boom", "booms", "")), "v1")
	other := things.Mapping("other", things.Spec(things.Excluded("spec.boom", "others", "")), "v1")
	var got []string
	for _, v := range compileFields(t, m, other).Policy.Spec.Validations {
		got = append(got, v.Message)
	}
	for _, want := range []string{
		`the field metadata.labels["example.com/tier"] is excluded from general permission: changing it also needs the verb "granular:tier"`,
		`the managers of the field metadata.labels["example.com/tier"] (metadata.managedFields) is excluded from general permission: changing it also needs the verb "granular:tier"`,
		`the request may change an excluded field that its object does not show: it also needs the verb "granular:tier"`,
		`the field spec.boom is excluded from general permission, and no permission covers it (spec.boom has permission "booms" by FieldPermissionMapping "fields" and "others" by FieldPermissionMapping "other")`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s\nin %s", want, strings.Join(got, "\n"))
		}
	}
}
