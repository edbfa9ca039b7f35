/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// thingManager is the field manager of a server that serves things.
func thingManager(t testing.TB) *managedfields.FieldManager {
	t.Helper()
	converter, err := managedfields.NewTypeConverter(things.Schemas(), false)
	if err != nil {
		t.Fatal(err)
	}
	return managedfieldstest.NewFakeFieldManager(converter, things.Kind)
}

// appliedBy returns what becomes of an object when a manager applies another.
func appliedBy(t testing.TB, m *managedfields.FieldManager, manager string, live *unstructured.Unstructured, text string) *unstructured.Unstructured {
	t.Helper()
	result, err := m.Apply(live.DeepCopy(), things.Decoded(t, text), manager, true)
	if err != nil {
		t.Fatal(err)
	}
	return result.(*unstructured.Unstructured)
}

// updatedBy returns what becomes of an object when a manager updates it.
func updatedBy(t testing.TB, m *managedfields.FieldManager, manager string, live, updated *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	result, err := m.Update(live.DeepCopy(), updated.DeepCopy(), manager)
	if err != nil {
		t.Fatal(err)
	}
	return result.(*unstructured.Unstructured)
}

// deployed is an object whose fields belong to three managers: deployer applied some, autoscaler
// updated one, and monitor updated the status.
const deployed = `
metadata:
  name: one
  uid: u
  labels: {team: red, super.safe.com/a: x}
  managedFields:
  - {manager: deployer, operation: Apply, apiVersion: example.com/v1, time: "2026-01-01T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {
      "f:metadata": {"f:labels": {"f:team": {}}}, "f:spec": {"f:selector": {}, "f:containers": {'k:{"name":"main"}': {.: {}, "f:image": {}, "f:name": {}}}}}}
  - {manager: autoscaler, operation: Update, apiVersion: example.com/v1, time: "2026-01-02T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {
      "f:metadata": {"f:labels": {"f:super.safe.com/a": {}}}, "f:spec": {"f:replicas": {}}}}
  - {manager: monitor, operation: Update, apiVersion: example.com/v1, subresource: status, time: "2026-01-03T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:status": {"f:phase": {}}}}
spec: {selector: {a: b}, replicas: "1", containers: [{name: main, image: i}, {name: side, image: j}]}
status: {phase: up}
`

func entryNamed(object *unstructured.Unstructured, manager string) map[string]any {
	for _, e := range things.Managed(object) {
		if e := e.(map[string]any); e["manager"] == manager {
			return e
		}
	}
	return nil
}

// tree returns the part of an entry's fieldsV1 at some keys, made where it is missing.
func tree(entry map[string]any, keys ...string) map[string]any {
	at := entry["fieldsV1"].(map[string]any)
	for _, key := range keys {
		if at[key] == nil {
			at[key] = map[string]any{}
		}
		at = at[key].(map[string]any)
	}
	return at
}

// decide is what the chain of both sides decides about an update.
func decide(t testing.TB, data write, verbs string, fields ...policy.FieldPermission) (authorizer.Decision, string) {
	t.Helper()
	mappings := sourceOf()
	if len(fields) > 0 {
		mappings = sourceOf(things.Mapping("m", things.Spec(fields...)))
	}
	config := granular.Config{Authorizer: &grants{verbs: strings.Fields(verbs)}, Types: things.Types(t), Mappings: mappings}
	var members []authorization.Member
	for name, makeOne := range map[string]func(granular.Config) (authorization.Decider, error){"exclude": granular.NewExclude, "include": granular.NewInclude} {
		made, err := makeOne(config)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, authorization.Member{Name: name, Decider: made})
	}
	if members[0].Name != "exclude" {
		members[0], members[1] = members[1], members[0]
	}
	if general := strings.Contains(verbs, "update"); general {
		members = append(members, authorization.Member{Name: "general", Decider: authorization.DeciderOf(&generalPermission{})})
	}
	chain, err := authorization.NewChain(members...)
	if err != nil {
		t.Fatal(err)
	}
	decision, reason, _ := chain.Decide(t.Context(), updateByBob).Evaluate(t.Context(), authorization.EvaluatorFor(data, nil)).Concrete()
	return decision, reason
}

