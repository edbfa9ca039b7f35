/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// MappingAnnotation has the name of the FieldPermissionMapping from which a barrier comes.
const MappingAnnotation = "policy.proviso.dev/mapping"

// MappingDomain ends the names of the barriers of mappings.
const MappingDomain = "mapping.policy.proviso.dev"

// MappingName returns the name of the objects of the barrier of a mapping.
func MappingName(mapping string) string { return mapping + "." + MappingDomain }

// changing are the verbs of the writes that a barrier of a mapping checks. A deletion changes no field.
var changing = []string{"create", "patch", "update"}

// CompileMapping compiles the exclusions of a FieldPermissionMapping, which mapping.Table.Exclusions returns. The barrier refuses a write
// if an excluded field changes, or only its managers in metadata.managedFields do, and the user does not have the verb of the exclusion.
// An exclusion that cannot be translated is in the report. Rule is then the index in spec.fields.
func (c *Compiler) CompileMapping(name string, exclusions []mapping.Exclusion) *Barrier {
	w := &mappingWriter{name: name, compiler: c}
	exclusions = slices.Clone(exclusions)
	slices.SortStableFunc(exclusions, func(a, b mapping.Exclusion) int { return a.Field - b.Field })
	for _, e := range exclusions {
		w.add(e)
	}
	return w.barrier()
}

// excluded is an exclusion for all resources and versions for which it has the same text.
type excluded struct {
	mapping.Exclusion
	// scopes are the resources and versions.
	scopes []mapping.Exclusion
}

// mappingWriter collects the parts of the barrier of a mapping.
type mappingWriter struct {
	name     string
	compiler *Compiler
	fields   []*excluded
	verbs    []string
	report   []RuleReport
}

// add adds an exclusion, or its reason to the report.
func (w *mappingWriter) add(e mapping.Exclusion) {
	if e.Broken != "" {
		e.NewValues = "" // every change is refused
	}
	reason, ok := unseenGroups[e.Resource.Group]
	if !ok && e.Resource.Group == admissionGroup && slices.Contains(admissionPolicies, e.Resource.Resource) {
		reason = reasonAdmissionPolicies
	}
	if reason = cmp.Or(reason, w.obstacle(e)); reason != "" {
		w.note(e, reason)
		return
	}
	if !slices.Contains(w.verbs, e.Verb) && e.Broken == "" {
		w.verbs = append(w.verbs, e.Verb)
	}
	for _, known := range w.fields {
		if known.Path == e.Path && known.Verb == e.Verb && known.NewValues == e.NewValues && known.Broken == e.Broken && known.isSameScope(e) {
			known.scopes = append(known.scopes, e)
			w.note(e, "")
			return
		}
	}
	w.fields = append(w.fields, &excluded{Exclusion: e, scopes: []mapping.Exclusion{e}})
	w.note(e, "")
}

// isSameScope reports whether entries of metadata.managedFields have the path of the exclusion in the same versions for another resource.
func (e *excluded) isSameScope(other mapping.Exclusion) bool {
	return !isLimited(e.Exclusion) && !isLimited(other) ||
		e.Resource.Group == other.Resource.Group && e.Others == other.Others && slices.Equal(e.Versions, other.Versions) && slices.Equal(e.Except, other.Except)
}

// note adds an entry for an exclusion to the report.
func (w *mappingWriter) note(e mapping.Exclusion, reason string) {
	resource := e.Endpoint()
	var unseen []string
	if reason == "" {
		unseen = e.Unseen()
	}
	for i := range w.report {
		if r := &w.report[i]; r.Rule == e.Field && r.Reason == reason {
			r.Unseen = sortedSet(append(r.Unseen, unseen...))
			if !slices.Contains(r.Resources, resource) {
				r.Resources = append(r.Resources, resource)
			}
			return
		}
	}
	w.report = append(w.report, RuleReport{Rule: e.Field, Resources: []string{resource}, Verbs: changing, Reason: reason, Unseen: unseen})
}

// maxVerbs bounds the verbs that one barrier checks. A check costs 350 000, and the expressions of a barrier may cost 10 000 000 together,
// of which comparing the managers of a large object needs some 3 000 000.
const maxVerbs = 16

// The reasons why exclusions have no translation.
const (
	reasonParameter = "the verb has a parameter, and kube-apiserver makes at most two checks in one expression"
	reasonElements  = "the path has elements of a list or a map, which admission does not tell apart as the schema does: exclude the list or the map"
	reasonEvery     = "newValues is about each element of a list or a map, which admission does not tell apart as the schema does"
	reasonVerbs     = "the fields before need 16 other verbs, the most that kube-apiserver checks for one barrier: use a second mapping"
	reasonMetadata  = "newValues reads the metadata as a whole, with fields that the server owns"
)

