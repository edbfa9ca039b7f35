/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// serverOwned are the fields that no client can change, or whose change means nothing, because the
// request itself has the kind and the namespace of the object. Changes of managedFields are not changes
// of a field either, but claims on the fields that they list: see ownership.
var serverOwned = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"),
	fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "namespace"),
	ManagedFieldsPath,
	fieldpath.MakePathOrDie("metadata", "resourceVersion"),
	fieldpath.MakePathOrDie("metadata", "generation"),
	fieldpath.MakePathOrDie("metadata", "uid"),
	fieldpath.MakePathOrDie("metadata", "creationTimestamp"),
	fieldpath.MakePathOrDie("metadata", "deletionTimestamp"),
	fieldpath.MakePathOrDie("metadata", "deletionGracePeriodSeconds"),
	fieldpath.MakePathOrDie("metadata", "selfLink"),
)

// maxEntries bounds the entries of one list or map in the objects that are compared. The sets of structured-merge-diff
// grow by insertion: this many entries take half a second, five times as many half a minute.
const maxEntries = 20_000

// maxObjectEntries bounds the entries of all lists and maps of an object together, without its
// metadata.managedFields, which have bounds of their own. Two objects of this size that have no field in common
// take a second and 140 MiB. It is as many as the fields for which an object of 1.5 MiB, the most that
// etcd stores, has room.
const maxObjectEntries = 5 * maxEntries

// maxListWork bounds the sum of the squares of the lengths of an object's lists. If the elements of a list of scalars
// change their order, the comparison takes time in the square of its length: a second and a half for maxEntries, and
// seven for the five such lists for which an object has room. The bound allows two lists of maxEntries. It also allows
// every object whose lists have at most 8000 entries each.
const maxListWork = 2 * maxEntries * maxEntries

var (
	errNoObject   = errors.New("there is no object whose fields could be compared")
	errUnreadable = errors.New("the schema of the kind could not be read, so the changed fields are unknown")
	errTooLarge   = fmt.Errorf("has a list or map of more than %d entries, which takes too long to compare", maxEntries)
	errTooMany    = fmt.Errorf("has more than %d entries in its lists and maps, which takes too long to compare", maxObjectEntries)
	errLongLists  = fmt.Errorf("has lists that take too long to compare together: the squares of their lengths add up to more than %d", maxListWork)
	errTooDeep    = fmt.Errorf("is nested deeper than %d levels, which takes too much memory to compare", maxLevels)
	errLate       = errors.New("could not be compared in time")
	errSchema     = errors.New("does not fit the schema of its kind, so its changed fields are unknown")
)

// Differ finds the fields that a write changes. The zero value has no schemas.
type Differ struct {
	// Types are the schemas. Kinds without a schema, and all kinds if Types is nil, are compared
	// without one: all lists are then atomic, except metadata.finalizers and metadata.ownerReferences.
	Types Types
}

// Changes are the fields that a write changes, their values, and the fields whose managers it changes.
type Changes struct {
	// Fields are the fields that change, each with its own path: a leaf, an atomic list or
	// map, or a list or map without elements that is added, removed or set to null. If the
	// elements of a list change their order, the list itself is in the set. If a field gets
	// another type, the field is in the set. The set iterates in a fixed order.
	Fields *fieldpath.Set

	before, after map[string]any
	ownership     ownership
}

// CheckWriter returns an error if the request writes the entry of another manager in metadata.managedFields, or
// several entries. To write an entry is to add the entry, to add fields to it, or to change its time.
func (c *Changes) CheckWriter(w Writer) error { return c.ownership.isBy(w) }

// Paths returns the paths of the fields that change, in a fixed order.
func (c *Changes) Paths() []fieldpath.Path { return pathsOf(c.Fields) }

// Claims returns the fields whose managers change, except those that are known to change themselves (Paths).
func (c *Changes) Claims() []Claim { return c.ownership.claims }

// Values returns the values of a field before and after the write, nil if there is none. It returns
// false if one of them cannot be determined: several elements of a list have the same key, a field
// on the way has another type, or proceed, which is called before each element of a list that is
// searched, returns false.
func (c *Changes) Values(path fieldpath.Path, proceed func() bool) (before, after any, found bool) {
	before, foundBefore := lookup(c.before, path, proceed)
	after, foundAfter := lookup(c.after, path, proceed)
	return before, after, foundBefore && foundAfter
}

// ServerOwned returns the paths of the fields whose changes do not count. ManagedFieldsPath is one of
// them.
func ServerOwned() []fieldpath.Path { return pathsOf(serverOwned) }

