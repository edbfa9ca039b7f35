/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/costbound"
)

const (
	// GroupDomain ends the names of groups.
	GroupDomain = "group.policy.proviso.dev"
	// GroupAnnotation has the names of the policies of a group, as PolicyAnnotation has them, separated by commas.
	GroupAnnotation = "policy.proviso.dev/policies"
)

// The bounds of a group.
const (
	// maxClauses is the number of policies. A request that the match conditions of a group let through evaluates something of each.
	maxClauses = 50
	// maxGroupBytes bounds a group as JSON. kubectl apply stores it in an annotation, which may have 256 KiB, and kube-apiserver compiles no expression of
	// more than 100,000 characters: the match conditions are at most half of it.
	maxGroupBytes = 128 * 1024
	// maxClauseCost and maxGroupCost bound the cost of one policy, and of all of them, for an object of largestObject bytes. kube-apiserver refuses a
	// request for which one expression costs 1,000,000, or all expressions of a ValidatingAdmissionPolicy cost 10,000,000, so that no policy of a group
	// can use up what another one needs, also for a user with manyGroups groups.
	maxClauseCost = 500_000
	maxGroupCost  = 1_000_000
	largestObject = 3 << 20
	manyGroups    = 2048
	// One of groupEnds policies begins a group: one whose hash is divisible by it, so that another policy before it changes no group after it.
	groupEnds = 32
)

// Objects are the two objects of a barrier, or of a group of barriers. Both have the same name.
type Objects struct {
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// clause is a barrier that can be in a group.
type clause struct {
	*Barrier

	rank string // of its policy in the order of clauses
	cost uint64
	size int // in JSON, what a group has of it
}

// Group returns the objects of barriers, sorted by name, where policies with the same rules share objects: a group. A group refuses the same requests as the
// barriers of its policies, and each refusal names its policy. Its match conditions let a request through that is in a namespace of one of its policies, or
// that a subject of one sends. A barrier keeps its own objects if it is of a mapping or in Audit, asks an authorizer, may cost more than maxClauseCost, or is alone in
// its group. Barriers without objects are left out. The result does not depend on the order of barriers. A group with other policies has another name; one policy
// more or less changes one group, or those up to the next policy that begins one. All barriers must be of one Compiler.
func Group(barriers []*Barrier) []Objects {
	var objects []Objects
	alike := map[string][]clause{}
	for _, b := range barriers {
		if b.Policy == nil {
			continue
		}
		kind, c, ok := b.clause()
		if !ok {
			objects = append(objects, Objects{b.Policy, b.Binding})
			continue
		}
		alike[kind] = append(alike[kind], c)
	}
	for _, kind := range slices.Sorted(maps.Keys(alike)) {
		clauses := alike[kind]
		slices.SortFunc(clauses, func(a, b clause) int { return strings.Compare(a.rank, b.rank) })
		for len(clauses) > 0 {
			n := lengthOfGroup(kind, clauses)
			if n == 1 {
				objects = append(objects, Objects{clauses[0].Policy, clauses[0].Binding})
			} else {
				objects = append(objects, objectsOf(kind, clauses[:n]))
			}
			clauses = clauses[n:]
		}
	}
	slices.SortFunc(objects, func(a, b Objects) int { return strings.Compare(a.Policy.Name, b.Policy.Name) })
	return objects
}

// clause returns the barrier for a group, and false if it cannot be in one. Barriers of the same kind see the same requests, but for their namespaces and
// subjects.
func (b *Barrier) clause() (kind string, c clause, ok bool) {
	spec := &b.Policy.Spec
	isAudit := !slices.Equal(b.Binding.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny})
	//guard:group-leaves-out
	if b.IsOfMapping || isAudit || strings.Contains(spec.Variables[0].Expression, "authorizer") {
		return "", clause{}, false
	}
	scope := spec.MatchConditions[1:] // in the match conditions of the group, and in the variable of the policy
	own := *b.Policy
	own.Spec.MatchConditions = scope
	bound, err := costbound.Of(&own)
	cost := bound.CostWithGroups(largestObject, manyGroups)
	//guard:group-clause-cost
	if err != nil || cost > maxClauseCost {
		return "", clause{}, false
	}
	rank := b.Key.Namespace + "/" + b.Key.Name
	// Cluster-scoped policies for everybody would take the subjects of the others out of the match conditions.
	rules, err := json.Marshal([]any{spec.MatchConstraints.ResourceRules, b.Key.Namespace == "", b.Key.Namespace == "" && len(b.subjects) == 0})
	if err != nil {
		return "", clause{}, false
	}
	// The name is in a comment and in the annotation, of which kubectl apply stores a copy, the namespace in a selector.
	text, err := json.Marshal([]any{spec.Variables, spec.Validations, scope, scope, rank, rank, rank})
	return string(rules), clause{Barrier: b, rank: rank, cost: cost, size: len(text) + clauseBytes}, err == nil
}

