/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// grantablePath is a field and what covers it, as far as the tests know. "*" in its path is
// any key, of which the last is the parameter.
type grantablePath struct {
	path, permission string
	parameter        func(string) string
}

func upToSlash(key string) string { before, _, _ := strings.Cut(key, "/"); return before }

func asItIs(key string) string { return key }

var grantablePaths = []grantablePath{
	{"metadata", "metadata", nil}, {"metadata labels", "labels", nil}, {"metadata labels *", "label", upToSlash},
	{"metadata annotations", "annotations", nil}, {"metadata annotations *", "annotation", upToSlash},
	{"metadata finalizers", "finalizers", nil}, {"metadata finalizers *", "finalizer", upToSlash}, {"metadata ownerReferences", "ownerReferences", nil},
	{"spec", "specification", nil}, {"spec replicas", "replicas", nil}, {"status", "status", nil},
	{"status conditions", "conditions", nil}, {"status conditions *", "condition", asItIs},
	{"spec tags *", "tag", asItIs}, {"spec selector", "selection", nil}, {"spec containers *", "container", asItIs}, {"spec containers * image", "release", asItIs},
}

// grantableMappings are the mappings of the last of them, with exclusions.
var grantableMappings = []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(
	things.Parameterized("spec.tags[*]", "tag", policy.FieldPermissionParameter{}), things.Field("spec.selector", "selection"),
	things.Parameterized("spec.containers[*]", "container", policy.FieldPermissionParameter{Key: "name"}),
	things.Parameterized("spec.containers[*].image", "release", policy.FieldPermissionParameter{Key: "name"}),
	things.Excluded("spec.replicas", "replicas", "value == 'a'"), things.Excluded(`metadata.labels["b"]`, "tier", ""), things.Excluded("status.phase", "phase", ""),
))}

// covers reports whether one of the verbs covers a path.
func covers(verbs, path []string) bool {
	return slices.ContainsFunc(grantablePaths, func(g grantablePath) bool {
		steps := strings.Fields(g.path)
		if len(steps) > len(path) {
			return false
		}
		key := ""
		for i, step := range steps {
			if step == "*" {
				key = path[i]
			} else if step != path[i] {
				return false
			}
		}
		verb := "granular:" + g.permission
		if g.parameter != nil {
			if key = g.parameter(key); key == "" {
				return false
			}
			verb += "(" + key + ")"
		}
		return slices.Contains(verbs, verb)
	})
}

// uncovered is what is left of a value without what verbs cover, and without what is empty
// then. It compares nothing: what an accepted write leaves must be the same before and after.
func uncovered(s *things.Shape, value any, verbs, path []string) any {
	if len(path) > 0 && (covers(verbs, path) || slices.Contains(things.Owned, "."+strings.Join(path, "."))) {
		return nil
	}
	within := func(key string, s *things.Shape, value any) any {
		return uncovered(s, value, verbs, append(slices.Clone(path), key))
	}
	switch s.Kind {
	case "object", "map":
		left := map[string]any{}
		fields, _ := value.(map[string]any)
		for name, v := range fields {
			field := s.Element
			if s.Kind == "object" {
				field = s.Fields[name]
			}
			if rest := within(name, field, v); rest != nil {
				left[name] = rest
			}
		}
		if len(left) > 0 {
			return left
		}
	case "set", "listMap":
		var left []any
		list, _ := value.([]any)
		for _, e := range list {
			element, key := things.Text, s.NameOf(e)
			if s.Kind == "listMap" {
				element = s.Element
			}
			if s.Kind == "set" {
				key, _ = e.(string)
			} else if len(s.Keys) == 1 {
				key, _ = things.Child(e, s.Keys[0]).(string)
			}
			if rest := within(key, element, e); rest != nil {
				left = append(left, rest)
			}
		}
		if len(left) > 0 {
			return left
		}
	default:
		if s.Kind != "scalar" && things.IsEmpty(value) {
			return nil
		}
		return []any{value} // so that null is something
	}
	return nil
}

