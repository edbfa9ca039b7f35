/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	operationApply  = "Apply"
	operationUpdate = "Update"

	// firstManager owns the fields of an object without managed fields after the first
	// server-side apply to it.
	firstManager = "before-first-apply"
	// bucketManager owns the fields of the oldest Update entries once there are more than
	// maxUpdateEntries of them. The server merges them (managedfields.NewCapManagersManager).
	bucketManager    = "ancient-changes"
	maxUpdateEntries = 10

	// selfMember is the key in fieldsV1 that says that the field itself is owned, beside some
	// that are in it.
	selfMember = "."
)

// Writer describes the request that changes an object, as far as metadata.managedFields
// records it.
type Writer struct {
	// FieldManager is the parameter fieldManager of the request. If it is empty the manager
	// is unknown, since the server then takes it from the header User-Agent.
	FieldManager string
	// APIVersion is the version of the request's kind.
	APIVersion  string
	Subresource string
}

// claim is a field that an entry of metadata.managedFields gains or loses although the request
// does not change the field.
type claim struct {
	path fieldpath.Path // empty for an entry that cannot be understood
	// apiVersion is the version of the path. It is empty for the version of the request.
	apiVersion string
}

// isOpaque reports whether the values of the field cannot be looked up, because its path is of
// another version or unknown.
func (c claim) isOpaque() bool { return c.apiVersion != "" || len(c.path) == 0 }

// managerID identifies an entry as the server does. The entry of an applier keeps its identity
// when its version changes.
type managerID struct{ manager, operation, apiVersion, subresource string }

// managedEntry is an entry of metadata.managedFields.
type managedEntry struct {
	id         managerID
	apiVersion string
	time       any
	fields     map[string]any // fieldsV1
}

// managedEntries are the entries of one object, in their order.
type managedEntries []*managedEntry

func (e managedEntries) find(id managerID) *managedEntry {
	if i := slices.IndexFunc(e, func(other *managedEntry) bool { return other.id == id }); i >= 0 {
		return e[i]
	}
	return nil
}

// ownership is how a request changes metadata.managedFields.
type ownership struct {
	claims []claim
	// written are the entries that a request writes as its own: they gain fields, or their
	// time changes.
	written []*managedEntry
}

// errManagers does not name managers: the requester may not be allowed to read the object.
var errManagers = errors.New("the request changes what other field managers own: a request may only add to the entry of its own manager in metadata.managedFields")

// isBy returns an error unless the only entry that is written belongs to the request. Of a request that does
// not name its manager nothing but an Update entry can be, because server-side apply needs a name.
func (o *ownership) isBy(w Writer) error {
	if len(o.written) > 1 {
		return errManagers
	}
	for _, e := range o.written {
		named := e.id.manager == w.FieldManager || w.FieldManager == "" && e.id.operation == operationUpdate
		if !named || e.id.subresource != w.Subresource || e.apiVersion != w.APIVersion {
			return errManagers
		}
	}
	return nil
}

var managedFieldsPath = fieldpath.MakePathOrDie("metadata", "managedFields")

var errEntry = errors.New("an entry of metadata.managedFields cannot be understood")

// entriesOf reads metadata.managedFields by the rules of the server's decoder.
func entriesOf(managedFields any) (managedEntries, error) {
	list, ok := managedFields.([]any)
	if !ok && managedFields != nil {
		return nil, errEntry
	}
	var result managedEntries
	for _, element := range list {
		e, err := entryOf(element)
		if err != nil || result.find(e.id) != nil {
			return nil, errEntry
		}
		result = append(result, e)
	}
	return result, nil
}