func updateFrom(before, after *unstructured.Unstructured, fieldManager string) write {
	data := write{operation: "UPDATE", user: updateByBob.User, name: "one", resource: things.Machines, object: after, options: &metav1.UpdateOptions{FieldManager: fieldManager}}
	if before != nil {
		data.before = before
	} else {
		data.operation = "CREATE"
	}
	return data
}

// TestForgedManagedFields makes updates by a user with a permission on one label that change the
// entries of other managers.
func TestForgedManagedFields(t *testing.T) {
	t.Parallel()
	const (
		label   = "granular granular:label(super.safe.com)"
		foreign = "what other field managers own"
	)
	for _, tc := range []struct {
		name         string
		fieldManager string
		subresource  string
		verbs        string
		forge        func(o *unstructured.Unstructured)
		want         string // "" if it is allowed
	}{
		{name: "nothing", verbs: label, forge: func(*unstructured.Unstructured) {}},
		{name: "another manager gains a field", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "deployer"), "f:spec", "f:replicas")
		}},
		{name: "another manager gains a field, with every permission on fields", verbs: "*", want: foreign, forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "deployer"), "f:spec", "f:replicas")
		}},
		{name: "another manager gains the field of the user", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "deployer"), "f:metadata", "f:labels", "f:super.safe.com/a")
		}},
		{name: "another manager gains a field that is not there", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "deployer"), "f:spec", "f:tags")
		}},
		{name: "the own manager gains a field", fieldManager: "deployer", verbs: label, want: "changing the managers of the field spec.replicas (metadata.managedFields) needs the verb \"granular:specification\" or \"granular:replicas\"", forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "deployer"), "f:spec", "f:replicas")
		}},
		{name: "the own manager gains a field with permission", fieldManager: "deployer", verbs: label + " granular:replicas", forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "deployer"), "f:spec", "f:replicas")
		}},
		{name: "the own manager gains the field of the user", fieldManager: "deployer", verbs: label, forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "deployer"), "f:metadata", "f:labels", "f:super.safe.com/a")
		}},
		{name: "the own manager gains the map that the field of the user is in", fieldManager: "deployer", verbs: label, want: "the field metadata.labels (metadata.managedFields)", forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "deployer"), "f:metadata", "f:labels", ".")
			o.SetLabels(map[string]string{"team": "red", "super.safe.com/a": "z"})
		}},
		{name: "another manager loses a field", verbs: label, want: "the field spec.selector (metadata.managedFields)", forge: func(o *unstructured.Unstructured) {
			delete(tree(entryNamed(o, "deployer"), "f:spec"), "f:selector")
		}},
		{name: "another manager loses an element of a list", verbs: label, want: `the field spec.containers[name="main"] (metadata.managedFields)`, forge: func(o *unstructured.Unstructured) {
			delete(tree(entryNamed(o, "deployer"), "f:spec"), "f:containers")
		}},
		{name: "another manager loses the field of the user", verbs: label, forge: func(o *unstructured.Unstructured) {
			delete(tree(entryNamed(o, "autoscaler")), "f:metadata")
		}},
		{name: "another manager is gone", verbs: label, want: "the field spec.replicas", forge: func(o *unstructured.Unstructured) {
			things.SetManaged(o, append(things.Managed(o)[:1:1], things.Managed(o)[2]))
		}},
		{name: "all managers are gone", verbs: label, want: "the field metadata.labels.team (metadata.managedFields)", forge: func(o *unstructured.Unstructured) { things.SetManaged(o, nil) }},
		{name: "the list is empty", verbs: label, want: "the field metadata.labels.team (metadata.managedFields)", forge: func(o *unstructured.Unstructured) { things.SetManaged(o, []any{}) }},
		{name: "an entry is replaced by one of the same manager for updates", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "deployer")["operation"] = "Update"
			entryNamed(o, "autoscaler")["manager"] = "other"
		}},
		{name: "an applier becomes an updater", fieldManager: "deployer", verbs: label, want: "the field metadata.labels.team", forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "deployer")["operation"] = "Update"
		}},
		{name: "the version of an applier", fieldManager: "deployer", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "deployer")["apiVersion"] = "example.com/v2"
		}},
		{name: "the version of an updater", fieldManager: "autoscaler", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "autoscaler")["apiVersion"] = "example.com/v2"
		}},
		{name: "the name of a manager", fieldManager: "mallory", verbs: label, want: "the field metadata.labels.team", forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "deployer")["manager"] = "mallory"
		}},
		{name: "the subresource of an entry", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "autoscaler")["subresource"] = "status"
		}},
		{name: "the entry of a subresource", fieldManager: "monitor", verbs: "*", want: foreign, forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "monitor"), "f:status", "f:other")
		}},
		{name: "the entry of a subresource by that", fieldManager: "monitor", subresource: "status", verbs: "*", forge: func(o *unstructured.Unstructured) {
			tree(entryNamed(o, "monitor"), "f:status", "f:other")
		}},
		{name: "the time of another manager", fieldManager: "mallory", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "deployer")["time"] = "2027-01-01T00:00:00Z"
		}},
		{name: "the time of an applier by a request without manager", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "deployer")["time"] = "2027-01-01T00:00:00Z"
		}},
		{name: "the times of two managers", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			for _, e := range things.Managed(o) {
				e.(map[string]any)["time"] = "2027-01-01T00:00:00Z"
			}
		}},
		{name: "the times of two updaters by a request without manager", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "monitor")["subresource"] = nil
			for _, e := range things.Managed(o)[1:] {
				e.(map[string]any)["time"] = "2027-01-01T00:00:00Z"
			}
		}},
		{name: "an entry of the server's own merging, where it merges nothing", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "autoscaler")["manager"] = "ancient-changes"
			tree(entryNamed(o, "ancient-changes"), "f:spec", "f:selector")
			entryNamed(o, "ancient-changes")["operation"] = "Apply"
		}},
		{name: "an entry before the first apply", verbs: label, want: foreign, forge: func(o *unstructured.Unstructured) {
			e := entryNamed(o.DeepCopy(), "autoscaler")
			e["manager"] = "before-first-apply"
			tree(e, "f:spec", "f:selector")
			entryNamed(o, "deployer")["time"] = "2027-01-01T00:00:00Z"
			things.SetManaged(o, append(things.Managed(o), e))
		}},
		{name: "an entry that cannot be understood", verbs: "*", want: "with an entry that cannot be understood", forge: func(o *unstructured.Unstructured) {
			entryNamed(o, "deployer")["fieldsV1"] = map[string]any{"f:spec": map[string]any{"x:y": map[string]any{}}}
		}},
		{name: "an entry without type", verbs: "*", want: "with an entry that cannot be understood", forge: func(o *unstructured.Unstructured) {
			delete(entryNamed(o, "deployer"), "fieldsType")
		}},
		{name: "an entry twice", verbs: "*", want: "with an entry that cannot be understood", forge: func(o *unstructured.Unstructured) {
			things.SetManaged(o, append(things.Managed(o), things.Managed(o.DeepCopy())[0]))
		}},
		{name: "no list", verbs: "*", want: "with an entry that cannot be understood", forge: func(o *unstructured.Unstructured) {
			o.Object["metadata"].(map[string]any)["managedFields"] = "x"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before, after := things.Decoded(t, deployed), things.Decoded(t, deployed)
			tc.forge(after)
			data := updateFrom(before, after, tc.fieldManager)
			data.subresource = tc.subresource
			checkDecision(t, data, tc.verbs, tc.want)
		})
	}
}

