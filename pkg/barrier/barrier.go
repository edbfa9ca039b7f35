/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

const (
	// ManagedByLabel is a label of the objects of barriers.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is its value.
	ManagedBy = "proviso"
	// PolicyAnnotation has the name of the policy from which a barrier comes: NAME, or NAMESPACE/NAME.
	PolicyAnnotation = "policy.proviso.dev/policy"
)

// NameSuffixes returns what the names of barriers end with.
func NameSuffixes() []string {
	return []string{"." + authorization.ClusterPolicyDomain, authorization.NamespacedPolicyDomain, "." + MappingDomain, "." + GroupDomain}
}

// Barrier is what a policy compiles to. It is immutable, with the objects that it points to: components share it.
type Barrier struct {
	// Key is the policy. For a mapping, IsOfMapping is true, and Key has its name.
	Key         engine.Key
	IsOfMapping bool
	// Policy and Binding have the same name. Both are nil if no rule can be translated.
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// Report has, in the order of the rules, which verbs of each rule are translated.
	Report []RuleReport

	exempt manifest.Identities
	rules  engine.Rules
	// subjects are the subjects of the policy.
	subjects []rbacv1.Subject
	// covered are the verbs with a translation, by rule, for connections and for other requests.
	covered map[int]map[bool][]string
	// excludesNamespaces says that the barrier does not see namespaces.
	excludesNamespaces bool
	// work is the bound of the work of the expressions, and paths are the resources of the rules. Both are zero for a mapping.
	work  work
	paths []resourcePath
}

// RuleReport says whether some verbs of a rule are translated.
type RuleReport struct {
	// Rule is the index of the rule in spec.rules, from 0. For a mapping, it is the index in spec.fields.
	Rule int
	// Resources are the resources of the rule that the entry is about, with their group if the group is the reason.
	Resources []string
	// Verbs are verbs of the rule, sorted. The verb * is resolved to the verbs that admission sees: create, update, patch, delete,
	// deletecollection.
	Verbs []string
	// Reason says why the verbs are not translated. It is empty if they are.
	Reason string
	// Unseen says which requests change an excluded field although the barrier does not refuse them. It is empty for a policy.
	Unseen []string
}

// Sees reports whether the barrier evaluates the policy for a request, and so refuses the request if the value of the policy's condition denies it,
// wherever kube-apiserver serves the request itself. For data over a bound, Proviso has no value and denies, and the barrier has one. A barrier
// of a policy in Audit refuses nothing. The attributes must name one version. Sees returns false for a request that the policy does not match,
// and for a user who is exempt.
func (b *Barrier) Sees(a authorizer.Attributes) bool {
	//guard:barrier-covers-admission-policies-do-not-see
	if b.Policy == nil || !a.IsResourceRequest() || isUnseen(a) || isExempt(b.exempt, a.GetUser()) {
		return false
	}
	//guard:barrier-covers-namespaces-policy-one
	if b.excludesNamespaces && a.GetAPIGroup() == "" && a.GetResource() == namespaces {
		return false
	}
	//guard:barrier-covers-authorized-without-request
	if slices.Contains(createdByName, a.GetSubresource()) && a.GetVerb() != "create" {
		return false
	}
	connects := slices.Contains(connected, a.GetSubresource())
	//guard:barrier-covers-subresources
	if !connects && a.GetSubresource() != "" && !slices.Contains(written, a.GetSubresource()) {
		return false
	}
	matching := b.rules.Matching(a)
	return len(matching) > 0 && !slices.ContainsFunc(matching, func(rule int) bool { return !slices.Contains(b.covered[rule][connects], a.GetVerb()) })
}

func isExempt(exempt manifest.Identities, u user.Info) bool {
	return u == nil || slices.Contains(exempt.Users, u.GetName()) ||
		slices.ContainsFunc(u.GetGroups(), func(group string) bool { return slices.Contains(exempt.Groups, group) })
}
