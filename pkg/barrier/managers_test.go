/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// machineManager writes metadata.managedFields of machines as kube-apiserver does.
func machineManager(tb testing.TB) *managedfields.FieldManager {
	tb.Helper()
	converter, err := managedfields.NewTypeConverter(things.Schemas(), false)
	if err != nil {
		tb.Fatal(err)
	}
	return managedfieldstest.NewFakeFieldManager(converter, things.Kind)
}

// updatedBy returns a machine after an update by a manager, which edit makes.
func updatedBy(tb testing.TB, manager string, live map[string]any, edit func(o map[string]any)) map[string]any {
	tb.Helper()
	next := runtime.DeepCopyJSON(live)
	edit(next)
	before, after := fieldWrite{kind: things.Kind}.object(live), fieldWrite{kind: things.Kind}.object(next)
	result, err := machineManager(tb).Update(before, after, manager)
	if err != nil {
		tb.Fatal(err)
	}
	return result.(*unstructured.Unstructured).Object
}

func appliedBy(tb testing.TB, manager string, live, applied map[string]any) map[string]any {
	tb.Helper()
	result, err := machineManager(tb).Apply(fieldWrite{kind: things.Kind}.object(live), fieldWrite{kind: things.Kind}.object(applied), manager, true)
	if err != nil {
		tb.Fatal(err)
	}
	return result.(*unstructured.Unstructured).Object
}

// set returns an edit that sets a field.
func set(value any, names ...string) func(map[string]any) {
	return func(o map[string]any) {
		if err := unstructured.SetNestedField(o, value, names...); err != nil {
			panic(err)
		}
	}
}

func machine(spec map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": "a"}, "spec": spec}
}

