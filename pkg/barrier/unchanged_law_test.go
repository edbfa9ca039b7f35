/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// pairsOfPaths is how many pairs of objects are tried for the same paths.
const pairsOfPaths = 20

// TestUnchanged compares unchanged with an oracle that removes the named fields, for random objects and paths: as it is evaluated in the server,
// as a residual condition, and in the barrier of a policy as kube-apiserver evaluates it.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	l, conditions := newLaw(t), compilers.Conditions(t)
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	same, differ := 0, 0
	all := cases.Of(600)
	for all.Next() {
		r := &randomObjects{rand.New(rand.NewPCG(5681, uint64(all.Number())))} //nolint:gosec // random cases
		paths := r.paths()
		condition := "unchanged(object, oldObject, [" + strings.Join(quotedPaths(paths), ", ") + "])"
		expression, err := l.policies.Compile(condition)
		if err != nil {
			t.Fatalf("%s: %v", condition, err)
		}
		plan, err := expression.Plan(cel.Request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := plan.Eval(t.Context(), cel.Values{cel.Request: cel.Known(map[string]any{})}).Residual().Text()
		if err != nil {
			t.Fatalf("%s: %v", condition, err)
		}
		residual, err := conditions.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		var writes []*barrierlaw.Write
		for range pairsOfPaths {
			old := r.object()
			now := r.changed(old)
			want := reflect.DeepEqual(withoutFields(now, paths), withoutFields(old, paths))
			if want {
				same++
			} else {
				differ++
			}
			values := cel.Values{cel.Object: now, cel.OldObject: old}
			for way, evaluate := range map[string]func(context.Context, cel.Values) (bool, uint64, error){"policy": expression.Program().Eval, "residual": residual.Eval} {
				if got, _, err := evaluate(t.Context(), values); err != nil || got != want {
					t.Fatalf("%s, %s: got %t, %v, want %t\nold %v\nnew %v", way, condition, got, err, want, old, now)
				}
			}
			writes = append(writes, &barrierlaw.Write{
				AttributesRecord: authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "update", APIGroup: kind.Group, APIVersion: kind.Version, Resource: "widgets", Namespace: "demo", Name: "a", ResourceRequest: true},
				Operation:        admission.Update, ObjectName: "a", Object: &unstructured.Unstructured{Object: now}, OldObject: &unstructured.Unstructured{Object: old}, Kind: kind,
			})
		}
		spec := denial("!"+condition, policyv1alpha1.PolicyRule{Verbs: everyWrite, APIGroups: []string{kind.Group}, Resources: []string{"widgets"}})
		l.compare(t, engine.Key{Name: fmt.Sprint("p", all.Number())}, spec, writes)
	}
	if same < all.Share(2000) || differ < all.Share(2000) {
		t.Errorf("%d pairs are the same, and %d differ", same, differ)
	}
	if covered, total := l.covered.Load(), l.total.Load(); covered != total || l.refused.Load() == 0 {
		t.Errorf("barriers cover %d of %d writes, and refuse %d", covered, total, l.refused.Load())
	}
}

