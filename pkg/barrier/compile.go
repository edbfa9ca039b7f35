/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/memo"
)

// MaxTextBytes bounds the expressions of one barrier together. kube-apiserver accepts 100,000 characters in one expression.
const MaxTextBytes = 64 * 1024

// Config configures a Compiler.
type Config struct {
	// Policies compiles the conditions of policies.
	Policies *partial.Compiler
	// Exempt are the users and groups whose requests no barrier refuses. The group system:masters is always exempt.
	Exempt manifest.Identities
}

// keptBarriers is the number of recent barriers that a Compiler caches without a user. The check of a write compiles a barrier some moments before the
// controller uses it.
const keptBarriers = 64

// Compiler compiles policies. It is safe for concurrent use.
type Compiler struct {
	policies  *partial.Compiler
	admission *partial.Compiler
	exempt    manifest.Identities
	// compiled caches barriers by policy and specification.
	compiled *memo.Memo[Barrier]
}

// The errors of NewCompiler and Compile.
var (
	errIncomplete = errors.New("a compiler of barriers needs Policies")
	errNotDeny    = errors.New("only a policy with the effect Deny has a barrier")
)

// NewCompiler returns a Compiler.
func NewCompiler(config Config) (*Compiler, error) {
	if config.Policies == nil {
		return nil, errIncomplete
	}
	admission, err := partial.NewAdmissionCompiler()
	if err != nil {
		return nil, err
	}
	exempt := manifest.Identities{Users: slices.Clone(config.Exempt.Users), Groups: slices.Clone(config.Exempt.Groups)}
	if !slices.Contains(exempt.Groups, user.SystemPrivilegedGroup) {
		exempt.Groups = append(exempt.Groups, user.SystemPrivilegedGroup)
	}
	return &Compiler{policies: config.Policies, admission: admission, exempt: exempt, compiled: memo.New[Barrier](keptBarriers)}, nil
}

// LeavesOut reports whether barriers refuse no requests of a user. It returns true for nil.
func (c *Compiler) LeavesOut(u user.Info) bool { return isExempt(c.exempt, u) }

// Compile compiles a Deny policy, or returns the Barrier that is cached for the same key and specification. It returns an error if the policy has another
// effect, or if its condition does not compile. The caller must not change the Barrier.
func (c *Compiler) Compile(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*Barrier, error) {
	id, err := memo.KeyOf(key, spec)
	if err != nil {
		return nil, err
	}
	return c.compiled.Get(id, func() (*Barrier, error) { return c.compile(key, spec.DeepCopy()) })
}

// Compiled returns the number of barriers of policies that were compiled so far.
func (c *Compiler) Compiled() uint64 { return c.compiled.Computed() }

func (c *Compiler) compile(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*Barrier, error) {
	if spec.Effect != policyv1alpha1.PolicyEffectDeny {
		return nil, errNotDeny
	}
	t := &translator{compiler: c.admission, found: map[situation]translation{}, left: maxTranslationCost}
	if spec.Condition != "" {
		variables := make([]cel.NamedExpression, 0, len(spec.Variables))
		for _, v := range spec.Variables {
			variables = append(variables, cel.NamedExpression{Name: v.Name, Expression: v.Expression})
		}
		var err error
		if t.expression, err = c.policies.CompileWithVariables(variables, spec.Condition); err != nil {
			return nil, err
		}
	}
	w := newWriter(key, spec)
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		rule.Verbs = policy.VerbsOf(spec.Effect, rule.Resources, rule.Verbs)
		w.rule(i, rule)
	}
	w.translate(t)
	for _, p := range w.parts {
		w.emit(p)
	}
	return w.barrier(c.exempt), nil
}

// candidate is a part of a rule for one variant of requests.
type candidate struct {
	variant variant
	// verbs are the verbs of the variant that the rule has.
	verbs       []string
	translation translation
}

// term is what the barrier denies of one variant of requests.
type term struct {
	variant variant
	// full matches the requests that the rule matches in its versions, and outside those in other versions.
	full, outside string
	condition     string
}

