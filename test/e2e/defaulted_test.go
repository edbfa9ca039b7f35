/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// defaultedFile is the table of the fields that kube-apiserver always sets.
const defaultedFile = "../../pkg/policy/typechecking/defaulted.yaml"

const defaultedHeader = `# The fields that kube-apiserver sets in every object of a kind, or in every part of it that has the fields around them, although the schema of the
# kind need not say so. A path that ends in [*] is a list that is never empty, and one that ends in =null may be null.
# Written by UPDATE_GOLDEN=1 go test ./test/e2e -run '^TestDefaulted$'.
`

// TestDefaulted creates the objects of minimal.yaml in dry runs, and each of them with one field less or another value, and compares the fields that all
// answers have with the table.
func TestDefaulted(t *testing.T) {
	t.Parallel()
	var table struct{ Objects []map[string]any }
	readYAML(t, "testdata/minimal.yaml", &table)
	c := newCreator(t)
	byKind := map[string][]map[string]any{}
	var kinds []string
	for _, object := range table.Objects {
		kind := schema.FromAPIVersionAndKind(object["apiVersion"].(string), object["kind"].(string)).String()
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], object)
	}
	found := map[string][]string{}
	for _, kind := range kinds {
		paths := c.alwaysIn(t, byKind[kind])
		found[kind] = paths
		if !slices.Contains(paths, "metadata.namespace") {
			continue
		}
		if found["*"] == nil { // other kinds with a namespace
			found["*"] = slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !strings.HasPrefix(path, "metadata.") })
		}
		found["*"] = slices.DeleteFunc(found["*"], func(path string) bool { return !slices.Contains(paths, path) })
	}
	var text strings.Builder
	text.WriteString(defaultedHeader)
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&text, "%q: [\"%s\"]\n", kind, strings.Join(found[kind], `", "`))
	}
	golden.Compare(t, defaultedFile, text.String())
}

// creator creates objects in dry runs.
type creator struct {
	client  dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	schemas resolver.SchemaResolver
}

func newCreator(t *testing.T) *creator {
	t.Helper()
	admin := config(t, "admin")
	admin.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(admin)
	must(t, err)
	discovered, err := discovery.NewDiscoveryClientForConfig(admin)
	must(t, err)
	return &creator{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered)), schemas: &resolver.ClientDiscoveryResolver{Discovery: discovered}}
}

// always finds the fields that all objects of a kind have.
type always struct {
	mu sync.Mutex
	// keys has for each object the keys that all its instances have, and unasked the paths that kube-apiserver has set.
	keys    map[string]map[string]bool
	unasked map[string]bool
	// null has the paths that were null: some lists of built-in kinds are, instead of missing.
	null map[string]bool
	// accepted and refused have the changes that kube-apiserver has accepted and refused.
	accepted, refused map[string]bool
}

// alwaysIn returns the paths that all objects of a kind have, which the given ones are.
func (c *creator) alwaysIn(t *testing.T, objects []map[string]any) []string {
	t.Helper()
	kind := schema.FromAPIVersionAndKind(objects[0]["apiVersion"].(string), objects[0]["kind"].(string))
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	must(t, err)
	s, err := c.schemas.ResolveSchema(kind)
	must(t, err)
	var client dynamic.ResourceInterface = c.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == "namespace" {
		client = c.client.Resource(mapping.Resource).Namespace("default")
	}
	a := &always{keys: map[string]map[string]bool{}, unasked: map[string]bool{}, null: map[string]bool{}, accepted: map[string]bool{}, refused: map[string]bool{}}
	send := func(asked map[string]any) error {
		answer, err := client.Create(t.Context(), &unstructured.Unstructured{Object: asked}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			a.add(answer.Object, asked)
		}
		return err
	}
	group := errgroup.Group{}
	group.SetLimit(8)
	for i, object := range objects {
		object = runtime.DeepCopyJSON(integers(object).(map[string]any))
		metadata, _ := object["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			object["metadata"] = metadata
		}
		if metadata["name"] == nil {
			metadata["name"] = "defaulted"
		}
		if err := send(runtime.DeepCopyJSON(object)); err != nil {
			t.Errorf("%s %d: %v", kind, i, err)
		}
		for _, changed := range variantsOf(object, s) {
			group.Go(func() error {
				err := send(changed.object)
				a.mu.Lock()
				defer a.mu.Unlock()
				a.accepted[changed.name] = a.accepted[changed.name] || err == nil
				a.refused[changed.name] = a.refused[changed.name] || isRequired(err, changed.name)
				return nil
			})
		}
		unnamed := runtime.DeepCopyJSON(object)
		unnamed["metadata"].(map[string]any)["generateName"] = "defaulted-"
		delete(unnamed["metadata"].(map[string]any), "name")
		_ = send(unnamed) // some kinds need a name
	}
	must(t, group.Wait())
	return a.paths(s)
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// isRequired reports whether kube-apiserver says that what a change has removed is required, or something in it.
func isRequired(err error, change string) bool {
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return false
	}
	_, path, _ := strings.Cut(change, " ")
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		at := index.ReplaceAllString(cause.Field, "[*]")
		return cause.Type == metav1.CauseTypeFieldValueRequired && path != "" && (at == path || strings.HasPrefix(at, path+"."))
	})
}