// checkDecision decides about an update by a user without general permission.
func checkDecision(t *testing.T, data write, verbs, want string, fields ...policy.FieldPermission) {
	t.Helper()
	decision, reason := decide(t, data, verbs, fields...)
	if (decision == authorizer.DecisionAllow) != (want == "") || !strings.Contains(reason, want) {
		t.Errorf("got  %v: %s\nwant %q", decision, reason, want)
	}
}

// TestManagedFieldsOfRequests lets the field manager of the API server write managedFields, for
// requests by a user with a permission on one label that touch nothing else.
func TestManagedFieldsOfRequests(t *testing.T) {
	t.Parallel()
	const labels, full = "metadata: {name: one, labels: {super.safe.com/a: x}}", "metadata: {name: one, labels: {team: red}}\nspec: {replicas: '1', tags: [a], containers: [{name: c, image: i}]}"
	m := thingManager(t)
	fresh := func() *unstructured.Unstructured {
		o := things.Decoded(t, "metadata: {name: one}")
		o.SetUID("u")
		return o
	}
	withLabel := func(o *unstructured.Unstructured, value string) *unstructured.Unstructured {
		o = o.DeepCopy()
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["super.safe.com/a"] = value
		o.SetLabels(labels)
		return o
	}
	deployed := appliedBy(t, m, "deployer", fresh(), full)
	for _, tc := range []struct {
		name, fieldManager string
		before             *unstructured.Unstructured
		do                 func(*unstructured.Unstructured) *unstructured.Unstructured
		want               string
	}{
		{"an apply", "carol", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, labels)
		}, ""},
		{"an apply without labels before", "carol", appliedBy(t, m, "deployer", fresh(), "metadata: {name: one}\nspec: {replicas: '1'}"), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, labels)
		}, ""},
		{"an apply again", "carol", appliedBy(t, m, "carol", deployed, labels), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, labels)
		}, ""},
		{"an apply of another value", "carol", appliedBy(t, m, "carol", deployed, labels), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, strings.Replace(labels, "x}", "z}", 1))
		}, ""},
		{"an apply without the label", "carol", appliedBy(t, m, "carol", deployed, labels), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, "metadata: {name: one}")
		}, ""},
		{"an apply that takes the label from another manager", "carol", appliedBy(t, m, "other", deployed, labels), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, strings.Replace(labels, "x}", "z}", 1))
		}, ""},
		{"an apply that shares the label with another manager", "carol", appliedBy(t, m, "other", deployed, labels), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, labels)
		}, ""},
		{"the first apply to an object without managers", "carol", things.Decoded(t, full+"\nstatus: {phase: up}"), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, labels)
		}, ""},
		{"an apply of a field of another manager", "carol", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "carol", o, "metadata: {name: one}\nspec: {replicas: '1'}")
		}, "the field spec.replicas (metadata.managedFields)"},
		{"an apply as another manager", "deployer", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "deployer", o, labels)
		}, "changing the field metadata.labels.team needs"},
		{"an apply as another manager of what it had, and the label", "deployer", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "deployer", o, strings.Replace(full, "team: red", "team: red, super.safe.com/a: x", 1))
		}, ""},
		{"an apply as another manager of what it had, and a field of a third", "deployer", appliedBy(t, m, "third", deployed, "spec: {selector: {a: b}}"), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return appliedBy(t, m, "deployer", o, full[:len(full)-1]+", selector: {a: b}}")
		}, "the field spec.selector (metadata.managedFields)"},
		{"an update", "", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return updatedBy(t, m, "carol", o, withLabel(o, "y"))
		}, ""},
		{"an update of a field of another manager", "", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			changed := o.DeepCopy()
			changed.SetLabels(map[string]string{"team": "blue"})
			return updatedBy(t, m, "carol", o, changed)
		}, "changing the field metadata.labels.team needs"},
		{"an update of what another manager owned", "", appliedBy(t, m, "other", deployed, labels), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return updatedBy(t, m, "carol", o, withLabel(o, "y"))
		}, ""},
		{"an update without managed fields", "", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			changed := withLabel(o, "y")
			things.SetManaged(changed, nil)
			return updatedBy(t, m, "carol", o, changed)
		}, ""},
		{"a reset of managed fields", "", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			changed := withLabel(o, "y")
			things.SetManaged(changed, []any{map[string]any{}})
			return updatedBy(t, m, "carol", o, changed)
		}, "the field metadata.labels.team (metadata.managedFields)"},
		{"an update with forged fields of another manager", "", deployed, func(o *unstructured.Unstructured) *unstructured.Unstructured {
			changed := withLabel(o, "y")
			tree(entryNamed(changed, "deployer"), "f:status", "f:phase")
			return updatedBy(t, m, "carol", o, changed)
		}, "what other field managers own"},
		{"an update by a manager too many", "m11", manyManagers(t, m, 10), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return updatedBy(t, m, "m11", o, withLabel(o, "y"))
		}, ""},
		{"an update by two managers too many", "m12", updatedBy(t, m, "m11", manyManagers(t, m, 10), withLabel(manyManagers(t, m, 10), "z")), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			return updatedBy(t, m, "m12", o, withLabel(o, "y"))
		}, ""},
		{"an update by a manager too many that forges what the server merges", "m11", manyManagers(t, m, 10), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			changed := updatedBy(t, m, "m11", o, withLabel(o, "y"))
			tree(entryNamed(changed, "ancient-changes"), "f:status", "f:phase")
			return changed
		}, "the field status.phase (metadata.managedFields)"},
		{"a merge of managers without need", "m2", manyManagers(t, m, 9), func(o *unstructured.Unstructured) *unstructured.Unstructured {
			changed := o.DeepCopy()
			entryNamed(changed, "m1")["manager"] = "ancient-changes"
			return changed
		}, "what other field managers own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			after := tc.do(tc.before)
			if len(things.Managed(after)) == 0 && tc.want == "" {
				t.Fatal("the field manager has written nothing")
			}
			checkDecision(t, updateFrom(tc.before, after, tc.fieldManager), "granular granular:label(super.safe.com)", tc.want)
		})
	}
}

