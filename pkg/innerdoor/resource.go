/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxResources bounds the list of resources. Each may be in three webhooks, whose rules kube-apiserver compares with every
// write.
const MaxResources = 256

// Resource is a resource, or a subresource, whose writes the inner door decides.
type Resource struct {
	// Group is the API group. It is empty for the core group.
	Group string `json:"group,omitempty"`
	// Resource is the name of the resource in the plural and in lower case, such as "pods".
	Resource string `json:"resource"`
	// Subresource is one of the subresources that can be listed, such as "status". It is empty for the resource itself.
	Subresource string `json:"subresource,omitempty"`
}

// String returns the resource with its group.
func (r Resource) String() string {
	return schema.GroupResource{Group: r.Group, Resource: r.Path()}.String()
}

// Path returns the resource as rules of admission webhooks write it, without its group.
func (r Resource) Path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// subresources can be listed. Some of the others connect to something. About some, components ask with a SubjectAccessReview, and never
// send a request that would reach admission.
var subresources = []string{"approval", "binding", "ephemeralcontainers", "finalize", "resize", "scale", "status", "token"}

// createdByName are the subresources that are written with POST to a URL that has the name of the object.
var createdByName = []string{"binding", "token"}

// neverListed has the resources that cannot be listed, with the reasons. A resource of an API group is its name; the
// reason of a whole group is under "*".
var neverListed = map[string]map[string]string{
	"":                             {"bindings": "components create it without a right to the object that it changes"},
	"admissionregistration.k8s.io": {"*": "it configures admission itself, and admission webhooks are not called for all of it"},
	"authentication.k8s.io":        {"*": "reviews are decided by who sends them"},
	"authorization.k8s.io":         {"*": "reviews are decided by who sends them"},
}

const ownDomain = "proviso.dev"

// createdByPut are the resources that a PUT creates if they do not exist, and that need the verbs update and create for it.
var createdByPut = map[string][]string{
	"":                          {"endpoints", "events", "limitranges", "services"},
	"coordination.k8s.io":       {"leasecandidates", "leases"},
	"events.k8s.io":             {"events"},
	"node.k8s.io":               {"runtimeclasses"},
	"rbac.authorization.k8s.io": {"clusterrolebindings", "clusterroles", "rolebindings", "roles"},
}

func (r Resource) isCreatedByPut() bool {
	return r.Subresource == "" && slices.Contains(createdByPut[r.Group], r.Resource)
}

// isNamespaces reports whether the objects are namespaces, or subresources of them.
func (r Resource) isNamespaces() bool { return r.Group == "" && r.Resource == "namespaces" }

// ValidateResources returns an error for each resource that cannot be listed.
func ValidateResources(resources []Resource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(path, "an inner door for nothing is a mistake"))
	}
	if len(resources) > MaxResources {
		errs = append(errs, field.TooMany(path, len(resources), MaxResources))
	}
	seen := map[Resource]bool{}
	for i, r := range resources {
		at := path.Index(i)
		if seen[r] {
			errs = append(errs, field.Duplicate(at, r.String()))
		}
		seen[r] = true
		errs = append(errs, r.validate(at)...)
	}
	return errs
}

func (r Resource) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Group != "" {
		for _, message := range validation.IsDNS1123Subdomain(r.Group) {
			errs = append(errs, field.Invalid(path.Child("group"), r.Group, message))
		}
	}
	for _, message := range validation.IsDNS1123Label(r.Resource) {
		errs = append(errs, field.Invalid(path.Child("resource"), r.Resource, message+". Wildcards cannot be listed"))
	}
	if r.Subresource != "" && !slices.Contains(subresources, r.Subresource) {
		errs = append(errs, field.NotSupported(path.Child("subresource"), r.Subresource, subresources))
	}
	if reason := r.neverListed(); reason != "" {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("%s cannot be listed: %s", r, reason)))
	}
	return errs
}

// neverListed returns the reason why a resource cannot be listed, or "".
func (r Resource) neverListed() string {
	//guard:inner-door-resources-proviso
	if r.Group == ownDomain || strings.HasSuffix(r.Group, "."+ownDomain) {
		return "Proviso serves it and evaluates conditions on it itself"
	}
	if r.Group == "" && r.Resource == "nodes" && r.Subresource != "" {
		return "kubelets check subresources of nodes for requests that do not reach admission"
	}
	if reason, ok := neverListed[r.Group]["*"]; ok {
		return reason
	}
	return neverListed[r.Group][r.Resource]
}

// IsListable reports whether the inner door could decide writes to the resource, if it were listed.
func (r Resource) IsListable() bool { return len(r.validate(nil)) == 0 }
