/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/test/testutil/rows"
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
	members := membersOf(t, granular.Config{Authorizer: &grants{verbs: strings.Fields(verbs)}, Types: things.Types(t), Mappings: mappings})
	if general := strings.Contains(verbs, "update"); general {
		members = append(members, authorization.Member{Name: "general", Decider: authorization.DeciderOf(&generalPermission{})})
	}
	decision, reason, _ := chainOf(t, members).Decide(t.Context(), updateByBob).Evaluate(t.Context(), authorization.EvaluatorFor(data, nil)).Concrete()
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

// forgery changes the managed fields of an object. forged.yaml describes its members.
type forgery struct {
	Entries map[string]map[string]any
	Copied  map[string]map[string]any // like Entries, but beside the entries of the managers
	More    []map[string]any
	Object  map[string]any
}

func (f forgery) apply(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	var entries []any
	for _, e := range things.Managed(o) {
		entry := e.(map[string]any)
		patch, isPatched := f.Entries[entry["manager"].(string)]
		if !isPatched || patch != nil {
			entries = append(entries, patched(t, entry, patch))
		}
		if patch := f.Copied[entry["manager"].(string)]; patch != nil {
			entries = append(entries, patched(t, entry, patch))
		}
	}
	for _, entry := range f.More {
		entries = append(entries, entry)
	}
	things.SetManaged(o, entries)
	o.Object = patched(t, o.Object, f.Object)
}

// patched returns an object with a merge patch.
func patched(t *testing.T, object, patch map[string]any) map[string]any {
	t.Helper()
	if patch == nil {
		return object
	}
	before, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	change, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before, change)
	if err != nil {
		t.Fatal(err)
	}
	return things.Parse(t, string(after))
}