// writer collects the parts of a barrier.
type writer struct {
	key    engine.Key
	spec   *policyv1alpha1.AuthorizationPolicySpec
	terms  []term
	parts  []*part
	rules  []admissionregistrationv1.NamedRuleWithOperations
	report []RuleReport
	// covered are the verbs with a translation, by rule, for connections and for other requests.
	covered map[int]map[bool][]string
	isAlone bool
	// isOfNamespaces says that the rules name namespaces and nothing else.
	isOfNamespaces bool
	// overlaps remembers which parts overlap.
	overlaps map[[2]*part]bool
}

func newWriter(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) *writer {
	isOther := func(rule policyv1alpha1.PolicyRule) bool { return !isOfNamespaces(&rule) }
	return &writer{
		key: key, spec: spec, isAlone: len(spec.Rules) == 1, isOfNamespaces: !slices.ContainsFunc(spec.Rules, isOther),
		covered: map[int]map[bool][]string{}, overlaps: map[[2]*part]bool{},
	}
}

// rule adds the parts of a rule.
func (w *writer) rule(index int, rule *policyv1alpha1.PolicyRule) {
	w.covered[index] = map[bool][]string{}
	if len(rule.NonResourceURLs) > 0 {
		w.leaveOut(index, rule.Verbs, rule.NonResourceURLs, "requests for paths do not pass through admission")
		return
	}
	seen := *rule
	seen.APIGroups = nil
	for _, group := range rule.APIGroups {
		//guard:barriers-unseen-of-all-groups
		if group == all {
			w.leaveOutUnseen(index, rule)
		}
		if reason, ok := unseenGroups[group]; ok {
			w.leaveOut(index, rule.Verbs, groupOf(rule.Resources, group), reason)
			continue
		}
		if unseen := matching(rule.Resources, unseenResources[group]); len(unseen) > 0 {
			w.leaveOut(index, rule.Verbs, groupOf(unseen, group), reasonAdmissionPolicies)
			if !slices.ContainsFunc(rule.Resources, func(path string) bool {
				resource, _, _ := strings.Cut(path, "/")
				return !slices.Contains(unseenResources[group], resource)
			}) {
				continue
			}
		}
		seen.APIGroups = append(seen.APIGroups, group)
	}
	if w.excludesNamespaces() {
		w.leaveOutNamespaces(index, &seen)
	}
	if len(seen.APIGroups) == 0 || len(seen.Resources) == 0 {
		return
	}
	parts, unseen := partsOf(index, &seen)
	for _, reason := range slices.Sorted(maps.Keys(unseen)) {
		w.leaveOut(index, rule.Verbs, unseen[reason], reason)
	}
	w.isAlone = w.isAlone && len(parts) == 1
	for _, p := range parts {
		p.isNamespaced, p.excludesNamespaces = w.key.Namespace != "", w.excludesNamespaces()
		w.parts = append(w.parts, &p)
	}
}

// leaveOutUnseen reports the resources that a rule with the group * matches although admission policies do not see them.
func (w *writer) leaveOutUnseen(index int, rule *policyv1alpha1.PolicyRule) {
	for _, group := range slices.Sorted(maps.Keys(unseenResources)) {
		if unseen := matching(rule.Resources, unseenResources[group]); len(unseen) > 0 {
			w.leaveOut(index, rule.Verbs, groupOf(unseen, group), cmp.Or(unseenGroups[group], reasonAdmissionPolicies))
		}
	}
}

// matching returns the entries of a rule that match one of some resources, with the resource in place of a wildcard.
func matching(paths, resources []string) (found []string) {
	for _, path := range paths {
		name, subresource, hasSubresource := strings.Cut(path, "/")
		for _, resource := range resources {
			if name != all && name != resource {
				continue
			}
			if hasSubresource {
				resource += "/" + subresource
			}
			found = append(found, resource)
		}
	}
	return sortedSet(found)
}

// excludesNamespaces reports whether the barrier does not see namespaces, whose labels the request itself has written: a barrier of a
// namespace that saw them would see the requests of all namespaces, and its author could slow them.
func (w *writer) excludesNamespaces() bool { return w.key.Namespace != "" && !w.isOfNamespaces }

