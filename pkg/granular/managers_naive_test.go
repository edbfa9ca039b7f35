/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/test/testutil/things"
)

// ownedPaths returns the paths that each entry owns, as keys of fieldsV1 with a space between
// them, by manager and operation.
func ownedPaths(o *unstructured.Unstructured) map[string]map[string]bool {
	result := map[string]map[string]bool{}
	for _, e := range things.Managed(o) {
		e := e.(map[string]any)
		paths := map[string]bool{}
		var walk func(node map[string]any, path string)
		walk = func(node map[string]any, path string) {
			for key, below := range node {
				below := below.(map[string]any)
				at := strings.TrimPrefix(path+" "+key, " ")
				if _, itself := below["."]; key != "." && (itself || len(below) == 0) {
					paths[at] = true
				}
				walk(below, at)
			}
		}
		walk(e["fieldsV1"].(map[string]any), "")
		result[fmt.Sprint(e["manager"], "/", e["operation"])] = paths
	}
	return result
}

// at returns what an object has at a path, whether there is anything, and its shape.
func at(s *things.Shape, v any, path string) (found any, exists bool, of *things.Shape) {
	found, of = v, s
	for _, key := range strings.Split(path, " ") {
		kind, name, _ := strings.Cut(key, ":")
		switch {
		case kind == "f" && of.Kind == "object":
			of = of.Fields[name]
		case of.Kind == "set":
			of = things.Text
		default:
			of = of.Element
		}
		switch container := found.(type) {
		case map[string]any:
			found, exists = container[name]
		case []any:
			i := slices.IndexFunc(container, func(e any) bool { return kind+":"+naiveKey(e, kind, name) == key })
			if exists = i >= 0; exists {
				found = container[i]
			}
		default:
			exists = false
		}
		if !exists {
			return nil, false, of
		}
	}
	return found, true, of
}

// naiveKey is the key of fieldsV1 for an element of a list, in which all keys of want are.
func naiveKey(element any, kind, want string) string {
	if kind == "v" {
		key, _ := json.Marshal(element)
		return string(key)
	}
	keys, fields := map[string]any{}, element.(map[string]any)
	if json.Unmarshal([]byte(want), &keys) != nil {
		return ""
	}
	for name := range keys {
		if keys[name] = fields[name]; keys[name] == nil && name == "protocol" {
			keys[name] = "TCP"
		}
	}
	key, _ := json.Marshal(keys)
	return string(key)
}

// naiveName is the name of a path.
func naiveName(path string) string {
	result := ""
	for _, key := range strings.Split(path, " ") {
		kind, name, _ := strings.Cut(key, ":")
		switch {
		case kind == "f" && things.PlainName.MatchString(name):
			result += "." + name
		case kind == "f":
			result += fmt.Sprintf("[%q]", name)
		case kind == "v":
			result += "[" + name + "]"
		default:
			keys := map[string]any{}
			_ = json.Unmarshal([]byte(name), &keys)
			var parts []string
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				parts = append(parts, fmt.Sprintf("%s=%q", k, keys[k]))
			}
			result += "[" + strings.Join(parts, ",") + "]"
		}
	}
	return strings.TrimPrefix(result, ".")
}

// naiveClaims are the names of the fields that some manager gains or loses without a change.
func naiveClaims(before, after *unstructured.Unstructured) (claims []string) {
	old, now := ownedPaths(before), ownedPaths(after)
	contentBefore, contentAfter := things.WithoutEmptyStatus(before.Object), things.WithoutEmptyStatus(after.Object)
	for id := range mergedKeys(old, now) {
		for path := range mergedKeys(old[id], now[id]) {
			if old[id][path] == now[id][path] {
				continue
			}
			was, existed, of := at(things.Thing, contentBefore, path)
			is, exists, _ := at(things.Thing, contentAfter, path)
			isLeaf := of.Kind == "scalar" || strings.HasPrefix(of.Kind, "atomic")
			if existed == exists && (!isLeaf || reflect.DeepEqual(was, is)) {
				claims = append(claims, naiveName(path))
			}
		}
	}
	return claims
}

func mergedKeys[V any](a, b map[string]V) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}

// naiveWriter reports whether no entry but that of carol gains a field or has another time.
func naiveWriter(before, after *unstructured.Unstructured) bool {
	old, now := ownedPaths(before), ownedPaths(after)
	times := func(o *unstructured.Unstructured) map[string]any {
		result := map[string]any{}
		for _, e := range things.Managed(o) {
			e := e.(map[string]any)
			result[fmt.Sprint(e["manager"], "/", e["operation"])] = e["time"]
		}
		return result
	}
	timesBefore, timesAfter := times(before), times(after)
	written := []string{}
	for id, paths := range now {
		gains := old[id] == nil || timesBefore[id] != timesAfter[id]
		for path := range paths {
			gains = gains || !old[id][path]
		}
		if gains {
			written = append(written, id)
		}
	}
	return len(written) == 0 || len(written) == 1 && strings.HasPrefix(written[0], "carol/")
}

// withoutNulls returns a copy of a value without what is null.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		result := map[string]any{}
		for key, value := range v {
			if value != nil {
				result[key] = withoutNulls(value)
			}
		}
		return result
	case []any:
		result := []any{}
		for _, e := range v {
			result = append(result, withoutNulls(e))
		}
		return result
	}
	return v
}

