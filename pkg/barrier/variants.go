/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/apis/demo"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

const all = "*"

// variant is a class of requests that are told apart at admission.
type variant struct {
	operation admissionregistrationv1.OperationType
	// verbs are the verbs that look the same at admission. A rule is translated for all of them or for none.
	verbs []string
	// named says how the name of the request tells the variant from others with the same operation. It is empty if nothing else has
	// this operation.
	named string
}

// The expressions for the name of a request. kube-apiserver leaves out an empty name.
const (
	hasName = `(has(request.name) && request.name != "")`
	hasNone = `!` + hasName
)

// The variants. A deletecollection is admitted as one deletion without a name for each object.
var (
	creation = variant{operation: admissionregistrationv1.Create, verbs: []string{"create"}}
	update   = variant{operation: admissionregistrationv1.Update, verbs: []string{"update", "patch"}}
	//guard:barrier-deletions-name
	deletion = variant{operation: admissionregistrationv1.Delete, verbs: []string{"delete"}, named: hasName}
	//guard:barrier-deletions-without-name
	collection = variant{operation: admissionregistrationv1.Delete, verbs: []string{"deletecollection"}, named: hasNone}
	// connection is sent with GET or POST.
	connection = variant{operation: admissionregistrationv1.Connect, verbs: []string{"create", "get"}}
)

// The verbs of the variants, which * stands for.
var (
	writes      = []string{"create", "update", "patch", "delete", "deletecollection"}
	connections = []string{"create", "get"}
)

// The subresources that kube-apiserver serves, and that no component authorizes without sending a request.
var (
	written = []string{"approval", "binding", "ephemeralcontainers", "finalize", "resize", "scale", "status", "token"}
	//guard:barrier-proxies
	connected = []string{"attach", "exec", "portforward"}
	// createdByName are created with the name of their object. With other verbs, no request for them is sent, but kube-apiserver
	// authorizes updates of the status of ResourceClaims with update and patch of resourceclaims/binding.
	createdByName = []string{"binding", "token"}
)

// part is the part of a rule about one kind of resources.
type part struct {
	// rule is the index of the rule.
	rule      int
	connects  bool
	resources []string
	spec      *policyv1alpha1.PolicyRule
	// isNamespaced says that the policy is of a namespace.
	isNamespaced bool
	// excludesNamespaces says that the barrier does not see namespaces.
	excludesNamespaces bool
	candidates         []*candidate
}

// parts returns the parts of a rule that can be translated, and the resources that kube-apiserver does not admit by policies, with the
// reasons.
func partsOf(index int, rule *policyv1alpha1.PolicyRule) (parts []part, unseen map[string][]string) {
	var others, connecting []string
	unseen = map[string][]string{}
	for _, path := range rule.Resources {
		_, subresource, hasSubresource := strings.Cut(path, "/")
		switch {
		case !hasSubresource && path != all, slices.Contains(written, subresource):
			others = append(others, path)
		case slices.Contains(connected, subresource):
			connecting = append(connecting, path)
		case path == all:
			others, connecting = append(others, path), append(connecting, path)
		default:
			const reason = "Proviso translates no rules for this subresource"
			unseen[reason] = append(unseen[reason], path)
		}
	}
	if len(others) > 0 {
		parts = append(parts, part{rule: index, resources: others, spec: rule})
	}
	if len(connecting) > 0 {
		parts = append(parts, part{rule: index, resources: connecting, spec: rule, connects: true})
	}
	return parts, unseen
}

// variants returns the variants that the part can match.
func (p part) variants() []variant {
	if p.connects {
		return []variant{connection}
	}
	return []variant{creation, update, deletion, collection}
}

// verbs returns the verbs of the part, with * resolved to the verbs of its variants.
func (p part) verbs() []string {
	switch {
	case !slices.Contains(p.spec.Verbs, all):
		return p.spec.Verbs
	case p.connects:
		return connections
	}
	return writes
}

func (p part) hasVerb(verb string) bool { return slices.Contains(p.verbs(), verb) }

// hasNamespaces reports whether the part may be about namespaces.
func (p part) hasNamespaces() bool {
	if p.excludesNamespaces || !slices.Contains(p.spec.APIGroups, "") && !slices.Contains(p.spec.APIGroups, all) {
		return false
	}
	return slices.ContainsFunc(p.resources, func(path string) bool {
		resource, _, _ := strings.Cut(path, "/")
		return resource == all || isNamespaces(path)
	})
}

const namespaces = "namespaces"

// isNamespaces reports whether an entry of a rule names namespaces, or a subresource of them.
func isNamespaces(path string) bool {
	resource, _, _ := strings.Cut(path, "/")
	return resource == namespaces
}

// isOfNamespaces reports whether a rule is about namespaces and nothing else.
func isOfNamespaces(rule *policyv1alpha1.PolicyRule) bool {
	return len(rule.APIGroups) == 1 && rule.APIGroups[0] == "" && !slices.ContainsFunc(rule.Resources, func(path string) bool { return !isNamespaces(path) })
}

// hasSubresourcesOnly reports whether the part is about no main resource.
func (p part) hasSubresourcesOnly() bool {
	return !slices.ContainsFunc(p.resources, func(path string) bool { return !strings.Contains(path, "/") })
}

// isCreatedByName reports whether all resources of the part are created with the name of their object.
func (p part) isCreatedByName() bool {
	return !slices.ContainsFunc(p.resources, func(path string) bool { return !isCreatedByName(path) })
}

// isCreatedByName reports whether an entry of a rule names a subresource that is created with the name of its object.
func isCreatedByName(path string) bool {
	_, subresource, _ := strings.Cut(path, "/")
	return slices.Contains(createdByName, subresource)
}

// unseenGroups are the groups whose requests ValidatingAdmissionPolicies do not see.
var unseenGroups = map[string]string{
	//guard:barrier-reviews-tokens
	"authentication.k8s.io":        "admission policies do not see reviews",
	authorization.GroupName:        "admission policies do not see reviews",
	authorization.ProvisoGroupName: "Proviso serves it and enforces the policy itself",
	demo.GroupName:                 "Proviso serves it and enforces the policy itself",
	policyv1alpha1.GroupName:       "Proviso serves it and enforces the policy itself",
}

// admissionGroup configures admission. Admission policies do not see its policies and their bindings.
const admissionGroup = "admissionregistration.k8s.io"

//guard:barrier-bindings-admission-policies
var admissionPolicies = []string{
	"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
}

const reasonAdmissionPolicies = "admission policies do not see other admission policies and their bindings"

// unseenResources are the resources of kube-apiserver whose requests ValidatingAdmissionPolicies do not see, by group.
var unseenResources = map[string][]string{
	"authentication.k8s.io": {"selfsubjectreviews", "tokenreviews"},
	authorization.GroupName: {"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"},
	admissionGroup:          admissionPolicies,
}

// isUnseen reports whether ValidatingAdmissionPolicies do not see a request.
func isUnseen(a authorizer.Attributes) bool {
	_, ok := unseenGroups[a.GetAPIGroup()]
	return ok || a.GetAPIGroup() == admissionGroup && slices.Contains(admissionPolicies, a.GetResource())
}