// leaveOutNamespaces reports the namespaces of a rule, and takes them from it if it names them in no other group.
func (w *writer) leaveOutNamespaces(index int, rule *policyv1alpha1.PolicyRule) {
	if !(part{spec: rule, resources: rule.Resources}).hasNamespaces() {
		return
	}
	var named []string
	for _, path := range rule.Resources {
		if resource, subresource, hasSubresource := strings.Cut(path, "/"); resource == all && hasSubresource {
			named = append(named, namespaces+"/"+subresource)
		} else if resource == all || resource == namespaces {
			named = append(named, strings.Replace(path, all, namespaces, 1))
		}
	}
	w.leaveOut(index, rule.Verbs, sortedSet(named), "a policy of a namespace is enforced on the namespace itself if its rules name nothing else")
	if len(rule.APIGroups) == 1 && rule.APIGroups[0] == "" {
		rule.Resources = slices.DeleteFunc(slices.Clone(rule.Resources), isNamespaces)
	}
}

// translate translates the condition for all parts.
func (w *writer) translate(t *translator) {
	for _, p := range w.parts {
		for _, v := range p.variants() {
			verbs := slices.DeleteFunc(slices.Clone(v.verbs), func(verb string) bool { return !p.hasVerb(verb) })
			if len(verbs) == 0 {
				continue
			}
			translation := p.obstacle(v, verbs)
			if translation.reason == "" {
				translation = t.translate(*p, v)
			}
			p.candidates = append(p.candidates, &candidate{variant: v, verbs: verbs, translation: translation})
		}
	}
	if w.leaveOutLargeRules() {
		return
	}
	for w.leaveOutVersions() {
	}
}

// leaveOutLargeRules removes all translations if what the rules name is longer than a barrier may be, and reports whether it is. The
// expressions have that several times, so that they are not written first.
func (w *writer) leaveOutLargeRules() bool {
	size, seen := 0, map[string]bool{}
	// matched is the length of what all parts match of a variant, and outside the number of parts that deny other versions: each has all of that.
	matched, outside := map[string]int{}, map[string]int{}
	for _, p := range w.parts {
		text := p.matches(w.isAlone)
		if p.hasOutside() {
			text = conjunction(text, oneOf(version, sortedSet(p.spec.APIVersions)))
		}
		for _, c := range p.candidates {
			if c.translation.reason != "" || c.translation.text == never && !p.hasOutside() {
				continue
			}
			if !seen[text] {
				size, seen[text] = size+len(text), true
			}
			of := class(c.variant)
			if !seen[of+text] {
				matched[of], seen[of+text] = matched[of]+len(text), true
				if p.hasOutside() {
					outside[of]++
				}
			}
		}
	}
	again := 0
	for of, n := range outside {
		again = max(again, n*matched[of])
	}
	if size+again <= MaxTextBytes {
		return false
	}
	for _, p := range w.parts {
		for _, c := range p.candidates {
			if c.translation.reason == "" {
				c.translation = translation{reason: reasonTooLarge}
			}
		}
	}
	return true
}

var reasonTooLarge = fmt.Sprintf("the expressions of the barrier have more than %d bytes", MaxTextBytes)

// leaveOutVersions removes translations that would not be exact, and reports whether there were any: in a version that a rule does not
// name, the policy denies without its condition, unless another rule names the version. If that rule has no translation, it
// is not known for which requests it does.
func (w *writer) leaveOutVersions() (removed bool) {
	for _, p := range w.parts {
		if !p.hasOutside() {
			continue
		}
		for _, c := range p.candidates {
			switch {
			case c.translation.reason != "":
				continue
			//guard:barrier-versions-beside-rule-without-translation
			case w.isOverlapped(p, c) || c.variant.operation == admissionregistrationv1.Update && p.isUntranslated(creation):
				c.translation = translation{reason: "the rule is for some versions, and another rule for the same requests cannot be translated"}
				removed = true
			//guard:barrier-updates-create-version-another-rule
			case c.variant.operation == admissionregistrationv1.Update && !p.hasSubresourcesOnly() && w.isCreatedOtherwise(p):
				c.translation = translation{reason: "an update or a patch can also create the object, in a version for which only another rule names the verb create"}
				removed = true
			}
		}
	}
	return removed
}

