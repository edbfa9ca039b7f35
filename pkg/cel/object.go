/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// ObjectReader makes Go objects values of CEL. Expressions see the data to which
// runtime.DefaultUnstructuredConverter converts an object, but only the fields that they read are converted. An ObjectReader
// is for one evaluation, and must not be used concurrently.
type ObjectReader struct {
	err error
}

// Read returns an object as the value of a variable. It returns null if there is no object, and if the object is no pointer
// to a struct, which Err then reports. The object must not change during the evaluation.
func (r *ObjectReader) Read(object runtime.Object) any {
	v := reflect.ValueOf(object)
	switch {
	case !v.IsValid(), v.Kind() == reflect.Pointer && v.IsNil():
		return types.NullValue
	case v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct:
		r.fail(fmt.Errorf("an object must be a pointer to a struct, but is %T", object))
		return types.NullValue
	}
	if untyped, ok := object.(runtime.Unstructured); ok {
		return untyped.UnstructuredContent()
	}
	return r.structValue(v.Elem())
}

// Err returns the first error of converting data that the evaluation has read, or nil. If there is an error, the result of
// the evaluation must not be used, because the data were missing in it.
func (r *ObjectReader) Err() error { return r.err }

func (r *ObjectReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *ObjectReader) structValue(v reflect.Value) ref.Val {
	return Lazy(&structFields{reader: r, value: v})
}

// structFields are the fields of an addressable struct. They are converted once: a macro may read a field
// once for each of many elements, and the cost limit does not count conversions.
type structFields struct {
	reader *ObjectReader
	value  reflect.Value
	whole  map[string]any
	memo   map[string]Value
}

var _ Fields = &structFields{}

// Whole implements Fields.
func (f *structFields) Whole() Value { return types.DefaultTypeAdapter.NativeToValue(f.converted()) }

func (f *structFields) converted() map[string]any {
	if f.whole == nil {
		var err error
		if f.whole, err = runtime.DefaultUnstructuredConverter.ToUnstructured(f.value.Addr().Interface()); err != nil {
			f.reader.fail(err)
			f.whole = map[string]any{}
		}
	}
	return f.whole
}

// Field implements Fields. Fields that cannot be read in place are taken from a conversion of the whole
// struct.
func (f *structFields) Field(name string) (Value, bool) {
	if !isReadable(f.value.Type()) {
		return f.convertedField(name)
	}
	entry, ok := value.TypeReflectEntryOf(f.value.Type()).Fields()[name]
	if !ok {
		return nil, false
	}
	field := entry.GetFrom(f.value)
	if !field.CanAddr() { // of an embedded struct that is not there
		return f.convertedField(name)
	}
	if entry.CanOmit(field) {
		return nil, false
	}
	if result := scalar(field); result != nil {
		return result, true
	}
	if result, ok := f.memo[name]; ok {
		return result, true
	}
	if result := f.reader.aggregate(field); result != nil {
		return f.memoize(name, result), true
	}
	return f.convertedField(name)
}

func (f *structFields) convertedField(name string) (Value, bool) {
	if result, ok := f.memo[name]; ok {
		return result, true
	}
	converted, ok := f.converted()[name]
	if !ok {
		return nil, false
	}
	return f.memoize(name, types.DefaultTypeAdapter.NativeToValue(converted)), true
}

func (f *structFields) memoize(name string, result Value) Value {
	if f.memo == nil {
		f.memo = map[string]Value{}
	}
	f.memo[name] = result
	return result
}

// readable caches the results of isReadable, by type.
var readable sync.Map

// isReadable reports whether the fields of a struct can be read one by one. It returns false if the
// struct, or a struct that is inlined in it, has a conversion of its own, if two fields have
// the same name, or if structs are inlined deeper than maxInlined, where package value finds wrong fields.
func isReadable(t reflect.Type) bool {
	if known, ok := readable.Load(t); ok {
		return known.(bool)
	}
	found := !isConverted(t) && isFlat(t, map[string]bool{}, maxInlined)
	readable.Store(t, found)
	return found
}

// maxInlined is how deep structs may be inlined in a struct that is read field by field.
const maxInlined = 2

func isFlat(t reflect.Type, names map[string]bool, depth int) bool {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch isInlined := strings.Contains(options, "inline") || field.Anonymous && name == ""; {
		case name == "-", !field.IsExported() && !field.Anonymous:
		case isInlined:
			inlined := field.Type
			if inlined.Kind() == reflect.Pointer {
				inlined = inlined.Elem()
			}
			if depth == 0 || inlined.Kind() != reflect.Struct || isConverted(inlined) || !isFlat(inlined, names, depth-1) {
				return false
			}
		default:
			if name = cmp.Or(name, field.Name); names[name] {
				return false
			}
			names[name] = true
		}
	}
	return true
}

// scalar returns the value of a scalar, or nil.
func scalar(v reflect.Value) ref.Val {
	switch v.Kind() {
	case reflect.String:
		return types.String(v.String())
	case reflect.Bool:
		return types.Bool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return types.Int(v.Int())
	case reflect.Float32, reflect.Float64:
		return types.Double(v.Float())
	default:
		return nil
	}
}

// aggregate returns the value of a struct, a pointer, a map of strings or a slice that can be read without converting all of
// it. It returns nil for everything else, and for types that have a conversion of their own.
func (r *ObjectReader) aggregate(v reflect.Value) ref.Val {
	if isConverted(v.Type()) {
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		return r.structValue(v)
	case reflect.Pointer:
		if v.IsNil() {
			return types.NullValue
		}
		if isConverted(v.Type().Elem()) {
			return nil
		}
		if result := scalar(v.Elem()); result != nil {
			return result
		}
		return r.aggregate(v.Elem())
	case reflect.Map:
		if texts, ok := v.Interface().(map[string]string); ok && texts != nil {
			return types.NewStringStringMap(types.DefaultTypeAdapter, texts)
		}
	case reflect.Slice:
		return r.list(v)
	default:
	}
	return nil
}

// list returns the value of a slice of strings or of structs, or nil for every other slice and for a nil slice.
func (r *ObjectReader) list(v reflect.Value) ref.Val {
	if texts, ok := v.Interface().([]string); ok && texts != nil {
		return Texts(texts)
	}
	if element := v.Type().Elem(); v.IsNil() || element.Kind() != reflect.Struct || isConverted(element) {
		return nil
	}
	elements := make([]ref.Val, 0, v.Len())
	for i := range v.Len() {
		elements = append(elements, r.structValue(v.Index(i)))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}

func isConverted(t reflect.Type) bool { return value.TypeReflectEntryOf(t).CanConvertToUnstructured() }
