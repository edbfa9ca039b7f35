/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

const (
	// managersOf are the entries of metadata.managedFields of the new and of the old object.
	managersOf = `variables.metadata.map(m, ([m].filter(m, "managedFields" in m && m.managedFields != null).map(m, m.managedFields) + [dyn([])])[0])`
	// kindVersion is the version of the kind of the request, as in an entry of metadata.managedFields.
	kindVersion = `(request.kind.group == "" ? "" : request.kind.group + "/") + request.kind.version`
	// firstManager is the manager of the fields that an object had before its first server-side apply. The server writes its entry.
	firstManager = "before-first-apply"
	// oldestManagers is the manager of the fields of the oldest Update entries, which the server merges once there are maxUpdates.
	oldestManagers = "ancient-changes"
	maxUpdates     = 10
	// pageEntries and maxPages bound the entries that a barrier compares, to 5000 of each object, for half of the cost that one expression
	// may have. Of each page, maxOthers may differ, in maxOtherPages of the pages.
	pageEntries   = 100
	maxPages      = 50
	maxOtherPages = 4
	maxOthers     = 50
)

// others returns an expression for the entries of one object that the other object does not have at the same or the next place, in pages,
// without empty pages. The server sorts entries, so that these are few. The time is linear in the number of entries.
func others(of, than int) string {
	numbers := make([]string, 0, pageEntries)
	for i := range pageEntries {
		numbers = append(numbers, strconv.Itoa(i))
	}
	all, pages := "["+strings.Join(numbers, ",")+"]", "["+strings.Join(numbers[:maxPages], ",")+"]"
	mine, theirs := fmt.Sprintf("m[%d]", of), fmt.Sprintf("m[%d]", than)
	isOther := fmt.Sprintf("[0, -1, 1].all(d, i + d < 0 || i + d >= size(%[2]s) || %[1]s[i] != %[2]s[i + d])", mine, theirs)
	return fmt.Sprintf("[variables.managers].map(m, %[1]s == %[2]s ? [] : %[3]s.filter(p, p * %[5]d < size(%[1]s)).map(p, %[4]s.map(n, p * %[5]d + n).filter(i, i < size(%[1]s) && %[6]s).map(i, %[1]s[i])).filter(l, l != []))[0]",
		mine, theirs, pages, all, pageEntries, isOther)
}

// unread is an expression that is true if the managers differ, and the barrier cannot compare them: an entry cannot be understood, or there
// are too many.
func unread() string {
	isText := func(field string) string { return fmt.Sprintf(`type(e.?%s.orValue("")) == string`, field) }
	//guard:exclusions-types-entries
	isRead := conjunction("type(e) == map", `e.?fieldsType.orValue("") == "FieldsV1"`, `e.?fieldsV1.orValue(null) == null || type(e.?fieldsV1.orValue(null)) == map`,
		isText("apiVersion"), isText("manager"), isText("subresource"), `e.?apiVersion.orValue("") != ""`, `e.?operation.orValue("") in ["Apply", "Update"]`)
	//guard:exclusions-too-many-entries
	return conjunction("variables.managers[0] != variables.managers[1]", disjunction(
		fmt.Sprintf("variables.managers.exists(m, size(m) > %d || m.exists(e, !(%s)))", maxPages*pageEntries, isRead),
		fmt.Sprintf("[variables.newPages, variables.oldPages].exists(p, size(p) > %d || p.exists(l, size(l) > %d))", maxOtherPages, maxOthers),
		"variables.newPages == [] && variables.oldPages == [] && size(variables.managers[0]) != size(variables.managers[1])",
	))
}

// entries is an expression for lists of entries: those that the request adds or changes, as they are after it; those that it changes or
// removes, as they were before it; and the entries of oldestManagers after and before it.
func entries() string {
	pages := make([]string, 0, maxOtherPages)
	for i := range maxOtherPages {
		pages = append(pages, fmt.Sprintf("p[%d]", i))
	}
	isOldest := fmt.Sprintf(`e.?manager.orValue("") == %q && e.?operation.orValue("") == "Update" && e.?subresource.orValue("") == ""`, oldestManagers)
	return fmt.Sprintf(`variables.unread ? [[], [], [], []] : [variables.newPages, variables.oldPages].map(l, l + [%s]).map(p, %s) + `+
		`(variables.isMerge ? variables.managers.map(m, m.filter(e, %s)) : [[], []])`,
		strings.TrimSuffix(strings.Repeat("[], ", maxOtherPages), ", "), strings.Join(pages, " + "), isOldest)
}