// withdraw takes most changes back, so that some writes are accepted.
func withdraw(r *rand.Rand, before, after map[string]any) {
	for _, top := range []string{"metadata", "spec", "status"} {
		old, _ := before[top].(map[string]any)
		changed, _ := after[top].(map[string]any)
		if old == nil || changed == nil || r.IntN(3) == 0 {
			if old, ok := before[top]; ok {
				after[top] = old
			} else {
				delete(after, top)
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(things.Thing.Fields[top].Fields)) {
			if r.IntN(3) == 0 {
				continue
			}
			if v, ok := old[name]; ok {
				changed[name] = v
			} else {
				delete(changed, name)
			}
		}
	}
}

var moreGrantable = append(slices.Clone(grantable), "annotation(a)", "annotation(example.com)", "finalizer(b)", "finalizer(super.safe.com)", "condition(b)", "condition(example.com/a)",
	"tag(a)", "tag(b)", "tag(example.com/a)", "selection", "container(a)", "container(b)", "release(c)", "tier", "phase")

// tryUncovered makes a random write with random permissions, and reports whether it was
// accepted, and changed anything.
func tryUncovered(t *testing.T, differ changes.Differ, rules *mapping.Rules, seed uint64) (accepted, changed bool) {
	t.Helper()
	before, after := things.RandomPair(seed)
	r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test must be repeatable
	if before != nil {
		withdraw(r, before, after)
	}
	var verbs []string
	for _, verb := range moreGrantable {
		if r.IntN(2) > 0 {
			verbs = append(verbs, "granular:"+verb)
		}
	}
	made := changesOf(t, differ, things.Object(before), things.Object(after))
	checker := granular.Checker{Authorizer: &grants{verbs: verbs}}
	if checker.Exclude(t.Context(), rules, made, updateByBob).Allowed {
		for path, verb := range map[string]string{"spec replicas": "replicas", "metadata labels b": "tier", "status phase": "phase"} {
			was, is := valueAt(before, path), valueAt(after, path)
			if !reflect.DeepEqual(was, is) && !slices.Contains(verbs, "granular:"+verb) && (verb != "replicas" || is == "a") {
				t.Errorf("seed %d: %s was %v and became %v without its permission: %q", seed, path, was, is, verbs)
			}
		}
	}
	if !checker.Include(t.Context(), rules, made, updateByBob).Allowed {
		return false, false
	}
	// A permission on a field that is excluded covers it, too.
	for verb, path := range map[string][]string{"granular:tier": {"metadata", "labels", "b"}, "granular:phase": {"status", "phase"}} {
		if slices.Contains(verbs, verb) {
			removeAt(before, path)
			removeAt(after, path)
		}
	}
	if diff := cmp.Diff(uncovered(things.Thing, before, verbs, nil), uncovered(things.Thing, after, verbs, nil)); diff != "" {
		t.Errorf("seed %d: accepted with %q, but what nothing covers has changed (-before +after):\n%s", seed, verbs, diff)
	}
	return true, len(made.Paths()) > 0
}

func valueAt(object map[string]any, path string) any {
	var found any = object
	for step := range strings.FieldsSeq(path) {
		fields, _ := found.(map[string]any)
		found = fields[step]
	}
	return found
}

// removeAt removes a field, of a copy of what it is in.
func removeAt(object map[string]any, path []string) {
	fields, _ := object[path[0]].(map[string]any)
	if fields == nil {
		return
	}
	if len(path) == 2 {
		delete(fields, path[1])
		return
	}
	removeAt(fields, path[1:])
}

// FuzzUncovered makes random writes with random permissions. Take away what the permissions
// cover, and of an accepted one the same is left before and after. Nothing is compared field
// by field, so that it also finds what both diffs overlook.
func FuzzUncovered(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	differ, rules := changes.Differ{Types: things.Types(f)}, mapping.NewTable(grantableMappings...).For(things.Machines)
	f.Fuzz(func(t *testing.T, seed uint64) { tryUncovered(t, differ, rules, seed) })
}

// TestUncoveredIsTried makes sure that FuzzUncovered tries something.
func TestUncoveredIsTried(t *testing.T) {
	t.Parallel()
	differ, rules := changes.Differ{Types: things.Types(t)}, mapping.NewTable(grantableMappings...).For(things.Machines)
	accepted, changed := 0, 0
	for seed := range uint64(1000) {
		ok, something := tryUncovered(t, differ, rules, seed)
		if ok {
			accepted++
		}
		if something {
			changed++
		}
	}
	t.Logf("of 1000 writes, %d were accepted, %d of which changed something", accepted, changed)
	if changed < 100 || accepted > 900 {
		t.Errorf("of 1000 writes, %d were accepted, %d of which changed something: the test proves little", accepted, changed)
	}
}
