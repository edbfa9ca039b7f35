/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// fieldVerbs allows the verbs that the name of the user has after an equals sign, for the subresource and the name in its UID.
type fieldVerbs struct{}

func (fieldVerbs) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	_, verbs, _ := strings.Cut(a.GetUser().GetName(), "=")
	isAsked := a.GetAPIGroup() == things.Machines.Group && a.GetResource() == things.Machines.Resource && a.GetNamespace() == "demo" &&
		a.GetUser().GetUID() == a.GetSubresource()+"/"+a.GetName()
	if isAsked && slices.Contains(strings.Split(verbs, ","), strings.TrimPrefix(a.GetVerb(), "granular:")) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// fieldWrites makes random mappings, and writes of machines.
type fieldWrites struct {
	*rand.Rand
	// isOdd has the values be of other types than the schema says.
	isOdd bool
}

func oneIn[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// excludable are exclusions that have a translation.
var excludable = []policy.FieldPermission{
	things.Excluded("spec.replicas", "replicas", ""),
	things.Excluded("spec", "specification", ""),
	things.Excluded("status", "status", ""),
	things.Excluded("metadata", "metadata", ""),
	things.Excluded("metadata.labels", "labels", ""),
	things.Excluded(`metadata.labels["a"]`, "tier", ""),
	things.Excluded(`metadata.labels["b"]`, "tier", `value == "y"`),
	things.Excluded(`metadata.annotations["example.com/x"]`, "tier", `value == "y" || oldValue == "y"`),
	things.Excluded("metadata.ownerReferences", "ownerReferences", ""),
	things.Excluded("spec.boom", "booms", "value == true // no more"),
	things.Excluded("spec.boom", "booms", ""),
	things.Excluded("spec.deep.er", "depth", "value != null && value.x > 1"),
	things.Excluded("spec.deep.er", "depth", ""),
	things.Excluded("spec.deep.er.x", "depth", "oldValue in [1, 2]"),
	things.Excluded("spec.deep[*]", "deeps", ""),
	things.Excluded(`spec.tags["y"]`, "tags", ""),
}

func (w fieldWrites) mappings() []*policy.FieldPermissionMapping {
	count := 1 + w.IntN(2)
	var mappings []*policy.FieldPermissionMapping
	for i := range count {
		var fields []policy.FieldPermission
		for range 1 + w.IntN(3) {
			f := excludable[w.IntN(len(excludable))]
			if !w.isOdd && f.Path == `spec.tags["y"]` {
				continue // the barrier compares the whole list
			}
			if !slices.ContainsFunc(fields, func(other policy.FieldPermission) bool { return other.Path == f.Path }) {
				fields = append(fields, f)
			}
		}
		if w.IntN(3) == 0 {
			for j := range fields {
				if strings.HasPrefix(fields[j].Path, "spec.deep") || strings.HasPrefix(fields[j].Path, "spec.boom") {
					fields[j].Permission = "others" // contradicts the other mapping
				}
			}
		}
		if len(fields) == 0 {
			continue
		}
		mappings = append(mappings, things.Mapping(fmt.Sprintf("m%d", i), things.Spec(fields...), oneIn(w.Rand, nil, nil, []string{"v1"}, []string{"v2"}, []string{"v1", "v2"})...))
	}
	return mappings
}

func (w fieldWrites) value(depth int) any {
	values := []any{nil, true, false, int64(1), int64(2), 1.0, 2.5, "y", "n", map[string]any{}, []any{}}
	if n := w.IntN(len(values) + 4); n < len(values) {
		return values[n]
	}
	if depth == 0 {
		return "z"
	}
	if w.IntN(3) == 0 {
		return []any{w.value(depth - 1)}
	}
	return map[string]any{"er": w.value(depth - 1), "x": w.value(depth - 1)}
}

// typed returns a value of the field with a name that fits the schema.
func (w fieldWrites) typed(name string) any {
	switch name {
	case "boom":
		return w.IntN(2) == 0
	case "replicas":
		return oneIn[any](w.Rand, int64(1), int64(2))
	case "tags":
		return oneIn[any](w.Rand, []any{}, []any{"y"}, []any{"n"}, []any{"y", "n"}, []any{"n", "y"})
	}
	deep := map[string]any{}
	if w.IntN(4) > 0 {
		deep["er"] = map[string]any{}
		if w.IntN(4) > 0 {
			deep["er"].(map[string]any)["x"] = oneIn[any](w.Rand, int64(1), int64(2), 1.0, 2.5)
		}
	}
	return deep
}

func (w fieldWrites) object() map[string]any {
	o := map[string]any{"metadata": map[string]any{"name": "a", "namespace": "demo", "resourceVersion": oneIn(w.Rand, "1", "2"), "generation": int64(w.IntN(2))}}
	metadata := o["metadata"].(map[string]any)
	if w.IntN(2) == 0 {
		labels := map[string]any{}
		for _, key := range []string{"a", "b"} {
			if w.IntN(2) == 0 {
				labels[key] = oneIn[any](w.Rand, "y", "n")
			}
		}
		metadata["labels"] = labels
	}
	if w.IntN(2) == 0 {
		metadata["annotations"] = map[string]any{oneIn(w.Rand, "example.com/x", "b"): oneIn[any](w.Rand, "y", "n")}
	}
	if w.IntN(4) == 0 {
		metadata["ownerReferences"] = []any{map[string]any{"uid": oneIn(w.Rand, "1", "2"), "name": "x"}}
	}
	if w.IntN(5) > 0 {
		spec := map[string]any{}
		for _, name := range []string{"boom", "replicas", "deep", "tags"} {
			switch {
			case w.IntN(2) == 0:
			case w.isOdd:
				spec[name] = w.value(3)
			default:
				spec[name] = w.typed(name)
			}
		}
		o["spec"] = spec
	} else if w.isOdd && w.IntN(2) == 0 {
		o["spec"] = w.value(3)
	}
	if w.IntN(3) == 0 {
		o["status"] = oneIn(w.Rand, map[string]any{}, map[string]any{"x": "y"})
	}
	return o
}

// mutated returns an object with some parts of another one.
func (w fieldWrites) mutated(o map[string]any) map[string]any {
	next, other := runtime.DeepCopyJSON(o), w.object()
	for _, key := range []string{"spec", "status"} {
		from, isMap := other[key].(map[string]any)
		to, isAlso := next[key].(map[string]any)
		switch {
		case w.IntN(2) == 0:
		case isMap && isAlso && w.IntN(2) == 0:
			for name, value := range from {
				if w.IntN(2) == 0 {
					to[name] = value
				}
			}
		case other[key] == nil:
			delete(next, key)
		default:
			next[key] = other[key]
		}
	}
	if w.IntN(2) == 0 {
		next["metadata"] = other["metadata"]
	}
	return next
}

// ownable are the parts of entries of metadata.managedFields.
var ownable = []string{
	`{"f:spec":{"f:boom":{}}}`, `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{}}`, `{"f:spec":{".":{},"f:deep":{"f:er":{}}}}`, `{"f:spec":{"f:deep":{".":{},"f:er":{".":{},"f:x":{}}}}}`,
	`{"f:spec":{"f:tags":{"v:\"y\"":{}}}}`, `{"f:spec":{"f:tags":{}}}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`, `{"f:metadata":{"f:labels":{"f:b":{}}}}`, `{"f:metadata":{"f:labels":{}}}`,
	`{"f:metadata":{"f:annotations":{"f:example.com/x":{}}}}`, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"1\"}":{}}}}`, `{"f:status":{"f:x":{}}}`,
}

func (w fieldWrites) managers() []any {
	var entries []any
	seen := map[string]bool{}
	for range w.IntN(4) {
		version, operation := oneIn(w.Rand, "example.com/v1", "example.com/v1", "example.com/v2"), oneIn(w.Rand, "Apply", "Update")
		manager := oneIn(w.Rand, "one", "two", "before-first-apply")
		id := manager + operation
		if operation == "Update" {
			id += version
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(oneIn(w.Rand, ownable...)), &fields); err != nil {
			panic(err)
		}
		entries = append(entries, map[string]any{"manager": manager, "operation": operation, "apiVersion": version, "time": oneIn(w.Rand, "1", "2"), "fieldsType": "FieldsV1", "fieldsV1": fields})
	}
	return entries
}

func limitsValues(mappings []*policy.FieldPermissionMapping) bool {
	return slices.ContainsFunc(mappings, func(m *policy.FieldPermissionMapping) bool {
		return slices.ContainsFunc(m.Spec.Fields, func(f policy.FieldPermission) bool { return f.Exclusion.NewValues != "" })
	})
}

// fieldWrite is a write of a machine.
type fieldWrite struct {
	kind          schema.GroupVersionKind
	before, after map[string]any // before is nil for a creation
	subresource   string
	user          *user.DefaultInfo
}

// write returns a random write. If limitsValues is true, the managers of a new object manage only fields that the object has.
func (w fieldWrites) write(limitsValues bool) fieldWrite {
	write := fieldWrite{kind: things.Kind, before: w.object(), subresource: oneIn(w.Rand, "", "", "status")}
	write.kind.Version = oneIn(w.Rand, "v1", "v1", "v2", "v3")
	write.user = &user.DefaultInfo{Name: "bob=" + strings.Join([]string{oneIn(w.Rand, "", "replicas", "booms", "depth"), oneIn(w.Rand, "", "tier", "specification"), oneIn(w.Rand, "", "others", "labels", "metadata")}, ",")}
	write.after = runtime.DeepCopyJSON(write.before)
	if w.IntN(4) > 0 {
		write.after = w.mutated(write.before)
	}
	managers := w.managers()
	if write.before["metadata"].(map[string]any)["managedFields"] = managers; len(managers) == 0 {
		delete(write.before["metadata"].(map[string]any), "managedFields")
	}
	if w.IntN(2) == 0 {
		managers = w.managers()
	}
	metadata := write.after["metadata"].(map[string]any)
	if metadata["managedFields"] = managers; len(managers) == 0 {
		delete(metadata, "managedFields")
	}
	if write.subresource == "" && w.IntN(6) == 0 {
		write.before = nil
		if limitsValues {
			delete(metadata, "managedFields")
		}
	}
	_, authorized := write.attributes()
	write.user.UID = authorized.Subresource + "/" + authorized.Name
	return write
}

func (f fieldWrite) object(content map[string]any) runtime.Object {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	o.SetGroupVersionKind(f.kind)
	return o
}

// attributes returns the attributes of the write when it is admitted, and when it is authorized.
func (f fieldWrite) attributes() (admission.Attributes, authorizer.AttributesRecord) {
	resource := things.Machines.GroupResource().WithVersion(f.kind.Version)
	authorized := authorizer.AttributesRecord{
		User: f.user, Verb: "update", Namespace: "demo", APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Subresource: f.subresource, Name: "a", ResourceRequest: true,
	}
	if f.before == nil {
		authorized.Verb, authorized.Name = "create", ""
		return admission.NewAttributesRecord(f.object(f.after), nil, f.kind, "demo", "a", resource, "", admission.Create, &metav1.CreateOptions{}, false, f.user), authorized
	}
	return admission.NewAttributesRecord(f.object(f.after), f.object(f.before), f.kind, "demo", "a", resource, f.subresource, admission.Update, &metav1.UpdateOptions{}, false, f.user), authorized
}

// isExcluded reports whether the mappings refuse the write.
func (f fieldWrite) isExcluded(tb testing.TB, types changes.Types, table *mapping.Table) (bool, string) {
	tb.Helper()
	var before runtime.Object
	if f.before != nil {
		before = f.object(f.before)
	}
	changed, err := changes.Differ{Types: types}.Changes(tb.Context(), f.kind, before, f.object(f.after))
	if err != nil {
		return true, err.Error()
	}
	_, authorized := f.attributes()
	result := granular.Checker{Authorizer: fieldVerbs{}}.Exclude(tb.Context(), table.ForSubresource(things.Machines.GroupResource().WithVersion(f.kind.Version), f.subresource), changed, authorized)
	return !result.Allowed, result.Reason
}

// mayBeStricter reports whether a barrier may refuse the write although the mappings do not: if its managers change, for a mapping of some
// versions, or if the exclusions of two mappings contradict. So it may for the fields that an object had before its first server-side apply.
func (f fieldWrite) mayBeStricter(mappings []*policy.FieldPermissionMapping) bool {
	managers := func(o map[string]any) []any {
		found, _, _ := unstructured.NestedSlice(o, "metadata", "managedFields")
		return found
	}
	isFirst := func(entry any) bool { return entry.(map[string]any)["manager"] == "before-first-apply" }
	if len(managers(f.before)) == 0 && slices.ContainsFunc(managers(f.after), isFirst) {
		return true
	}
	if len(mappings) > 1 && limitsValues(mappings) {
		return true // if both exclude some values of a field, the barrier refuses all
	}
	return !reflect.DeepEqual(managers(f.before), managers(f.after)) && slices.ContainsFunc(mappings, func(m *policy.FieldPermissionMapping) bool {
		return len(m.Spec.Resources[0].APIVersions) > 0
	})
}

// TestExclusionLaw compares mappings with their barriers. Where a mapping refuses a write, its barrier does. Where the values fit the schema,
// the barrier refuses nothing else, except what the documentation says.
func TestExclusionLaw(t *testing.T) {
	var refused, stricter, total atomic.Int64
	l := newLaw(t)
	l.cluster = newAdmissionCluster(t, fieldVerbs{}, barrierlaw.Namespaces...)
	var workers errgroup.Group
	workers.SetLimit(lawWorkers)
	for c := cases.Of(*lawPolicies / 4); c.Next(); { // the objects are larger
		i := c.Number()
		if t.Failed() {
			break
		}
		workers.Go(func() error {
			w := fieldWrites{Rand: rand.New(rand.NewPCG(*lawSeed, uint64(i))), isOdd: i%2 == 0} //nolint:gosec // a test
			l.compareMappings(t, w, &refused, &stricter, &total)
			return nil
		})
	}
	_ = workers.Wait()
	t.Logf("%d requests, %d refused, %d only by barriers", total.Load(), refused.Load(), stricter.Load())
	if refused.Load()*4 < total.Load() || refused.Load()*4 > 3*total.Load() {
		t.Error("the test compares too little")
	}
}

func (l *law) compareMappings(t *testing.T, w fieldWrites, refusedCount, stricter, total *atomic.Int64) {
	t.Helper()
	mappings := w.mappings()
	table := mapping.NewTable(mappings...)
	var compiled []*barrier.Barrier
	for _, m := range mappings {
		exclusions, err := table.Exclusions(m.Name)
		if err != nil {
			t.Errorf("%v: %+v", err, m.Spec)
			return
		}
		b := l.barriers.CompileMapping(m.Name, exclusions)
		for _, r := range b.Report {
			if r.Reason != "" {
				t.Errorf("not translated: %+v of %+v", r, m.Spec)
			}
		}
		if b.Policy != nil {
			compiled = append(compiled, b)
		}
	}
	loaded := l.cluster.load(t, compiled...)
	defer loaded.close()
	for range *lawRequests {
		write := w.write(limitsValues(mappings))
		excluded, reason := write.isExcluded(t, nil, table)
		admitted, _ := write.attributes()
		refusal := loaded.Validate(t.Context(), admitted, objectInterfaces{})
		total.Add(1)
		if refusal != nil {
			refusedCount.Add(1)
		}
		isStricter := refusal != nil && !excluded
		if isStricter {
			stricter.Add(1)
		}
		if excluded && refusal == nil || isStricter && !w.isOdd && !write.mayBeStricter(mappings) {
			text, _ := json.Marshal(mappings)
			old, _ := json.Marshal(write.before)
			now, _ := json.Marshal(write.after)
			t.Errorf("excluded: %v %s\nrefused: %v\n%s %s by %s\nold %s\nnew %s\nmappings: %s\nbarriers: %v", excluded, reason, refusal, write.kind.Version, write.subresource, write.user.GetName(), old, now, text, textOf(compiled))
			return
		}
	}
}

func textOf(barriers []*barrier.Barrier) string {
	var b strings.Builder
	for _, one := range barriers {
		for _, v := range one.Policy.Spec.Variables {
			fmt.Fprintf(&b, "\n%s %s: %s", one.Policy.Name, v.Name, v.Expression)
		}
	}
	return b.String()
}