func entryOf(element any) (*managedEntry, error) {
	fields, ok := element.(map[string]any)
	if !ok || fields["fieldsType"] != "FieldsV1" {
		return nil, errEntry
	}
	texts := map[string]string{}
	for _, name := range []string{"manager", "operation", "apiVersion", "subresource"} {
		text, ok := fields[name].(string)
		if !ok && fields[name] != nil {
			return nil, errEntry
		}
		texts[name] = text
	}
	tree, ok := fields["fieldsV1"].(map[string]any)
	if !ok && fields["fieldsV1"] != nil || texts["apiVersion"] == "" {
		return nil, errEntry
	}
	e := &managedEntry{apiVersion: texts["apiVersion"], time: fields["time"], fields: tree}
	e.id = managerID{manager: texts["manager"], operation: texts["operation"], subresource: texts["subresource"]}
	switch e.id.operation {
	case operationUpdate:
		e.id.apiVersion = e.apiVersion
	case operationApply:
	default:
		return nil, errEntry
	}
	return e, nil
}

// ownershipWalker compares the entries of two objects.
type ownershipWalker struct {
	apiVersion string // of the request
	// isChanged reports whether the request changes a field, or creates or removes it together
	// with everything in it.
	isChanged func(fieldpath.Path) bool
	// existing returns the fields of the old object. It is nil if there is no old object.
	existing func() *fieldpath.Set
	result   ownership
}

// compareAll returns how metadata.managedFields changes. There is no error: if an entry cannot be
// understood, and the list has changed, that is a claim on the whole object.
func (w *ownershipWalker) compareAll(before, after any) ownership {
	if reflect.DeepEqual(before, after) {
		return ownership{}
	}
	old, err := entriesOf(before)
	if err == nil {
		var now managedEntries
		if now, err = entriesOf(after); err == nil {
			err = w.compare(old, now)
		}
	}
	if err != nil {
		return ownership{claims: []claim{{}}}
	}
	return w.result
}

