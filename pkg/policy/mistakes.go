/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
	"github.com/proviso-authz/proviso/pkg/suggestion"
)

const (
	// maxKindsOfRequests bounds the kinds of requests for which a condition is compiled to find mistakes. A policy that
	// describes more of them gets no warnings about conditions that never hold.
	maxKindsOfRequests = 16
	// mistakesCostLimit bounds the evaluations that find mistakes in one policy, together.
	mistakesCostLimit = cel.CostLimit
	// maxListedVerbs bounds the verbs that a warning lists.
	maxListedVerbs = 8
	// maxListedValues bounds the values of a requirement that a warning lists.
	maxListedValues = 8
	// maxVerbsInCondition bounds the verbs in a condition for which a verb is looked for that may have been meant, and
	// maxVerbsMeant the verbs among which it is looked for. A policy may have hundreds of the former and 4096 of the latter, and
	// each pair takes some microseconds.
	maxVerbsInCondition = 64
	maxVerbsMeant       = 128
)

// operations are the values of the variable operation.
var operations = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}

// mistakesOf returns the mistakes in a policy that show without the resources and the schemas of servers, at most
// typechecking.MaxWarnings: subjects and names of objects that never match, subjects whose requests are decided without Proviso, and a
// condition that compares a variable with a value that the variable never has, or that is never true, or always true, for the requests of a
// rule. The namespace is empty for a policy of the cluster. The expression is the compiled condition, or nil if there is none. The result
// depends on the policy only, as long as the server has the same configuration.
func mistakesOf(ctx context.Context, server enforcementstatus.Server, namespace string, spec *policyv1alpha1.AuthorizationPolicySpec, expression *partial.Expression) []policyv1alpha1.ExpressionWarning {
	warnings := slices.Concat(denialOfEverything(namespace, spec), subjectMistakes(spec.Subjects), leftOutMistakes(server, spec), resourceNameMistakes(spec), deniedVerbMistakes(spec))
	if expression != nil {
		s := newSearch(ctx, expression)
		warnings = slices.Concat(warnings, operationMistakes(expression), verbMistakes(expression, spec.Rules), namespaceMistakes(expression, namespace), selectorMistakes(expression), textMistakes(expression), postMistakes(expression, spec), s.statusMistakes(spec), s.mistakes(spec))
	}
	return warnings[:min(len(warnings), typechecking.MaxWarnings)]
}

func warningAt(path *field.Path, format string, args ...any) policyv1alpha1.ExpressionWarning {
	return policyv1alpha1.ExpressionWarning{FieldRef: path.String(), Warning: fmt.Sprintf(format, args...)}
}

func resourceNameMistakes(spec *policyv1alpha1.AuthorizationPolicySpec) (warnings []policyv1alpha1.ExpressionWarning) {
	for i := range spec.Rules {
		rule := policyapi.PolicyRule{Verbs: spec.Rules[i].Verbs, Resources: spec.Rules[i].Resources, ResourceNames: spec.Rules[i].ResourceNames}
		path := field.NewPath("spec", "rules").Index(i).Child("resourceNames")
		// For the other effects, validation returns an error.
		if spec.Effect == policyv1alpha1.PolicyEffectAllow && validation.NamelessVerb(&rule) {
			warnings = append(warnings, warningAt(path, "a POST has no name at authorization, and a deletecollection never has one, so that this rule allows neither: compare object.metadata.name, or oldObject.metadata.name, in the condition"))
		}
		if spec.Effect != policyv1alpha1.PolicyEffectAllow && len(rule.ResourceNames) > 0 && (slices.Contains(rule.Verbs, "list") || slices.Contains(rule.Verbs, "watch")) {
			warnings = append(warnings, warningAt(path, "a list or a watch has no name, unless its field selector is metadata.name=NAME: this rule does not apply to others, which show these objects too; put list and watch into a rule without resourceNames"))
		}
		for j, name := range rule.ResourceNames {
			if strings.Contains(name, "*") {
				warnings = append(warnings, warningAt(path.Index(j), "%s is compared literally: names have no wildcards; compare request.name in the condition", shortQuote(name)))
			}
		}
	}
	return warnings
}

