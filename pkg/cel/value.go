/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"reflect"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Value is a value of CEL.
type Value = ref.Val

// Text returns a string as a value of CEL.
func Text(text string) Value { return types.String(text) }

// Texts returns a list of CEL with texts as its elements. It shares the slice: the caller must not change it afterwards.
func Texts(texts []string) Value { return types.NewStringList(types.DefaultTypeAdapter, texts) }

// Known converts data, as decoded from JSON, to a CEL value for a known variable. It converts maps of Go at every depth,
// because a CEL map over a map of Go does not treat keys of all types alike.
func Known(data any) Value {
	switch value := data.(type) {
	case map[string]any:
		entries := make(map[Value]Value, len(value))
		for k, v := range value {
			entries[types.String(k)] = Known(v)
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, entries)
	case []any:
		elements := make([]Value, 0, len(value))
		for _, v := range value {
			elements = append(elements, Known(v))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements)
	default:
		return types.DefaultTypeAdapter.NativeToValue(data)
	}
}

// Fields has data whose fields are made when they are read, because most expressions read few of them. Both methods must return the same
// data. They must be safe for concurrent use if the map that Lazy returns is used concurrently.
type Fields interface {
	// Field returns the value under a key, and false if there is none.
	Field(key string) (value Value, ok bool)
	// Whole returns all the data as one map of CEL.
	Whole() Value
}

// Lazy returns a map of CEL that calls Field when an expression reads a value by a string key. It behaves like the map that
// Whole returns. All other operations call Whole, which is called at most once.
func Lazy(fields Fields) Value { return &lazyMap{fields: fields} }

type lazyMap struct {
	fields   Fields
	once     sync.Once
	complete traits.Mapper
}

var (
	_ traits.Mapper = &lazyMap{}
	_ traits.Zeroer = &lazyMap{}
)

func (m *lazyMap) whole() traits.Mapper {
	m.once.Do(func() { m.complete, _ = m.fields.Whole().(traits.Mapper) })
	return m.complete
}

// Find implements traits.Mapper.
func (m *lazyMap) Find(key ref.Val) (ref.Val, bool) {
	if name, ok := key.(types.String); ok {
		return m.fields.Field(string(name))
	}
	return m.whole().Find(key)
}

// Get implements traits.Indexer.
func (m *lazyMap) Get(key ref.Val) ref.Val {
	value, ok := m.Find(key)
	if !ok {
		return types.ValOrErr(value, "no such key: %v", key)
	}
	return value
}

// Contains implements traits.Container.
func (m *lazyMap) Contains(key ref.Val) ref.Val {
	_, ok := m.Find(key)
	return types.Bool(ok)
}

// Iterator implements traits.Iterable.
func (m *lazyMap) Iterator() traits.Iterator { return m.whole().Iterator() }

// Size implements traits.Sizer.
func (m *lazyMap) Size() ref.Val { return m.whole().Size() }

// IsZeroValue implements traits.Zeroer.
func (m *lazyMap) IsZeroValue() bool { return m.Size() == types.IntZero }

// Equal implements ref.Val.
func (m *lazyMap) Equal(other ref.Val) ref.Val { return m.whole().Equal(other) }

// ConvertToNative implements ref.Val.
func (m *lazyMap) ConvertToNative(desired reflect.Type) (any, error) {
	return m.whole().ConvertToNative(desired)
}

// ConvertToType implements ref.Val.
func (m *lazyMap) ConvertToType(desired ref.Type) ref.Val { return m.whole().ConvertToType(desired) }

// Type implements ref.Val.
func (m *lazyMap) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m *lazyMap) Value() any { return m.whole().Value() }
