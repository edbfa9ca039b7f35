/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package mutants deletes guards from the packages that decide, one at a time, and asks that
// their tests notice. The guards of partial evaluation are in pkg/cel/partial.
package mutants

import (
	"cmp"
	"os"
	"regexp"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/mutation"
)

// suites are the packages that decide, and guards without which they would decide otherwise. A
// new guard gets a line.
var suites = []mutation.Suite{
	{Package: "pkg/authorization", Test: "^TestHalfKnown", Mutants: []mutation.Mutant{
		{Name: "chained: shared sets", File: "decision.go", Old: "chain: slices.Clone(sets)", New: "chain: sets", Test: "^TestDecisionsAreImmutable$"},
		{Name: "chain: shared sets", File: "decision.go", Old: "return slices.Clone(d.chain)", New: "return d.chain", Test: "^TestDecisionsAreImmutable$"},
		{Name: "conditions: shared conditions", File: "decision.go", Old: "d := Decision{kind: kindConditions, conditions: slices.Clone(conditions)}", New: "d := Decision{kind: kindConditions, conditions: conditions}", Test: "^TestDecisionsAreImmutable$"},
		{Name: "withAuthor: another author", File: "chain.go", Old: "if s.Author == nil {", New: "if true {", Test: "^TestAuthorsAreNotReplaced$"},
		{Name: "simplify: sets that can fail", File: "decision.go", Old: " && !slices.ContainsFunc(kept, Set.canFail)", New: ""},
		{Name: "canFail: nested", File: "decision.go", Old: "return slices.ContainsFunc(s.Decision.chain, Set.canFail)", New: "return false"},
		{Name: "canFail: failure mode", File: "decision.go", Old: "return s.FailureMode != FailureModeNoOpinion && slices", New: "return s.FailureMode == FailureModeDeny && slices"},
		{Name: "exhausted: a Deny condition denies", File: "evaluate.go", Old: "if of.exhausted && of.effect == EffectDeny {", New: "if false {"},
		{Name: "time is up: a Deny condition denies", File: "evaluate.go", Old: "err: err, exhausted: true}", New: "err: err}", Test: "^TestTimeNeverOpens$"},
		{Name: "failure mode: Deny is the default", File: "evaluate.go", Old: "if e.mode != FailureModeNoOpinion {", New: "if e.mode == FailureModeDeny {"},
		{Name: "explained: after the later sets", File: "evaluate.go", Old: "return noOpinionBecause(why, joinErrors(e.errs))", New: "return NoOpinion(why(), joinErrors(e.errs))", Test: "^TestExplainedAtTheEnd$"},
		{Name: "reasons: texts that look like a reason", File: "reason.go", Old: "entry.ReplaceAllString(text, \"$1 = \")", New: "text", Test: "^TestReasonsOfAuthors$"},
		{Name: "authors: permission", File: "upstream.go", Old: "if e.permit != nil {", New: "if false {", Test: "^TestAuthors"},
		{Name: "lazy: what is not concrete denies", File: "lazy.go", Old: "return Deny(\"failed closed\", errNotConcrete)", New: "return Allow(\"\", nil)", Test: "^TestLazyDeniesResiduals$"},
		{Name: "path of a resource", File: "attributes.go", Old: "if a.IsResourceRequest() {\n\t\treturn \"\"", New: "if false {\n\t\treturn \"\"", Test: "^TestPathOf$"},
	}},
	{Package: "pkg/authorization", Tests: "pkg/authorization/engine", Test: "^TestHints$", Mutants: []mutation.Mutant{
		{Name: "authorization: selectors beside conditions that hold back", File: "evaluate.go", Old: "if onlyAllow {", New: "if onlyAllow || true {"},
	}},
	{Package: "pkg/authorization/celeval", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "partial: stopped", File: "evaluator.go", Old: "return authorization.Exhausted(outcome.Err())", New: "return authorization.Failed(outcome.Err())", Test: "^TestPartialCELNeverOpens$"},
		{Name: "partial: budget", File: "evaluator.go", Old: "\t\treturn authorization.Exhausted(err)\n\t}\n\tplan,", New: "\t\treturn authorization.Failed(err)\n\t}\n\tplan,", Test: "^TestPartialCELNeverOpens$"},
		{Name: "checks: an error is no denial", File: "evaluator.go", Old: "cel.Fail(err)", New: "_ = err", Test: "^TestEvaluatorSecondaryChecks$"},
		{Name: "checks: permission", File: "evaluator.go", Old: "if err := c.checks.permitted(c.ctx); err != nil {", New: "if err := c.checks.permitted(c.ctx); err != nil && false {", Test: "^TestEvaluatorSecondaryChecks$"},
	}},
	{Package: "pkg/authorization/engine", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "engine: a namespace that is not in the cache", File: "namespaceobject.go", Old: "if namespace, ok := namespaces(q.GetNamespace()); ok {", New: "if namespace, _ := namespaces(q.GetNamespace()); true {", Test: "^TestConditionsOnNamespaces$"},
		{Name: "engine: a request without a namespace", File: "namespaceobject.go", Old: "if q.GetNamespace() == \"\" {", New: "if false {", Test: "^TestConditionsOnNamespaces$"},
		{Name: "engine: a namespace is looked up once", File: "namespaceobject.go", Old: "q.asked = true", New: "_ = q.asked", Test: "^TestNamespaceIsLookedUpOnce$"},
		{Name: "engine: unreadable objects", File: "evaluation.go", Old: "if err := reader.Err(); err != nil {", New: "if err := reader.Err(); err != nil && false {", Test: "^TestUnconvertibleObjects$"},
		{Name: "engine: no residual condition allows before it is known", File: "evaluation.go", Old: "strconv.FormatBool(c.Effect != authorization.EffectAllow)", New: "strconv.FormatBool(true)", Test: "^TestClosed|^TestManyFold|^Test.*Many|^Test.*Closed"},
		{Name: "engine: an Allow policy for some versions", File: "authorizer.go", Old: "case m.match == matchSomeVersions && m.policy.conditionEffect() == authorization.EffectAllow:", New: "case false:", Test: "^TestReviewsOfAllVersions$"},
		{Name: "engine: the text of a part that reads the request", File: "reason.go", Old: "case !p.Reads(cel.Request):", New: "case true:", Test: "^TestReasons$"},
		{Name: "engine: policies that select others", File: "reason.go", Old: "return notTrue[0], !selects(notTrue[0])", New: "return notTrue[0], true", Test: "^TestReasons$"},
		{Name: "engine: policies that select others by what fails", File: "reason.go", Old: "return nil, false", New: "return nil, true", Test: "^TestReasons$"},
		{Name: "engine: the budget of explanations", File: "reason.go", Old: "e.budgets.SpendToExplain(cost)", New: "e.budgets.Spend(p.key.Namespace, cost)", Test: "^TestExplanationsHaveABudget$"},
		{Name: "engine: selectors that are not tried", File: "hint.go", Old: "if ok && e.allowsWith(p, with) {", New: "if ok {", Test: "^TestHints$"},
		{Name: "engine: selectors with which conditions may hold", File: "hint.go", Old: "return result.IsTrue()", New: "return !result.IsFalse()", Test: "^TestHints$"},
		{Name: "engine: selectors with which rules do not match", File: "hint.go", Old: " || p.matches(with) != fullMatch {", New: " {", Test: "^TestHints$"},
		{Name: "engine: the budget of selectors", File: "hint.go", Old: "e.budgets.SpendToExplain(result.Cost())", New: "e.budgets.Spend(p.key.Namespace, result.Cost())", Test: "^TestHintsHaveABudget$"},
		{Name: "engine: hints in lists with long selectors", File: "hint.go", Old: "|| len(byLabels)+len(byFields) > maxHintRequirements {", New: "{", Test: "^TestHints$"},
		{Name: "engine: selectors of requests that have none", File: "hint.go", Old: "!slices.Contains(selectable, e.request.GetVerb()) || ", New: "", Test: "^TestHints$"},
		{Name: "engine: a Deny policy whose condition fails", File: "authorizer.go", Old: "return authorization.Deny(m.policy.explainError(), outcome.Err())", New: "continue", Test: "^Test"},
		{Name: "engine: policies that are found by their namespace", File: "index.go", Old: "found = appendMatching(b.byRequest[requestKey{namespace: namespace}], a, found)", New: "_ = namespace", Test: "^TestWidePoliciesAreFound$"},
		{Name: "engine: restrictions of reviews in the other group", File: "rule.go", Old: "if !r.grants {\n\t\t\trules", New: "if false {\n\t\t\trules", Test: "^TestReviewGroups$"},
		{Name: "engine: grants of reviews in the other group", File: "rule.go", Old: "if !r.grants {\n\t\t\trules", New: "if true {\n\t\t\trules", Test: "^TestReviewGroups$"},
		{Name: "engine: restrictions of names that are not known", File: "rule.go", Old: " && (r.grants || !isForAnyName(a)) {", New: " {", Test: "^TestForAnyName$"},
		{Name: "engine: grants of names that are not known", File: "rule.go", Old: "(r.grants || !isForAnyName(a))", New: "!isForAnyName(a)", Test: "^TestForAnyName$"},
		{Name: "engine: conditions on names that are not known", File: "evaluation.go", Old: "case p.condition.dependsOnName(e.request.Attributes):", New: "case false:", Test: "^TestForAnyName$"},
		{Name: "engine: conditions on the namespace of a namespace that is not known", File: "condition.go", Old: "(c.readsName || c.readsNamespace && a.GetNamespace() == \"\")", New: "c.readsName", Test: "^TestForAnyName$"},
		{Name: "engine: grants by what is not seen at admission", File: "authorizer.go", Old: "if e.isUnseen(m.policy) {", New: "if false {", Test: "^TestUnseen$"},
		{Name: "engine: NoOpinion by what is not seen at admission", File: "authorizer.go", Old: "case outcome.IsResidual() && e.isUnseen(m.policy):", New: "case false:", Test: "^TestUnseen$"},
		{Name: "engine: reviews of kube-apiserver", File: "rule.go", Old: "case r.servedVersion != \"\" && a.GetAPIVersion() != r.servedVersion:", New: "case false:", Test: "^TestReviewGroups$"},
	}},
	{Package: "pkg/authorization/webhook", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "webhook: kube-apiserver in other letters", File: "load.go", Old: "strings.ToLower(strings.TrimSuffix(parsed.Hostname(), \".\"))", New: "strings.TrimSuffix(parsed.Hostname(), \".\")", Test: "^TestSameServer$"},
		{Name: "webhook: a name for two authorizers", File: "chain.go", Old: "if !slices.Contains(reserved, m.Name) {", New: "if !slices.Contains(reserved, m.Name) && false {", Test: "^TestChainRefusesToFailOpen$"},
		{Name: "webhook: Proviso without verification", File: "proviso.go", Old: "server.Host == \"\" || config.Insecure", New: "server.Host == \"\"", Test: "^TestForProviso"},
		{Name: "webhook: a chain without Proviso", File: "proviso.go", Old: "if chain.Webhooks != source || ", New: "if ", Test: "^TestForProviso"},
		{Name: "webhook: reviews of kube-apiserver", File: "proviso.go", Old: "name: provisoName, group: ownGroup", New: "name: provisoName, group: officialGroup", Test: "^TestForProviso"},
		{Name: "webhook: contradictions", File: "authorizer.go", Old: "case status.Allowed && status.Denied:", New: "case false:", Test: "^TestAuthorize"},
		{Name: "webhook: conditions that were not asked for", File: "webhook.go", Old: "if !w.failOpen || errors.Is(err, errUnasked) || ", New: "if !w.failOpen || ", Test: "^Test"},
	}},
	{Package: "pkg/registration", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "registration: an APIService of kube-apiserver", File: "watcher.go", Old: "case s.Spec.Service == nil:", New: "case s.Spec.Service == nil && false:"},
		{Name: "registration: an APIService that kube-apiserver restores", File: "watcher.go", Old: "case s.isAutomanaged():", New: "case false:"},
		{Name: "registration: another server", File: "watcher.go", Old: "case !s.Spec.Service.is(reference.Spec.Service):", New: "case false:"},
		{Name: "registration: no Service to compare with", File: "watcher.go", Old: "case reference == nil || reference.Spec.Service == nil:", New: "case false:", Test: "^TestStates$"},
		{Name: "registration: versions of other servers", File: "services.go", Old: "return service != nil && service.Spec.Service == nil", New: "return service != nil", Test: "^TestServices$"},
		{Name: "registration: old lists of versions", File: "services.go", Old: "if s.now().Sub(s.at) > maxServicesAge {", New: "if false {", Test: "^TestServices$"},
		{Name: "registration: lists that are none", File: "services.go", Old: " || list.Kind != \"APIServiceList\" {", New: " {", Test: "^TestServices$"},
		{Name: "registration: old results", File: "watcher.go", Old: "case w.now().Sub(last.at) > maxAge:", New: "case false:", Test: "^TestChanges$"},
	}},
	{Package: "pkg/registration", Test: "^TestServing$", Mutants: []mutation.Mutant{
		{Name: "registration: what kube-apiserver manages", File: "services.go", Old: "case service.Spec.Service == nil, service.isAutomanaged():", New: "case service.Spec.Service == nil:"},
		{Name: "registration: the Service of another", File: "services.go", Old: "case !service.Spec.Service.is(by):", New: "case false:"},
		{Name: "registration: servers that are not available", File: "services.go", Old: "case !service.isAvailable():", New: "case false:"},
	}},
	{Package: "pkg/aggregated", Test: "^TestEnforces$", Mutants: []mutation.Mutant{
		{Name: "aggregated: configurations that are stale", File: "enforcement.go", Old: "e.Stale() != \"\" || !a.IsResourceRequest()", New: "!a.IsResourceRequest()"},
		{Name: "aggregated: configurations that are being deleted", File: "enforcement.go", Old: "case c.isDeleted:", New: "case false:"},
		{Name: "aggregated: verbs", File: "enforcement.go", Old: " && slices.Contains(verbsOf(path), a.GetVerb())", New: ""},
		{Name: "aggregated: versions", File: "enforcement.go", Old: " && slices.Contains(c.versions, a.GetAPIVersion()) &&", New: " &&"},
		{Name: "aggregated: the APIService", File: "enforcement.go", Old: "e.serving(c, a.GetAPIVersion()) == registration.ServingRegistered", New: "e.serving(c, a.GetAPIVersion()) != \"\""},
		{Name: "aggregated: subresources", File: "enforcement.go", Old: "if strings.Contains(path, \"/\") {", New: "if false {"},
	}},
	{Package: "apis/policy/validation", Test: "^TestEnforcementConfiguration$", Mutants: []mutation.Mutant{
		{Name: "configurations: groups of kube-apiserver", File: "enforcementconfiguration.go", Old: ", GroupsOfKubernetes.Has(group):", New: ":"},
		{Name: "configurations: groups of Proviso", File: "enforcementconfiguration.go", Old: "case group == ownDomain || strings.HasSuffix(group, \".\"+ownDomain):", New: "case false:"},
		{Name: "configurations: connections", File: "enforcementconfiguration.go", Old: "if slices.Contains(connections, subresource) {", New: "if slices.Contains(connections, subresource) && false {"},
	}},
	{Package: "pkg/registry/policy/enforcementconfiguration", Test: "^TestAuthors$", Mutants: []mutation.Mutant{
		{Name: "configurations: authors", File: "storage.go", Old: "verbEscalate = \"escalate\"", New: "verbEscalate = \"update\""},
	}},
	{Package: "pkg/frontdoor", Test: "^TestEnforcedElsewhere$", Mutants: []mutation.Mutant{
		{Name: "front door: other servers and several versions", File: "decide.go", Old: "enforced := !authorization.HasWildcards(attributes) && (", New: "enforced := ("},
	}},
	{Package: "pkg/policy", Test: "^TestStatusFollowsPlaces$", Mutants: []mutation.Mutant{
		{Name: "status: before anything is known", File: "status.go", Old: "if isPlaced && !c.config.Server.AreKnown() {", New: "if false {"},
		{Name: "status: replicas that do not agree", File: "status.go", Old: "isPlaced && wait > 0 {", New: "isPlaced && wait > 0 && false {"},
	}},
	{Package: "pkg/apiserver", Test: "^TestChainOfTheInnerDoor$", Mutants: []mutation.Mutant{
		{Name: "inner door: Deny policies", File: "chains.go", Old: "inRestrictions | inFrontDoor | inInnerDoor, build: (*chainConfig).restrictingPolicies", New: "inRestrictions | inFrontDoor, build: (*chainConfig).restrictingPolicies"},
		{Name: "inner door: kube-apiserver is asked last", File: "chains.go", Old: "{name: KubeAPIServerName, in: inServer, build", New: "{name: KubeAPIServerName, in: inServer | inInnerDoor, build"},
	}},
	{Package: "pkg/cel/partial", Test: "^TestWantedSelectorsAreBounded$", Mutants: []mutation.Mutant{
		{Name: "partial: many operands of a selector", File: "selectors.go", Old: "len(m.operands[r]) < maxOperands && ", New: ""},
	}},
	{Package: "pkg/innerdoor", Test: "^TestWithheldOwners$", Mutants: []mutation.Mutant{
		{Name: "inner door: owners in refusals", File: "decide.go", Old: "m.comparesOwners = true", New: "m.comparesOwners = false"},
	}},
	{Package: "pkg/frontdoor", Test: "^TestOtherRoutes$", Mutants: []mutation.Mutant{
		{Name: "inner door: clients without a certificate", File: "handler.go", Old: "return withRecovery(clients.only(mux))", New: "return withRecovery(mux)"},
	}},
	{Package: "pkg/apiserver/options", Test: "^TestInnerDoorNeedsConditions$", Mutants: []mutation.Mutant{
		{Name: "inner door: the gate", File: "enforcement.go", Old: "if o.FrontDoor.InnerDoorConfig != \"\" && ", New: "if false && "},
	}},
	{Package: "pkg/apiserver", Test: "^TestReviewsBehindTheFrontDoor$", Mutants: []mutation.Mutant{
		{Name: "front door: reviews of kube-apiserver", File: "registration.go", Old: "(watcher == nil || watcher.Serves(", New: "(watcher == nil || true || watcher.Serves("},
	}},
	{Package: "pkg/enforcement", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "enforcement: unstructured objects are converted", File: "data.go", Old: "!isUnstructured {", New: "true || isUnstructured {", Test: "^TestUnstructuredObjectsAreConverted$"},
		{Name: "enforcement: unreadable objects", File: "enforce.go", Old: "if err := reader.Err(); err != nil {", New: "if err := reader.Err(); err != nil && false {", Test: "^TestUnreadableObjects$"},
		{Name: "refusals: values of updates", File: "sent.go", Old: "a.GetOperation() == admission.Create && ", New: "", Test: "^TestSentValues$"},
		{Name: "refusals: values of requests that turn into creates", File: "sent.go", Old: " || request.attributes.GetVerb() != \"create\"", New: "", Test: "^TestSentValues$"},
		{Name: "refusals: values of secrets", File: "sent.go", Old: "a.GetResource().Resource != \"secrets\" && ", New: "", Test: "^TestSentValues$"},
		{Name: "refusals: values of plugins", File: "sent.go", Old: "!ok || !same || other != value", New: "!ok || !same && other != value", Test: "^TestRefusals$"},
		{Name: "refusals: fields of secrets", File: "sent.go", Old: "if slices.ContainsFunc(field, mayHoldSecret) {", New: "if false {", Test: "^TestSecretValues$"},
		{Name: "refusals: values that look like a reason", File: "sent.go", Old: "strings.Contains(value, \"policy=\") ||", New: "false ||", Test: "^TestSecretValues$"},
		{Name: "refusals: fields with long names", File: "sent.go", Old: " || len(name) > maxFieldBytes", New: "", Test: "^TestRefusalsWithLongFields$"},
		{Name: "refusals: long values", File: "sent.go", Old: "len(v) <= maxShownBytes", New: "true", Test: "^TestRefusals$"},
		{Name: "enforcement: another request", File: "enforce.go", Old: "case !request.admits(a):", New: "case false:"},
		{Name: "enforcement: the create of an update", File: "enforce.go", Old: "return []*record{request, connect, create}, nil", New: "return []*record{request, connect}, nil", Test: "^TestCompoundCreate$"},
	}},
	{Package: "pkg/granular", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "granular: mappings of two times", File: "authorizer.go", Old: "return a.Mappings.Pin(ctx)", New: "return ctx", Test: "^TestOneTableForOneRequest$"},
		{Name: "granular: mappings that were stale", File: "authorizer.go", Old: "cmp.Or(pinned.Stale, a.Mappings.Stale())", New: "cmp.Or(\"\", a.Mappings.Stale())", Test: "^TestOneTableForOneRequest$"},
		{Name: "granular: an Allow without a check", File: "authorizer.go", Old: "a.mode == modeInclude && last.result.Allowed:", New: "a.mode == modeInclude:", Test: "^TestForeignDecisions$"},
		{Name: "granular: the check of a condition in process", File: "authorizer.go", Old: "lastCheckFrom(ctx).set(a, result)", New: "", Test: "^TestInProcessAsOverTheWire$"},
		{Name: "granular: an answer with an error", File: "checker.go", Old: "if err != nil {\n\t\treturn false, fmt.Errorf(\"%w about the verb", New: "if err != nil && false {\n\t\treturn false, fmt.Errorf(\"%w about the verb"},
		{Name: "granular: values that cannot be found", File: "exclusion.go", Old: "return !found || k.excludesChange(r, before, after)", New: "return found && k.excludesChange(r, before, after)"},
		{Name: "granular: too many evaluations", File: "exclusion.go", Old: "if k.budget.evaluate() != nil {", New: "if k.budget.evaluate() != nil && false {"},
		{Name: "granular: too many copies", File: "exclusion.go", Old: "if !k.budget.spendCopy(before, after) {", New: "if false {", Test: "^TestNewValuesOfLargeFields$"},
		{Name: "granular: one result for changes and claims", File: "exclusion.go", Old: "evaluationKey{rule: r, isClaim: true}", New: "evaluationKey{rule: r}", Test: "^TestNewValuesOfLargeFields$"},
		{Name: "granular: the verb of another field", File: "checker.go", Old: "if !ok || !last.field.Equals(field) {", New: "if !ok {", Test: "^TestParametersOfLargeFields$"},
		{Name: "granular: the result for another field", File: "exclusion.go", Old: "ok && last.field.Equals(field)", New: "ok", Test: "^TestNewValuesOfLargeFields$"},
		{Name: "granular: claims that cannot be found", File: "exclusion.go", Old: "case !found:\n\t\treturn true", New: "case !found:\n\t\treturn false"},
		{Name: "granular: expressions that fail", File: "exclusion.go", Old: "return excluded || err != nil", New: "return excluded && err == nil"},
	}},
	{Package: "pkg/cel", Test: "^TestBudgetOfFunctions$", Mutants: []mutation.Mutant{
		{Name: "functions: bytes of many", File: "function.go", Old: "if err := budget.left.SpendText(text); err != nil {", New: "if err := budget.left.SpendText(\"\"); err != nil {"},
		{Name: "functions: parts of many", File: "budget.go", Old: "if err := b.left.Spend(work); err != nil {", New: "_ = work\n\tif err := b.left.Spend(guard.TypeWork{}); err != nil {"},
	}},
	{Package: "pkg/granular/mapping", Test: "^TestExpressionsOfOneMappingAreBounded$", Mutants: []mutation.Mutant{
		{Name: "granular: reviews in the other group", File: "table.go", Old: "range withOtherGroup(compiled.resources)", New: "range compiled.resources", Test: "^TestReviewGroups$"},
		{Name: "granular: markers beside a reference in allOf", File: "markerreader.go", Old: "return r.reachesBesideReference(part, map[string]bool{})", New: "return false", Test: "^TestMalformedMarkers$"},
		{Name: "granular: markers of a second reference", File: "markerreader.go", Old: "if s.Ref.String() == \"\" && len(s.AllOf) == 1", New: "if len(s.AllOf) == 1", Test: "^TestMalformedMarkers$"},
		{Name: "granular: keys that are shortened", File: "pattern.go", Old: "changes.WriteElement(&b, fieldpath.FieldNameElement(s.name))", New: "changes.WriteElement(&b, fieldpath.FieldNameElement(s.name[:min(len(s.name), 512)]))", Test: "^TestDigest"},
		{Name: "granular: a budget for each field", File: "mapping.go", Old: "\tbudget := cel.NewBudget()\n\tfor i := range spec.Fields {\n", New: "\tfor i := range spec.Fields {\n\t\tbudget := cel.NewBudget()\n"},
	}},
	{Package: "pkg/registry/policy/fieldpermissionmapping", Test: "^TestFloodOfWrites$", Mutants: []mutation.Mutant{
		{Name: "mappings: many writes", File: "storage.go", Old: "Begin: stored.NewWrites(\"mappings\", false).Begin,", New: ""},
	}},
	{Package: "pkg/granular/changes", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "granular: null in managed fields", File: "fieldsv1.go", Old: "if wasThere == isThere && reflect", New: "if (wasThere == isThere || true) && reflect", Test: "^TestFieldsV1ThatCannotBeRead$"},
		{Name: "granular: deep objects", File: "differ.go", Old: "case size > 0 && levels == 0:", New: "case false:", Test: "^TestDeepObjects$"},
		{Name: "granular: many long lists", File: "differ.go", Old: "case c.listWork > maxListWork:", New: "case false:", Test: "^TestLargeObjects$"},
		{Name: "granular: many maps", File: "differ.go", Old: "case c.total > c.maxTotal:", New: "case false:", Test: "^TestLargeObjects$"},
		{Name: "granular: the changes that were found in time", File: "differ.go", Old: "nil); err != nil {\n\t\treturn nil, fmt.Errorf(\"the object %w: %w\", errLate, err)", New: "nil); err != nil && false {\n\t\treturn nil, fmt.Errorf(\"the object %w: %w\", errLate, err)", Test: "^TestComparisonsOfEndedRequests$"},
	}},
	{Package: "pkg/granular/changes", Tests: "pkg/granular", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "granular: deep managed fields", File: "fieldsv1.go", Old: "|| len(w.keys) == maxLevels {", New: "{", Test: "^TestDeepManagedFields$"},
		{Name: "granular: too many claims", File: "fieldsv1.go", Old: "b.claims > maxClaims || b.elements > maxClaimElements", New: "b.elements > maxClaimElements", Test: "^TestManyClaims$"},
		{Name: "granular: too many elements of paths", File: "fieldsv1.go", Old: "b.claims > maxClaims || b.elements > maxClaimElements", New: "b.claims > maxClaims", Test: "^TestManyClaims$"},
		{Name: "granular: too many bytes of paths", File: "fieldsv1.go", Old: "b.bytes > maxPathBytes {", New: "false {", Test: "^TestManyClaims$"},
	}},
	{Package: "pkg/impersonation", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "impersonation: the reserved extra", File: "extra.go", Old: "if !authorization.HasReservedExtra(requester) && !authorization.HasReservedExtra(wanted) {", New: "if !authorization.HasReservedExtra(requester) {"},
		{Name: "impersonation: unknown types", File: "residual.go", Old: "if c.Type != authorization.ConditionTypeCEL {\n\t\t\treturn errType(c)", New: "if false {\n\t\t\treturn errType(c)", Test: "^TestUnknownTypeBeforeAllow$"},
		{Name: "impersonation: sets that fail to NoOpinion", File: "residual.go", Old: "len(conditions) == 0 || set.FailureMode == authorization.FailureModeNoOpinion {", New: "len(conditions) == 0 {"},
		{Name: "impersonation: residuals that do not deny", File: "residual.go", Old: "if condition.Effect != authorization.EffectDeny {", New: "if false {"},
		{Name: "impersonation: a denial in conditional mode", File: "modes.go", Old: "if conditional.final || ", New: "if ", Test: "^TestFilter$"},
		{Name: "impersonation: denials of some objects in legacy mode", File: "modes.go", Old: "legacy.Residual = conditional.denials", New: "legacy.Residual = nil", Test: "^TestFilter$"},
	}},
	{Package: "pkg/cel/internal/guard", Tests: "pkg/cel/partial", Test: "^TestVariablesRefused$", Mutants: []mutation.Mutant{
		{Name: "patterns: together in one expression", File: "expression.go", Old: "m.patternWork > maxPatternWork", New: "patternWork(text) > maxPatternWork"},
		{Name: "patterns: together in one policy", File: "typework.go", Old: "uint64(w.copied) + w.patterns", New: "uint64(w.copied)"},
	}},
	{Package: "pkg/cel/internal/guard", Test: "^TestCompilationIsBounded$|^TestTypesAreBounded$", Mutants: []mutation.Mutant{
		{Name: "types: variables of macros hide others", File: "typework.go", Old: "ok && !w.isHidden(name) {", New: "ok {"},
		{Name: "types: functions after a dot", File: "typework.go", Old: "strings.TrimPrefix(prefix, \".\") + ", New: "prefix + "},
		{Name: "patterns: functions after a dot", File: "expression.go", Old: "return strings.TrimPrefix(c.FunctionName(), \".\")", New: "return strings.Trim(c.FunctionName(), \"\")"},
	}},
	{Package: "pkg/cel/internal/guard", Test: "^TestCostOfEveryFunction$|^TestGuardsNeedTheirFunctions$", Mutants: []mutation.Mutant{
		{Name: "cost: lists that are unwrapped", File: "guard.go", Old: `"optional.none", "hasValue"`, New: `"optional.none", "optional.unwrap", "unwrapOpt", "hasValue"`},
	}},
	{Package: "pkg/cel/internal/guard", Test: "^TestLongKeysAreCharged$", Mutants: []mutation.Mutant{
		{Name: "cost: keys of indexes", File: "key.go", Old: "return key{resolved{attribute}}, nil", New: "return resolved{attribute}, nil"},
		{Name: "cost: other keys", File: "key.go", Old: "return key{value}, nil", New: "return value, nil"},
		{Name: "cost: keys that are inserted", File: "cost.go", Old: "work += costOfKeys(args[1])", New: "_ = costOfKeys(args[1])"},
	}},
	{Package: "pkg/policy", Test: "^TestSmallPoliciesAreNotCheap$", Mutants: []mutation.Mutant{
		{Name: "publish: what compiling costs", File: "publish.go", Old: "left -= costOfAny + int(cost)", New: "left -= costOfAny + 0*int(cost)"},
	}},
	{Package: "pkg/slots", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "slots: shares that are full", File: "slots.go", Old: "\t\tif own.isFull() {\n", New: "\t\tif own.isFull() && own.key.kind != ofNamespace {\n"},
		{Name: "slots: callers that gave up", File: "slots.go", Old: "\tq.leave(c)\n\tq.forget(c)\n", New: "\tq.forget(c)\n"},
		{Name: "slots: callers that wait", File: "slots.go", Old: "if own.waiting == own.maxWaiting {", New: "if false {"},
	}},
	{Package: "pkg/frontdoor", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "frontdoor: reserved extras at Proviso", File: "decide.go", Old: "if key := impersonatedReserved(a); key != \"\" {", New: "if key := impersonatedReserved(a); key != \"\" && false {", Test: "^TestReservedExtras$"},
		{Name: "frontdoor: all extras at once", File: "decide.go", Old: "if isAll || strings", New: "if isAll && false || strings", Test: "^TestReservedExtrasAmongMany$"},
		{Name: "frontdoor: reasons are found in a slot", File: "large.go", Old: "_ = decision.Reason()", New: "_ = decision.Reason", Test: "^TestReasonsTakeASlot$"},
		{Name: "frontdoor: large reviews have a slot of evaluations", File: "large.go", Old: "all.Within(large)", New: "slots.New(large)", Test: "^TestEvaluationWithoutSlotIsDenied$"},
		{Name: "frontdoor: slow namespaces take the slots of a user", File: "large.go", Old: "slowUserShare      = 2", New: "slowUserShare      = 4", Test: "^TestWaitingReviewsHoldNoSlots$"},
		{Name: "frontdoor: policies that are not loaded", File: "decide.go", Old: "if d.config.Policies.Snapshot() == nil {\n\t\treturn authorization.Decision{}, errNotLoaded", New: "if false {\n\t\treturn authorization.Decision{}, errNotLoaded"},
		{Name: "frontdoor: the marker", File: "decide.go", Old: "if marked && !decision.IsDeny() {", New: "if false {"},
		{Name: "frontdoor: conditions that deny in a review without a version", File: "decide.go", Old: "if decision.CanBecomeDenied() {", New: "if false {", Test: "^TestDecide$"},
		{Name: "frontdoor, inner door: users who are left out", File: "innerdoor.go", Old: "case attributes.GetUser() == nil || door.LeavesOut(attributes.GetUser()):", New: "case false:", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: other servers", File: "innerdoor.go", Old: "case !door.IsLocal(", New: "case false && !door.IsLocal(", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: is not known", File: "innerdoor.go", Old: "case !door.Known(ClientOf(ctx)):", New: "case false:", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: other ways", File: "innerdoor.go", Old: "case d.isRestrictedOtherwise(ctx, attributes, within):", New: "case false:", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: what answers show", File: "innerdoor.go", Old: "case !d.mayReadAnswer(ctx, attributes, within):", New: "case false:", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: other ways that could be denied", File: "innerdoor.go", Old: "return err != nil || decision.CanBecomeDenied()", New: "return err != nil || decision.IsDeny()", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: names that are not known", File: "innerdoor.go", Old: "return engine.ForAnyName(other)", New: "_ = engine.ForAnyName\n\t\treturn other", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: ways that find no slot", File: "innerdoor.go", Old: "return err == nil && decision.IsDeny()", New: "return err != nil || decision.IsDeny()", Test: "^TestInnerDoorWithoutSlots$"},
		{Name: "frontdoor, inner door: ways that are denied", File: "innerdoor.go", Old: "if slices.ContainsFunc(alternative.Rest, isDenied) {", New: "if slices.ContainsFunc(alternative.Rest, isDenied) && false {", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: the namespace of a POST", File: "innerdoor.go", Old: "other.namespace = \"\" //", New: "_ = other //", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: marked", File: "decide.go", Old: "if !marked && d.isListed(attributes) {", New: "if d.isListed(attributes) {", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: wildcards", File: "innerdoor.go", Old: "authorization.HasWildcards(a) || ", New: "", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: what this server enforces", File: "innerdoor.go", Old: " || d.config.Enforces(a) || d.isEnforcedElsewhere(a) {", New: " || d.isEnforcedElsewhere(a) {", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: resources that are not listed", File: "innerdoor.go", Old: "d.config.InnerDoor.Listed(resource) && ", New: "", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: requests without an operation", File: "innerdoor.go", Old: " && len(innerdoor.Alternatives(resource, checkOf(a))) > 0", New: "", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: what can become Deny", File: "innerdoor.go", Old: "if !folded.IsNoOpinion() || ", New: "if ", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: selectors", File: "innerdoor.go", Old: "authorization.WithUnseen(ctx)", New: "authorization.WithUnseen(ctx)\n\tunseenCtx = ctx", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: get that could be denied", File: "fields.go", Old: "folded := byPolicies.Fold(); ", New: "folded := byPolicies; ", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: list for deletecollection", File: "innerdoor.go", Old: "check.verb = \"list\"", New: "_ = check", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: reading the object, not the subresource", File: "innerdoor.go", Old: "verb: \"get\", namespace:", New: "verb: \"get\", subresource: attributes.GetSubresource(), namespace:", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: errors", File: "fields.go", Old: "check.GetVerb())\n\t\treturn false", New: "check.GetVerb())\n\t\treturn decision == authorizer.DecisionAllow", Test: "^TestInnerDoor"},
		{Name: "frontdoor, inner door: the time of a check", File: "fields.go", Old: "context.WithTimeout(ctx, askTimeout)", New: "context.WithCancel(ctx)", Test: "^TestInnerDoor"},
		{Name: "frontdoor, fields of listed resources: reading", File: "innerdoor.go", Old: "if found := d.obstacle(ctx, attributes, within); found != nil {\n\t\tinnerDoorAnswers.WithLabelValues(found.answer).Inc()\n\t\treturn authorization.NoOpinion(", New: "if found := d.obstacle(ctx, attributes, within); found != nil && false {\n\t\tinnerDoorAnswers.WithLabelValues(found.answer).Inc()\n\t\treturn authorization.NoOpinion(", Test: "^TestFieldsOfListed"},
		{Name: "frontdoor, fields of listed resources: who is asked for nothing", File: "innerdoor.go", Old: "if !ok || d.undecided(ctx, attributes) != nil || ", New: "if !ok || ", Test: "^TestFieldsOfListed"},
		{Name: "frontdoor, fields of listed resources: permission", File: "innerdoor.go", Old: " || !d.isAllowed(ctx, check, within, d.config.Fields.KubeAPIServer, observeCheck) {", New: " || check == nil {", Test: "^TestFieldsOfListed"},
		{Name: "frontdoor, fields of listed resources: in time", File: "innerdoor.go", Old: "context.WithTimeout(ctx, askTimeout)", New: "context.WithCancel(ctx)", Test: "^TestFieldsOfListed"},
		{Name: "frontdoor, fields of listed resources: obstacles to conditions", File: "innerdoor.go", Old: "decision.IsNoOpinion() && !onConditions", New: "decision.IsNoOpinion() && (!onConditions || true)", Test: "^TestFieldsOfListed"},
		{Name: "frontdoor, fields of listed resources: Deny", File: "innerdoor.go", Old: "if decision.IsNoOpinion() && !onConditions {", New: "if !onConditions {", Test: "^TestFieldsOfListed"},
		{Name: "frontdoor, canary: marked", File: "innerdoor.go", Old: "!isMarked(a.GetUser()) && ", New: "", Test: "^TestCanary$"},
		{Name: "frontdoor, canary: impersonation", File: "decide.go", Old: "[]string{webhook.DelegationMarker, innerdoor.CanaryExtra}", New: "[]string{webhook.DelegationMarker, innerdoor.CanaryExtra}[:1]", Test: "^TestCanary$"},
		{Name: "frontdoor, inner door: certificates", File: "clients.go", Old: "sha256.Sum256(certificate)", New: "sha256.Sum256(certificate[:0])", Test: "^TestInnerDoorIsKnownByCertificate$"},
		{Name: "frontdoor: conditions that nobody enforces", File: "decide.go", Old: "case enforced && decision.CanBecomeAllowed():", New: "case decision.CanBecomeAllowed():"},
	}},
	{Package: "pkg/innerdoor/probe", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "probe: servers that answer otherwise", File: "state.go", Old: " || s.last.answered", New: "", Test: "^TestCertificatesThatMove$"},
		{Name: "probe: ways to write one address", File: "cluster.go", Old: "strings.ToLower(address.Hostname())", New: "address.Hostname()", Test: "^TestAddress$"},
		{Name: "probe: no Lease is alive", File: "state.go", Old: "case p.alive < 1:", New: "case false:", Test: "^TestFaults$"},
		{Name: "probe: certificates of servers without the manifest", File: "state.go", Old: " || s.lacks() && !p.isFresh(s.tiedAt)", New: "", Test: "^TestCertificatesThatMove$"},
		{Name: "probe: certificates of servers that have left", File: "state.go", Old: "age <= aliveFor+boundIntervals*p.config.Interval", New: "age <= memory", Test: "^TestCertificatesThatMove$"},
		{Name: "probe: a canary that passed", File: "round.go", Old: "if status.Status != metav1.StatusFailure || status.Reason == metav1.StatusReasonAlreadyExists {", New: "if false {"},
		{Name: "probe: a refusal by something else", File: "round.go", Old: "case !ok:", New: "case !ok && false:"},
		{Name: "probe: another manifest", File: "round.go", Old: "case got != digest:", New: "case false:"},
		{Name: "probe: several certificates", File: "round.go", Old: "case len(r.certificates) > 1:", New: "case false:"},
		{Name: "probe: reused answers", File: "round.go", Old: "case len(missing) == 1 && wanted[missing[0]] > 1:", New: "case false:"},
		{Name: "probe: checks that other replicas answer", File: "round.go", Old: "case len(missing) > 0 || ", New: "case "},
		{Name: "probe: no certificate", File: "round.go", Old: " || r.certificates[0] == \"\":", New: ":"},
		{Name: "probe: dry runs", File: "round.go", Old: "\"dryRun\": {metav1.DryRunAll}", New: "\"dryRun\": nil"},
		{Name: "probe: redirects", File: "prober.go", Old: "own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }", New: "_ = http.ErrUseLastResponse"},
		{Name: "probe: certificates of rounds that other replicas answer", File: "prober.go", Old: "certificate != \"\" && result.result != Elsewhere {", New: "certificate != \"\" {"},
		{Name: "probe: old ties", File: "state.go", Old: " || !p.isFresh(s.tiedAt) {", New: " {"},
		{Name: "probe: a server that does not call the inner door", File: "state.go", Old: "\t\tif !p.calls(s) {\n\t\t\treturn false, p.reasonOf(s)", New: "\t\tif false {\n\t\t\treturn false, p.reasonOf(s)"},
		{Name: "probe: certificates that are shared", File: "state.go", Old: "return same > 1 || others == 0", New: "return others == 0"},
		{Name: "probe: certificates that may be shared", File: "state.go", Old: "return same > 1 || others == 0", New: "return same > 1"},
		{Name: "probe: an old list", File: "state.go", Old: "case !p.isFresh(p.listedAt):", New: "case false:"},
		{Name: "probe: old Leases", File: "state.go", Old: "case !p.isFresh(p.aliveAt):", New: "case false:"},
		{Name: "probe: servers that are not listed", File: "state.go", Old: "case len(p.listed) < p.alive:", New: "case false:"},
		{Name: "probe: other servers with the certificate", File: "state.go", Old: "if s := p.servers[address]; !p.calls(s) {", New: "if s := p.servers[address]; false {"},
		{Name: "probe: servers without a certificate", File: "state.go", Old: "return p.untiedCall()", New: "return true, \"\""},
		{Name: "probe: canaries of other replicas", File: "prober.go", Old: "\tif r := p.rounds[nonce]; r != nil {\n\t\tr.arrived(attributes.GetVerb(), certificate)\n\t}\n\treturn true", New: "\tr := p.rounds[nonce]\n\tif r != nil {\n\t\tr.arrived(attributes.GetVerb(), certificate)\n\t}\n\treturn r != nil", Test: "^TestIsCanary$"},
	}},
	{Package: "pkg/innerdoor", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "inner door: other ways", File: "alternative.go", Old: "Others: without(others, check)", New: "Others: without(others[:0], check)", Test: "^TestAlternatives$"},
		{Name: "inner door, canary: another namespace", File: "canary.go", Old: "namespace == \"\" || a.GetNamespace() != namespace {", New: "false {", Test: "^TestCanaryOf$"},
		{Name: "inner door, canary: another object", File: "canary.go", Old: "if a.GetName() != CanaryName {", New: "if false {", Test: "^TestCanaryOf$"},
		{Name: "inner door, canary: collections", File: "canary.go", Old: "if !selectsCanary(a) {", New: "if false {", Test: "^TestCanaryOf$"},
		{Name: "inner door, canary: other selectors", File: "canary.go", Old: "(r.Operator == \"=\" || r.Operator == \"==\") && ", New: "", Test: "^TestCanaryOf$"},
		{Name: "inner door, canary: another user", File: "canary.go", Old: "if name != CanaryUser || len(values) != 1 {", New: "if len(values) != 1 {", Test: "^TestCanaryOf$"},
		{Name: "inner door, canary: the refusal of another", File: "canary.go", Old: "cause.Field == nonce && ", New: "", Test: "^TestRefuseCanary$"},
		{Name: "inner door, canary: without a nonce", File: "canary.go", Old: "if request.UserInfo.Username != CanaryUser {", New: "if request.UserInfo.Username != CanaryUser || request.UserInfo.Extra == nil {", Test: "^TestRefuseCanary$"},
		{Name: "inner door: reasons for users who may not read", File: "decide.go", Old: "Decide(m.first.Pin(ctx), check).Fold().IsAllow()", New: "Decide(m.first.Pin(ctx), check).CanBecomeAllowed()", Test: "^TestWithheld$"},
		{Name: "inner door: reasons about stored objects", File: "decide.go", Old: "if m.write.old == nil || len(m.conditions) == 0 && !m.comparesOwners {", New: "if true {", Test: "^TestWithheld$"},
		{Name: "inner door: reading the object, not the subresource", File: "request.go", Old: "request.Subresource = \"\"", New: "_ = request", Test: "^TestWithheld$"},
		{Name: "inner door: reading a collection", File: "request.go", Old: "check, objects = Check{Verb: \"list\"}, \"objects\"", New: "_ = objects", Test: "^TestWithheld$"},
		{Name: "inner door: canaries", File: "handler.go", Old: "refusal != nil {", New: "refusal != nil && digest == h.config.Digest {", Test: "^TestCanaries$"},
		{Name: "inner door: what checks see", File: "../authorization/celeval/evaluator.go", Old: "authorization.WithoutUnseen(ctx)", New: "ctx", Test: "^TestChecksSeeTheirPaths$"},
		{Name: "inner door: what admission does not see", File: "decide.go", Old: "ctx, _ = authorization.WithUnseen(authorization.WithBudget(ctx))", New: "ctx = authorization.WithBudget(ctx)", Test: "^TestDecide$"},
		{Name: "inner door: all checks of a way", File: "decide.go", Old: "\t\tif !decision.IsAllow() {\n\t\t\treturn decision\n\t\t}\n\t\tif err", New: "\t\tif err"},
		{Name: "inner door: policies of one moment", File: "decide.go", Old: "return m.first.ForAttributes(ctx, attributes)", New: "return m.decider.Chain.Begin(ctx, attributes)"},
		{Name: "inner door: the end of the context", File: "decide.go", Old: "if err := ctx.Err(); err != nil {", New: "if err := ctx.Err(); err != nil && false {"},
		{Name: "inner door: objects that are not decoded", File: "decide.go", Old: "if err := m.write.Decode(); err != nil {", New: "if err := m.write.Decode(); err != nil && false {"},
		{Name: "inner door: objects that are missing", File: "request.go", Old: "(w.object != nil) != (operation != admissionregistrationv1.Delete) ||", New: "false ||"},
		{Name: "inner door: another version", File: "request.go", Old: "*request.RequestResource != request.Resource ||", New: "false ||"},
		{Name: "inner door: a collection is no object", File: "request.go", Old: "w.kind.Collection != nil && w.request.Name == \"\"", New: "false"},
		{Name: "inner door: the end of the time", File: "handler.go", Old: "case ctx.Err() != nil:", New: "case false:"},
		{Name: "inner door: another manifest", File: "handler.go", Old: "if digest != h.config.Digest {", New: "if false {", Test: "^TestOtherManifests$"},
		{Name: "inner door: long reviews", File: "review.go", Old: "if length >= 0 && length <= smallReviewBytes ||", New: "if length >= -1 ||", Test: "^TestLongReviewsAreBounded$"},
		{Name: "inner door: the time of kube-apiserver", File: "handler.go", Old: "return min(answerTimeout, waits*4/5)", New: "return answerTimeout", Test: "^TestTimeoutOfTheClient$"},
		{Name: "inner door: owners", File: "decide.go", Old: "if m.decider.OwnerReferences && ", New: "if false && ", Test: "^TestOwners$"},
		{Name: "inner door: owners that cannot be read", File: "request.go", Old: "return !known || !alsoKnown ||", New: "return known && alsoKnown &&", Test: "^TestOwners$"},
		{Name: "inner door: checks that cannot become allowed", File: "decide.go", Old: "if decision := lazy.Decision(); !decision.CanBecomeAllowed() {", New: "if decision := lazy.Decision(); false {", Test: "^TestOthersAreAskedLast$"},
		{Name: "inner door: the namespace of a namespace", File: "request.go", Old: "|| w.resource.isNamespaces() {\n\t\treturn nil, nil", New: "{\n\t\treturn nil, nil", Test: "^TestRecordedReviews$"},
		{Name: "inner door: slots", File: "handler.go", Old: "= 8\n\tmaxReviewsPerNamespace         = 12\n\tmaxReviewsPerUserInNamespace   = 4", New: "= 16\n\tmaxReviewsPerNamespace         = 16\n\tmaxReviewsPerUserInNamespace   = 16"},
		{Name: "inner door: PATCH that creates", File: "write.go", Old: "Ways: []Way{{{Verb: \"create\"}}, {{Verb: \"create\", Named: true}, {Verb: \"patch\", Named: true}}}", New: "Ways: []Way{{{Verb: \"create\"}}, {{Verb: \"create\", Named: true}}}"},
	}},
	{Package: "pkg/innerdoor/manifest", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "manifest: the version of questions", File: "manifest.go", Old: "\".labelSelector('\" + OtherAuthorizersKey + \"')", New: "\""},
		{Name: "manifest: the namespace of a namespace", File: "manifest.go", Old: "(\" + isNamespace + \" ? \" + nameOfRequest + \" : has", New: "(has"},
		{Name: "manifest: fails closed", File: "manifest.go", Old: "ptr.To(admissionregistrationv1.Fail)", New: "ptr.To(admissionregistrationv1.Ignore)"},
		{Name: "manifest: the marker in a concrete version", File: "frontdoor.go", Old: "request.resourceAttributes.version == '*'", New: "true", Test: "^TestMarker$"},
		{Name: "manifest: the marker beside other requirements", File: "frontdoor.go", Old: "requirements) == 1", New: "requirements) >= 1", Test: "^TestMarker$"},
		{Name: "manifest: the operator of the marker", File: "frontdoor.go", Old: " && r.operator == 'Exists'", New: "", Test: "^TestMarker$"},
		{Name: "manifest: the marker beside a field selector", File: "frontdoor.go", Old: " && !has(request.resourceAttributes.fieldSelector)", New: "", Test: "^TestMarker$"},
		{Name: "manifest: a marker that nobody sends", File: "frontdoor.go", Old: "if c.AsksOthers {", New: "if true {", Test: "^TestMarker$"},
		{Name: "manifest: the identities of the front door", File: "frontdoor.go", Old: "c.withDefaults().Identities", New: "c.Identities", Test: "^TestArtifactsLeaveOutTheSame$"},
		{Name: "manifest: canaries of other users", File: "manifest.go", Old: `{Name: "canary", Expression: "request.userInfo.username == " + strconv.Quote(innerdoor.CanaryUser)},`, New: "", Test: "^TestCalls$"},
		{Name: "manifest: canaries elsewhere", File: "manifest.go", Old: `{Name: "namespace", Expression: "has(request.namespace) && request.namespace == " + strconv.Quote(c.Namespace)},`, New: "", Test: "^TestCalls$"},
		{Name: "manifest: groups that are left out", File: "identities.go", Old: "slices.ContainsFunc(u.GetGroups(), ", New: "false && slices.ContainsFunc(u.GetGroups(), ", Test: "^TestLeavesOut$"},
		{Name: "manifest: owners", File: "manifest.go", Old: "if c.OwnerReferences && k.Operation", New: "if false && k.Operation"},
	}},
	{Package: "pkg/innerdoor/installation", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "installation: files that are written in place", File: "files.go", Old: "return os.Rename(temporary.Name(), filepath.Join(dir, filepath.FromSlash(f.Name)))", New: "return os.WriteFile(filepath.Join(dir, filepath.FromSlash(f.Name)), f.Content, fileMode)"},
		{Name: "installation: cached answers", File: "configuration.go", Old: "CacheAuthorizedRequests: new(bool), ", New: ""},
		{Name: "installation: certificates that are none", File: "configuration.go", Old: "if _, err := cert.ParseCertsPEM(decoded.CABundle); err != nil {", New: "if _, err := cert.ParseCertsPEM(decoded.CABundle); err != nil && false {"},
		{Name: "installation: authorizers that kube-apiserver refuses", File: "configuration.go", Old: "errs = append(errs, c.validateAuthorizers()...)", New: ""},
		{Name: "installation: fields that nobody wants", File: "check.go", Old: "if _, ok := want[name]; !ok {", New: "if false {"},
		{Name: "installation: another manifest at the server", File: "server.go", Old: "case string(found[1]) != want:", New: "case false:"},
		{Name: "installation: no manifest at the server", File: "server.go", Old: "case found == nil:\n\t\treturn []string{fmt.Sprintf(\"kube-apiserver: it has not loaded %s\", what)}", New: "case found == nil:\n\t\treturn nil"},
		{Name: "installation: an empty file", File: "check.go", Old: "case len(content) == 0:", New: "case false:"},
	}},
	{Package: "apis/config/v1alpha1", Test: "^TestInnerDoorDefaults$", Mutants: []mutation.Mutant{
		{Name: "configuration: webhooks are asked by default", File: "defaults.go", Old: "return a.Type != typeNode && a.Type != typeRBAC", New: "return false"},
	}},
	{Package: "pkg/innerdoor", Tests: "pkg/innerdoor/manifest", Test: "^TestRefuses$", Mutants: []mutation.Mutant{
		{Name: "inner door: resources of Proviso", File: "resource.go", Old: "strings.HasSuffix(r.Group, \".\"+ownDomain)", New: "strings.HasSuffix(r.Group, ownDomain+\".\")"},
	}},
	{Package: "pkg/policy/enforcementstatus", Test: "^Test", Mutants: []mutation.Mutant{
		{Name: "status: a folded condition", File: "enforcementstatus.go", Old: "case evaluated, reads.level() == Request, reads.level() == Namespace && at == policyv1alpha1.EnforcedAtFrontDoor:", New: "case true:"},
		{Name: "status: what is served and folded", File: "enforcementstatus.go", Old: "if folded.Has(verb) || isNamed && !enforced.Has(verb) {", New: "if isNamed && !enforced.Has(verb) {"},
		{Name: "status: what is not served", File: "enforcementstatus.go", Old: "if !isServed && group != \"*\" {", New: "if false {"},
		{Name: "status: Deny at the inner door", File: "places.go", Old: "case reads.level() < More || effect != policyv1alpha1.PolicyEffectAllow && effect != policyv1alpha1.PolicyEffectNoOpinion:", New: "case reads.level() < More:", Test: "^TestInnerDoor$"},
		{Name: "status: selectors at the inner door", File: "places.go", Old: "case effect == policyv1alpha1.PolicyEffectAllow && reads.hasUnseen():", New: "case false:", Test: "^TestInnerDoor$"},
		{Name: "status: servers that lack the inner door", File: "places.go", Old: "if note := p.facts.InnerDoor.lacking(); note != \"\" {", New: "if note := p.facts.InnerDoor.lacking(); false {", Test: "^TestInnerDoor$"},
		{Name: "status: versions of other servers", File: "places.go", Old: "case !isLocal:\n\t\treturn outcome{}, false", New: "case !isLocal && false:\n\t\treturn outcome{}, false", Test: "^TestInnerDoor$"},
		{Name: "status: reviews of versions of other servers", File: "places.go", Old: "case !some:\n\t\treturn false, noteNotLocal", New: "case !some && false:\n\t\treturn false, noteNotLocal", Test: "^TestReviewed$"},
		{Name: "status: no front door", File: "enforcementstatus.go", Old: "if s.FrontDoor {", New: "if true {"},
		{Name: "status: the worst result", File: "effective.go", Old: "slices.Backward(severity[1:])", New: "slices.All(severity[1:])"},
	}},
	{Package: "pkg/apiserver/options", Test: "^TestNamespacesAreNot|^TestInterruptedLists", Mutants: []mutation.Mutant{
		{Name: "namespaces: an old cache at the front door", File: "namespaces.go", Old: "|| n.freshness.Stale() != \"\" {\n\t\treturn nil, false", New: "{\n\t\treturn nil, false"},
		{Name: "namespaces: an old cache at admission", File: "namespaces.go", Old: "if apierrors.IsNotFound(err) || n.freshness.Stale() != \"\" {", New: "if apierrors.IsNotFound(err) {"},
		{Name: "namespaces: a part of a list", File: "namespaces.go", Old: "if isComplete && event", New: "if event"},
		{Name: "namespaces: errors", File: "namespaces.go", Old: " && event.Type != watch.Error {", New: " {"},
	}},
	{Package: "pkg/registry/virtual", Test: "^TestReviewsOf", Mutants: []mutation.Mutant{
		{Name: "review: a version that denies", File: "versions.go", Old: "result.Denied || folded.Denied", New: "result.Denied && folded.Denied"},
		{Name: "review: versions that do not all allow", File: "versions.go", Old: "result.Allowed && folded.Allowed", New: "result.Allowed || folded.Allowed"},
		{Name: "review: versions with other answers", File: "versions.go", Old: "if slices.ContainsFunc(answers[1:], answers[0].differs) {", New: "if false {"},
		{Name: "review: versions of several verbs", File: "versions.go", Old: "authorization.HasWildcards(record) {", New: "false {"},
	}},
	{Package: "pkg/registry/authorization/authorizationconditionsreview", Test: "^TestReview", Mutants: []mutation.Mutant{
		{Name: "review: types of served kinds", File: "kinds.go", Old: "|| !k.scheme.Recognizes(gvk) {", New: "|| true {"},
	}},
}

// TestMutantsExist keeps the tables true with the code.
func TestMutantsExist(t *testing.T) {
	t.Parallel()
	for _, s := range suites {
		t.Run(s.Package, func(t *testing.T) {
			t.Parallel()
			s.Exist(t)
		})
	}
}

// TestMutants runs the tests against the mutants whose names match MUTANTS. All of them take some
// minutes, and are for `make mutants`; one shows in every test run that mutants are noticed.
func TestMutants(t *testing.T) {
	pattern := cmp.Or(os.Getenv("MUTANTS"), "^chained: shared sets$")
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		t.Run(s.Package, func(t *testing.T) { s.Run(t, wanted) })
	}
}