// deniedVerbMistakes returns a warning for each rule of a stored Deny policy with one of update and patch, which validation refuses today.
func deniedVerbMistakes(spec *policyv1alpha1.AuthorizationPolicySpec) (warnings []policyv1alpha1.ExpressionWarning) {
	for i, rule := range spec.Rules {
		if read := policyapi.VerbsOf(spec.Effect, rule.Resources, rule.Verbs); len(read) > len(rule.Verbs) {
			warnings = append(warnings, warningAt(field.NewPath("spec", "rules").Index(i).Child("verbs"), "the policy denies %s, too: a Deny of one of update and patch denies both, which look the same at admission", read[len(read)-1]))
		}
	}
	return warnings
}

func conditionWarning(format string, args ...any) policyv1alpha1.ExpressionWarning {
	return warningAt(field.NewPath("spec", "condition"), format, args...)
}

func operationMistakes(expression *partial.Expression) (warnings []policyv1alpha1.ExpressionWarning) {
	for _, text := range expression.ComparedTexts(cel.Operation) {
		if !slices.Contains(operations, text) {
			warnings = append(warnings, conditionWarning("operation is never %s: it is CREATE, UPDATE, DELETE or CONNECT%s", shortQuote(text), suggestion.DidYouMean(text, operations)))
		}
	}
	return warnings
}

// verbMistakes returns a warning for each verb in a condition that no rule has and no request for a resource, but that looks
// like such a verb. It does not warn about all unknown verbs, because other authorizers may have other verbs.
func verbMistakes(expression *partial.Expression, rules []policyv1alpha1.PolicyRule) (warnings []policyv1alpha1.ExpressionWarning) {
	verbs := sets.New(typechecking.ResourceVerbs...)
	for i := range rules {
		verbs.Insert(rules[i].Verbs...)
	}
	unknown := slices.DeleteFunc(expression.ComparedTexts(cel.Request, "verb"), verbs.Has)
	known := sets.List(verbs.Difference(sets.New(typechecking.ResourceVerbs...)))
	known = slices.Concat(typechecking.ResourceVerbs, known)
	known = known[:min(len(known), maxVerbsMeant)]
	for _, text := range unknown[:min(len(unknown), maxVerbsInCondition)] {
		if meant := suggestion.DidYouMean(text, known); meant != "" {
			warnings = append(warnings, conditionWarning("request.verb is never %s%s", shortQuote(text), meant))
		}
	}
	return warnings
}

// namespaceMistakes returns a warning for each other namespace with which the condition of a policy of a namespace compares the namespace of
// the request.
func namespaceMistakes(expression *partial.Expression, namespace string) (warnings []policyv1alpha1.ExpressionWarning) {
	if namespace == "" {
		return nil
	}
	for _, of := range [][]string{{string(cel.Request), "namespace"}, {string(cel.NamespaceObject), "metadata", "name"}, {string(cel.Object), "metadata", "namespace"}, {string(cel.OldObject), "metadata", "namespace"}} {
		for _, text := range expression.ComparedTexts(cel.Variable(of[0]), of[1:]...) {
			if text != namespace {
				warnings = append(warnings, conditionWarning("%s is never %s: the policy is about requests in its own namespace, %q; write one in that namespace, or a ClusterAuthorizationPolicy", strings.Join(of, "."), shortQuote(text), namespace))
			}
		}
	}
	return warnings
}

// namesOfObjects are what is compared with names of objects and of namespaces.
var namesOfObjects = [][]string{
	{string(cel.Request), "name"}, {string(cel.Request), "namespace"}, {string(cel.Object), "metadata", "name"}, {string(cel.OldObject), "metadata", "name"},
	{string(cel.Object), "metadata", "namespace"}, {string(cel.OldObject), "metadata", "namespace"}, {string(cel.NamespaceObject), "metadata", "name"},
}

// placeholder is a placeholder of a template within one text.
var placeholder = regexp.MustCompile(`\{\{[^{}"]*\}\}`)

// textMistakes returns a warning for each name with a wildcard in a condition, and for placeholders of templates.
func textMistakes(expression *partial.Expression) (warnings []policyv1alpha1.ExpressionWarning) {
	for _, of := range namesOfObjects {
		for _, text := range expression.ComparedTexts(cel.Variable(of[0]), of[1:]...) {
			if strings.ContainsAny(text, "*?") {
				warnings = append(warnings, conditionWarning("%s is compared literally: names have no wildcards; write startsWith, endsWith or matches", shortQuote(text)))
			}
		}
	}
	if placeholder.MatchString(expression.Text()) {
		warnings = append(warnings, conditionWarning("a text has {{ and }}, as the placeholder of a template that was not replaced"))
	}
	return warnings
}