// compare compares entries, after it has done to the old ones what the server does on its own
// account.
func (w *ownershipWalker) compare(old, now managedEntries) error {
	capped := now.countUpdates() >= maxUpdateEntries
	if capped {
		old = old.withBuckets(now)
	}
	for _, e := range now {
		previous := old.find(e.id)
		isChanged := w.isChanged
		isFirst := len(old) == 0 && w.existing != nil && e.id == managerID{firstManager, operationUpdate, w.apiVersion, e.id.subresource}
		if isFirst {
			fields := w.existing()
			isChanged = func(path fieldpath.Path) bool { return w.isChanged(path) || fields.Has(path) }
		}
		gains, err := w.compareEntry(previous, e, isChanged)
		if err != nil {
			return err
		}
		isServers := isFirst || capped && e.isBucket()
		if !isServers && (gains || previous == nil || !reflect.DeepEqual(previous.time, e.time)) {
			w.result.written = append(w.result.written, e)
		}
	}
	for _, e := range old {
		if now.find(e.id) == nil {
			if _, err := w.compareEntry(e, nil, w.isChanged); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareEntry claims what an entry gains and loses, and reports whether it gains anything. Paths of
// different versions are not compared with each other.
func (w *ownershipWalker) compareEntry(before, after *managedEntry, isChanged func(fieldpath.Path) bool) (gains bool, err error) {
	if before != nil && after != nil && before.apiVersion == after.apiVersion {
		return w.walk(before.fields, after.fields, after.apiVersion, isChanged)
	}
	if before != nil {
		if _, err := w.walk(before.fields, nil, before.apiVersion, isChanged); err != nil {
			return false, err
		}
	}
	if after != nil {
		return w.walk(nil, after.fields, after.apiVersion, isChanged)
	}
	return false, nil
}

func (w *ownershipWalker) walk(before, after map[string]any, apiVersion string, isChanged func(fieldpath.Path) bool) (gains bool, err error) {
	c := claim{apiVersion: apiVersion}
	if apiVersion == w.apiVersion {
		c.apiVersion = ""
	}
	err = walkFieldsV1(before, after, nil, func(path fieldpath.Path, gained bool) {
		gains = gains || gained
		// What the request changes is known in its own version only.
		if c.apiVersion == "" && isChanged(path) {
			return
		}
		c.path = path
		w.result.claims = append(w.result.claims, c)
	})
	return gains, err
}

// walkFieldsV1 calls show for each path that is in only one of two fieldsV1.
func walkFieldsV1(before, after map[string]any, path fieldpath.Path, show func(path fieldpath.Path, gained bool)) error {
	for _, key := range keysOfBoth(before, after) {
		if key == selfMember || reflect.DeepEqual(before[key], after[key]) {
			continue
		}
		element, err := fieldpath.DeserializePathElement(key)
		if err != nil {
			return errEntry
		}
		nodeBefore, wasOwned, err := nodeOf(before, key)
		if err != nil {
			return err
		}
		nodeAfter, isOwned, err := nodeOf(after, key)
		if err != nil {
			return err
		}
		at := slices.Concat(path, fieldpath.Path{element})
		if wasOwned != isOwned {
			show(at, isOwned)
		}
		if err := walkFieldsV1(nodeBefore, nodeAfter, at, show); err != nil {
			return err
		}
	}
	return nil
}

func keysOfBoth(a, b map[string]any) []string {
	keys := slices.AppendSeq(make([]string, 0, len(a)+len(b)), maps.Keys(a))
	keys = slices.AppendSeq(keys, maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// nodeOf returns what is below a key of fieldsV1, and whether its own path is owned.
func nodeOf(fields map[string]any, key string) (node map[string]any, isOwned bool, err error) {
	value, ok := fields[key]
	if !ok {
		return nil, false, nil
	}
	node, ok = value.(map[string]any)
	if !ok {
		return nil, false, errEntry
	}
	_, isOwned = node[selfMember]
	return node, isOwned || len(node) == 0, nil
}

func (e managedEntries) countUpdates() (n int) {
	for _, one := range e {
		if one.id.operation == operationUpdate {
			n++
		}
	}
	return n
}

func (e *managedEntry) isBucket() bool {
	return e.id == managerID{bucketManager, operationUpdate, e.apiVersion, ""}
}

// withBuckets returns the old entries as they are after the server has merged Update entries
// that are gone into the bucket of their version.
func (e managedEntries) withBuckets(now managedEntries) managedEntries {
	var result managedEntries
	merged := map[string]*managedEntry{}
	for _, bucket := range now {
		if bucket.isBucket() {
			merged[bucket.apiVersion] = &managedEntry{id: bucket.id, apiVersion: bucket.apiVersion, time: bucket.time}
			result = append(result, merged[bucket.apiVersion])
		}
	}
	for _, old := range e {
		bucket := merged[old.apiVersion]
		isMerged := bucket != nil && old.id.operation == operationUpdate && (now.find(old.id) == nil || old.isBucket())
		if !isMerged {
			result = append(result, old)
			continue
		}
		bucket.fields = unite(bucket.fields, old.fields, true)
	}
	return result
}

// unite returns the union of two fieldsV1. Without keys the root is empty; every other node
// without keys is a path that is owned.
func unite(a, b map[string]any, isRoot bool) map[string]any {
	result := maps.Clone(a)
	if result == nil {
		result = map[string]any{}
	}
	for key, value := range b {
		existing, ok := result[key].(map[string]any)
		other, isNode := value.(map[string]any)
		switch {
		case !ok || !isNode:
			result[key] = value // walkFieldsV1 refuses what is no node
		default:
			result[key] = unite(existing, other, false)
		}
	}
	if !isRoot && len(result) > 0 && (len(a) == 0 || len(b) == 0) {
		result[selfMember] = map[string]any{}
	}
	return result
}

// field returns the path under which results name the claim.
func (c claim) field() fieldpath.Path {
	if len(c.path) == 0 {
		return managedFieldsPath
	}
	return c.path
}

// subject names what a claim changes, for a refusal.
func (c claim) subject() string {
	if len(c.path) == 0 {
		return "metadata.managedFields, an entry of which cannot be understood,"
	}
	return fmt.Sprintf("the managers of the field %s (metadata.managedFields)", NameOf(c.path))
}