// add adds an answer to a request.
func (a *always) add(answer, asked map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.visit("", answer, asked)
}

func (a *always) visit(path string, answer, asked any) {
	switch answer := answer.(type) {
	case map[string]any:
		before, isKnown := a.keys[path]
		now := map[string]bool{}
		wanted, _ := asked.(map[string]any)
		for key, value := range answer {
			at := strings.TrimPrefix(path+"."+key, ".")
			now[key] = !isKnown || before[key]
			if value == nil {
				a.null[at] = true
			}
			if _, isAsked := wanted[key]; !isAsked {
				a.unasked[at] = true
			}
			a.visit(at, value, wanted[key])
		}
		a.keys[path] = now
	case []any:
		wanted, _ := asked.([]any)
		for i, value := range answer {
			var of any
			if i < len(wanted) {
				of = wanted[i]
			}
			a.visit(path+"[*]", value, of)
		}
	}
}

// unstable are fields that later writes can remove, or that are not there yet at admission.
var unstable = []string{
	"status.", "metadata.managedFields", "metadata.generateName", "metadata.resourceVersion", "metadata.labels", "metadata.annotations", "metadata.finalizers",
	"spec.tolerations", "spec.taints", // by admission plugins
}

// paths returns the paths of fields that the schema has.
func (a *always) paths(s *spec.Schema) (paths []string) {
	for path, keys := range a.keys {
		for key, is := range keys {
			at := strings.TrimPrefix(path+"."+key, ".")
			isUnstable := slices.ContainsFunc(unstable, func(prefix string) bool { return strings.HasPrefix(at, prefix) })
			if isUnstable {
				continue
			}
			if is && (a.unasked[at] || a.refused["no "+at]) && hasField(s, at) {
				paths = append(paths, at)
			}
			if a.null[at] {
				paths = append(paths, at+"=null")
			}
			if empty := "empty " + at; is && a.refused[empty] && !a.accepted[empty] {
				paths = append(paths, at+"[*]")
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// hasField reports whether a schema has a field at a path.
func hasField(s *spec.Schema, path string) bool {
	for _, step := range strings.Split(path, ".") {
		name, lists, _ := strings.Cut(step, "[*]")
		property, ok := s.Properties[name]
		if !ok {
			return false
		}
		s = &property
		if strings.HasSuffix(step, "[*]") {
			for range 1 + strings.Count(lists, "[*]") {
				s = s.Items.Schema
			}
		}
	}
	return true
}

// variant is a changed object. The change has a name if it removes a field or empties a list.
type variant struct {
	object map[string]any
	name   string
}

// variantsOf returns an object with each field removed, each list emptied, and each other value of the fields that have few values.
func variantsOf(object map[string]any, s *spec.Schema) (variants []variant) {
	whole := func(name string) {
		variants = append(variants, variant{object: runtime.DeepCopyJSON(object), name: name})
	}
	var visit func(path string, at map[string]any, s *spec.Schema)
	visit = func(path string, at map[string]any, s *spec.Schema) {
		for name, property := range s.Properties {
			before, has := at[name]
			path := strings.TrimPrefix(path+"."+name, ".")
			values := slices.Clone(property.Enum)
			if len(property.Type) == 1 && property.Type[0] == "boolean" {
				values = []any{true, false}
			}
			if path == "metadata" || path == "apiVersion" || path == "kind" || path == "status" {
				continue
			}
			for _, value := range values {
				at[name] = value
				whole("")
			}
			delete(at, name)
			if !has {
				continue
			}
			whole("no " + path)
			at[name] = before
			switch below := before.(type) {
			case map[string]any:
				visit(path, below, &property)
			case []any:
				at[name] = []any{}
				whole("empty " + path)
				at[name] = below
				for _, element := range below {
					if inner, ok := element.(map[string]any); ok && property.Items != nil {
						visit(path+"[*]", inner, property.Items.Schema)
					}
				}
			}
		}
	}
	visit("", object, s)
	return variants
}

// integers makes the whole numbers in a document integers.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = integers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case float64:
		return int64(v)
	}
	return v
}
