/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel_test

import (
	"encoding/json"
	"reflect"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestObjectsAreAsConverted reads random objects field by field, and asks that they are
// what they are converted to as a whole.
func TestObjectsAreAsConverted(t *testing.T) {
	t.Parallel()
	const rounds = 40
	filler := randfill.NewWithSeed(1).NilChance(0.5).NumElements(0, 2).Funcs(metafuzzer.Funcs(serializer.NewCodecFactory(runtime.NewScheme()))...)
	for range rounds {
		for _, object := range []runtime.Object{
			&corev1.Pod{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Event{},
			&appsv1.Deployment{}, &networkingv1.NetworkPolicy{}, &rbacv1.ClusterRole{}, &metav1.UpdateOptions{}, &metav1.CreateOptions{},
		} {
			asConverted(t, object) // empty
			filler.Fill(object)
			asConverted(t, object)
		}
	}
}

func asConverted(t *testing.T, object runtime.Object) {
	t.Helper()
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	var reader cel.ObjectReader
	read, ok := reader.Read(object).(ref.Val)
	if !ok {
		t.Fatalf("got %T", reader.Read(object))
	}
	same(t, "", read, want)
	if err := reader.Err(); err != nil {
		t.Errorf("%T: %v", object, err)
	}
}

// same reads everything of a value by its fields.
func same(t *testing.T, path string, got ref.Val, want any) {
	t.Helper()
	whole := types.DefaultTypeAdapter.NativeToValue(want)
	if got.Type() != whole.Type() {
		t.Errorf("%s: got %v, want %v", path, got, want)
		return
	}
	switch data := want.(type) {
	case map[string]any:
		m, ok := got.(traits.Mapper)
		if !ok {
			t.Errorf("%s: got %T", path, got)
			return
		}
		for name, value := range data {
			field, ok := m.Find(types.String(name))
			if !ok {
				t.Errorf("%s.%s is not there, want %v", path, name, value)
				continue
			}
			same(t, path+"."+name, field, value)
		}
		for _, name := range []string{"creationTimestamp", "nodeName", "generation", "replicas", "spec", "status", "metadata", "labels", "tolerations", "volumeName", "TypeMeta", "ObjectMeta", ""} {
			if _, there := data[name]; m.Contains(types.String(name)) != types.Bool(there) {
				t.Errorf("%s.%s is there: %t, want %t", path, name, !there, there)
			}
		}
	case []any:
		list, ok := got.(traits.Lister)
		if !ok || list.Size() != types.Int(len(data)) {
			t.Errorf("%s: got %v, want %v", path, got, want)
			return
		}
		for i, value := range data {
			same(t, path+"[]", list.Get(types.Int(i)), value)
		}
	}
	if types.Equal(got, whole) != types.True || types.Equal(whole, got) != types.True {
		t.Errorf("%s: got %v, want %v", path, got, want)
	}
}

// odd is an object that cannot be converted, and one of a shape that is not read in part.
type odd struct {
	metav1.TypeMeta `json:",inline"`
	*Inlined        `json:",inline"`

	Huge  uint64           `json:"huge,omitempty"`
	Name  string           `json:"name"`
	Uint  uint32           `json:"uint"`
	Bytes []byte           `json:"bytes"`
	Any   any              `json:"any"`
	Lists [][]string       `json:"lists"`
	Maps  map[string][]int `json:"maps"`
	Point **string         `json:"point"`

	Loud  loud   `json:"loud"`
	Louds []loud `json:"louds"`
	Aloud *loud  `json:"aloud"`
}

// loud says itself how it is converted, though it is a string.
type loud string

func (l loud) MarshalJSON() ([]byte, error) { return json.Marshal(l.ToUnstructured()) }
func (l loud) ToUnstructured() any          { return strings.ToUpper(string(l)) }

// Inlined are fields that may not be there.
type Inlined struct {
	Inner string `json:"inner"`
}

func (o *odd) DeepCopyObject() runtime.Object   { return o }
func (o *odd) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func TestOddObjectsAreAsConverted(t *testing.T) {
	t.Parallel()
	text := "x"
	pointer := &text
	asConverted(t, &odd{})
	asConverted(t, &odd{
		Inlined: &Inlined{Inner: "i"}, Name: "n", Uint: 3, Bytes: []byte("b"), Any: map[string]any{"a": int64(1)},
		Lists: [][]string{{"a"}, nil}, Maps: map[string][]int{"m": {1}}, Point: &pointer,
		Loud: "a", Louds: []loud{"b"}, Aloud: ptr.To(loud("c")),
	})
}

// Types that cannot be read field by field.
type (
	deep struct {
		deep1 `json:",inline"`
	}
	deep1 struct {
		deep2 `json:",inline"`
	}
	deep2 struct {
		Deep3 `json:",inline"`
	}
	// Deep3 is inlined three deep.
	Deep3 struct {
		Owner   string `json:"owner"`
		Comment string `json:"comment"`
	}
	twice struct {
		Deep3 `json:",inline"`
		Again string `json:"owner,omitempty"`
	}
	itself struct {
		Name string `json:"name"`
	}
	within struct {
		itself `json:",inline"`
		Other  string `json:"other"`
	}
)

func (itself) MarshalJSON() ([]byte, error) { return []byte(`{"name":"hidden","more":"there"}`), nil }

// typed makes an object of a struct.
type typed[T any] struct {
	Spec T `json:"spec"`
}

func (o *typed[T]) DeepCopyObject() runtime.Object   { return o }
func (o *typed[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// root is an object that says itself how it is converted.
type root struct {
	Name string `json:"name"`
}

func (o *root) DeepCopyObject() runtime.Object   { return o }
func (o *root) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (o *root) MarshalJSON() ([]byte, error)     { return []byte(`{"name":"hidden","spec":"there"}`), nil }

func TestObjectsThatAreNoSumOfTheirFieldsAreAsConverted(t *testing.T) {
	t.Parallel()
	deepest := Deep3{Owner: "bob", Comment: "alice"}
	asConverted(t, &typed[deep]{deep{deep1{deep2{deepest}}}})
	asConverted(t, &typed[deep1]{deep1{deep2{deepest}}})
	asConverted(t, &typed[twice]{twice{Deep3: deepest}})
	asConverted(t, &typed[twice]{twice{Deep3: deepest, Again: "carol"}})
	asConverted(t, &typed[within]{within{itself{"a"}, "b"}})
	asConverted(t, &root{Name: "a"})
}

// TestReadingAgainTakesNothing reads fields in a macro over many elements: what that takes
// must grow with their number, not with its square.
func TestReadingAgainTakesNothing(t *testing.T) {
	t.Parallel()
	const elements = 2000
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		CreationTimestamp: metav1.Now(), OwnerReferences: make([]metav1.OwnerReference, elements), ManagedFields: make([]metav1.ManagedFieldsEntry, elements),
	}}
	for _, expression := range []string{
		"object.metadata.ownerReferences.all(r, r.uid == object.metadata.ownerReferences[0].uid)",
		"object.metadata.ownerReferences.all(r, object.metadata.creationTimestamp != null)",
	} {
		program := compilers.Compiled(t, compilers.Conditions(t), expression)
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		var reader cel.ObjectReader
		if result, _, err := program.Eval(t.Context(), cel.Values{cel.Object: reader.Read(pod)}); err != nil || !result {
			t.Errorf("%s: got %v, %v", expression, result, err)
		}
		goruntime.ReadMemStats(&after)
		// The process allocates for other tests, too; the square would be four million and more.
		if made := after.Mallocs - before.Mallocs; made > 1000*elements {
			t.Errorf("%s: %d allocations", expression, made)
		}
	}
}

// TestObjectReader asks what becomes of objects that are not there, that are read already,
// and that cannot be converted.
func TestObjectReader(t *testing.T) {
	t.Parallel()
	var nobody *corev1.Pod
	content := map[string]any{"a": "b"}
	reader := &cel.ObjectReader{}
	for name, object := range map[string]runtime.Object{"nothing": nil, "a nil pointer": nobody} {
		if got := reader.Read(object); got != types.NullValue {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if got, ok := reader.Read(&unstructured.Unstructured{Object: content}).(map[string]any); !ok || got["a"] != "b" {
		t.Errorf("got %v", got)
	}
	program := compilers.Compiled(t, compilers.Conditions(t), `object.name == "n" || object.all(k, k == "none")`)
	for name, tc := range map[string]struct {
		object odd
		fails  bool
	}{
		"what is read can be converted": {object: odd{Name: "n", Huge: 1 << 63}, fails: false},
		"what is read cannot":           {object: odd{Name: "m", Huge: 1 << 63}, fails: true},
	} {
		reader := &cel.ObjectReader{}
		_, _, _ = program.Eval(t.Context(), cel.Values{cel.Object: reader.Read(&tc.object)})
		if err := reader.Err(); (err != nil) != tc.fails {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// counted are fields that count how often they are made as a whole.
type counted struct {
	data  map[string]any
	whole *atomic.Int32
}

func (c counted) Field(key string) (cel.Value, bool) {
	value, ok := c.data[key]
	if !ok {
		return nil, false
	}
	if nested, ok := value.(map[string]any); ok {
		return cel.Lazy(counted{nested, c.whole}), true
	}
	return cel.Known(value), true
}

func (c counted) Whole() cel.Value {
	c.whole.Add(1)
	return cel.Known(c.data)
}

func lazyData() map[string]any {
	return map[string]any{
		"a": int64(1), "b": "two", "c": []any{"x", int64(2)}, "d": nil, "e": map[string]any{"f": "g", "h": map[string]any{}}, "": true,
	}
}

// TestLazy asks that expressions cannot tell a lazy map from one that is made at once, and
// that reading fields does not make it.
func TestLazy(t *testing.T) {
	t.Parallel()
	compiler := compilers.Conditions(t)
	for _, tc := range []struct {
		expression string
		wantWhole  bool
	}{
		{expression: `object.a == 1`, wantWhole: false},
		{expression: `object["b"] == "two"`, wantWhole: false},
		{expression: `object.e.f == "g"`, wantWhole: false},
		{expression: `object.c[0] == "x" && object.c.size() == 2`, wantWhole: false},
		{expression: `object.missing == 1`, wantWhole: false},
		{expression: `object.e.missing == 1`, wantWhole: false},
		{expression: `object.d == null`, wantWhole: false},
		{expression: `object.d.x == 1`, wantWhole: false},
		{expression: `has(object.a) && !has(object.missing) && !has(object.e.missing)`, wantWhole: false},
		{expression: `"a" in object && !("x" in object) && "f" in object.e`, wantWhole: true}, // for its bounds
		{expression: `object.?a.orValue(2) == 1 && object.?x.orValue(2) == 2 && object.e[?"f"].hasValue()`, wantWhole: false},
		{expression: `object[""] == true`, wantWhole: false},
		{expression: `1 in object`, wantWhole: true},
		{expression: `object[1] == 2`, wantWhole: true},
		{expression: `object[?1].hasValue()`, wantWhole: true},
		{expression: `object[1.5] == 2 || object[1u] == 2 || object[true] == 2`, wantWhole: true},
		{expression: `object[object.d] == 2`, wantWhole: false},
		{expression: `object == {"a": 1}`, wantWhole: true},
		{expression: `{"a": 1} == object`, wantWhole: true},
		{expression: `object.e == {"f": dyn("g"), "h": dyn({})}`, wantWhole: true},
		{expression: `{"f": dyn("g"), "h": dyn({})} == object.e`, wantWhole: true},
		{expression: `object.e in [object.e]`, wantWhole: true},
		{expression: `object == object`, wantWhole: true},
		{expression: `object == 1 || object == "x" || object == null || object == [1]`, wantWhole: true},
		{expression: `object != {}`, wantWhole: true},
		{expression: `size(object) == 6 && object.e.size() == 2`, wantWhole: true},
		{expression: `object.all(k, k.size() < 2)`, wantWhole: true},
		{expression: `object.exists(k, object[k] == "two")`, wantWhole: true},
		{expression: `object.exists_one(k, v, v == "two")`, wantWhole: true},
		{expression: `object.e.transformList(k, v, k).exists(k, k == "f")`, wantWhole: true},
		{expression: `object.transformMap(k, v, k == "b", v + "!") == {"b": "two!"}`, wantWhole: true},
		{expression: `object.map(k, k).exists(k, k == "a")`, wantWhole: true},
		{expression: `optional.ofNonZeroValue(object.e.h).hasValue() || !optional.ofNonZeroValue(object).hasValue()`, wantWhole: true},
		{expression: `type(object) == map && type(object.e) == type({})`, wantWhole: true},
		{expression: `dyn(object) < 1`, wantWhole: false},
		{expression: `string(object) == "x"`, wantWhole: false},
		{expression: `object + object == object`, wantWhole: false},
		{expression: `"%s".format([object.e.h]) == "{}"`, wantWhole: true},
	} {
		t.Run(tc.expression, func(t *testing.T) {
			t.Parallel()
			program := compilers.Compiled(t, compiler, tc.expression)
			want, wantCost, wantErr := program.Eval(t.Context(), cel.Values{cel.Object: cel.Known(lazyData())})
			fields := counted{lazyData(), &atomic.Int32{}}
			got, cost, err := program.Eval(t.Context(), cel.Values{cel.Object: cel.Lazy(fields)})
			// The cost of a macro depends on the order of keys, which is random.
			if got != want || (!tc.wantWhole && cost != wantCost) || (err == nil) != (wantErr == nil) || (err != nil && err.Error() != wantErr.Error()) {
				t.Errorf("got %t, %d, %v, want %t, %d, %v", got, cost, err, want, wantCost, wantErr)
			}
			if whole := fields.whole.Load() > 0; whole != tc.wantWhole {
				t.Errorf("the whole was made: %t, want %t", whole, tc.wantWhole)
			}
		})
	}
}

// TestLazyIsMadeOnce shares a lazy map between evaluations that need all of it.
func TestLazyIsMadeOnce(t *testing.T) {
	t.Parallel()
	program := compilers.Compiled(t, compilers.Conditions(t), `size(object) == 6 && object.exists(k, k == "a") && object.a == 1`)
	fields := counted{lazyData(), &atomic.Int32{}}
	values := cel.Values{cel.Object: cel.Lazy(fields)}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if ok, _, err := program.Eval(t.Context(), values); !ok || err != nil {
				t.Errorf("got %t, %v", ok, err)
			}
		})
	}
	group.Wait()
	if n := fields.whole.Load(); n != 1 {
		t.Errorf("the whole was made %d times", n)
	}
}

// wholeFields are fields that are read from a map that is made at once.
type wholeFields struct{ data map[string]any }

func (w wholeFields) Field(key string) (cel.Value, bool) {
	value, ok := w.data[key]
	if !ok {
		return nil, false
	}
	return cel.Known(value), true
}

func (w wholeFields) Whole() cel.Value { return cel.Known(w.data) }

func typeOf(v any) reflect.Type { return reflect.TypeOf(v) }