// forge changes something about the managed fields of an object.
func forge(r *rand.Rand, o *unstructured.Unstructured) {
	list := things.Managed(o)
	if len(list) == 0 {
		return
	}
	i := r.IntN(len(list))
	e := list[i].(map[string]any)
	switch r.IntN(6) {
	case 0:
		things.SetManaged(o, slices.Delete(slices.Clone(list), i, i+1))
	case 1:
		e["time"] = "2027-01-01T00:00:00Z"
	case 2:
		e["manager"] = "x"
		e["operation"] = "Apply"
		dropTwins(o)
	default: // a path of one entry goes to another, or away
		from := list[r.IntN(len(list))].(map[string]any)["fieldsV1"].(map[string]any)
		to := e["fieldsV1"].(map[string]any)
		for {
			keys := slices.Sorted(maps.Keys(from))
			if len(keys) == 0 {
				return
			}
			key := keys[r.IntN(len(keys))]
			if r.IntN(3) == 0 || key == "." || to[key] == nil {
				if r.IntN(2) == 0 && to[key] != nil && len(to) > 1 {
					delete(to, key)
				} else {
					to[key] = withoutNulls(from[key])
				}
				return
			}
			from, to = from[key].(map[string]any), to[key].(map[string]any)
		}
	}
}

// dropTwins removes entries of the same manager and operation but the first: the API server
// stores no others.
func dropTwins(o *unstructured.Unstructured) {
	seen := map[string]bool{}
	things.SetManaged(o, slices.DeleteFunc(slices.Clone(things.Managed(o)), func(e any) bool {
		id := fmt.Sprint(e.(map[string]any)["manager"], "/", e.(map[string]any)["operation"])
		twin := seen[id]
		seen[id] = true
		return twin
	}))
}

// managedPair makes an object with managers, and what became of it when carol changed it, with
// the field manager of the API server. Half of the time she forges something, too.
func managedPair(t testing.TB, m *managedfields.FieldManager, seed uint64) (before, after *unstructured.Unstructured) {
	t.Helper()
	old, now := things.RandomPair(seed)
	if old == nil {
		old = map[string]any{"apiVersion": now["apiVersion"], "kind": now["kind"], "metadata": map[string]any{}}
	}
	r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test must be repeatable
	named := func(content map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: withoutNulls(content).(map[string]any)}
		o.SetGroupVersionKind(things.Kind)
		if o.Object["metadata"] == nil {
			o.Object["metadata"] = map[string]any{}
		}
		return o
	}
	first, second, third := named(old), named(things.Thing.Edit(r, old, 0).(map[string]any)), named(now)
	empty := &unstructured.Unstructured{Object: map[string]any{"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": map[string]any{}}}
	live := updatedBy(t, m, "x", empty, first)
	for i, o := range []*unstructured.Unstructured{second, third} {
		for _, e := range things.Managed(live) { // a second has passed
			e.(map[string]any)["time"] = fmt.Sprintf("2026-01-0%dT00:00:00Z", i+1)
		}
		before, live = live, updatedBy(t, m, []string{"y", "carol"}[i], live, o)
	}
	after = live.DeepCopy()
	if r.IntN(2) == 0 {
		forge(r, after)
	}
	return before, after
}

// checkManagedPair compares what is decided about a write with the naive rule, and returns
// whether the write was allowed.
func checkManagedPair(t testing.TB, m *managedfields.FieldManager, seed uint64) (allowed, claimed bool) {
	t.Helper()
	before, after := managedPair(t, m, seed)
	r := rand.New(rand.NewPCG(seed, 4)) //nolint:gosec // a test must be repeatable
	verbs := []string{"granular"}
	for _, verb := range grantable {
		if r.IntN(5) > 0 {
			verbs = append(verbs, "granular:"+verb)
		}
	}
	claims := naiveClaims(before, after)
	want := naiveWriter(before, after)
	for _, path := range append(things.Changes(contentOf(before), contentOf(after)), claims...) {
		want = want && slices.ContainsFunc(naiveVerbs(path), func(verb string) bool { return slices.Contains(verbs, verb) })
	}
	decision, reason := decide(t, updateFrom(before, after, "carol"), strings.Join(verbs, " "))
	if got := decision == authorizer.DecisionAllow; got != want {
		t.Fatalf("seed %d: got allowed %t: %s\nwant %t, with the claims %q and the verbs %q\nbefore %v\nafter %v", seed, got, reason, want, claims, verbs, before, after)
	}
	return want, len(claims) > 0
}

// contentOf is an object without managed fields.
func contentOf(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	things.SetManaged(o, nil)
	return o.Object
}

// FuzzManagedFields compares with a rule that was written for the test, on what the field manager
// of the API server makes of random writes, and forgeries of that.
func FuzzManagedFields(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	m := thingManager(f)
	f.Fuzz(func(t *testing.T, seed uint64) { checkManagedPair(t, m, seed) })
}

// TestManagedPairsDiffer makes sure that FuzzManagedFields compares something.
func TestManagedPairsDiffer(t *testing.T) {
	t.Parallel()
	m := thingManager(t)
	var allowed, refused, claims int
	for seed := range uint64(300) {
		ok, claimed := checkManagedPair(t, m, seed)
		if claimed {
			claims++
		}
		if ok {
			allowed++
		} else {
			refused++
		}
	}
	if allowed < 20 || refused < 20 || claims < 20 {
		t.Errorf("%d pairs were allowed, %d were refused, %d had claims: the comparison proves little", allowed, refused, claims)
	}
}
