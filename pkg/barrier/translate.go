/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// translation is a condition for one variant of requests, as an expression of a ValidatingAdmissionPolicy.
type translation struct {
	// text is "false" for a condition that is never true, and "true" for one that is true or an error for all requests.
	text string
	// reason says why there is no translation. It is empty if there is one.
	reason string
}

// never is the condition that denies nothing.
const never = "false"

// translator translates one condition.
type translator struct {
	compiler   *partial.Compiler
	expression *partial.Expression // nil if the policy has no condition
	found      map[situation]translation
	// left is what is left of maxTranslationCost.
	left uint64
}

// maxTranslationCost bounds the evaluations of the condition for all situations together.
const maxTranslationCost = 2 * cel.CostLimit

// situation is what the translation of a condition depends on. It is the key of the cache.
type situation struct {
	verb      string
	operation admissionregistrationv1.OperationType
	// isNamed says that the request has its name at admission, and isInNamespace that it has its namespace.
	isNamed, isInNamespace bool
}

func (p part) situation(verb string, operation admissionregistrationv1.OperationType) situation {
	isCreation := operation == admissionregistrationv1.Create
	return situation{verb: verb, operation: operation, isNamed: !isCreation || p.isCreatedByName(), isInNamespace: !isCreation || !p.hasNamespaces()}
}

// translate returns the translation of the condition for the requests of a part of a rule in a variant.
func (t *translator) translate(p part, v variant) translation {
	//guard:barrier-namespace-namespaces
	if t.readsNamespaceObject() && p.hasNamespaces() {
		return translation{reason: "the rule includes namespaces, for which namespaceObject has no value at admission"}
	}
	var first translation
	for i, verb := range v.verbs {
		translated := t.forSituation(p.situation(verb, v.operation))
		switch {
		case translated.reason != "":
			return translated
		case i == 0:
			first = translated
		//guard:barrier-update-patch-differ
		case translated.text != first.text:
			return translation{reason: fmt.Sprintf("the condition differs between %s and %s, which look the same at admission", v.verbs[0], verb)}
		}
	}
	if v.operation != admissionregistrationv1.Update || p.hasSubresourcesOnly() {
		return first
	}
	return t.withCreations(p, first)
}

// withCreations returns the translation for updates, unless such a request can create the object and the policy would deny it then.
// Whether a creation was sent as an update cannot be seen at admission.
func (t *translator) withCreations(p part, updates translation) translation {
	ordinary, nameCreate := translation{text: never}, "name the verb create, too, or "
	if len(p.spec.ResourceNames) > 0 { // which match no create: the name is not in its URL
		nameCreate = ""
	}
	switch {
	//guard:barrier-ordinary-creations-without-translation
	case p.hasVerb("create") && p.obstacle(creation, creation.verbs).reason == "":
		ordinary = t.forSituation(p.situation("create", admissionregistrationv1.Create))
	//guard:barrier-updates-create-other-versions
	case p.hasOutside():
		return translation{reason: "an update or a patch can also create the object in a version that the rule does not name: " + nameCreate + "name the version *"}
	}
	for _, verb := range update.verbs {
		created := t.forSituation(p.situation(verb, admissionregistrationv1.Create))
		//guard:barrier-updates-create
		if created.reason != "" || created.text != never && created.text != ordinary.text {
			return translation{reason: "an update or a patch can also create the object, and the condition is not false then: " + nameCreate +
				`begin the condition with operation == "UPDATE" && or oldObject != null &&`}
		}
	}
	return updates
}

// forSituation returns the translation for one situation.
func (t *translator) forSituation(s situation) translation {
	if t.expression == nil {
		return translation{text: alwaysTrue}
	}
	if found, ok := t.found[s]; ok {
		return found
	}
	found := t.evaluate(s)
	t.found[s] = found
	return found
}

// known are the variables that have one value for all requests of an operation.
func (s situation) known() cel.Values {
	switch s.operation {
	case admissionregistrationv1.Create, admissionregistrationv1.Connect:
		return cel.Values{cel.OldObject: null}
	case admissionregistrationv1.Delete:
		return cel.Values{cel.Object: null}
	default:
		return nil
	}
}

var null = cel.Known(nil)

// evaluate evaluates the condition with what is known in a situation, and returns what is left.
func (t *translator) evaluate(s situation) translation {
	whole, err := t.compiler.Compile(t.expression.Rewritten(s.rewrite))
	if err != nil {
		return translation{reason: reasonOf(err)}
	}
	values := s.known()
	plan, err := whole.Plan(slices.Collect(maps.Keys(values))...)
	if err != nil {
		return translation{reason: reasonOf(err)}
	}
	//guard:barrier-situations-together
	result := plan.EvalWithin(context.Background(), values, t.left)
	t.left -= min(t.left, result.Cost())
	switch {
	case result.Stopped():
		return translation{reason: "the condition is too large or costs too much: " + reasonOf(result.Err())}
	//guard:barrier-condition-fails-denies
	case result.IsTrue(), result.Err() != nil: // a Deny condition that fails denies
		return translation{text: alwaysTrue}
	case result.IsFalse():
		return translation{text: never}
	}
	text, err := result.Residual().Text()
	if err != nil {
		return translation{reason: reasonOf(err)}
	}
	residual, err := t.compiler.Compile(text)
	if err != nil {
		return translation{reason: reasonOf(err)}
	}
	if reason := s.problem(residual); reason != "" {
		return translation{reason: reason}
	}
	// kube-apiserver has one limit for the whole condition, also for what authorization has decided.
	//guard:barrier-request-decides-comes-first
	text, ok := residual.AdmissionText(MaxTextBytes, cel.Object, cel.OldObject)
	if !ok {
		return translation{reason: reasonTooLarge}
	}
	//guard:barrier-compilation
	if err := t.compiler.CheckText(text); err != nil {
		return translation{reason: reasonOf(err)}
	}
	return translation{text: text}
}

