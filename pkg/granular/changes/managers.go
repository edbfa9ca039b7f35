/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"context"
	"errors"
	"fmt"
	"reflect"

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
)

// Writer identifies the entry of metadata.managedFields that a request may write: by the manager, the version and the
// subresource of the request. The operation, Apply or Update, is not part of it.
type Writer struct {
	// FieldManager is the parameter fieldManager of the request. If it is empty the manager
	// is unknown, since the server then takes it from the header User-Agent.
	FieldManager string
	// APIVersion is the version of the request's kind.
	APIVersion  string
	Subresource string
}

// Claim is a field that an entry of metadata.managedFields gains or loses although the request does not change the
// field. For a path in another version it is not known whether the field changes, so the field is always a claim.
type Claim struct {
	// Path is the path of the field. It is empty for an entry that cannot be understood, which is a
	// claim on the whole object.
	Path fieldpath.Path
	// APIVersion is the version of the path. It is empty for the version of the request.
	APIVersion string
}

// IsOpaque reports whether the values of the field cannot be looked up, because its path is of
// another version or unknown.
func (c Claim) IsOpaque() bool { return c.APIVersion != "" || len(c.Path) == 0 }

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

// managedEntries are the entries of one object, in their order. The map keeps the comparison of
// two objects linear in the number of entries.
type managedEntries struct {
	list []*managedEntry
	byID map[managerID]*managedEntry
}

// find returns the entry with an identity, or nil.
func (e managedEntries) find(id managerID) *managedEntry { return e.byID[id] }

// add appends an entry. It returns false if there is one with the same identity.
func (e *managedEntries) add(one *managedEntry) bool {
	if e.byID == nil {
		e.byID = map[managerID]*managedEntry{}
	}
	if e.byID[one.id] != nil {
		return false
	}
	e.list, e.byID[one.id] = append(e.list, one), one
	return true
}

// ownership is how a request changes metadata.managedFields.
type ownership struct {
	claims []Claim
	// written are the entries that a request writes as its own: they gain fields, or their
	// time changes.
	written []*managedEntry
}

// errManagers does not name managers: the requester may not be allowed to read the object.
var errManagers = errors.New("the request changes what other field managers own: a request may only add to the entry of its own manager in metadata.managedFields")

// isBy returns an error if several entries are written, or if the one that is written has another manager, subresource
// or version than w. If w has no manager, an Update entry may have any manager, and an Apply entry is an error, because a
// request for server-side apply has to name its manager.
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

// ManagedFieldsPath is the path of metadata.managedFields.
var ManagedFieldsPath = fieldpath.MakePathOrDie("metadata", "managedFields")

var errEntry = errors.New("an entry of metadata.managedFields cannot be understood")