// postMistakes returns a warning if an Allow policy compares the name of a request and is about creations only.
func postMistakes(expression *partial.Expression, spec *policyv1alpha1.AuthorizationPolicySpec) []policyv1alpha1.ExpressionWarning {
	names := expression.ComparedTexts(cel.Request, "name")
	if spec.Effect != policyv1alpha1.PolicyEffectAllow || len(names) == 0 || slices.Contains(names, "") {
		return nil // validation refuses the other effects
	}
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		hasName := slices.ContainsFunc(rule.Resources, func(entry string) bool { return entry == "*" || strings.Contains(entry, "/") })
		if hasName || len(rule.Verbs) != 1 || rule.Verbs[0] != "create" {
			return nil // the condition may be about that rule
		}
	}
	return []policyv1alpha1.ExpressionWarning{conditionWarning("request.name is empty for a POST, which the rules are about: compare object.metadata.name")}
}

// selectorMistakes returns a warning for each list in a condition with which the values of a requirement are compared, although no request
// has such values: a server sorts the values of a label, and the requirement of a field has one value.
func selectorMistakes(expression *partial.Expression) (warnings []policyv1alpha1.ExpressionWarning) {
	for _, list := range expression.ComparedLabelValues() {
		if sorted := sets.List(sets.New(list...)); !slices.Equal(list, sorted) {
			warnings = append(warnings, conditionWarning("no requirement of request.labelSelector has the values %s: a server sorts them, and keeps each once; compare with %s", shortList(list), shortList(sorted)))
		}
	}
	for _, list := range expression.ComparedFieldValues() {
		if len(list) != 1 {
			warnings = append(warnings, conditionWarning("no requirement of request.fieldSelector has the values %s: each has exactly one value", shortList(list)))
		}
	}
	return warnings
}