func TestForgedManagedFields(t *testing.T) {
	t.Parallel()
	type row struct {
		forgery
		FieldManager, Subresource, Verbs, Want string
	}
	rows.Run(t, "testdata/forged.yaml", func(t *testing.T, tc row) {
		before, after := things.Decoded(t, deployed), things.Decoded(t, deployed)
		tc.apply(t, after)
		data := updateFrom(before, after, tc.FieldManager)
		data.subresource = tc.Subresource
		checkDecision(t, data, tc.Verbs, tc.Want)
	})
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
	other, bare := strings.Replace(labels, "x}", "z}", 1), "metadata: {name: one}\nspec: {replicas: '1'}"
	deployed := appliedBy(t, m, "deployer", fresh(), full)
	ownLabel, othersLabel := appliedBy(t, m, "carol", deployed, labels), appliedBy(t, m, "other", deployed, labels)
	ten := manyManagers(t, m, 10)
	type object = unstructured.Unstructured
	labelled := func(value string) func(*object) {
		return func(o *object) {
			if err := unstructured.SetNestedField(o.Object, value, "metadata", "labels", "super.safe.com/a"); err != nil {
				t.Error(err)
			}
		}
	}
	withLabel := labelled("y")
	apply := func(manager, text string) func(*object) *object {
		return func(o *object) *object { return appliedBy(t, m, manager, o, text) }
	}
	update := func(manager string, changes ...func(*object)) func(*object) *object {
		return func(o *object) *object {
			changed := o.DeepCopy()
			for _, change := range changes {
				change(changed)
			}
			return updatedBy(t, m, manager, o, changed)
		}
	}
	// forged changes what the server has written.
	forged := func(do func(*object) *object, forge func(*object)) func(*object) *object {
		return func(o *object) *object {
			after := do(o).DeepCopy()
			forge(after)
			return after
		}
	}
	nothing := func(o *object) *object { return o }
	for _, tc := range []struct {
		name, fieldManager string
		before             *object
		do                 func(*object) *object
		want               string
	}{
		{"an apply", "carol", deployed, apply("carol", labels), ""},
		{"an apply without labels before", "carol", appliedBy(t, m, "deployer", fresh(), bare), apply("carol", labels), ""},
		{"an apply again", "carol", ownLabel, apply("carol", labels), ""},
		{"an apply of another value", "carol", ownLabel, apply("carol", other), ""},
		{"an apply without the label", "carol", ownLabel, apply("carol", "metadata: {name: one}"), ""},
		{"an apply that takes the label from another manager", "carol", othersLabel, apply("carol", other), ""},
		{"an apply that shares the label with another manager", "carol", othersLabel, apply("carol", labels), ""},
		{"the first apply to an object without managers", "carol", things.Decoded(t, full+"\nstatus: {phase: up}"), apply("carol", labels), ""},
		{"an apply of a field of another manager", "carol", deployed, apply("carol", bare), "the field spec.replicas (metadata.managedFields)"},
		{"an apply as another manager", "deployer", deployed, apply("deployer", labels), "changing the field metadata.labels.team needs"},
		{"an apply as another manager of what it had, and the label", "deployer", deployed,
			apply("deployer", strings.Replace(full, "team: red", "team: red, super.safe.com/a: x", 1)), ""},
		{"an apply as another manager of what it had, and a field of a third", "deployer", appliedBy(t, m, "third", deployed, "spec: {selector: {a: b}}"),
			apply("deployer", full[:len(full)-1]+", selector: {a: b}}"), "the field spec.selector (metadata.managedFields)"},
		{"an update", "", deployed, update("carol", withLabel), ""},
		{"an update of a field of another manager", "", deployed, update("carol", func(o *object) {
			o.SetLabels(map[string]string{"team": "blue"})
		}), "changing the field metadata.labels.team needs"},
		{"an update of what another manager owned", "", othersLabel, update("carol", withLabel), ""},
		{"an update without managed fields", "", deployed, update("carol", withLabel, func(o *object) { things.SetManaged(o, nil) }), ""},
		{"a reset of managed fields", "", deployed, update("carol", withLabel, func(o *object) {
			things.SetManaged(o, []any{map[string]any{}})
		}), "the field metadata.labels.team (metadata.managedFields)"},
		{"an update with forged fields of another manager", "", deployed, update("carol", withLabel, func(o *object) {
			tree(entryNamed(o, "deployer"), "f:status", "f:phase")
		}), "what other field managers own"},
		{"an update by a manager too many", "m11", ten, update("m11", withLabel), ""},
		{"an update by two managers too many", "m12", update("m11", labelled("z"))(ten), update("m12", withLabel), ""},
		{"an update by a manager too many that forges what the server merges", "m11", ten, forged(update("m11", withLabel), func(o *object) {
			tree(entryNamed(o, "ancient-changes"), "f:status", "f:phase")
		}), "the field status.phase (metadata.managedFields)"},
		{"a merge of managers without need", "m2", manyManagers(t, m, 9), forged(nothing, func(o *object) {
			entryNamed(o, "m1")["manager"] = "ancient-changes"
		}), "what other field managers own"},
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
	type row struct {
		forgery
		FieldManager, Want string
	}
	rows.Run(t, "testdata/created.yaml", func(t *testing.T, tc row) {
		o := updatedBy(t, m, "carol", things.Decoded(t, ""), things.Decoded(t, "metadata: {name: one, labels: {super.safe.com/a: x}}"))
		if entryNamed(o, "carol") == nil {
			t.Fatal("the field manager has written nothing")
		}
		tc.apply(t, o)
		checkDecision(t, updateFrom(nil, o, tc.FieldManager), "granular granular:metadata", tc.Want)
	})
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
			included := mustMake(t, granular.NewInclude, config).ConditionsAwareAuthorize(t.Context(), updateByBob)
			decision, reason, _ := evaluated(t, included, updateFrom(old, now, "")).Concrete()
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
	type row struct {
		forgery
		Value       string // of the field, in YAML
		Owned       map[string]any
		Excluded    policy.FieldPermission
		Verbs, Want string
	}
	rows.Run(t, "testdata/excluded.yaml", func(t *testing.T, tc row) {
		before := things.Decoded(t, strings.Replace(base, "VALUE", cmp.Or(tc.Value, "a"), 1))
		if tc.Owned == nil {
			tc.Owned = below(map[string]any{}, "f:metadata", "f:labels", "f:team")
		}
		things.SetManaged(before, []any{things.Entry("deployer", "Apply", tc.Owned)})
		after := before.DeepCopy()
		tc.apply(t, after)
		checkDecision(t, updateFrom(before, after, ""), "update "+tc.Verbs, tc.Want, tc.Excluded)
	})
}

// generalPermission allows everything.
type generalPermission struct{ grants }

func (generalPermission) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionAllow("", nil)
}

func (generalPermission) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}