// obstacle returns why an exclusion has no translation. One that protects a field from a subresource has none without the field's own.
func (w *mappingWriter) obstacle(e mapping.Exclusion) string {
	without := slices.IndexFunc(w.report, func(r RuleReport) bool { return r.Rule == e.Field && r.Reason != "" })
	switch {
	case e.Subresource != "" && without >= 0:
		return w.report[without].Reason
	//guard:exclusions-elements-lists
	case e.InElements, isList(e):
		return reasonElements
	case e.Broken != "":
		return ""
	//guard:exclusions-parameters
	case e.Verb == "":
		return reasonParameter
	//guard:exclusions-verbs
	case len(w.verbs) == maxVerbs && !slices.Contains(w.verbs, e.Verb):
		return reasonVerbs
	case e.NewValues == "":
		return ""
	//guard:exclusions-values-elements
	case e.Every:
		return reasonEvery
	case isMetadata(e):
		return reasonMetadata
	}
	return w.problem(e.NewValues)
}

// isList reports whether an exclusion is about one element of a list that every object has.
func isList(e mapping.Exclusion) bool {
	return len(e.Names) > 2 && e.Names[0] == "metadata" && (e.Names[1] == "finalizers" || e.Names[1] == "ownerReferences")
}

// isMetadata reports whether an exclusion is about the metadata as a whole.
func isMetadata(e mapping.Exclusion) bool {
	return e.Path != "" && len(e.Names) == 1 && e.Names[0] == "metadata"
}

// problem returns why kube-apiserver must not evaluate newValues.
func (w *mappingWriter) problem(newValues string) string {
	compiled, err := w.compiler.admission.Compile(limited("dyn(oldObject)", "dyn(object)", newValues))
	if err != nil {
		return reasonOf(err)
	}
	//guard:exclusions-numbers
	if function := compiled.CallsOther(); function != "" {
		return fmt.Sprintf("newValues calls %s, whose result may differ between an integer and the same number with a fraction of zero", function)
	}
	//guard:exclusions-values-errors
	if function := compiled.MayQuote(cel.Object, cel.OldObject); function != "" {
		return fmt.Sprintf("an error of %s would quote stored data in the answer of kube-apiserver", function)
	}
	if macro := compiled.Iterates(); macro != "" {
		return fmt.Sprintf("newValues visits all elements of a value with %s, which can take kube-apiserver many seconds", macro)
	}
	return ""
}

// limited returns an expression that evaluates newValues for two values.
func limited(before, after, newValues string) string {
	// A comment in newValues ends with the line.
	return fmt.Sprintf("[%s].exists(oldValue, [%s].exists(value, %s\n))", before, after, newValues)
}

// metadataOf is an expression for the metadata of the new and of the old object.
const metadataOf = `[dyn(object), dyn(oldObject)].map(o, ([o].filter(o, type(o) == map && "metadata" in o && type(o.metadata) == map).map(o, o.metadata) + [dyn({})])[0])`

// valueOf returns an expression for the list that has the value of a field, and nothing if there is none. A list or another value where
// a map should be takes the place of the value, marked by its type.
func valueOf(object string, names []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[dyn(%s)]", object)
	for _, name := range names {
		//guard:exclusions-lists-place-maps
		fmt.Fprintf(&b, `.filter(v, v != null && (type(v) != map || %[1]s in v)).map(v, type(v) == map ? v[%[1]s] : [dyn(type(v)), v])`, quoted(name))
	}
	//guard:exclusions-empty-status
	if len(names) == 1 && names[0] == "status" {
		b.WriteString(".filter(v, v != {})") // servers with types write one into every object
	}
	return b.String()
}

// isMarked returns an expression that is true for a list of valueOf with something else than the value.
func isMarked(list string) string {
	return list + ".exists(v, type(v) == list && v != [] && type(v[0]) == type)"
}

// changedMetadata is true if the metadata differ, the fields that the server owns aside.
//
//guard:exclusions-fields-server-owns
func changedMetadata() string {
	return fmt.Sprintf("%[1]s.exists(k, !(%[3]s) && (!(k in %[2]s) || %[1]s[k] != %[2]s[k])) || %[2]s.exists(k, !(%[3]s) && !(k in %[1]s))",
		"variables.metadata[0]", "variables.metadata[1]", oneOf("k", mapping.ServerOwned()))
}