// entryOf returns an entry of metadata.managedFields.
func entryOf(manager, operation string, fields any) map[string]any {
	return map[string]any{"manager": manager, "operation": operation, "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
}

func node(names ...string) map[string]any {
	result := map[string]any{}
	for i := len(names) - 1; i >= 0; i-- {
		result = map[string]any{names[i]: result}
	}
	return result
}

// withEntries returns a machine with other or more entries.
func withEntries(o map[string]any, entries ...any) map[string]any {
	o = runtime.DeepCopyJSON(o)
	o["metadata"].(map[string]any)["managedFields"] = entries
	return o
}

func entriesOf(o map[string]any) []any {
	entries, _ := o["metadata"].(map[string]any)["managedFields"].([]any)
	return runtime.DeepCopyJSONValue(entries).([]any)
}

// refusals returns why the barrier of a mapping refuses a write, "" if it does not, and why the mapping does.
func refusals(t *testing.T, m *policy.FieldPermissionMapping, write fieldWrite) (ofBarrier, ofMapping string) {
	t.Helper()
	if write.kind.Kind == "" {
		write.kind = things.Kind
	}
	if write.user == nil {
		write.user = &user.DefaultInfo{Name: "bob="}
	}
	b := compileFields(t, m)
	if b.Policy == nil {
		t.Fatalf("no barrier: %+v", b.Report)
	}
	loaded := newAdmissionCluster(t, fieldVerbs{}, barrierlaw.Namespaces...).load(t, []*barrier.Barrier{b}...)
	defer loaded.close()
	admitted, _ := write.attributes()
	if err := loaded.Validate(t.Context(), admitted, objectInterfaces{}); err != nil {
		ofBarrier = err.Error()
	}
	excluded, reason := write.isExcluded(t, things.Types(t), mapping.NewTable(m))
	if !excluded {
		reason = ""
	}
	return ofBarrier, reason
}

// TestExclusionManagers has writes that change metadata.managedFields.
func TestExclusionManagers(t *testing.T) {
	t.Parallel()
	replicas := func(newValues string, versions ...string) *policy.FieldPermissionMapping {
		return things.Mapping("fields", things.Spec(things.Excluded("spec.replicas", "replicas", newValues)), versions...)
	}
	label := things.Mapping("fields", things.Spec(things.Excluded(`metadata.labels["a"]`, "tier", `value == "y"`)))
	created := updatedBy(t, "admin", machine(map[string]any{}), func(o map[string]any) {
		set("1", "spec", "replicas")(o)
		set("3", "status", "phase")(o)
		set(map[string]any{"a": "y", "b": "n"}, "metadata", "labels")(o)
	})
	crowd := created
	for i := range 9 {
		crowd = updatedBy(t, fmt.Sprintf("manager-%d", i), crowd, set("y", "metadata", "labels", fmt.Sprintf("by-%d", i)))
	}
	overflow := updatedBy(t, "another", crowd, set("y", "status", "phase"))
	overflowAgain := updatedBy(t, "one-more", overflow, set("z", "status", "phase"))
	inV1 := runtime.DeepCopyJSON(created)
	scaled := func(replicas string, owned ...string) map[string]any {
		e := entryOf("scaler", "Update", node(owned...))
		e["apiVersion"], e["subresource"] = "autoscaling/v1", "scale"
		return withEntries(machine(map[string]any{"replicas": replicas}), e)
	}
	forged := func(change func(entries []any) []any) map[string]any {
		return withEntries(overflow, change(entriesOf(overflow))...)
	}
	scale := fieldWrite{}
	scale.kind.Group, scale.kind.Version, scale.kind.Kind, scale.subresource = "autoscaling", "v1", "Scale", "scale"
	ofScale := func(before, after map[string]any) fieldWrite {
		w := scale
		w.before, w.after = before, after
		return w
	}
	both, dot := map[string]any{"f:spec": map[string]any{".": map[string]any{}, "f:replicas": map[string]any{}}}, node("f:spec", ".")
	// mergeOf is an update by which the server merges the entry of one manager, with other fields in the result.
	mergeOf := func(old, merged map[string]any) fieldWrite {
		var entries []any
		for i := range 8 {
			entries = append(entries, entryOf(fmt.Sprintf("manager-%d", i), "Update", map[string]any{}))
		}
		o := machine(map[string]any{"replicas": "1"})
		return fieldWrite{
			before: withEntries(o, append(entries[:8:8], entryOf("goes", "Update", old), entryOf("stays", "Update", map[string]any{}))...),
			after:  withEntries(o, append(entries[:8:8], entryOf("ancient-changes", "Update", merged), entryOf("stays", "Update", map[string]any{}))...),
		}
	}
	spec := things.Mapping("fields", things.Spec(things.Excluded("spec", "specification", "")))
	deep := node("f:spec", "f:a", "f:d", "f:e", "f:f", "f:g", "f:h", "f:i")
	united := map[string]any{"f:spec": map[string]any{".": map[string]any{}, "f:replicas": map[string]any{}, "f:a": map[string]any{"f:b": map[string]any{}, "f:d": node("f:e", "f:f", "f:g", "f:h", "f:i")}}}
	// mergeOfTwo is mergeOf for the entries of three managers.
	mergeOfTwo := func(first, second, third, merged map[string]any) fieldWrite {
		w := mergeOf(third, merged)
		entries := w.before["metadata"].(map[string]any)["managedFields"].([]any)
		w.before = withEntries(w.before, append(entries, entryOf("goes-first", "Update", first), entryOf("goes-second", "Update", second))...)
		return w
	}
	const managersOfSpec = "the managers of the field spec (metadata.managedFields) is excluded"
	const notShown = `the request may change an excluded field that its object does not show: it also needs the verb "granular:replicas"`
	const managersOfField = "the managers of the field spec.replicas (metadata.managedFields) is excluded"
	for name, tc := range map[string]struct {
		mapping *policy.FieldPermissionMapping
		write   fieldWrite
		// want is part of the refusal, "" if the write passes.
		want string
	}{
		"another field":   {mapping: replicas(""), write: fieldWrite{before: created, after: updatedBy(t, "bob", created, set("y", "status", "phase"))}},
		"the field":       {mapping: replicas(""), write: fieldWrite{before: created, after: updatedBy(t, "bob", created, set("2", "spec", "replicas"))}, want: "the field spec.replicas is excluded"},
		"the field again": {mapping: replicas(""), write: fieldWrite{before: created, after: appliedBy(t, "bob", created, machine(map[string]any{"replicas": "1"}))}, want: managersOfField},
		"the first apply": {mapping: replicas(""), write: fieldWrite{before: machine(map[string]any{"replicas": "1"}), after: appliedBy(t, "bob", machine(map[string]any{"replicas": "1"}), map[string]any{"status": map[string]any{"phase": "x"}})}},

		"a scale that cannot change the field": {mapping: things.Mapping("fields", things.Spec(things.Excluded(`metadata.labels["a"]`, "tier", "")), "v1"), write: ofScale(scaled("1", "f:spec"), scaled("2", "f:spec", "f:replicas"))},
		"scale":                                {mapping: replicas("", "v1"), write: ofScale(scaled("1", "f:spec", "f:replicas"), scaled("2", "f:spec", "f:replicas")), want: notShown},
		"scale, without a change":              {mapping: replicas(""), write: ofScale(scaled("1", "f:spec"), scaled("1", "f:spec")), want: notShown},
		"scale, by its managers":               {mapping: replicas("", "v1"), write: ofScale(scaled("1", "f:spec", "f:other"), scaled("1", "f:spec", "f:replicas")), want: notShown},
		"an entry of another version": {mapping: replicas("", "v1"), write: fieldWrite{before: inV1, after: withEntries(inV1, func() any {
			e := entryOf("admin", "Update", node("f:spec", "f:other"))
			e["apiVersion"] = "example.com/v2"
			return e
		}())}, want: managersOfField},

		"a part of a scalar, before the first apply": {mapping: replicas(""), write: fieldWrite{
			before: machine(map[string]any{"replicas": "1"}), after: withEntries(machine(map[string]any{"replicas": "1"}), entryOf("before-first-apply", "Update", node("f:spec", "f:replicas", "f:x"))),
		}, want: managersOfField},
		"a part of a scalar": {
			mapping: replicas(`value == "2"`),
			write:   fieldWrite{before: machine(map[string]any{"replicas": "3"}), after: withEntries(machine(map[string]any{"replicas": "2"}), entryOf("bob", "Apply", node("f:spec", "f:replicas", "f:x")))},
			want:    "excluded",
		},
		"a part of a scalar beside a change that needs no verb": {
			mapping: replicas(`oldValue == "1"`),
			write:   fieldWrite{before: machine(map[string]any{"replicas": "2"}), after: withEntries(machine(map[string]any{"replicas": "1"}), entryOf("bob", "Apply", node("f:spec", "f:replicas", "f:x")))},
			want:    managersOfField,
		},

		"an entry of another type":     {mapping: replicas(""), write: fieldWrite{before: created, after: withEntries(created, append(entriesOf(created), map[string]any{"manager": "bob", "operation": "Apply", "apiVersion": "example.com/v1", "fieldsType": "FieldsV2", "fieldsV1": map[string]any{}})...)}, want: managersOfField},
		"an entry without fields":      {mapping: replicas(""), write: fieldWrite{before: created, after: withEntries(created, append(entriesOf(created), entryOf("bob", "Apply", nil))...)}},
		"an entry that is no object":   {mapping: replicas(""), write: fieldWrite{before: created, after: withEntries(created, append(entriesOf(created), "bob")...)}, want: managersOfField},
		"fields that are no object":    {mapping: replicas(""), write: fieldWrite{before: created, after: withEntries(created, append(entriesOf(created), entryOf("bob", "Apply", "x"))...)}, want: managersOfField},
		"an entry without a version":   {mapping: replicas(""), write: fieldWrite{before: created, after: withEntries(created, append(entriesOf(created), map[string]any{"manager": "bob", "operation": "Apply", "fieldsType": "FieldsV1"})...)}, want: managersOfField},
		"an entry with two operations": {mapping: replicas(""), write: fieldWrite{before: created, after: withEntries(created, append(entriesOf(created), entryOf("bob", "Apply Update", map[string]any{}))...)}, want: managersOfField},
		"the same entry twice":         {mapping: replicas(""), write: fieldWrite{before: created, after: withEntries(created, append(entriesOf(created), entriesOf(created)...)...)}, want: managersOfField},

		"the server merges entries":          {mapping: replicas(""), write: fieldWrite{before: crowd, after: overflow}},
		"the server merges entries, again":   {mapping: replicas(""), write: fieldWrite{before: overflow, after: overflowAgain}},
		"it merges them for the whole label": {mapping: label, write: fieldWrite{before: crowd, after: overflow}},
		"a merge without the entry": {mapping: replicas(""), write: fieldWrite{before: crowd, after: forged(func(e []any) []any {
			for _, one := range e {
				if one.(map[string]any)["manager"] == "ancient-changes" {
					one.(map[string]any)["fieldsV1"] = node("f:spec", "f:other")
				}
			}
			return e
		})}, want: managersOfField},
		"a merge with more than there was": {mapping: things.Mapping("fields", things.Spec(things.Excluded("spec.bang", "booms", ""))), write: fieldWrite{before: crowd, after: forged(func(e []any) []any {
			for _, one := range e {
				if one.(map[string]any)["manager"] == "ancient-changes" {
					set(map[string]any{}, "fieldsV1", "f:spec", "f:bang")(one.(map[string]any))
				}
			}
			return e
		})}, want: "the managers of the field spec.bang (metadata.managedFields) is excluded"},
		"a merge of an entry that stays": {mapping: replicas(""), write: fieldWrite{before: crowd, after: forged(func(e []any) []any {
			return append(e, entryOf("admin", "Update", node("f:spec", "f:other")))
		})}, want: managersOfField},
		"a merge":                            {mapping: replicas(""), write: mergeOf(both, both)},
		"a merge that leaves out the field":  {mapping: replicas(""), write: mergeOf(both, dot), want: managersOfField},
		"a merge that adds the field":        {mapping: replicas(""), write: mergeOf(dot, both), want: managersOfField},
		"a merge that adds the field around": {mapping: replicas(""), write: mergeOf(node("f:spec", "f:replicas"), both), want: managersOfField},
		"a merge beside an entry that loses the field": {mapping: replicas(""), write: func() fieldWrite {
			w := mergeOf(both, both)
			w.before["metadata"].(map[string]any)["managedFields"].([]any)[9] = entryOf("stays", "Update", both)
			return w
		}(), want: managersOfField},
		"a merge of two managers with parts of a map":    {mapping: spec, write: mergeOfTwo(node("f:spec", "f:a", "f:b"), deep, both, united)},
		"a merge of two managers that leaves out a part": {mapping: spec, write: mergeOfTwo(node("f:spec", "f:a", "f:c"), deep, both, united), want: managersOfSpec},
		"a merge of two managers that adds a part":       {mapping: spec, write: mergeOfTwo(node("f:spec", "f:a", "f:b"), node("f:spec", "f:a"), both, united), want: managersOfSpec},
		"a merge of two managers that leaves out a map":  {mapping: spec, write: mergeOfTwo(map[string]any{"f:spec": map[string]any{"f:a": map[string]any{".": map[string]any{}, "f:b": map[string]any{}}}}, deep, both, united), want: managersOfSpec},
		"a merge of few entries":                         {mapping: replicas(""), write: fieldWrite{before: created, after: withEntries(created, entryOf("ancient-changes", "Update", entriesOf(created)[0].(map[string]any)["fieldsV1"]))}, want: managersOfField},

		"another label":                 {mapping: label, write: fieldWrite{before: created, after: updatedBy(t, "bob", created, set("y", "metadata", "labels", "b"))}},
		"another label, by the manager": {mapping: label, write: fieldWrite{before: created, after: updatedBy(t, "admin", created, set("y", "metadata", "labels", "b"))}},
		"another label, applied":        {mapping: label, write: fieldWrite{before: created, after: appliedBy(t, "bob", created, map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{"b": "y"}}})}},
		"one more label":                {mapping: label, write: fieldWrite{before: created, after: updatedBy(t, "bob", created, set("y", "metadata", "labels", "c"))}},
		"the first annotation":          {mapping: label, write: fieldWrite{before: created, after: updatedBy(t, "bob", created, set("y", "metadata", "annotations", "c"))}},
		"the label, to another value":   {mapping: label, write: fieldWrite{before: created, after: updatedBy(t, "bob", created, set("n", "metadata", "labels", "a"))}},
		"the label":                     {mapping: label, write: fieldWrite{before: updatedBy(t, "bob", created, set("n", "metadata", "labels", "a")), after: created}, want: `the field metadata.labels.a is excluded`},

		"no metadata":                      {mapping: replicas(""), write: fieldWrite{before: map[string]any{"spec": map[string]any{}}, after: map[string]any{"spec": map[string]any{}}}},
		"no metadata, with the field":      {mapping: replicas(""), write: fieldWrite{before: map[string]any{"spec": map[string]any{}}, after: map[string]any{"spec": map[string]any{"replicas": "1"}}}, want: "the field spec.replicas is excluded"},
		"metadata that are null":           {mapping: things.Mapping("fields", things.Spec(things.Excluded("metadata", "metadata", ""))), write: fieldWrite{before: map[string]any{"metadata": nil}, after: map[string]any{"metadata": nil}}},
		"no metadata, in unnamed versions": {mapping: replicas("", "v9"), write: fieldWrite{before: map[string]any{"spec": map[string]any{}}, after: map[string]any{"spec": map[string]any{}}}, want: notShown},
		"no managers any more": {mapping: things.Mapping("fields", things.Spec(things.Excluded("spec.bang", "booms", ""))), write: fieldWrite{before: created, after: func() map[string]any {
			o := runtime.DeepCopyJSON(created)
			o["metadata"].(map[string]any)["managedFields"] = nil
			return o
		}()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ofMapping := refusals(t, tc.mapping, tc.write)
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) || strings.Contains(got, "resulted in error") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if (ofMapping == "") != (tc.want == "") {
				t.Errorf("the mapping refuses: %q", ofMapping)
			}
		})
	}
}