// TestUnchangedInManyObjects names fields in as many objects as may be: the longest condition that a call becomes can be translated, and a built-in kind has
// room for it.
func TestUnchangedInManyObjects(t *testing.T) {
	t.Parallel()
	condition := `!unchanged(object, oldObject, ["metadata.annotations['example.com/a']", "metadata.labels['example.com/b']", "spec.template.metadata.labels", "status.loadBalancer"])`
	spec := denial(condition, policyv1alpha1.PolicyRule{Verbs: everyWrite, APIGroups: []string{"apps"}, Resources: []string{"deployments"}})
	compiled, err := newLaw(t).barriers.Compile(engine.Key{Name: "p"}, spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, report := range compiled.Report {
		if report.Reason != "" {
			t.Errorf("no barrier for %v: %s", report.Verbs, report.Reason)
		}
	}
	if reason := barrier.OverWork(compiled, nil); reason != "" {
		t.Error(reason)
	}
}

// randomObjects makes objects with few names, so that many fields are in the paths.
type randomObjects struct{ *rand.Rand }

func (r *randomObjects) of(names ...string) string { return names[r.IntN(len(names))] }

func (r *randomObjects) object() map[string]any {
	o := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a", "resourceVersion": "1", "generation": int64(1)}}
	for _, name := range []string{"data", "spec", "binaryData", "a.b/c"} {
		if r.IntN(2) == 0 {
			o[name] = r.value(3)
		}
	}
	if r.IntN(2) == 0 {
		o["metadata"].(map[string]any)["annotations"] = r.value(1)
	}
	return o
}

func (r *randomObjects) value(depth int) any {
	if depth == 0 || r.IntN(3) == 0 {
		return [...]any{int64(1), "x", nil, true, []any{}, []any{int64(1), map[string]any{"a": nil}}, map[string]any{}}[r.IntN(7)]
	}
	m := map[string]any{}
	for _, name := range []string{"a", "b", "a.b/c"} {
		if r.IntN(2) == 0 {
			m[name] = r.value(depth - 1)
		}
	}
	return m
}

// changed returns a copy of an object with some fields that are changed, removed or added, and other metadata of the server.
func (r *randomObjects) changed(old map[string]any) map[string]any {
	now := runtime.DeepCopyJSON(old)
	for range r.IntN(3) {
		at, names := now, []string{"data", "spec", "binaryData", "a.b/c", "immutable"}
		for depth := 0; ; depth++ {
			name := r.of(names...)
			if inner, ok := at[name].(map[string]any); ok && depth < 3 && r.IntN(3) > 0 {
				at, names = inner, []string{"a", "b", "a.b/c"}
				continue
			}
			if delete(at, name); r.IntN(2) == 0 {
				at[name] = r.value(max(0, 2-depth))
			}
			break
		}
	}
	meta := now["metadata"].(map[string]any)
	meta["resourceVersion"], meta["uid"] = "2", "u"
	delete(meta, "generation")
	if r.IntN(4) == 0 {
		meta["labels"] = map[string]any{"a": "b"}
	}
	return now
}

// paths returns up to three paths, none inside another.
func (r *randomObjects) paths() (paths [][]string) {
	for range r.IntN(4) {
		path := []string{r.of("data", "spec", "binaryData", "metadata", "a.b/c", "nothing")}
		for range r.IntN(3) {
			path = append(path, r.of("a", "b", "a.b/c", "annotations", "labels"))
		}
		isInside := func(other []string) bool {
			shared := min(len(other), len(path))
			return slices.Equal(other[:shared], path[:shared])
		}
		if !slices.ContainsFunc(paths, isInside) {
			paths = append(paths, path)
		}
	}
	return paths
}

func quotedPaths(paths [][]string) (quoted []string) {
	for _, path := range paths {
		text := ""
		for i, name := range path {
			switch {
			case strings.Contains(name, "/"):
				text += "['" + name + "']"
			case i > 0:
				text += "." + name
			default:
				text += name
			}
		}
		quoted = append(quoted, `"`+text+`"`)
	}
	return quoted
}

// withoutFields returns a copy of an object without the fields at paths, and without the metadata that the server writes. The objects around
// these fields are in it, also if they were missing.
func withoutFields(object map[string]any, paths [][]string) map[string]any {
	rest := runtime.DeepCopyJSON(object)
	for _, name := range strings.Fields("creationTimestamp deletionGracePeriodSeconds deletionTimestamp generation managedFields resourceVersion selfLink uid") {
		paths = append(paths[:len(paths):len(paths)], []string{"metadata", name})
	}
	for _, path := range paths {
		at := rest
		for i, name := range path {
			if i == len(path)-1 {
				delete(at, name)
				break
			}
			if _, has := at[name]; !has {
				at[name] = map[string]any{}
			}
			inner, isObject := at[name].(map[string]any)
			if !isObject {
				break
			}
			at = inner
		}
	}
	return rest
}
