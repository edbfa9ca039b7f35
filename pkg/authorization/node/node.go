/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package node is an example of an authorizer with conditions of its own type: a node may write the objects that are
// placed on it, and no others (KEP-5681, "Node authorizer"). The conditions are opaque: other components call the
// authorizer to evaluate them.
//
// It uses only k8s.io/apiserver, as an authorizer outside Proviso would.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const (
	// ConditionType is the type of the conditions.
	ConditionType = "k8s.io/node-authorizer"

	conditionID       = "node.proviso.dev/own-objects"
	requireNodeName   = "require-pod-node-name"
	usernamePrefix    = "system:node:"
	maxConditionBytes = 1024
)

// Authorizer lets nodes write the objects that have their name in spec.nodeName.
type Authorizer struct {
	// Resources are the resources whose objects are placed on nodes, in any version. The authorizer has no opinion
	// on other resources.
	Resources []schema.GroupResource
}

var _ authorizer.Authorizer = Authorizer{}

var verbs = []string{"create", "update", "patch", "delete"}

// condition is the text of a condition.
type condition struct {
	Condition string `json:"condition"`
	NodeName  string `json:"nodeName"`
}

// ConditionsAwareAuthorize allows a node to write objects on the condition that they are,
// and stay, its own. It has no opinion on anything else.
func (a Authorizer) ConditionsAwareAuthorize(_ context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	name, ok := nodeOf(attributes.GetUser())
	resource := schema.GroupResource{Group: attributes.GetAPIGroup(), Resource: attributes.GetResource()}
	if !ok || !attributes.IsResourceRequest() || attributes.GetSubresource() != "" ||
		!slices.Contains(a.Resources, resource) || !slices.Contains(verbs, attributes.GetVerb()) {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	text, err := json.Marshal(condition{Condition: requireNodeName, NodeName: name})
	if err != nil {
		return authorizer.ConditionsAwareDecisionNoOpinion("", err)
	}
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{authorizer.GenericCondition{
		ID: conditionID, Type: ConditionType, Condition: string(text),
		Description: fmt.Sprintf("node %s may write what is placed on it", name),
	}})
}

// nodeOf returns the name of the node that a user is.
func nodeOf(u user.Info) (string, bool) {
	if u == nil || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	name, ok := strings.CutPrefix(u.GetName(), usernamePrefix)
	return name, ok && name != ""
}

// Authorize decides for callers that do not support conditions: the answer is always NoOpinion.
func (a Authorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.ConditionsAwareAuthorize(ctx, attributes).IsConditionsMap() {
		return authorizer.DecisionNoOpinion, "nodes may write on conditions only", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// EvaluateConditions evaluates conditions that ConditionsAwareAuthorize made, also after
// they went over the wire. Anything else is an error.
func (a Authorizer) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	evaluated := authorizer.PartiallyEvaluateConditionsAwareDecision(ctx, decision, data,
		func(_ context.Context, c authorizer.Condition, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			holds, err := evaluate(c, data)
			if err != nil {
				return authorizer.ConditionEvaluationResultError(err)
			}
			return authorizer.ConditionEvaluationResultBoolean(holds)
		})
	switch {
	case evaluated.IsAllow():
		return authorizer.DecisionAllow, evaluated.Reason(), evaluated.Error()
	case evaluated.IsNoOpinion():
		return authorizer.DecisionNoOpinion, evaluated.Reason(), evaluated.Error()
	default:
		return authorizer.DecisionDeny, evaluated.Reason(), evaluated.Error()
	}
}

var (
	errNotOurs  = errors.New("not a condition of the node authorizer")
	errNoObject = errors.New("there is neither an object nor an old one")
)

// evaluate reports whether the object and the old object, as far as they are given, have the node's name in
// spec.nodeName. It returns an error if neither is given, or if the condition is not one of ConditionType.
func evaluate(c authorizer.Condition, data authorizer.ConditionsData) (bool, error) {
	var want condition
	if c.GetType() != ConditionType || len(c.GetCondition()) > maxConditionBytes {
		return false, errNotOurs
	}
	if err := json.Unmarshal([]byte(c.GetCondition()), &want); err != nil {
		return false, fmt.Errorf("%w: %w", errNotOurs, err)
	}
	if want.Condition != requireNodeName || want.NodeName == "" {
		return false, errNotOurs
	}
	seen := false
	for _, object := range []runtime.Object{data.GetObject(), data.GetOldObject()} {
		if value := reflect.ValueOf(object); !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
			continue
		}
		seen = true
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return false, err
		}
		name, _, err := unstructured.NestedString(content, "spec", "nodeName")
		if err != nil {
			return false, err
		}
		if name != want.NodeName {
			return false, nil
		}
	}
	if !seen {
		return false, errNoObject
	}
	return true, nil
}