// manyManagers is an object of which each of some managers has updated a tag, all but one at
// another time.
func manyManagers(t testing.TB, m *managedfields.FieldManager, n int) *unstructured.Unstructured {
	t.Helper()
	o := things.Decoded(t, "metadata: {name: one, uid: u, labels: {team: red}}")
	for i := range n {
		changed := o.DeepCopy()
		annotations := map[string]string{}
		for name, value := range o.GetAnnotations() {
			annotations[name] = value
		}
		annotations[fmt.Sprintf("of/%d", i)] = "x"
		changed.SetAnnotations(annotations)
		if i == 0 {
			things.SetManaged(changed, nil)
			created := things.Decoded(t, "")
			o = updatedBy(t, m, "m0", created, changed)
			continue
		}
		o = updatedBy(t, m, fmt.Sprintf("m%d", i), o, changed)
	}
	for i, e := range things.Managed(o) {
		e.(map[string]any)["time"] = fmt.Sprintf("2026-01-%02dT00:00:00Z", i+1)
	}
	return o
}

// TestManagedFieldsOfCreations: the fields that a creation sets are its own, and no others.
func TestManagedFieldsOfCreations(t *testing.T) {
	t.Parallel()
	m := thingManager(t)
	const text = "metadata: {name: one, labels: {super.safe.com/a: x}}"
	const verbs = "granular granular:metadata"
	created := func() *unstructured.Unstructured {
		return updatedBy(t, m, "carol", things.Decoded(t, ""), things.Decoded(t, text))
	}
	for _, tc := range []struct {
		name, fieldManager string
		forge              func(*unstructured.Unstructured)
		want               string
	}{
		{"the entry of the server", "", func(*unstructured.Unstructured) {}, ""},
		{"an apply", "carol", func(o *unstructured.Unstructured) { entryNamed(o, "carol")["operation"] = "Apply" }, ""},
		{"a field that is not there", "", func(o *unstructured.Unstructured) { tree(entryNamed(o, "carol"), "f:spec", "f:replicas") }, "the field spec.replicas"},
		{"an entry of another manager", "", func(o *unstructured.Unstructured) {
			other := entryNamed(o.DeepCopy(), "carol")
			other["manager"] = "other"
			things.SetManaged(o, append(things.Managed(o), other))
		}, "what other field managers own"},
		{"an entry before the first apply", "", func(o *unstructured.Unstructured) {
			other := entryNamed(o.DeepCopy(), "carol")
			other["manager"] = "before-first-apply"
			things.SetManaged(o, append(things.Managed(o), other))
		}, "what other field managers own"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := created()
			if entryNamed(o, "carol") == nil {
				t.Fatal("the field manager has written nothing")
			}
			tc.forge(o)
			checkDecision(t, updateFrom(nil, o, tc.fieldManager), verbs, tc.want)
		})
	}
}