// TestExclusionManyManagers has an object with thousands of managers, whose other fields everyone may still write.
func TestExclusionManyManagers(t *testing.T) {
	t.Parallel()
	var fields []policy.FieldPermission
	for i := range 10 {
		fields = append(fields, things.Excluded(fmt.Sprintf("spec.boom%d", i), "booms", ""))
	}
	fields = append(fields, things.Excluded("spec", "specification", ""))
	m := things.Mapping("fields", things.Spec(fields...))
	for _, tc := range []struct {
		name      string
		before, n int
		change    func(entries []any) []any
		want      string
	}{
		{"one is changed", 4000, 4000, func(e []any) []any { return append(e[1:], entryOf("m0", "Apply", node("f:status"))) }, ""},
		{"one is added", 4999, 4999, func(e []any) []any { return append([]any{entryOf("a", "Apply", node("f:status"))}, e...) }, ""},
		{"one takes a field", 4000, 4000, func(e []any) []any { return append(e[1:], entryOf("m0", "Apply", node("f:spec", "f:boom1"))) }, "the managers of the field spec.boom1"},
		{"too many", 5001, 5001, func(e []any) []any { return e[1:] }, "the managers of the field spec"},
		{"all change", 4000, 4000, func(e []any) []any { return append([]any{}, e[2000:]...) }, "the managers of the field spec"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			entries := make([]any, 0, tc.n)
			for i := range tc.n {
				entries = append(entries, entryOf(fmt.Sprintf("m%d", i), "Apply", node("f:metadata", "f:labels", fmt.Sprintf("f:l%d", i))))
			}
			before := withEntries(machine(map[string]any{"boom1": true}), entries...)
			after := withEntries(before, tc.change(entriesOf(before))...)
			b := compileFields(t, m)
			loaded := newAdmissionCluster(t, fieldVerbs{}, barrierlaw.Namespaces...).load(t, b)
			defer loaded.close()
			admitted, _ := fieldWrite{kind: things.Kind, before: before, after: after, user: &user.DefaultInfo{Name: "bob="}}.attributes()
			began := time.Now()
			err := loaded.Validate(t.Context(), admitted, objectInterfaces{})
			t.Logf("%v", time.Since(began))
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "resulted in error")) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