// pathsOf returns copies of the paths in a set. Iterate reuses the path that it passes to the function, and cannot be
// stopped early.
func pathsOf(set *fieldpath.Set) []fieldpath.Path {
	var paths []fieldpath.Path
	set.Iterate(func(path fieldpath.Path) { paths = append(paths, path.Copy()) })
	return paths
}

// Changes returns the changes between two objects of a kind, both in the version of kind (KEP-3617, "API Server
// Additional Plumbing and Checks", step 3). For a create, before is nil. It returns an error if the objects cannot be
// compared, for example because they are too large or do not fit the schema. Errors contain no values.
func (d Differ) Changes(ctx context.Context, kind schema.GroupVersionKind, before, after runtime.Object) (*Changes, error) {
	if IsNil(after) {
		return nil, errNoObject
	}
	contentBefore, err := contentOf(kind, before)
	if err != nil {
		return nil, fmt.Errorf("the old object: %w", err)
	}
	contentAfter, err := contentOf(kind, after)
	if err != nil {
		return nil, fmt.Errorf("the new object: %w", err)
	}
	managedBefore, managedAfter := takeManagedFields(contentBefore), takeManagedFields(contentAfter)
	if err := checkSizes(contentBefore, managedBefore); err != nil {
		return nil, fmt.Errorf("the old object %w", err)
	}
	if err := checkSizes(contentAfter, managedAfter); err != nil {
		return nil, fmt.Errorf("the new object %w", err)
	}
	t, err := d.typeOf(ctx, kind)
	if err != nil {
		return nil, err
	}
	comparison, err := compare(ctx, t, contentBefore, contentAfter)
	if err != nil {
		return nil, err
	}
	apiVersion, _ := kind.ToAPIVersionAndKind()
	walker := &ownershipWalker{apiVersion: apiVersion, isChanged: comparison.isChanged}
	if !IsNil(before) {
		walker.existing = sync.OnceValue(comparison.existing) // several entries may ask
	}
	changes := comparison.changes
	if changes.ownership, err = walker.compareAll(ctx, managedBefore, managedAfter); err != nil {
		return nil, err
	}
	return changes, nil
}

// takeManagedFields removes metadata.managedFields from content and returns them. The metadata
// is copied before, because content may share it with the object of the request.
func takeManagedFields(content map[string]any) any {
	metadata, _ := content["metadata"].(map[string]any)
	managed, ok := metadata["managedFields"]
	if ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	return managed
}

// checkSizes returns an error if an object, or its metadata.managedFields, are too large to be compared. The
// depth of managedFields is bounded where their entries are compared, which takes time in proportion to their
// size.
func checkSizes(content map[string]any, managedFields any) error {
	object := sizeChecker{maxTotal: maxObjectEntries}
	if err := object.check(content, maxLevels); err != nil {
		return err
	}
	managed := sizeChecker{maxTotal: math.MaxInt}
	return managed.check(managedFields, math.MaxInt)
}

// sizeChecker counts the entries of the lists and maps in a value.
type sizeChecker struct {
	total, maxTotal int
	// listWork is the sum of the squares of the lengths of the lists.
	listWork int
}

