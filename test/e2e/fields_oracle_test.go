/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// fieldOracle decides writes as KEP-3617 says, from nothing but the JSON of two objects and
// lists of verbs: it shares nothing with the server.
type fieldOracle struct {
	set   *fieldSet
	rules []oracleRule
	keys  map[string]string // of lists with keys, by path; that of a set is ""
}

// oracleRule is a permission on a field. "*" in its path is any key.
type oracleRule struct {
	path      []string
	name      string
	parameter func(string) string // of the last "*"
	excluded  func(before, after any) bool
}

// oracleChange is a field that changed: its keys, and its name in messages.
type oracleChange struct {
	path []string
	name string
}

// oracleListKeys are the lists that are not of one piece. Those in the metadata are in
// every object.
var oracleListKeys = map[string]map[string]string{
	"":        {"metadata.finalizers": "", "metadata.ownerReferences": "uid"},
	machines:  {"spec.tags": "", "spec.disks": "name", "status.conditions": "type"},
	"pods":    {"spec.containers": "name", "status.conditions": "type"},
	"widgets": {"spec.parts": "name", "status.conditions": "type"},
}

func beforeSlash(key string) string { before, _, _ := strings.Cut(key, "/"); return before }

func verbatim(key string) string { return key }

func newFieldOracle(table *fieldTable, set *fieldSet, resource *tableResource) *fieldOracle {
	x := &fieldOracle{set: set, keys: maps.Clone(oracleListKeys[""]), rules: []oracleRule{
		{path: []string{"metadata"}, name: "metadata"}, {path: []string{"spec"}, name: "specification"}, {path: []string{"status"}, name: "status"},
		{path: []string{"metadata", "labels"}, name: "labels"}, {path: []string{"metadata", "labels", "*"}, name: "label", parameter: beforeSlash},
		{path: []string{"metadata", "annotations"}, name: "annotations"}, {path: []string{"metadata", "annotations", "*"}, name: "annotation", parameter: beforeSlash},
		{path: []string{"metadata", "finalizers"}, name: "finalizers"}, {path: []string{"metadata", "finalizers", "*"}, name: "finalizer", parameter: beforeSlash},
		{path: []string{"metadata", "ownerReferences"}, name: "ownerReferences"},
		{path: []string{"status", "conditions"}, name: "conditions"}, {path: []string{"status", "conditions", "*"}, name: "condition", parameter: verbatim},
	}}
	if resource.Resource == "pods" {
		x.rules = append(x.rules, oracleRule{path: []string{"spec", "nodeName"}, name: "nodeAssignment"})
	}
	maps.Copy(x.keys, oracleListKeys[resource.Resource])
	for _, m := range table.Mappings {
		if m.Resources[0].Resource != resource.Resource {
			continue
		}
		for i := range m.Fields {
			x.rules = append(x.rules, oracleRuleOf(&m.Fields[i]))
		}
	}
	slices.SortStableFunc(x.rules, func(a, b oracleRule) int { return len(a.path) - len(b.path) })
	return x
}

var oraclePath = regexp.MustCompile(`\["([^"]*)"\]|\[(\*)\]|([a-zA-Z]+)`)

func oracleRuleOf(f *policyv1alpha1.FieldPermission) oracleRule {
	rule := oracleRule{name: f.Permission}
	for _, match := range oraclePath.FindAllStringSubmatch(f.Path, -1) {
		rule.path = append(rule.path, match[1]+match[2]+match[3])
	}
	if f.Parameter != nil {
		rule.parameter = verbatim
	}
	if f.Exclusion != nil {
		rule.excluded = map[string]func(any, any) bool{
			"":              func(any, any) bool { return true },
			"value == true": func(_, after any) bool { return after == true },
		}[f.Exclusion.NewValues]
		if rule.excluded == nil {
			panic("the oracle does not know what is " + f.Exclusion.NewValues)
		}
	}
	return rule
}