// TestManagedFieldsOfOtherVersions: what is owned in a version needs the permissions of that
// version.
func TestManagedFieldsOfOtherVersions(t *testing.T) {
	t.Parallel()
	const before = `
metadata:
  name: one
  managedFields:
  - {manager: old, operation: Update, apiVersion: VERSION, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:count": {}}}}
spec: {replicas: "1"}
`
	count := things.Mapping("m", things.Spec(things.Field("spec.count", "counting")), "v0")
	for _, tc := range []struct{ name, version, verbs, want string }{
		{"a version that a mapping knows", "example.com/v0", "granular granular:counting", ""},
		{"a version that no mapping knows", "example.com/v00", "granular granular:counting", "the field spec.count"},
		{"a version of another group", "other.com/v0", "granular granular:counting", "the field spec.count"},
		{"a general permission", "other.com/v0", "granular granular:specification", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			old, now := things.Decoded(t, strings.Replace(before, "VERSION", tc.version, 1)), things.Decoded(t, "metadata: {name: one}\nspec: {replicas: '1'}")
			config := granular.Config{Authorizer: &grants{verbs: strings.Fields(tc.verbs)}, Types: things.Types(t), Mappings: sourceOf(count)}
			chain, err := authorization.NewChain(authorization.Member{Name: "include", Decider: authorization.DeciderOf(mustMake(t, granular.NewInclude, config))})
			if err != nil {
				t.Fatal(err)
			}
			decision, reason, _ := chain.Decide(t.Context(), updateByBob).Evaluate(t.Context(), authorization.EvaluatorFor(updateFrom(old, now, ""), nil)).Concrete()
			if (decision == authorizer.DecisionAllow) != (tc.want == "") || !strings.Contains(reason, tc.want) {
				t.Errorf("got %v: %s, want %q", decision, reason, tc.want)
			}
		})
	}
}