// check counts the entries of a value and of all lists and maps in it. It returns an error if one list or map has more
// than maxEntries entries, if the counts exceed maxTotal or maxListWork, or if entries are nested deeper than levels.
func (c *sizeChecker) check(value any, levels int) error {
	switch value := value.(type) {
	case map[string]any:
		if err := c.count(len(value), levels); err != nil {
			return err
		}
		for _, v := range value {
			if err := c.check(v, levels-1); err != nil {
				return err
			}
		}
	case []any:
		c.listWork += len(value) * len(value)
		if err := c.count(len(value), levels); err != nil {
			return err
		}
		for _, v := range value {
			if err := c.check(v, levels-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// count adds the entries of one list or map, which may have so many levels below it.
func (c *sizeChecker) count(size, levels int) error {
	c.total += size
	switch {
	case size > maxEntries:
		return errTooLarge
	//guard:granular-many-maps
	case c.total > c.maxTotal:
		return errTooMany
	//guard:granular-many-long-lists
	case c.listWork > maxListWork:
		return errLongLists
	//guard:granular-deep-objects
	case size > 0 && levels == 0:
		return errTooDeep
	}
	return nil
}

// objectComparison is the result of a comparison without metadata.managedFields.
type objectComparison struct {
	changes  *Changes
	touched  *fieldpath.Set // fields that were added or removed, including lists and maps that were added or removed as a whole
	modified *fieldpath.Set
	empty    func() (*typed.TypedValue, error)
	before   *typed.TypedValue
}

// isChanged reports whether a field changes, or is added or removed together with everything in it.
func (c *objectComparison) isChanged(path fieldpath.Path) bool {
	return c.touched.Has(path) || c.modified.Has(path)
}

// existing returns the fields of the old object, as the server computes them for the entry of firstManager: by comparing
// an empty object with the old one. It returns the empty set if this comparison fails.
func (c *objectComparison) existing() *fieldpath.Set {
	empty, err := c.empty()
	if err != nil {
		return fieldpath.NewSet()
	}
	creation, err := empty.Compare(c.before)
	if err != nil {
		return fieldpath.NewSet()
	}
	return creation.Added
}

// compare returns the changes between two objects of a type. It returns an error if an object does not fit the type, or if
// ctx has ended, which it looks at between its steps.
func compare(ctx context.Context, t typed.ParseableType, contentBefore, contentAfter map[string]any) (*objectComparison, error) {
	typedBefore, err := convert(ctx, t, contentBefore)
	if err != nil {
		return nil, fmt.Errorf("the old object %w", err)
	}
	typedAfter, err := convert(ctx, t, contentAfter)
	if err != nil {
		return nil, fmt.Errorf("the new object %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the object %w: %w", errLate, err)
	}
	comparison, err := typedBefore.Compare(typedAfter)
	if err != nil {
		return nil, fmt.Errorf("the object %w", errSchema)
	}
	// Fields that came or went count by their leaves. A field that was modified counts even if its type
	// changed, and fields below it went.
	touched := comparison.Added.Union(comparison.Removed)
	changed := touched.Leaves().Union(comparison.Modified)
	moves := orderWalker{schema: t.Schema, moved: changed}
	//guard:granular-changes-were-found-time
	if err := moves.walk(ctx, t.TypeRef, contentBefore, contentAfter, nil); err != nil {
		return nil, fmt.Errorf("the object %w: %w", errLate, err)
	}
	changes := &Changes{Fields: changed.RecursiveDifference(serverOwned), before: contentBefore, after: contentAfter}
	empty := func() (*typed.TypedValue, error) { return t.FromUnstructured(map[string]any{}) }
	return &objectComparison{changes: changes, touched: touched, modified: comparison.Modified, empty: empty, before: typedBefore}, nil
}

// convert returns the typed value of an object. It returns an error if the object does not fit the type, or if ctx has
// ended.
func convert(ctx context.Context, t typed.ParseableType, content map[string]any) (*typed.TypedValue, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errLate, err)
	}
	converted, err := t.FromUnstructured(content, typed.AllowDuplicates)
	if err != nil {
		return nil, errSchema // the error quotes the object
	}
	return converted, nil
}

// typeOf returns the type of a kind, or typeWithoutSchema if the kind is known to have no schema. The error does not
// say why a schema could not be read: the reason is for the operator, and is only logged.
func (d Differ) typeOf(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
	if d.Types == nil {
		return typeWithoutSchema, nil
	}
	known, err := d.Types.TypeOf(ctx, kind)
	switch {
	case err == nil:
		return known, nil
	case errors.Is(err, ErrNoSchema):
		return typeWithoutSchema, nil
	}
	klog.FromContext(ctx).Error(err, "The schema of a kind could not be read", "kind", kind)
	return typed.ParseableType{}, fmt.Errorf("%w: %s", errUnreadable, kind)
}

// IsNil reports whether there is no object, also if the interface holds a nil pointer.
func IsNil(object runtime.Object) bool {
	v := reflect.ValueOf(object)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// contentOf returns the fields of an object, as they are decoded from JSON, without an empty status. The apiVersion and
// the kind are the ones of the parameter kind. For a nil object it returns an empty map.
func contentOf(kind schema.GroupVersionKind, object runtime.Object) (map[string]any, error) {
	if IsNil(object) {
		return map[string]any{}, nil
	}
	var content map[string]any
	if decoded, ok := object.(runtime.Unstructured); ok {
		content = maps.Clone(decoded.UnstructuredContent())
	} else {
		converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, errors.New("it cannot be converted") // the error quotes the object
		}
		content = converted
	}
	if content == nil {
		content = map[string]any{}
	}
	if status, ok := content["status"].(map[string]any); ok && len(status) == 0 {
		delete(content, "status") // servers with types write one into every object, also if the request has none
	}
	// Objects that were converted in memory may have lost them.
	content["apiVersion"], content["kind"] = kind.ToAPIVersionAndKind()
	return content, nil
}