// managerVariables are the variables with the managers of all fields.
func managerVariables() []admissionregistrationv1.Variable {
	return []admissionregistrationv1.Variable{
		{Name: "metadata", Expression: metadataOf},
		{Name: "managers", Expression: managersOf},
		{Name: "version", Expression: kindVersion},
		{Name: "newPages", Expression: others(0, 1)},
		{Name: "oldPages", Expression: others(1, 0)},
		{Name: "unread", Expression: unread()},
		//guard:exclusions-merges-few-entries
		{Name: "isMerge", Expression: fmt.Sprintf(`variables.managers[0].filter(e, e.?operation.orValue("") == "Update").size() >= %d`, maxUpdates)},
		{Name: "entries", Expression: entries()},
		{Name: "present", Expression: fmt.Sprintf("variables.entries[0].map(e, %s)", identity)},
		{Name: "merges", Expression: merges()},
	}
}

// identity is an expression for what identifies an entry: its version, manager, operation and subresource.
const identity = `[e.?apiVersion.orValue(""), e.?manager.orValue(""), e.?operation.orValue(""), e.?subresource.orValue("")]`

// managed returns an expression for the list that has the part of an entry of metadata.managedFields below some fields, if it has one.
func managed(names []string) string {
	text := "[dyn(e.?fieldsV1.orValue({}))].filter(n, n != null)"
	for _, name := range names {
		text += fmt.Sprintf(".filter(n, %[1]s in n).map(n, n[%[1]s])", quoted(name))
	}
	return text
}

// fieldKeys returns the names of the fields as entries of metadata.managedFields write them.
func fieldKeys(names []string) []string {
	keys := make([]string, 0, len(names))
	for _, name := range names {
		keys = append(keys, "f:"+name)
	}
	return keys
}

// elementKeys returns how an entry writes the last name if it is an element of a list of strings, integers or booleans.
func elementKeys(name string) []string {
	text, err := json.Marshal(name)
	if err != nil {
		return nil
	}
	keys := []string{"v:" + string(text)}
	if _, err := strconv.ParseInt(name, 10, 64); err == nil || name == "true" || name == "false" {
		keys = append(keys, "v:"+name)
	}
	return keys
}

// owners returns an expression for what each list of entries has of a field: the identity of the entry, the part below the field, and which
// of the fields around it the entry has itself, if isThere is true or the entry is of another version. isThere is an expression for whether
// the new object has the field.
func owners(names []string, isThere string) string {
	keys := fieldKeys(names)
	parts := managed(keys)
	//guard:exclusions-managers-elements
	for _, key := range elementKeys(names[len(names)-1]) {
		parts += " + " + managed(append(slices.Clone(keys[:len(keys)-1]), key))
	}
	around := make([]string, 0, len(keys))
	for i := 1; i < len(keys); i++ {
		around = append(around, fmt.Sprintf(`%s.exists(n, n == {} || "." in n)`, managed(keys[:i])))
	}
	within := "[]"
	//guard:exclusions-managers-fields-around
	if len(around) > 0 {
		within = fmt.Sprintf(`%s ? [%s] : []`, disjunction(isThere, `e.?apiVersion.orValue("") != variables.version`), strings.Join(around, ", "))
	}
	return fmt.Sprintf("variables.entries.map(l, l.map(e, [dyn(%s), dyn(%s), dyn(%s)]).filter(t, t[1] != [] || true in t[2]))", identity, parts, within)
}

// merged returns an expression for the versions in which the server merges the oldest Update entries into one, which has then of the field
// what the others had. around is the number of fields around the field. If the entries have different parts of the field, merges decides.
func merged(owned string, around int) string {
	before := fmt.Sprintf("(%[1]s[3] + %[1]s[1].filter(m, m[0][2] == \"Update\" && m[0][1] != %[2]q && !(m[0] in variables.present))).filter(m, m[0][0] == b[0][0])", owned, oldestManagers)
	//guard:exclusions-merges-more
	same := []string{"m != []", "m.all(o, o[1] == [] || o[1] == b[1])", "b[1] == [] || m.exists(o, o[1] == b[1])"}
	//guard:exclusions-merges-more-around
	for i := range around {
		same = append(same, fmt.Sprintf("b[2] == [] || b[2][%[1]d] == m.exists(o, o[2] != [] && o[2][%[1]d])", i))
	}
	return fmt.Sprintf("variables.isMerge ? variables.merges + %s[2].filter(b, [%s].exists(m, %s)).map(b, b[0][0]) : []", owned, before, conjunction(same...))
}

// maxMergedLevels is how deep merged entries are compared in detail. Below, a part must be the same as in one of them.
const maxMergedLevels = 4