// shortList shows a list of texts of an author, which may be long.
func shortList(texts []string) string {
	var quoted []string
	for _, text := range texts[:min(len(texts), maxListedValues)] {
		quoted = append(quoted, shortQuote(text))
	}
	if len(texts) > maxListedValues {
		quoted = append(quoted, "…")
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// shortQuote quotes a text of an author, which may be long.
func shortQuote(text string) string {
	const limit = 64
	return fmt.Sprintf("%q", excerpt.Of(text, limit))
}

// mistakes finds the rules for whose requests the condition is never true, and the verbs for which it is an error. It also finds a condition
// that is true for all requests of all rules although it reads the object.
func (s *search) mistakes(spec *policyv1alpha1.AuthorizationPolicySpec) (warnings []policyv1alpha1.ExpressionWarning) {
	if !s.prepare(spec.Rules) {
		return nil
	}
	isAlways := true
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		byOutcome := map[never][]string{}
		all := never(0)
		for _, verb := range rule.Verbs {
			n := s.verb(rule, verb)
			byOutcome[n] = append(byOutcome[n], verb)
			all |= n
		}
		isAlways = isAlways && all == isTrue && len(byOutcome) == 1
		if len(byOutcome[isOpen])+len(byOutcome[isTrue]) == 0 {
			warnings = append(warnings, neverWarning(spec.Effect, s.expression, i, rule.Verbs, all))
			continue
		}
		for _, n := range []never{isError, isFalse | isError} {
			if verbs := byOutcome[n]; len(verbs) > 0 {
				warnings = append(warnings, neverWarning(spec.Effect, s.expression, i, verbs, n))
			}
		}
	}
	if isAlways && s.isMeantToDepend() {
		warnings = append(warnings, conditionWarning("true for every request of the rules: the policy %s; omit the condition if that is meant", map[policyv1alpha1.PolicyEffect]string{
			policyv1alpha1.PolicyEffectAllow: "allows all of them", policyv1alpha1.PolicyEffectDeny: "denies all of them", policyv1alpha1.PolicyEffectNoOpinion: "keeps Allow policies from allowing any of them",
		}[spec.Effect]))
	}
	return warnings
}

// isMeantToDepend reports whether the condition reads more than the kind of the request, which the rules may repeat on purpose, or is true
// for requests of every kind.
func (s *search) isMeantToDepend() bool {
	return !s.expression.Program().ReadsOnly(cel.Request, cel.Operation) || s.evaluate(s.expression, cel.Values{}) == isTrue
}

// never describes a condition for some requests. If the condition is never true for them, it is the set of outcomes that
// the condition may have: isFalse, isError or both. If the condition is true for all of them, it is isTrue. Otherwise it is isOpen.
type never uint8

const (
	// isOpen means that the condition may be true or not.
	isOpen never = 0
	// isFalse and isError can be combined.
	isFalse never = 1
	isError never = 2
	isTrue  never = 4
)

func neverWarning(effect policyv1alpha1.PolicyEffect, expression *partial.Expression, rule int, verbs []string, n never) policyv1alpha1.ExpressionWarning {
	outcome := map[never]string{isFalse: "false", isError: "an error", isFalse | isError: "false or an error"}[n]
	listed := strings.Join(verbs[:min(len(verbs), maxListedVerbs)], ", ")
	return conditionWarning("%s for every request of spec.rules[%d] (%s): the policy %s%s", outcome, rule, listed, consequence(effect, n), nullHint(expression, verbs, n))
}

// consequence returns the part of a warning that describes what a policy does to requests for which its condition is never true.
func consequence(effect policyv1alpha1.PolicyEffect, n never) string {
	switch {
	case effect == policyv1alpha1.PolicyEffectAllow:
		return "allows none of them"
	case effect == policyv1alpha1.PolicyEffectDeny && n == isFalse:
		return "denies none of them"
	case effect == policyv1alpha1.PolicyEffectDeny && n == isError:
		return "denies all of them"
	case effect == policyv1alpha1.PolicyEffectDeny:
		return "denies those for which it is an error"
	case n == isFalse:
		return "does not apply to them"
	case n == isError:
		return "keeps Allow policies from allowing any of them"
	default:
		return "keeps Allow policies from allowing those for which it is an error"
	}
}

// nullHint returns a hint that object is null for a delete, or oldObject for a create. It does so only if all verbs are such verbs,
// and the condition reads that variable and may be an error. Otherwise it returns "".
func nullHint(expression *partial.Expression, verbs []string, n never) string {
	isOf := func(some ...string) bool {
		return !slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(some, verb) })
	}
	switch {
	case n&isError == 0:
		return ""
	case isOf("delete", "deletecollection") && expression.Reads(cel.Object):
		return "; object is null for a delete, oldObject is the object"
	case isOf("create") && expression.Reads(cel.OldObject):
		return "; oldObject is null for a create, object is the object"
	}
	return ""
}

// search evaluates the condition of a policy for kinds of requests.
type search struct {
	//nolint:containedctx // lives for one check
	ctx         context.Context
	expression  *partial.Expression
	specialized map[string]*partial.Expression
	// found has the outcomes by kind of request and situation. A policy may have 64 rules with 64 verbs each, and few kinds
	// and situations.
	found map[string]never
	left  uint64
}

func newSearch(ctx context.Context, expression *partial.Expression) *search {
	return &search{ctx: ctx, expression: expression, specialized: map[string]*partial.Expression{}, found: map[string]never{}, left: mistakesCostLimit}
}

// prepare compiles the condition for all kinds of requests that the rules describe. It returns false if these are more than
// maxKindsOfRequests, or if the condition does not compile for one of them.
func (s *search) prepare(rules []policyv1alpha1.PolicyRule) bool {
	kinds := map[string]map[string]string{}
	for i := range rules {
		for _, verb := range rules[i].Verbs {
			for _, fields := range s.kindsOf(&rules[i], verb) {
				kinds[fmt.Sprint(fields)] = fields
			}
			if len(kinds) > maxKindsOfRequests {
				return false
			}
		}
	}
	keys := slices.Sorted(maps.Keys(kinds))
	var requests []map[string]string
	for _, key := range keys {
		requests = append(requests, kinds[key])
	}
	expressions, err := s.expression.ForRequests(requests)
	for i := range expressions {
		s.specialized[keys[i]] = expressions[i]
	}
	return err == nil
}