// reasonOf returns a reason for an error of the compiler, which may quote the condition.
func reasonOf(err error) string {
	if errors.Is(err, cel.ErrTooLong) {
		return fmt.Sprintf("the translated condition is longer than %d bytes", cel.MaxExpressionBytes)
	}
	return err.Error()
}

// absent says why an expression that reads a variable has no translation.
var absent = []struct {
	variable cel.Variable
	reason   string
}{
	{cel.AbsentName, "the condition reads request.name, or request.namespace of namespaces, which a create request does not have at admission"},
	{cel.AbsentPath, "the condition reads request.path, which is not known at admission"},
	{cel.AbsentSelector, "the condition reads a selector of the request, which is not known at admission"},
	{cel.AbsentRequest, "the condition reads request or request.userInfo as a whole; read their fields"},
	{cel.AbsentNamespace, "the condition reads more of namespaceObject than the name, the labels and the annotations"},
	{cel.AbsentImpersonation, "the condition reads data of an impersonation check"},
}

// problem returns why kube-apiserver must not evaluate an expression, or an empty string.
func (s situation) problem(e *partial.Expression) string {
	for _, a := range absent {
		//guard:barrier-admission-does-not-have
		if e.Reads(a.variable) {
			return a.reason
		}
	}
	//guard:barrier-keys-maps
	if e.ComputesKeys() {
		return "the condition makes a map with a key that is not a literal, and kube-apiserver takes lists and maps for keys"
	}
	// Of a creation the user has sent the object.
	stored := []cel.Variable{cel.NamespaceObject}
	//guard:barrier-objects-stored
	if s.operation != admissionregistrationv1.Create {
		stored = append(stored, cel.Object, cel.OldObject)
	}
	//guard:barrier-values-errors
	if function := e.MayQuote(stored...); function != "" {
		return fmt.Sprintf("an error of %s would quote stored data in the answer of kube-apiserver", function)
	}
	return ""
}

// readsNamespaceObject reports whether the condition may depend on the namespace.
func (t *translator) readsNamespaceObject() bool {
	return t.expression != nil && t.expression.Reads(cel.NamespaceObject)
}

// rewrite returns the expression of a ValidatingAdmissionPolicy for what a condition reads; see partial.Expression.Rewritten.
func (s situation) rewrite(r partial.Reading) (text string, fields int) {
	switch r.Variable {
	case cel.Request:
		return s.rewriteRequest(r)
	case cel.Operation:
		//guard:barrier-operation
		return quoted(string(s.operation)), 0
	case cel.Options:
		return options, 0
	case cel.DryRun:
		return dryRun, 0
	case cel.NamespaceObject:
		if len(r.Fields) < 2 || r.Fields[0] != "metadata" || !slices.Contains([]string{"name", "labels", "annotations"}, r.Fields[1]) {
			return string(cel.AbsentNamespace), 0
		}
		return "", 0
	case cel.ImpersonatedRequest, cel.ImpersonatedUser:
		return string(cel.AbsentImpersonation), 0
	default:
		return "", 0
	}
}

// rewriteRequest is rewrite for fields of request. All fields of a request exist in policies, so that a test for one is true.
func (s situation) rewriteRequest(r partial.Reading) (text string, fields int) {
	if len(r.Fields) == 0 {
		return string(cel.AbsentRequest), 0
	}
	value, depth := "", 1
	switch r.Fields[0] {
	case "verb":
		//guard:barrier-verb
		value = quoted(s.verb)
	case "apiGroup":
		value = group
	case "apiVersion":
		value = version
	case "resource":
		value = resource
	case "subresource":
		value = subresource
	case "namespace":
		//guard:barrier-namespace-creation
		if value = namespace; !s.isInNamespace {
			value = string(cel.AbsentName)
		}
	case "name":
		//guard:barrier-name-creation
		if value = name; !s.isNamed {
			value = string(cel.AbsentName)
		}
	case "path":
		value = string(cel.AbsentPath)
	case "userInfo":
		if len(r.Fields) == 1 {
			value = string(cel.AbsentRequest)
			break
		}
		depth = 2
		value = map[string]string{"username": username, "uid": uid, "groups": groups, "extra": extra}[r.Fields[1]]
	default:
		value = string(cel.AbsentSelector)
	}
	//guard:barrier-tests-fields
	if r.IsTest && len(r.Fields) <= depth {
		return alwaysTrue, len(r.Fields)
	}
	return value, depth
}