// scope returns expressions that are true for the resources of an exclusion, and for its resources and versions.
func (w *mappingWriter) scope(e *excluded) (ofResources, ofVersions string) {
	resources, whole := map[string]bool{}, map[string]bool{}
	for _, other := range w.fields {
		for _, s := range other.scopes {
			resources[s.Resource.String()] = true
		}
	}
	are := make([]string, 0, len(e.scopes))
	for _, s := range e.scopes {
		isSubresource := ""
		//guard:exclusions-endpoints-do-not-show-field
		if s.Subresource == "" {
			whole[s.Resource.String()] = true
		} else {
			isSubresource = oneOf("("+subresource+")", []string{s.Subresource})
		}
		are = append(are, conjunction(oneOf(group, []string{s.Resource.Group}), oneOf(resource, []string{s.Resource.Resource}), isSubresource))
	}
	if ofResources = disjunction(are...); len(whole) == len(resources) {
		ofResources = alwaysTrue
	}
	switch {
	case !e.Others:
		//guard:exclusions-versions
		ofVersions = oneOf(version, e.Versions)
	case len(e.Except) > 0:
		//guard:exclusions-other-versions
		ofVersions = not(oneOf(version, e.Except))
	}
	return ofResources, conjunction(ofResources, ofVersions)
}

// isLimited reports whether an exclusion applies in some versions only.
func isLimited(e mapping.Exclusion) bool { return !e.Others || len(e.Except) > 0 }

// addVariable appends a variable, and returns the expression that reads it.
func addVariable(to *[]admissionregistrationv1.Variable, name, expression string) string {
	*to = append(*to, admissionregistrationv1.Variable{Name: name, Expression: expression})
	return "variables." + name
}

// changed adds the variables of an exclusion, and returns expressions for whether the request changes the field, and for whether it
// changes its managers alone. ofVersions is true in the versions of the exclusion.
func (e *excluded) changed(to *[]admissionregistrationv1.Variable, number int, ofVersions string) (isChanged, isClaimed string) {
	if e.Path == "" {
		//guard:exclusions-writes-do-not-show-field
		return alwaysTrue, never
	}
	name := func(prefix string) string { return prefix + strconv.Itoa(number) }
	after, before := valueOf("object", e.Names), valueOf("oldObject", e.Names)
	if e.Every {
		const dropEmpty = ".filter(v, v != null && v != {} && v != [])"
		after, before = after+dropEmpty, before+dropEmpty
	}
	after, before = addVariable(to, name("new"), after), addVariable(to, name("old"), before)
	isChanged = after + " != " + before
	if isMetadata(e.Exclusion) && !e.Every {
		isChanged = disjunction("oldObject == null", changedMetadata())
	}
	isThere := after + ".exists(v, v != null)"
	if e.Every {
		isThere = alwaysTrue
	}
	owned := addVariable(to, name("owners"), owners(e.Names, isThere))
	relevant := e.isHere("t[0][0]", ofVersions)
	//guard:exclusions-newvalues
	if e.NewValues != "" {
		value := func(list string) string { return "(" + list + " + [dyn(null)])[0]" }
		marked := disjunction(isMarked(after), isMarked(before))
		isPart := fmt.Sprintf("(%s + %s).exists(v, type(v) == map || type(v) == list)", after, before)
		// What a creation has is new, so that only its changes count. A part of a value without parts is not there.
		//guard:exclusions-parts-scalar
		unchanged := disjunction(fmt.Sprintf("oldObject != null && (%s || true in t[2])", isPart), not(isChanged), fmt.Sprintf("!(%s) && t[1].exists(p, p != {})", isPart))
		claims := addVariable(to, name("claims"), disjunction(marked, limited(value(after), value(after), e.NewValues), limited(value(after), "dyn(null)", e.NewValues)))
		relevant = conjunction(relevant, disjunction("t[0][0] != variables.version", conjunction(unchanged, claims)))
		//guard:exclusions-values-unknown-place
		isChanged = conjunction(isChanged, disjunction(marked, limited(value(before), value(after), e.NewValues)))
	}
	merged := addVariable(to, name("merged"), merged(owned, len(e.Names)-1))
	//guard:exclusions-entries-cannot-understood
	return isChanged, disjunction("variables.unread", e.claimed(owned, merged, before, relevant))
}

// allowed returns an expression that is true if the user has a verb on the object. A creation has no name when it is authorized.
//
//guard:exclusions-namespace-check
func allowed(verb string) string {
	return fmt.Sprintf(`authorizer.group(%s).resource(%s).subresource(%s).namespace(%s).name(%s == "CREATE" && (%s) == "" ? "" : (%s)).check(%s).allowed()`,
		group, resource, subresource, namespace, operation, subresource, name, quoted(verb))
}