// kindsOf returns the kinds of requests that a rule describes for one of its verbs. A kind has values for the fields of a
// request that the condition reads and that the rule fixes; there is one kind for each combination of values.
func (s *search) kindsOf(rule *policyv1alpha1.PolicyRule, verb string) []map[string]string {
	kinds := []map[string]string{{}}
	set := func(name string, values []string) {
		if len(values) == 0 || slices.Contains(values, "*") || !s.expression.ReadsRequestField(name) || len(kinds) > maxKindsOfRequests {
			return
		}
		var more []map[string]string
		for _, fields := range kinds {
			for _, value := range values {
				fields = maps.Clone(fields)
				fields[name] = value
				more = append(more, fields)
			}
		}
		kinds = more
	}
	set("verb", []string{verb})
	set("apiGroup", rule.APIGroups)
	set("apiVersion", rule.APIVersions)
	var resources, subresources []string
	for _, entry := range rule.Resources {
		resource, subresource, _ := strings.Cut(entry, "/")
		if entry == "*" {
			subresource = "*" // it stands for subresources, too
		}
		resources, subresources = append(resources, resource), append(subresources, subresource)
	}
	set("resource", resources)
	set("subresource", subresources)
	return kinds
}

// verb returns how the condition is for the requests that a rule describes for one of its verbs.
func (s *search) verb(rule *policyv1alpha1.PolicyRule, verb string) never {
	result := never(0)
	for _, fields := range s.kindsOf(rule, verb) {
		kind := fmt.Sprint(fields)
		for _, possible := range situationsOf(rule, verb) {
			key := kind + " " + possible.name
			n, isKnown := s.found[key]
			if !isKnown {
				n = s.evaluate(s.specialized[kind], possible.values)
				s.found[key] = n
			}
			if n == isOpen {
				return isOpen
			}
			result |= n
		}
	}
	if result&isTrue != 0 && result != isTrue {
		return isOpen
	}
	return result
}

// situation has values of variables.
type situation struct {
	name   string
	values cel.Values
}

// situationsOf returns the values of variables that are possible for the requests of a rule with a verb. It returns one
// without variables if conditions are not evaluated on objects for such requests.
func situationsOf(rule *policyv1alpha1.PolicyRule, verb string) []situation {
	of := func(operation string) situation {
		return situation{name: operation, values: cel.Values{cel.Operation: cel.Known(operation)}}
	}
	without := func(operation string, variable cel.Variable) situation {
		s := of(operation)
		s.name += " without " + string(variable)
		s.values[variable] = cel.Known(nil)
		return s
	}
	hasOther := func(entry string) bool { return entry == "*" || strings.Contains(entry, "/") }
	if len(rule.NonResourceURLs) > 0 || slices.Contains([]string{"get", "list", "watch"}, verb) || !slices.Contains(append([]string{"*"}, typechecking.ResourceVerbs...), verb) {
		return []situation{{}}
	}
	if verb == "*" || slices.ContainsFunc(rule.Resources, hasOther) {
		return []situation{of("CREATE"), of("UPDATE"), of("DELETE"), of("CONNECT")}
	}
	switch verb {
	case "create":
		return []situation{without("CREATE", cel.OldObject)}
	case "delete", "deletecollection":
		return []situation{without("DELETE", cel.Object)}
	default: // an update or a patch may create an object
		return []situation{of("UPDATE"), without("CREATE", cel.OldObject)}
	}
}

// evaluate evaluates an expression while some of its variables are known. It returns isOpen if the budget of the search does
// not suffice.
func (s *search) evaluate(expression *partial.Expression, values cel.Values) never {
	if s.left == 0 {
		return isOpen
	}
	plan, err := expression.Plan(slices.Sorted(maps.Keys(values))...)
	if err != nil {
		return isOpen
	}
	result := plan.EvalWithin(s.ctx, values, min(s.left, cel.NamespacedAuthorizationBudget))
	s.left -= min(s.left, result.Cost())
	switch {
	case result.Stopped():
		return isOpen
	case result.IsTrue():
		return isTrue
	case result.IsFalse():
		return isFalse
	case result.Err() != nil:
		return isError
	case result.Residual() != nil && result.Residual().NeverTrue():
		return isFalse | isError
	}
	return isOpen
}