// isOverlapped reports whether a part without translation may match requests of a candidate of another part.
func (w *writer) isOverlapped(p *part, c *candidate) bool {
	return slices.ContainsFunc(w.parts, func(other *part) bool { return other != p && other.isUntranslated(c.variant) && w.overlap(p, other) })
}

// isCreatedOtherwise reports whether another part may match the creation of what an update of the part creates.
func (w *writer) isCreatedOtherwise(p *part) bool {
	return slices.ContainsFunc(w.parts, func(other *part) bool {
		return other != p && !other.connects && other.hasVerb("create") && w.overlap(p, other)
	})
}

// isUntranslated reports whether the part has the variant, but no translation for it.
func (p *part) isUntranslated(v variant) bool {
	return slices.ContainsFunc(p.candidates, func(c *candidate) bool {
		return c.translation.reason != "" && c.variant.operation == v.operation && c.variant.named == v.named
	})
}

// overlap is the function overlap, and compares the same parts once.
func (w *writer) overlap(a, b *part) bool {
	pair := [2]*part{a, b}
	found, ok := w.overlaps[pair]
	if !ok {
		found = overlap(a, b)
		w.overlaps[pair], w.overlaps[[2]*part{b, a}] = found, found
	}
	return found
}

// overlap reports whether two parts may match the same resource.
func overlap(a, b *part) bool {
	shareGroup := slices.Contains(a.spec.APIGroups, all) || slices.ContainsFunc(b.spec.APIGroups, func(group string) bool {
		return group == all || slices.Contains(a.spec.APIGroups, group)
	})
	hasWildcard := func(paths []string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(path, all) })
	}
	return shareGroup && (hasWildcard(a.resources) || hasWildcard(b.resources) ||
		slices.ContainsFunc(a.resources, func(path string) bool { return slices.Contains(b.resources, path) }))
}

// hasOutside reports whether there are requests in versions that the part does not name. The core group has one version.
func (p *part) hasOutside() bool {
	isCore := len(p.spec.APIGroups) == 1 && p.spec.APIGroups[0] == ""
	//guard:barrier-versions-rule-does-not-name
	return len(p.spec.APIVersions) > 0 && !slices.Contains(p.spec.APIVersions, all) && (!isCore || !slices.Contains(p.spec.APIVersions, "v1"))
}

func groupOf(resources []string, group string) []string {
	named := make([]string, 0, len(resources))
	for _, path := range resources {
		resource, subresource, hasSubresource := strings.Cut(path, "/")
		if resource += "." + group; hasSubresource {
			resource += "/" + subresource
		}
		named = append(named, resource)
	}
	return named
}

// leaveOut reports that verbs of a rule have no translation.
func (w *writer) leaveOut(index int, verbs, resources []string, reason string) {
	w.report = append(w.report, RuleReport{Rule: index, Verbs: sortedSet(verbs), Resources: slices.Clone(resources), Reason: reason})
}

