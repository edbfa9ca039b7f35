/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"context"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// orderWalker finds the lists with keys, and the sets, whose elements changed their order.
// Structured-merge-diff considers such lists equal, but init containers, for example, run in their order.
type orderWalker struct {
	schema *schema.Schema
	moved  *fieldpath.Set
}

// walk compares two values with the same path, and adds to moved the paths of the lists in them whose elements changed
// their order. It returns an error if ctx has ended.
func (w *orderWalker) walk(ctx context.Context, of schema.TypeRef, before, after any, path fieldpath.Path) error {
	atom, ok := w.schema.Resolve(of)
	if !ok {
		return nil
	}
	switch after := after.(type) {
	case map[string]any:
		if before, ok := before.(map[string]any); ok && atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic {
			return w.walkMap(ctx, atom.Map, before, after, path)
		}
	case []any:
		if before, ok := before.([]any); ok && atom.List != nil && atom.List.ElementRelationship == schema.Associative {
			return w.walkList(ctx, atom.List, before, after, path)
		}
	}
	return nil
}

func (w *orderWalker) walkMap(ctx context.Context, of *schema.Map, before, after map[string]any, path fieldpath.Path) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for name, value := range after {
		element := of.ElementType
		if field, ok := of.FindField(name); ok {
			element = field.Type
		}
		if err := w.walk(ctx, element, before[name], value, append(path, fieldpath.FieldNameElement(name))); err != nil {
			return err
		}
	}
	return nil
}

func (w *orderWalker) walkList(ctx context.Context, of *schema.List, before, after []any, path fieldpath.Path) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	elementsBefore, elementsAfter := w.elements(of, before), w.elements(of, after)
	inBefore, inAfter := fieldpath.MakePathElementMap(len(before)), fieldpath.MakePathElementMap(len(after))
	for i, e := range elementsBefore {
		inBefore.Insert(e, before[i])
	}
	for i, e := range elementsAfter {
		inAfter.Insert(e, after[i])
	}
	stayed := func(in fieldpath.PathElementMap) func(fieldpath.PathElement) bool {
		return func(e fieldpath.PathElement) bool { _, ok := in.Get(e); return !ok }
	}
	if !slices.EqualFunc(slices.DeleteFunc(elementsBefore, stayed(inAfter)), slices.DeleteFunc(slices.Clone(elementsAfter), stayed(inBefore)), fieldpath.PathElement.Equals) {
		w.moved.Insert(path.Copy())
	}
	for i, e := range elementsAfter {
		if previous, ok := inBefore.Get(e); ok {
			if err := w.walk(ctx, of.ElementType, previous, after[i], append(path, e)); err != nil {
				return err
			}
		}
	}
	return nil
}

// elements returns the path elements of the elements of a list.
func (w *orderWalker) elements(of *schema.List, list []any) []fieldpath.PathElement {
	elements := make([]fieldpath.PathElement, 0, len(list))
	for _, e := range list {
		elements = append(elements, w.element(of, e))
	}
	return elements
}

// element returns the path element of an element of a list, as structured-merge-diff does: the keys of the list with
// their values in the element or their defaults, or, in a set, the element itself. The comparison, which runs before, has
// refused elements without keys.
func (w *orderWalker) element(of *schema.List, element any) fieldpath.PathElement {
	fields, ok := element.(map[string]any)
	if !ok || len(of.Keys) == 0 {
		return fieldpath.ValueElement(value.NewValueInterface(element))
	}
	var keys value.FieldList
	for _, name := range of.Keys {
		key, ok := fields[name]
		if !ok {
			if key = w.defaultOf(of, name); key == nil {
				continue
			}
		}
		keys = append(keys, value.Field{Name: name, Value: value.NewValueInterface(key)})
	}
	keys.Sort()
	return fieldpath.PathElement{Key: &keys}
}

func (w *orderWalker) defaultOf(of *schema.List, name string) any {
	atom, ok := w.schema.Resolve(of.ElementType)
	if !ok || atom.Map == nil {
		return nil
	}
	field, _ := atom.FindField(name)
	return field.Default
}