// within reports whether a path is that of the rule, or in it.
func (r *oracleRule) within(path []string) bool {
	return len(path) >= len(r.path) && r.matches(path[:len(r.path)])
}

// matches reports whether a path is that of the rule as far as it goes.
func (r *oracleRule) matches(path []string) bool {
	for i, step := range path {
		if r.path[i] != "*" && r.path[i] != step {
			return false
		}
	}
	return true
}

func (r *oracleRule) verb(path []string) string {
	if r.parameter == nil {
		return "granular:" + r.name
	}
	last := len(r.path) - 1
	for r.path[last] != "*" {
		last--
	}
	return fmt.Sprintf("granular:%s(%s)", r.name, r.parameter(path[last]))
}

// maxFieldChecks is what docs/fine-grained.md promises.
const maxFieldChecks = 64

// decide reports whether a write is allowed, and if not, which fields are in the way. None
// are if the user may not write at all.
func (x *fieldOracle) decide(user, resource string, o admitted) (allowed bool, fields []string) {
	changes := x.changes(o.oldObject, o.object)
	verdict := true
	for _, q := range o.checks {
		write := q.verb == "create" || q.verb == "update" || q.verb == "patch"
		general := x.set.has(user, resource, q.verb)
		switch {
		case !write && !general, !general && !x.set.has(user, resource, "granular"):
			return false, nil
		case !write:
			continue
		}
		for _, c := range changes {
			if x.lacksExcluded(user, resource, c, o) || !general && !x.covered(user, resource, c) {
				verdict, fields = false, append(fields, c.name)
			}
		}
		if !general && x.checks(user, resource, changes) > maxFieldChecks {
			return false, append(fields, names(changes)...)
		}
	}
	return verdict, fields
}

func names(changes []oracleChange) (result []string) {
	for _, c := range changes {
		result = append(result, c.name)
	}
	return result
}

func (x *fieldOracle) covered(user, resource string, c oracleChange) bool {
	return slices.ContainsFunc(x.rules, func(r oracleRule) bool {
		return r.within(c.path) && x.set.has(user, resource, r.verb(c.path))
	})
}

// checks counts the verbs that are asked for, where the most general comes first.
func (x *fieldOracle) checks(user, resource string, changes []oracleChange) int {
	asked := map[string]bool{}
	for _, c := range changes {
		for _, r := range x.rules {
			if !r.within(c.path) {
				continue
			}
			asked[r.verb(c.path)] = true
			if x.set.has(user, resource, r.verb(c.path)) {
				break
			}
		}
	}
	return len(asked)
}

func (x *fieldOracle) lacksExcluded(user, resource string, c oracleChange, o admitted) bool {
	return slices.ContainsFunc(x.rules, func(r oracleRule) bool {
		if r.excluded == nil || len(c.path) < len(r.path) && !r.matches(c.path) || len(c.path) >= len(r.path) && !r.within(c.path) {
			return false
		}
		before, after := x.at(o.oldObject, r.path), x.at(o.object, r.path)
		return !reflect.DeepEqual(before, after) && r.excluded(before, after) && !x.set.has(user, resource, r.verb(r.path))
	})
}

// at is what an object has at a path without "*", or nil.
func (x *fieldOracle) at(object map[string]any, path []string) any {
	var found any = object
	for i, step := range path {
		if list, ok := found.([]any); ok {
			found = nil
			for _, e := range list {
				if id, _ := x.idOf(strings.Join(path[:i], "."), e); id == step {
					found = e
				}
			}
			continue
		}
		fields, _ := found.(map[string]any)
		found = fields[step]
	}
	return found
}