// merges is an expression for the versions in which the server merges the oldest Update entries into one, which has then exactly the fields of
// the others.
func merges() string {
	const version = `e.?apiVersion.orValue("")`
	tree := func(entry string) string {
		return fmt.Sprintf("([dyn(%s.?fieldsV1.orValue({}))].filter(n, n != null) + [dyn({})])[0]", entry)
	}
	isGone := conjunction(`e.?operation.orValue("") == "Update"`, fmt.Sprintf(`e.?manager.orValue("") != %q`, oldestManagers), fmt.Sprintf("!(%s in variables.present)", identity))
	//guard:exclusions-merges-add-part
	return fmt.Sprintf("variables.isMerge ? variables.entries[2].filter(b, [(variables.entries[3] + variables.entries[1].filter(e, %s)).filter(e, %s == %s).map(e, %s)]"+
		".exists(p, [%s].exists(r, %s && p.all(o, %s)))).map(e, %s) : []",
		isGone, version, strings.Replace(version, "e.", "b.", 1), tree("e"), tree("b"), coveredBelow("r", "p", maxMergedLevels), coveredBelow("o", "[r]", maxMergedLevels), version)
}

// covered returns an expression that is true if each path that a node of fieldsV1 owns, or one below it, is owned by one of other nodes.
func covered(node, others string, levels int) string {
	if levels == 0 {
		return fmt.Sprintf("%s.exists(y, y == %s)", others, node)
	}
	//guard:exclusions-merges-leave-out-map
	owns := func(node string) string { return fmt.Sprintf(`(%[1]s == {} || "." in %[1]s)`, node) }
	return fmt.Sprintf("(!%s || %s.exists(y, %s)) && %s", owns(node), others, owns("y"), coveredBelow(node, others, levels))
}

// coveredBelow is covered without the path of the node.
func coveredBelow(node, others string, levels int) string {
	key, below := fmt.Sprintf("k%d", levels), fmt.Sprintf("n%d", levels)
	return fmt.Sprintf(`%s.all(%s, %s == "." || [%s.filter(y, %s in y).map(y, y[%s])].all(%s, %s))`, node, key, key, others, key, key, below, covered(node+"["+key+"]", below, levels-1))
}

// claimed returns an expression for whether the request changes the owners of the field. merged are the versions of merges, and relevant is
// an expression about an entry t.
func (e *excluded) claimed(owned, merged, before, relevant string) string {
	//guard:exclusions-first-manager
	isFirst := fmt.Sprintf(`variables.managers[1] == [] && t[0][0] == variables.version && t[0][1] == %q && t[0][2] == "Update" && (t[1] == [] || t[1] == [{}]) && %s.exists(v, v != null && type(v) != map && type(v) != list)`,
		firstManager, before)
	isOldest := fmt.Sprintf(`t[0][1] == %q && t[0][2] == "Update" && t[0][3] == ""`, oldestManagers)
	//guard:exclusions-merges-entries-stay
	hasGone := `t[0][2] == "Update" && !(t[0] in variables.present)`
	isMerged := conjunction("t[0][0] in "+merged, disjunction(isOldest, hasGone))
	//guard:exclusions-managers
	return conjunction(owned+"[0] != "+owned+"[1]", disjunction(
		fmt.Sprintf("%[1]s[0].exists(t, %[2]s)", owned, conjunction(fmt.Sprintf("!(t in %s[1])", owned), not(isFirst), not(isMerged), relevant)),
		fmt.Sprintf("%[1]s[1].exists(t, %[2]s)", owned, conjunction(fmt.Sprintf("!(t in %s[0])", owned), not(isMerged), relevant))))
}

// isHere returns an expression that is true if an entry of metadata.managedFields is of a version in which the exclusion applies. The
// versions of a subresource with a kind of its own, such as scale, are those of the request.
func (e *excluded) isHere(apiVersion, ofVersions string) string {
	versions := e.Versions
	if e.Others {
		versions = e.Except
	}
	named := make([]string, 0, len(versions))
	for _, v := range versions {
		named = append(named, e.Resource.WithVersion(v).GroupVersion().String())
	}
	//guard:exclusions-versions-subresources
	ofRequest := conjunction(ofVersions, apiVersion+" == variables.version")
	switch {
	case !isLimited(e.Exclusion):
		return alwaysTrue
	case e.Others:
		return disjunction(not(oneOf(apiVersion, named)), ofRequest)
	}
	return disjunction(oneOf(apiVersion, named), ofRequest)
}

// claimedElsewhere returns an expression that is true if an entry of metadata.managedFields changes in a version in which the exclusion
// does not apply. The field may have another name there.
func (e *excluded) claimedElsewhere(ofVersions string) string {
	return fmt.Sprintf("(variables.entries[0] + variables.entries[1]).exists(e, %s)", not(e.isHere(`(e.?apiVersion.orValue(""))`, ofVersions)))
}