// TestManagedFieldsOfExcludedFields: who has general permission may not change who manages an
// excluded field, if what may come of it is excluded.
func TestManagedFieldsOfExcludedFields(t *testing.T) {
	t.Parallel()
	const base = "metadata: {name: one, labels: {team: red}}\nspec: {replicas: VALUE, selector: {a: b}, containers: [{name: c, image: i}]}"
	gain := func(keys ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { tree(entryNamed(o, "deployer"), keys...) }
	}
	replicas := func(newValues string) policy.FieldPermission {
		return things.Excluded("spec.replicas", "replicas", newValues)
	}
	image := things.Excluded("spec.containers[*].image", "images", "")
	for _, tc := range []struct {
		name, value string
		excluded    policy.FieldPermission
		verbs       string
		forge       func(*unstructured.Unstructured)
		want        string
	}{
		{"the field", "a", replicas(""), "update", gain("f:spec", "f:replicas"), `the managers of the field spec.replicas (metadata.managedFields) is excluded`},
		{"the field with its permission", "a", replicas(""), "update granular:replicas", gain("f:spec", "f:replicas"), ""},
		{"another field", "a", replicas(""), "update", gain("f:spec", "f:selector"), ""},
		{"what it is in", "a", replicas(""), "update", gain("f:spec", "."), "the managers of the field spec (metadata.managedFields)"},
		{"what it would be in", "null", replicas(""), "update", gain("f:spec", "."), ""},
		{"a value that is excluded", "'on'", replicas("value == 'on'"), "update", gain("f:spec", "f:replicas"), "the field spec.replicas"},
		{"a value that is not", "'off'", replicas("value == 'on'"), "update", gain("f:spec", "f:replicas"), ""},
		{"a removal that is excluded", "'off'", replicas("value == null"), "update", gain("f:spec", "f:replicas"), "the field spec.replicas"},
		{"an expression that fails", "'off'", replicas("value.x == 1"), "update", gain("f:spec", "f:replicas"), "the field spec.replicas"},
		{"what cannot be looked up", "a", things.Excluded("spec.replicas.most", "replicas", ""), "update", gain("f:spec", "f:replicas"), "the field spec.replicas"},
		{"an element with the field", "a", image, "update", gain("f:spec", "f:containers", `k:{"name":"c"}`, "."), `the field spec.containers[name="c"]`},
		{"the field of an element", "a", image, "update", gain("f:spec", "f:containers", `k:{"name":"c"}`, "f:image"), `the field spec.containers[name="c"].image`},
		{"the key of an element", "a", image, "update", gain("f:spec", "f:containers", `k:{"name":"c"}`, "f:name"), ""},
		{"a loss", "a", replicas(""), "update", func(o *unstructured.Unstructured) { things.SetManaged(o, nil) }, "the field spec.replicas"},
		{"a loss of what cannot be understood", "a", replicas(""), "update", func(o *unstructured.Unstructured) { things.SetManaged(o, []any{"x"}) }, "with an entry that cannot be understood"},
		{"a loss of what cannot be understood, with permission", "a", replicas(""), "update granular:replicas", func(o *unstructured.Unstructured) { things.SetManaged(o, []any{"x"}) }, ""},
		{"the field in another version", "'off'", replicas("value == 'on'"), "update", func(o *unstructured.Unstructured) {
			gain("f:spec", "f:replicas")(o)
			entryNamed(o, "deployer")["apiVersion"] = "example.com/v2"
		}, "the field spec.replicas"},
		{"the field in another group", "'off'", replicas("value == 'on'"), "update", func(o *unstructured.Unstructured) {
			gain("f:spec", "f:replicas")(o)
			entryNamed(o, "deployer")["apiVersion"] = "other.com/v1"
		}, "the field spec.replicas"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := things.Decoded(t, strings.Replace(base, "VALUE", tc.value, 1))
			fields := `{"f:metadata": {"f:labels": {"f:team": {}}}}`
			if strings.HasPrefix(tc.name, "a loss") {
				fields = `{"f:spec": {"f:replicas": {}}}`
			}
			things.SetManaged(before, things.Parse(t, `l: [{manager: deployer, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: `+fields+`}]`)["l"].([]any))
			after := before.DeepCopy()
			tc.forge(after)
			checkDecision(t, updateFrom(before, after, ""), tc.verbs, tc.want, tc.excluded)
		})
	}
}

// generalPermission allows everything.
type generalPermission struct{ grants }

func (generalPermission) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionAllow("", nil)
}

func (generalPermission) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}