func sortedSet(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// emit adds the translation of a part to the barrier.
func (w *writer) emit(p *part) {
	var operations []admissionregistrationv1.OperationType
	var done, seen []string
	for _, c := range p.candidates {
		seen = append(seen, c.verbs...)
		if c.translation.reason != "" {
			w.leaveOut(p.rule, c.verbs, p.resources, c.translation.reason)
			continue
		}
		done = append(done, c.verbs...)
		full, outside := p.matches(w.isAlone), ""
		if p.hasOutside() {
			full, outside = conjunction(full, oneOf(version, sortedSet(p.spec.APIVersions))), full
		}
		w.terms = append(w.terms, term{variant: c.variant, full: full, outside: outside, condition: c.translation.text})
		if isNever := c.translation.text == never && outside == ""; !isNever && !slices.Contains(operations, c.variant.operation) {
			operations = append(operations, c.variant.operation)
		}
	}
	if p.connects && slices.Contains(p.resources, all) {
		seen = p.verbs() // the other part of the rule is about them
	}
	if unseen := slices.DeleteFunc(slices.Clone(p.verbs()), func(verb string) bool { return slices.Contains(seen, verb) }); len(unseen) > 0 {
		w.leaveOut(p.rule, unseen, p.resources, "admission sees create, update, patch, delete and deletecollection, and connections with get and create")
	} else if slices.Contains(p.spec.Verbs, all) && !p.connects {
		w.leaveOut(p.rule, []string{"get", "list", "watch"}, p.resources, "requests that read do not pass through admission")
	}
	if len(done) > 0 {
		w.covered[p.rule][p.connects] = done
		w.reportDone(p, done)
	}
	if len(operations) > 0 {
		var scope *admissionregistrationv1.ScopeType
		if p.excludesNamespaces {
			scope = ptr.To(admissionregistrationv1.NamespacedScope)
		}
		w.rules = append(w.rules, NewRule(wildcardAlone(p.spec.APIGroups), admittedResources(p.resources), scope, operations...))
	}
}

// reportDone reports the verbs of a part that are translated.
func (w *writer) reportDone(p *part, verbs []string) {
	named := slices.DeleteFunc(slices.Clone(p.resources), func(path string) bool { return !isCreatedByName(path) })
	others := slices.DeleteFunc(slices.Clone(p.resources), isCreatedByName)
	isCreate := func(verb string) bool { return verb == "create" }
	if len(named) == 0 || !slices.ContainsFunc(verbs, func(verb string) bool { return !isCreate(verb) }) {
		named, others = nil, p.resources
	}
	if len(others) > 0 {
		w.report = append(w.report, RuleReport{Rule: p.rule, Verbs: sortedSet(verbs), Resources: slices.Clone(others)})
	}
	if len(named) == 0 {
		return
	}
	if slices.ContainsFunc(verbs, isCreate) {
		w.report = append(w.report, RuleReport{Rule: p.rule, Verbs: []string{"create"}, Resources: named})
	}
	w.leaveOut(p.rule, slices.DeleteFunc(slices.Clone(verbs), isCreate), named, "kube-apiserver authorizes them without a request that passes through admission")
}

// obstacle returns why a part has no translation for a variant, whatever the condition is. named are the verbs of the variant
// that the rule has.
func (p part) obstacle(v variant, named []string) translation {
	switch {
	//guard:barrier-connections-one-verb
	case v.operation == admissionregistrationv1.Connect && len(named) < len(v.verbs):
		return translation{reason: "a connection is made with get or create, which look the same at admission: name both"}
	//guard:barrier-names-creations
	case v.operation == admissionregistrationv1.Create && len(p.spec.ResourceNames) > 0 && !p.isCreatedByName():
		return translation{reason: "the rule has resourceNames, and a create request has no name at admission"}
	//guard:barrier-creations-namespaces
	case v.operation == admissionregistrationv1.Create && p.isNamespaced && p.hasNamespaces():
		return translation{reason: "the request to create a namespace is in no namespace"}
	}
	return translation{}
}

// matches returns an expression that is true for the requests of the part, without their versions and verbs. isAlone says that
// the rules of the barrier name no other resources.
func (p part) matches(isAlone bool) string {
	var operands []string
	if !isAlone {
		//guard:barrier-groups-several-rules
		if !slices.Contains(p.spec.APIGroups, all) {
			operands = append(operands, oneOf(group, sortedSet(p.spec.APIGroups)))
		}
		//guard:barrier-resources-several-rules
		operands = append(operands, resourceIs(p.resources))
	}
	//guard:barrier-names
	if len(p.spec.ResourceNames) > 0 {
		operands = append(operands, oneOf("("+name+")", sortedSet(p.spec.ResourceNames)))
	}
	return conjunction(operands...)
}

// wildcardAlone returns the wildcard alone if the list has it, as kube-apiserver requires, and otherwise the sorted list.
func wildcardAlone(texts []string) []string {
	if slices.Contains(texts, all) {
		return []string{all}
	}
	return sortedSet(texts)
}

// admittedResources returns resources of a rule as the rules of admission write them, where * stands for no subresource.
func admittedResources(paths []string) []string {
	if slices.Contains(paths, all) {
		return []string{"*/*"}
	}
	return slices.DeleteFunc(sortedSet(paths), func(path string) bool {
		resource, subresource, _ := strings.Cut(path, "/")
		return subresource != "" && resource != all && slices.Contains(paths, all+"/"+subresource)
	})
}

// denied returns the expression that is true for the requests that the policy denies. Each condition is in it once, because a condition
// may use up the cost limit of kube-apiserver alone.
func (w *writer) denied() string {
	var conditions, operands []string
	for _, t := range w.terms {
		if t.condition != never && !slices.Contains(conditions, t.condition) {
			conditions = append(conditions, t.condition)
		}
	}
	for _, condition := range conditions {
		matches := w.guarded(func(t term) (string, bool) { return t.full, t.condition == condition })
		operands = append(operands, conjunction(disjunction(matches...), condition))
	}
	return disjunction(append(operands, w.deniedOutside()...)...)
}

// guarded returns the expressions that match returns for terms, each once, with the guard of the variants of its terms.
func (w *writer) guarded(match func(term) (expression string, ok bool)) []string {
	var order []string
	variants := map[string][]variant{}
	for _, t := range w.terms {
		matches, ok := match(t)
		if !ok {
			continue
		}
		if variants[matches] == nil {
			order = append(order, matches)
		}
		variants[matches] = append(variants[matches], t.variant)
	}
	expressions := make([]string, 0, len(order))
	for _, matches := range order {
		//guard:barrier-guards-variants
		expressions = append(expressions, conjunction(w.guard(variants[matches]), matches))
	}
	return expressions
}

// deniedOutside returns expressions for the requests in versions that the rules do not name. The policy denies them without its condition.
func (w *writer) deniedOutside() []string {
	return w.guarded(func(t term) (string, bool) {
		if t.outside == "" {
			return "", false
		}
		//guard:barrier-versions-another-rule
		return conjunction(t.outside, not(w.fullyMatched(t.variant))), true
	})
}

func not(text string) string {
	if text == alwaysTrue {
		return never
	}
	return "!(" + text + ")"
}

// fullyMatched returns an expression that is true for the requests of a variant that a rule matches in its versions.
func (w *writer) fullyMatched(v variant) string {
	var operands []string
	for _, t := range w.terms {
		if class(t.variant) == class(v) {
			operands = append(operands, t.full)
		}
	}
	return disjunction(operands...)
}

// class identifies a variant.
func class(v variant) string { return string(v.operation) + v.named }

// guard returns an expression that is true for the variants. It is true for all requests if the barrier sees no others.
func (w *writer) guard(variants []variant) string {
	byOperation := map[admissionregistrationv1.OperationType][]string{}
	for _, v := range variants {
		if !slices.Contains(byOperation[v.operation], v.named) {
			byOperation[v.operation] = append(byOperation[v.operation], v.named)
		}
	}
	var whole, operands []string
	for _, op := range slices.Sorted(maps.Keys(byOperation)) {
		names := byOperation[op]
		if names[0] == "" || len(names) > 1 {
			whole = append(whole, string(op))
			continue
		}
		operands = append(operands, conjunction(oneOf(operation, []string{string(op)}), names[0]))
	}
	//guard:barrier-operations-barrier-sees
	if len(operands) == 0 && len(whole) == len(w.operations()) {
		return alwaysTrue
	}
	if len(whole) > 0 {
		operands = append([]string{oneOf(operation, whole)}, operands...)
	}
	return disjunction(operands...)
}

// operations are the operations that the barrier sees.
func (w *writer) operations() []admissionregistrationv1.OperationType {
	var operations []admissionregistrationv1.OperationType
	for _, rule := range w.rules {
		operations = append(operations, rule.Operations...)
	}
	slices.Sort(operations)
	return slices.Compact(operations)
}

// barrier returns the barrier.
func (w *writer) barrier(exempt manifest.Identities) *Barrier {
	b := &Barrier{Key: w.key, exempt: exempt, rules: engine.RulesOf(w.key, w.spec), subjects: w.spec.Subjects, covered: w.covered, excludesNamespaces: w.excludesNamespaces()}
	slices.SortStableFunc(w.report, func(a, b RuleReport) int { return a.Rule - b.Rule })
	b.Report = w.report
	if len(w.rules) == 0 {
		return b
	}
	b.Policy, b.Binding = w.policy(exempt), w.binding()
	reason := ""
	//guard:barrier-bound
	if TextSize(b.Policy) > MaxTextBytes {
		reason = reasonTooLarge
	} else {
		reason = b.bounded()
	}
	if reason != "" {
		b.Policy, b.Binding, b.covered = nil, nil, nil
		for i := range b.Report {
			b.Report[i].Reason = cmp.Or(b.Report[i].Reason, reason)
		}
	}
	return b
}

// TextSize returns the number of bytes in the expressions of a policy.
func TextSize(policy *admissionregistrationv1.ValidatingAdmissionPolicy) int {
	size := 0
	for _, c := range policy.Spec.MatchConditions {
		size += len(c.Expression)
	}
	for _, v := range policy.Spec.Variables {
		size += len(v.Expression)
	}
	for _, v := range policy.Spec.Validations {
		size += len(v.Expression)
	}
	return size
}

// Name returns the name of the objects of the barrier of a policy.
func Name(key engine.Key) string {
	domain, name, _ := strings.Cut(key.ConditionID(), "/")
	return name + "." + domain
}

// metadata returns the metadata of both objects.
func (w *writer) metadata() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: Name(w.key), Labels: map[string]string{ManagedByLabel: ManagedBy}, Annotations: map[string]string{PolicyAnnotation: nameOf(w.key)},
	}
}

