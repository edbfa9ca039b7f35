/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package kepwebhook

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// The resource of the rules.
const (
	demoGroup    = "demo.proviso.dev"
	demoVersion  = "v1alpha1"
	demoResource = "virtualmachines"
)

// conditionalRules returns the conditions on which a user may use a verb.
func conditionalRules(user, verb string) []condition {
	id := func(s string) string { return demoGroup + "/" + s }
	dev := condition{ID: id("allow-dev-class"), Effect: effectAllow, Type: celType, Condition: exprDevClass,
		Description: "allowed only if spec.storageClassName is dev"}
	switch {
	case user == "kep-dev" && verb == "create":
		return []condition{dev}
	case user == "kep-update" && verb == "update":
		return []condition{{ID: id("allow-image-unchanged"), Effect: effectAllow, Type: celType, Condition: exprSameImage,
			Description: "allowed only if spec.image is left unchanged"}}
	case user == "kep-guarded" && (verb == "create" || verb == "update"):
		return []condition{dev, {ID: id("deny-frozen"), Effect: effectDeny, Type: celType, Condition: exprFrozen,
			Description: "denied if the object has the label frozen"}}
	case user == "kep-noopinion" && verb == "create":
		return []condition{dev, {ID: id("noopinion-x-names"), Effect: effectNoOpinion, Type: celType, Condition: exprNameX,
			Description: "this authorizer has no opinion on objects whose name begins with x-"}}
	case user == "kep-delete" && verb == "delete":
		return []condition{{ID: id("allow-not-kept"), Effect: effectAllow, Type: celType, Condition: exprNotKept,
			Description: "allowed only if the stored object has no label kept"}}
	case user == "kep-opaque" && verb == "create":
		return []condition{{ID: id("allow-dev-class"), Effect: effectAllow, Type: opaqueType, Condition: tokenDevClass,
			Description: "allowed only if spec.storageClassName is dev"}}
	}
	return nil
}

// authorize answers a review of phase 1.
func authorize(spec *subjectAccessReviewSpec) subjectAccessReviewStatus {
	noOpinion := subjectAccessReviewStatus{Reason: "kep-webhook has no opinion"}
	ra := spec.ResourceAttributes
	if ra == nil || ra.Group != demoGroup || ra.Resource != demoResource {
		return noOpinion
	}
	// Rules without a condition depend on no field of the object, and so on no version.
	if spec.User == "kep-denied" {
		return subjectAccessReviewStatus{Denied: true, Reason: "kep-denied is denied unconditionally"}
	}
	if ra.Subresource != "" {
		return noOpinion
	}
	if spec.User == "kep-plain" && (ra.Verb == "get" || ra.Verb == "list") {
		return subjectAccessReviewStatus{Allowed: true, Reason: "kep-plain may " + ra.Verb}
	}
	// Rules with a condition name fields of one version ("Authorizer requirements").
	if ra.Version != demoVersion {
		return noOpinion
	}
	conditions := conditionalRules(spec.User, ra.Verb)
	if len(conditions) == 0 {
		return noOpinion
	}

	mode := modeNone
	if c := spec.ConditionalAuthorization; c != nil {
		mode = c.Mode
	}
	switch mode {
	case modeNone:
		// The decision is folded for a caller that does not support conditions.
		for _, c := range conditions {
			if c.Effect == effectDeny {
				return subjectAccessReviewStatus{Denied: true,
					Reason: "the caller does not support conditions, and condition '" + c.ID + "' could deny the request"}
			}
		}
		return subjectAccessReviewStatus{Reason: "the caller does not support conditions"}
	case modeOptimized:
		for i := range conditions {
			conditions[i].Description = ""
		}
	default: // also a mode that the KEP does not know
	}
	return subjectAccessReviewStatus{ConditionsChain: []conditionSet{{
		FailureMode:    failureModeDeny,
		AuthorizerName: authorizerName,
		Conditions:     conditions,
	}}}
}

// The texts of the conditions. The webhook must be able to evaluate each condition that it is the author of.
const (
	exprDevClass  = `object.spec.storageClassName == "dev"`
	exprSameImage = `object.spec.image == oldObject.spec.image`
	exprFrozen    = `has(object.metadata.labels) && "frozen" in object.metadata.labels`
	exprNameX     = `object.metadata.name.startsWith("x-")`
	exprNotKept   = `!(has(oldObject.metadata.labels) && "kept" in oldObject.metadata.labels)`
	// tokenDevClass means the same as exprDevClass, which no server can know.
	tokenDevClass = "kt1.9f2c7be0a4d1"
)

// evalFunc evaluates a condition.
type evalFunc func(object, oldObject any) (bool, error)

// typedText is a type of condition, and a text.
type typedText struct{ typ, text string }

// evaluators are the conditions of this webhook.
var evaluators = map[typedText]evalFunc{
	{celType, exprDevClass}:     devClass,
	{opaqueType, tokenDevClass}: devClass,
	{celType, exprSameImage}: func(o, old any) (bool, error) {
		a, err := field("object", o, "spec", "image")
		if err != nil {
			return false, err
		}
		b, err := field("oldObject", old, "spec", "image")
		if err != nil {
			return false, err
		}
		return reflect.DeepEqual(a, b), nil
	},
	{celType, exprFrozen}: func(o, _ any) (bool, error) {
		return hasLabel("object", o, "frozen")
	},
	{celType, exprNameX}: func(o, _ any) (bool, error) {
		v, err := field("object", o, "metadata", "name")
		if err != nil {
			return false, err
		}
		s, ok := v.(string)
		if !ok {
			return false, errors.New("object.metadata.name: no such overload: startsWith on a non-string")
		}
		return strings.HasPrefix(s, "x-"), nil
	},
	{celType, exprNotKept}: func(_, old any) (bool, error) {
		kept, err := hasLabel("oldObject", old, "kept")
		return !kept && err == nil, err
	},
}

// devClass evaluates exprDevClass.
func devClass(o, _ any) (bool, error) {
	v, err := field("object", o, "spec", "storageClassName")
	if err != nil {
		return false, err
	}
	return v == any("dev"), nil
}

// field selects as CEL does in a dynamic value: an absent key is an error.
func field(root string, v any, path ...string) (any, error) {
	at := root
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is not an object (absent or null)", at)
		}
		if v, ok = m[p]; !ok {
			return nil, fmt.Errorf("no such key: %s.%s", at, p)
		}
		at += "." + p
	}
	return v, nil
}

// hasLabel evaluates has(root.metadata.labels) && label in root.metadata.labels.
func hasLabel(root string, o any, label string) (bool, error) {
	md, err := field(root, o, "metadata")
	if err != nil {
		return false, err
	}
	m, ok := md.(map[string]any)
	if !ok {
		return false, fmt.Errorf("%s.metadata is not an object", root)
	}
	labels, ok := m["labels"]
	if !ok {
		return false, nil
	}
	lm, ok := labels.(map[string]any)
	if !ok {
		return false, fmt.Errorf("%s.metadata.labels: no such overload: in on a non-map", root)
	}
	_, ok = lm[label]
	return ok, nil
}