// clauseBytes bounds what a group has for each policy beside texts of the policy: the names of fields and variables.
const clauseBytes = 256

// lengthOfGroup returns how many of the clauses, which are sorted, make the next group.
func lengthOfGroup(kind string, clauses []clause) int {
	// All clauses share the rules, which the kind has, and the first match condition.
	size, cost := len(kind)+2*len(clauses[0].Policy.Spec.MatchConditions[0].Expression), uint64(0)
	for i, c := range clauses {
		size, cost = size+c.size, cost+c.cost
		isNext := i > 0 && sha256.Sum256([]byte(c.rank))[0]%groupEnds == 0
		//guard:group-bounds
		if isNext || i == maxClauses || i > 0 && (size > maxGroupBytes || cost > maxGroupCost) {
			return i
		}
	}
	return len(clauses)
}

// objectsOf returns the objects of a group.
func objectsOf(kind string, clauses []clause) Objects {
	first := clauses[0]
	spec := *first.Policy.Spec.DeepCopy()
	spec.Variables, spec.Validations = nil, nil
	var namespaces, policies []string
	var subjects []rbacv1.Subject
	isForAll := false
	for i, c := range clauses {
		scope, denied := fmt.Sprintf("s%d", i), fmt.Sprintf("p%d", i)
		validation := c.Policy.Spec.Validations[0]
		// kube-apiserver quotes the expression if it ends in an error: the comment says which policy that is.
		validation.Expression = fmt.Sprintf("!(variables.%s && variables.%s) // %s", scope, denied, quoted(nameOf(c.Key)))
		spec.Variables = append(spec.Variables,
			//guard:group-clause-scope
			admissionregistrationv1.Variable{Name: scope, Expression: conjunction(namespaceIs(c.Key.Namespace), subjectIs(c.subjects))},
			admissionregistrationv1.Variable{Name: denied, Expression: c.Policy.Spec.Variables[0].Expression})
		spec.Validations = append(spec.Validations, validation)
		namespaces, policies, subjects = append(namespaces, c.Key.Namespace), append(policies, nameOf(c.Key)), append(subjects, c.subjects...)
		isForAll = isForAll || len(c.subjects) == 0
	}
	//guard:group-subjects
	if isForAll {
		subjects = nil
	}
	namespaces = sortedSet(namespaces)
	spec.MatchConditions = append(spec.MatchConditions[:1], scopeConditions(subjects, namespaces...)...)
	if selector := spec.MatchConstraints.NamespaceSelector; selector != nil {
		// kube-apiserver converts the object before it evaluates a match condition, and not for a selector.
		selector.MatchLabels = nil
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces}}
	}
	// A group with other policies has another name, so that no policy is without objects while manifests are applied one after the other.
	sum := sha256.Sum256([]byte(kind + strings.Join(policies, ",")))
	meta := metav1.ObjectMeta{
		Name: hex.EncodeToString(sum[:16]) + "." + GroupDomain, Labels: map[string]string{ManagedByLabel: ManagedBy},
		Annotations: map[string]string{GroupAnnotation: strings.Join(policies, ",")},
	}
	return Objects{NewPolicy(meta, spec), NewBinding(meta, nil, admissionregistrationv1.Deny)}
}

// nameOf returns the name of a policy, with its namespace if it has one.
func nameOf(key engine.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// scopeConditions returns the match conditions that let requests of the subjects through, all if there are none, in one of the namespaces, and all if
// the only one is empty.
func scopeConditions(subjects []rbacv1.Subject, namespaces ...string) (conditions []admissionregistrationv1.MatchCondition) {
	//guard:barrier-subjects
	if is := subjectIs(subjects); is != "" {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: "subjects", Expression: is})
	}
	if in := namespaceIs(namespaces...); in != "" {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: "namespace", Expression: in})
	}
	return conditions
}

// subjectIs returns an expression that is true for the subjects of a policy, and "" if there are none.
func subjectIs(subjects []rbacv1.Subject) string {
	if len(subjects) == 0 {
		return ""
	}
	return userIs(subjectsOf(subjects))
}

// namespaceIs returns an expression that is true for requests in one of the namespaces, and "" for the empty namespace alone.
func namespaceIs(namespaces ...string) string {
	if namespaces[0] == "" {
		return ""
	}
	return oneOf("("+namespace+")", namespaces)
}
