/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel/presence"
)

const (
	// maxKinds bounds the kinds that a policy is checked against, as Kubernetes does for
	// its policies: each takes an environment of its own.
	maxKinds = 10
	// maxText bounds the bytes of expressions that are checked for a policy, once for each
	// kind: 10 KiB can take a tenth of a second. A policy is checked for one kind even if
	// its text is longer, as it is compiled when it is written.
	maxText = 512 << 10
	// maxLookups bounds the lookups of resources for one policy. Most of the resources may be unknown.
	maxLookups = 256
	// maxFailures ends a check: each failure may have taken as long as a timeout, and the
	// policy is checked again anyway.
	maxFailures = 3
)

// Kinds knows the kinds of resources; a meta.RESTMapper does.
type Kinds interface {
	// KindsFor returns the kinds of a resource: in its version, or in all versions if that
	// is empty. The error for an unknown resource is a meta.NoKindMatchError or
	// meta.NoResourceMatchError, or none; all others mean that there may be more kinds than
	// are returned. Kinds of other groups and versions are ignored.
	KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error)
}

// kindsOf returns the kinds of the resources that the rules of a policy name, sorted, with the verbs that the
// rules name for them. After an error there may be more kinds. If there are too many, it returns the kinds that are named first. isComplete says
// that objects of the rules have no other kinds.
func kindsOf(kinds Kinds, policy *policyv1alpha1.AuthorizationPolicySpec) (found []schema.GroupVersionKind, verbs map[schema.GroupVersionKind]sets.Set[string], isComplete bool, failures []error) {
	text := len(policy.Condition)
	for i := range policy.Variables {
		text += len(policy.Variables[i].Expression)
	}
	limit := max(1, min(maxKinds, maxText/max(1, text)))
	s := search{kinds: kinds, limit: limit, seen: map[schema.GroupVersionResource][]schema.GroupVersionKind{}, failed: map[string]bool{}, verbs: map[schema.GroupVersionKind]sets.Set[string]{}}
	isComplete = true
	for i := range policy.Rules {
		isComplete = isComplete && namesKinds(&policy.Rules[i])
		for resource := range resourcesOf(&policy.Rules[i]) {
			if s.isOver() {
				break
			}
			of := s.add(resource)
			isComplete = isComplete && len(of) > 0
			for _, kind := range of {
				if s.verbs[kind] == nil {
					s.verbs[kind] = sets.New[string]()
				}
				s.verbs[kind].Insert(verbsOf(policy.Rules[i].Verbs)...)
			}
		}
	}
	slices.SortFunc(s.found, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return s.found, s.verbs, isComplete && !s.isOver() && len(s.failures) == 0, s.failures
}

// namesKinds reports whether the names in a rule decide which kinds its objects have.
func namesKinds(rule *policyv1alpha1.PolicyRule) bool {
	return !slices.Contains(rule.APIGroups, "*") && !slices.ContainsFunc(rule.Resources, func(name string) bool {
		return strings.ContainsAny(strings.TrimSuffix(name, "/status"), "*/")
	})
}

// writes are the verbs of requests with an object, with their operations. An update or a patch that creates an object counts as an update.
var writes = map[string]string{
	"create": presence.Create, "update": presence.Update, "patch": presence.Update, "delete": presence.Delete, "deletecollection": presence.Delete,
}

// verbsOf returns the verbs of a rule, all writes for *.
func verbsOf(verbs []string) []string {
	if slices.Contains(verbs, "*") {
		return slices.Collect(maps.Keys(writes))
	}
	return verbs
}

// resourcesOf yields the resources that a rule names without wildcard, with an empty version if it names none. Of the
// subresources it yields only status, which has the kind of its resource. The kinds of other subresources are
// unknown: they may be options of a connection.
func resourcesOf(rule *policyv1alpha1.PolicyRule) iter.Seq[schema.GroupVersionResource] {
	groups, resources := concrete(rule.APIGroups), concrete(rule.Resources)
	versions := concrete(rule.APIVersions)
	if len(versions) == 0 || slices.Contains(rule.APIVersions, "*") {
		versions = []string{""}
	}
	return func(yield func(schema.GroupVersionResource) bool) {
		for _, group := range groups {
			for _, resource := range resources {
				for _, version := range versions {
					if !yield(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}) {
						return
					}
				}
			}
		}
	}
}

// concrete returns the distinct names without wildcards and subresources. The list may be long.
func concrete(names []string) []string {
	var result []string
	seen := map[string]bool{}
	for _, name := range names {
		name = strings.TrimSuffix(name, "/status")
		if strings.ContainsAny(name, "*/") || seen[name] {
			continue
		}
		seen[name] = true
		result = append(result, name)
	}
	return result
}

// search is the state of kindsOf.
type search struct {
	kinds    Kinds
	limit    int // of found
	seen     map[schema.GroupVersionResource][]schema.GroupVersionKind
	failed   map[string]bool
	found    []schema.GroupVersionKind
	failures []error
	// verbs are the verbs of the rules about each kind that is found.
	verbs map[schema.GroupVersionKind]sets.Set[string]
}

func (s *search) isOver() bool {
	return len(s.found) >= s.limit || len(s.seen) >= maxLookups || len(s.failures) >= maxFailures
}

// add looks up a resource, and returns its kinds. A group that failed is not asked again.
func (s *search) add(resource schema.GroupVersionResource) (of []schema.GroupVersionKind) {
	if of, isSeen := s.seen[resource]; isSeen {
		return of
	}
	defer func() { s.seen[resource] = of }()
	if s.failed[resource.Group] {
		return nil
	}
	kinds, err := s.kinds.KindsFor(resource)
	if err != nil && !meta.IsNoMatchError(err) {
		s.failed[resource.Group] = true
		s.failures = append(s.failures, fmt.Errorf("the kind of %s: %w", resource.GroupResource(), err))
	}
	for _, kind := range kinds {
		// A mapper may take a group for a prefix, and the core group for any.
		matches := kind.Group == resource.Group && (resource.Version == "" || kind.Version == resource.Version)
		if matches && len(s.found) < s.limit && !slices.Contains(s.found, kind) {
			s.found = append(s.found, kind)
		}
		if matches && slices.Contains(s.found, kind) {
			of = append(of, kind)
		}
	}
	return of
}