// notOfUsers are fields that the server writes.
var notOfUsers = []string{"apiVersion", "kind", "metadata.namespace", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation", "metadata.uid", "metadata.creationTimestamp"}

func (x *fieldOracle) changes(before, after map[string]any) []oracleChange {
	var found []oracleChange
	x.walk(any(before), any(after), oracleChange{}, &found)
	return slices.DeleteFunc(found, func(c oracleChange) bool {
		// Of a status without anything in it there is only the word.
		return slices.Contains(notOfUsers, strings.Join(c.path, ".")) || c.name == "status" && isNothing(fieldOr(before, "status")) && isNothing(fieldOr(after, "status"))
	})
}

// absent is what is not there; null is there.
type absent struct{}

func (x *fieldOracle) walk(before, after any, at oracleChange, found *[]oracleChange) {
	if reflect.DeepEqual(before, after) {
		return
	}
	_, keyed := x.keys[strings.Join(at.path, ".")]
	fieldsBefore, fieldsAfter := isFields(before), isFields(after)
	listBefore, listAfter := isList(before), isList(after)
	switch {
	case len(at.path) == 3 && at.path[1] == "ownerReferences": // an owner is of one piece
		*found = append(*found, at)
	case isNothing(before) && isNothing(after):
		*found = append(*found, at)
	case fieldsBefore && fieldsAfter:
		x.walkFields(before, after, at, found)
	case listBefore && listAfter && keyed:
		x.walkList(before, after, at, found)
	default:
		*found = append(*found, at)
	}
}

func isFields(v any) bool {
	_, is := v.(map[string]any)
	return is || v == absent{}
}

func isList(v any) bool {
	_, is := v.([]any)
	return is || v == absent{}
}

func isNothing(v any) bool {
	switch v := v.(type) {
	case absent:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

var plainField = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func (x *fieldOracle) walkFields(before, after any, at oracleChange, found *[]oracleChange) {
	fieldsBefore, _ := before.(map[string]any)
	fieldsAfter, _ := after.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(mergeJSON(fieldsBefore, withoutNulls(fieldsAfter)).(map[string]any))) {
		name := fmt.Sprintf("%s[%q]", at.name, field)
		if plainField.MatchString(field) {
			name = strings.TrimPrefix(at.name+"."+field, ".")
		}
		x.walk(fieldOr(fieldsBefore, field), fieldOr(fieldsAfter, field), oracleChange{append(slices.Clone(at.path), field), name}, found)
	}
}

// withoutNulls keeps the keys of fields.
func withoutNulls(fields map[string]any) map[string]any {
	keys := map[string]any{}
	for key := range fields {
		keys[key] = true
	}
	return keys
}

func fieldOr(fields map[string]any, name string) any {
	if v, ok := fields[name]; ok {
		return v
	}
	return absent{}
}

func (x *fieldOracle) walkList(before, after any, at oracleChange, found *[]oracleChange) {
	index := func(v any) (order []string, byID map[string]any, names map[string]string) {
		byID, names = map[string]any{}, map[string]string{}
		list, _ := v.([]any)
		for _, e := range list {
			id, name := x.idOf(strings.Join(at.path, "."), e)
			order, byID[id], names[id] = append(order, id), e, name
		}
		return order, byID, names
	}
	orderBefore, inBefore, namesBefore := index(before)
	orderAfter, inAfter, namesAfter := index(after)
	stayed := func(order []string) []string {
		return slices.DeleteFunc(slices.Clone(order), func(id string) bool { return inBefore[id] == nil || inAfter[id] == nil })
	}
	if !slices.Equal(stayed(orderBefore), stayed(orderAfter)) {
		*found = append(*found, at)
	}
	maps.Copy(namesBefore, namesAfter)
	for _, id := range slices.Sorted(maps.Keys(namesBefore)) {
		element := oracleChange{append(slices.Clone(at.path), id), at.name + namesBefore[id]}
		x.walk(fieldOr(inBefore, id), fieldOr(inAfter, id), element, found)
	}
}

// idOf tells an element of a list from others, and how messages call it.
func (x *fieldOracle) idOf(list string, element any) (id, name string) {
	key := x.keys[list]
	if key == "" {
		id, _ = element.(string)
		return id, fmt.Sprintf("[%q]", id)
	}
	fields, _ := element.(map[string]any)
	id, _ = fields[key].(string)
	return id, fmt.Sprintf("[%s=%q]", key, id)
}