// barrier returns the barrier.
func (w *mappingWriter) barrier() *Barrier {
	b := &Barrier{Key: engine.Key{Name: w.name}, IsOfMapping: true, exempt: w.compiler.exempt}
	slices.SortStableFunc(w.report, func(a, b RuleReport) int { return a.Rule - b.Rule })
	slices.SortStableFunc(w.fields, func(a, b *excluded) int { return cmp.Or(a.Field-b.Field, strings.Compare(a.Path, b.Path)) })
	if b.Report = w.report; len(w.fields) == 0 {
		return b
	}
	variables := managerVariables()
	var validations []admissionregistrationv1.Validation
	verbs := map[string]string{}
	for i, e := range w.fields {
		ofResources, ofVersions := w.scope(e)
		isChanged, isClaimed := e.changed(&variables, i, ofVersions)
		switch {
		case e.Path == "":
		case isLimited(e.Exclusion):
			//guard:exclusions-managers-other-versions
			isClaimed = disjunction(conjunction(ofResources, isClaimed), conjunction(ofVersions, e.claimedElsewhere(ofVersions)))
		default:
			isClaimed = conjunction(ofResources, isClaimed)
		}
		isChanged = addVariable(&variables, "changed"+strconv.Itoa(i), conjunction(ofVersions, isChanged))
		if isClaimed != never {
			isClaimed = addVariable(&variables, "claimed"+strconv.Itoa(i), isClaimed)
		}
		may := ""
		//guard:exclusions-contradictions
		if e.Broken == "" {
			if may = verbs[e.Verb]; may == "" {
				may = addVariable(&variables, "allowed"+strconv.Itoa(len(verbs)), allowed(e.Verb))
				verbs[e.Verb] = may
			}
		}
		for _, c := range []struct{ is, what string }{{isChanged, "the field " + e.Path}, {isClaimed, "the managers of the field " + e.Path + " (metadata.managedFields)"}} {
			if c.is == never {
				continue
			}
			expression := "!" + c.is
			if may != "" {
				expression += " || " + may
			}
			validations = append(validations, admissionregistrationv1.Validation{
				Expression: expression, Reason: ptr.To(metav1.StatusReasonForbidden), Message: excerpt.Of(e.message(c.what), maxMessageBytes),
			})
		}
	}
	policy := w.policy(variables, validations)
	//guard:exclusions-bound
	if TextSize(policy) > MaxTextBytes {
		for i := range b.Report {
			b.Report[i].Reason = cmp.Or(b.Report[i].Reason, reasonTooLarge)
		}
		return b
	}
	b.Policy, b.Binding = policy, NewBinding(policy.ObjectMeta, nil, admissionregistrationv1.Deny)
	return b
}

// message returns the message of a refusal. what has changed.
func (e *excluded) message(what string) string {
	excluded, needs := strings.TrimSuffix(what, "[*]")+" is excluded from general permission", "changing it"
	if e.Path == "" {
		excluded, needs = "the request may change an excluded field that its object does not show", "it"
	}
	if e.Broken != "" {
		return fmt.Sprintf("%s, and no permission covers it (%s)", excluded, e.Broken)
	}
	return fmt.Sprintf("%s: %s also needs the verb %q", excluded, needs, e.Verb)
}

// policy returns the ValidatingAdmissionPolicy.
func (w *mappingWriter) policy(variables []admissionregistrationv1.Variable, validations []admissionregistrationv1.Validation) *admissionregistrationv1.ValidatingAdmissionPolicy {
	byGroup := map[string][]string{}
	for _, e := range w.fields {
		for _, s := range e.scopes {
			paths := []string{s.Resource.Resource, s.Resource.Resource + "/*"}
			if s.Subresource != "" {
				paths = []string{s.Resource.Resource + "/" + s.Subresource}
			}
			byGroup[s.Resource.Group] = append(byGroup[s.Resource.Group], paths...)
		}
	}
	var rules []admissionregistrationv1.NamedRuleWithOperations
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		paths := sortedSet(byGroup[group])
		isCovered := func(path string) bool { // kube-apiserver refuses pods/binding beside pods/*
			name, subresource, _ := strings.Cut(path, "/")
			return subresource != "" && subresource != all && slices.Contains(paths, name+"/"+all)
		}
		rules = append(rules, NewRule([]string{group}, slices.DeleteFunc(slices.Clone(paths), isCovered), ptr.To(admissionregistrationv1.AllScopes),
			admissionregistrationv1.Create, admissionregistrationv1.Update))
	}
	return NewPolicy(metav1.ObjectMeta{
		Name: MappingName(w.name), Labels: map[string]string{ManagedByLabel: ManagedBy}, Annotations: map[string]string{MappingAnnotation: w.name},
	}, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy:    ptr.To(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{MatchPolicy: ptr.To(admissionregistrationv1.Exact), ResourceRules: rules},
		MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "not-exempt", Expression: not(userIs(w.compiler.exempt.Users, w.compiler.exempt.Groups))}},
		Variables:        variables, Validations: validations,
	})
}