// entriesOf reads metadata.managedFields by the rules of the server's decoder. It returns errEntry if an entry cannot be
// understood, or if two entries have the same identity.
func entriesOf(ctx context.Context, managedFields any) (managedEntries, error) {
	var result managedEntries
	list, ok := managedFields.([]any)
	if !ok && managedFields != nil {
		return result, errEntry
	}
	for _, element := range list {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		e, err := entryOf(element)
		if err != nil || !result.add(e) {
			return result, errEntry
		}
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
	// with everything in it. It must not keep the path.
	isChanged func(fieldpath.Path) bool
	// existing returns the fields of the old object. It is nil if there is no old object.
	existing func() *fieldpath.Set
	result   ownership
	budget   claimBudget
}

// compareAll returns how metadata.managedFields changes. An entry that cannot be understood is not
// an error: if the list has changed, it is a claim on the whole object.
func (w *ownershipWalker) compareAll(ctx context.Context, before, after any) (ownership, error) {
	if reflect.DeepEqual(before, after) {
		return ownership{}, nil
	}
	old, err := entriesOf(ctx, before)
	if err == nil {
		var now managedEntries
		if now, err = entriesOf(ctx, after); err == nil {
			err = w.compare(ctx, old, now)
		}
	}
	switch {
	case errors.Is(err, errEntry):
		return ownership{claims: []Claim{{}}}, nil
	case err != nil:
		return ownership{}, fmt.Errorf("metadata.managedFields could not be compared: %w", err)
	}
	return w.result, nil
}

// compare compares the old entries with the new ones, and adds the claims and the written entries to the result. Two
// changes are the server's own, and do not count as written by the request: the entry of firstManager, and the merge of
// the oldest Update entries into buckets.
func (w *ownershipWalker) compare(ctx context.Context, old, now managedEntries) error {
	capped := now.countUpdates() >= maxUpdateEntries
	if capped {
		var err error
		if old, err = old.withBuckets(ctx, now); err != nil {
			return err
		}
	}
	for _, e := range now.list {
		previous := old.find(e.id)
		isChanged := w.isChanged
		isFirst := len(old.list) == 0 && w.existing != nil && e.id == managerID{manager: firstManager, operation: operationUpdate, apiVersion: w.apiVersion, subresource: e.id.subresource}
		if isFirst {
			fields := w.existing()
			isChanged = func(path fieldpath.Path) bool { return w.isChanged(path) || fields.Has(path) }
		}
		gains, err := w.compareEntry(ctx, previous, e, isChanged)
		if err != nil {
			return err
		}
		isServers := isFirst || capped && e.isBucket()
		if !isServers && (gains || previous == nil || !reflect.DeepEqual(previous.time, e.time)) {
			w.result.written = append(w.result.written, e)
		}
	}
	for _, e := range old.list {
		if now.find(e.id) == nil {
			if _, err := w.compareEntry(ctx, e, nil, w.isChanged); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareEntry adds the claims on the fields that an entry gains or loses, and reports whether the entry gains a field. If
// the versions of before and after differ, all fields of before are lost, and all fields of after are gained.
func (w *ownershipWalker) compareEntry(ctx context.Context, before, after *managedEntry, isChanged func(fieldpath.Path) bool) (gains bool, err error) {
	if before != nil && after != nil && before.apiVersion == after.apiVersion {
		if reflect.DeepEqual(before.fields, after.fields) {
			return false, nil
		}
		return w.walk(ctx, before.fields, after.fields, after.apiVersion, isChanged)
	}
	if before != nil {
		if _, err := w.walk(ctx, before.fields, nil, before.apiVersion, isChanged); err != nil {
			return false, err
		}
	}
	if after != nil {
		return w.walk(ctx, nil, after.fields, after.apiVersion, isChanged)
	}
	return false, nil
}

func (w *ownershipWalker) walk(ctx context.Context, before, after map[string]any, apiVersion string, isChanged func(fieldpath.Path) bool) (gains bool, err error) {
	if apiVersion == w.apiVersion {
		apiVersion = ""
	}
	walker := fieldsV1Walker{show: func(path fieldpath.Path, keyBytes int, gained bool) error {
		gains = gains || gained
		if err := w.budget.compare(keyBytes); err != nil {
			return err
		}
		// The changes of the request are known in its own version only.
		if apiVersion == "" && isChanged(path) {
			return nil
		}
		if err := w.budget.claim(path); err != nil {
			return err
		}
		w.result.claims = append(w.result.claims, Claim{Path: path.Copy(), APIVersion: apiVersion})
		return nil
	}}
	err = walker.walk(ctx, before, after)
	return gains, err
}

func (e managedEntries) countUpdates() (n int) {
	for _, one := range e.list {
		if one.id.operation == operationUpdate {
			n++
		}
	}
	return n
}

func (e *managedEntry) isBucket() bool {
	return e.id == managerID{manager: bucketManager, operation: operationUpdate, apiVersion: e.apiVersion, subresource: ""}
}

// withBuckets returns the old entries after the merge that the server has made: each Update entry that now does not have
// is merged into the bucket of its version, if now has this bucket.
func (e managedEntries) withBuckets(ctx context.Context, now managedEntries) (result managedEntries, err error) {
	merged := map[string]*managedEntry{}
	for _, bucket := range now.list {
		if bucket.isBucket() {
			merged[bucket.apiVersion] = &managedEntry{id: bucket.id, apiVersion: bucket.apiVersion, time: bucket.time, fields: map[string]any{}}
			result.add(merged[bucket.apiVersion])
		}
	}
	for _, old := range e.list {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		bucket := merged[old.apiVersion]
		isMerged := bucket != nil && old.id.operation == operationUpdate && (now.find(old.id) == nil || old.isBucket())
		if isMerged {
			uniteInto(bucket.fields, old.fields, true)
		} else {
			result.add(old)
		}
	}
	return result, nil
}

// Field returns the path of the claimed field, or ManagedFieldsPath if the path is empty. Results name the claim by it.
func (c Claim) Field() fieldpath.Path {
	if len(c.Path) == 0 {
		return ManagedFieldsPath
	}
	return c.Path
}

// String describes what the claim changes, for a refusal.
func (c Claim) String() string {
	if len(c.Path) == 0 {
		return "metadata.managedFields, with an entry that cannot be understood,"
	}
	return fmt.Sprintf("the managers of the field %s (metadata.managedFields)", NameOf(c.Path))
}