// policy returns the ValidatingAdmissionPolicy.
func (w *writer) policy(exempt manifest.Identities) *admissionregistrationv1.ValidatingAdmissionPolicy {
	constraints := &admissionregistrationv1.MatchResources{
		MatchPolicy: ptr.To(admissionregistrationv1.Exact), ResourceRules: w.rules,
	}
	conditions := []admissionregistrationv1.MatchCondition{{Name: "not-exempt", Expression: not(userIs(exempt.Users, exempt.Groups))}}
	namespace := ""
	//guard:barrier-namespace-policy
	if w.key.Namespace != "" {
		namespace = w.key.Namespace
		//guard:barrier-labels-namespaces
		if w.excludesNamespaces() {
			constraints.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
		}
	}
	conditions = append(conditions, scopeConditions(w.spec.Subjects, namespace)...)
	failure := admissionregistrationv1.Fail
	//guard:barrier-audit-ignores-failures
	if w.isAudit() {
		failure = admissionregistrationv1.Ignore
	}
	return NewPolicy(w.metadata(), admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(failure), MatchConstraints: constraints, MatchConditions: conditions,
		Variables: []admissionregistrationv1.Variable{{Name: "denied", Expression: w.denied()}},
		Validations: []admissionregistrationv1.Validation{{
			Expression: "!variables.denied", Reason: ptr.To(metav1.StatusReasonForbidden),
			Message: excerpt.Of(authorization.Explain(w.key.ConditionID(), authorization.WordDenied, w.spec.Description), maxMessageBytes),
		}},
	})
}

// maxMessageBytes is below the bound of kube-apiserver on a message.
const maxMessageBytes = 4096

func (w *writer) binding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	actions := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	//guard:barrier-audit-refuses-nothing
	if w.isAudit() {
		actions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Warn}
	}
	return NewBinding(w.metadata(), nil, actions...)
}

func (w *writer) isAudit() bool { return w.spec.Enforcement == policyv1alpha1.PolicyEnforcementAudit }

// subjectsOf returns the names of the users, and of the groups, that a policy names. A service account is the user with its name. So
// is a subject of an unknown kind, which validation refuses.
func subjectsOf(subjects []rbacv1.Subject) (users, members []string) {
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.GroupKind:
			members = append(members, s.Name)
		case rbacv1.ServiceAccountKind:
			//guard:barrier-service-accounts
			users = append(users, serviceaccount.MakeUsername(s.Namespace, s.Name))
		default:
			users = append(users, s.Name)
		}
	}
	return sortedSet(users), sortedSet(members)
}
