/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// endpoint is a resource, or a subresource of it, to which requests are sent.
type endpoint struct {
	schema.GroupResource
	subresource string
}

func (p endpoint) String() string {
	if p.subresource == "" {
		return p.GroupResource.String()
	}
	return schema.GroupResource{Group: p.Group, Resource: p.Resource + "/" + p.subresource}.String()
}

// indirectWrite says that creations and updates at one endpoint change fields of a resource, although the object of the request does not have
// these fields as the resource has them. So the fields cannot be compared, and every such write needs the permission of an exclusion.
type indirectWrite struct {
	by endpoint
	of schema.GroupResource
	// fields are the fields that the write may change. An empty path stands for the whole object.
	fields []fieldpath.Path
	// merged are fields that the object of the request has, too, but without their old values. The write needs the permission of an
	// exclusion that depends on values.
	merged []fieldpath.Path
	// hasRules says that the other rules of the resource apply to the fields of the request, too.
	hasRules bool
}

var (
	bindings      = schema.GroupResource{Resource: "bindings"}
	events        = schema.GroupResource{Resource: "events"}
	eventsOfGroup = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	budgets       = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}

	finalizers = fieldpath.MakePathOrDie("metadata", "finalizers")
	conditions = fieldpath.MakePathOrDie("status", "conditions")

	boundFields  = []fieldpath.Path{fieldpath.MakePathOrDie("spec", "nodeName"), conditions, fieldpath.MakePathOrDie("status", "nominatedNodeName")}
	mergedFields = []fieldpath.Path{fieldpath.MakePathOrDie("metadata", "labels"), fieldpath.MakePathOrDie("metadata", "annotations")}
)

// indirectWrites are the indirect writes of kube-apiserver, except scale. TestStorages in test/e2e/managed compares them with its discovery.
var indirectWrites = []indirectWrite{
	{by: endpoint{bindings, ""}, of: pods, fields: boundFields, merged: mergedFields, hasRules: true},
	{by: endpoint{pods, "binding"}, of: pods, fields: boundFields, merged: mergedFields},
	{by: endpoint{pods, "binding"}, of: bindings, hasRules: true},
	{by: endpoint{pods, "eviction"}, of: pods, fields: []fieldpath.Path{conditions, finalizers}},
	{by: endpoint{pods, "eviction"}, of: budgets, fields: []fieldpath.Path{fieldpath.MakePathOrDie("status")}},
	{by: endpoint{events, ""}, of: eventsOfGroup, fields: []fieldpath.Path{{}}}, // both are the same objects
	{by: endpoint{eventsOfGroup, ""}, of: events, fields: []fieldpath.Path{{}}},
}

// scaled are the resources of kube-apiserver with the subresource scale, which writes spec.replicas.
var scaled = []schema.GroupResource{
	{Resource: "replicationcontrollers"}, {Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "replicasets"}, {Group: "apps", Resource: "statefulsets"},
}

// scaleOf returns the indirect write of the subresource scale. Of a custom resource, whose group has a dot, it writes the field of spec that
// the CustomResourceDefinition names. Of no resource does kube-apiserver show admission the managers that it writes.
func scaleOf(resource schema.GroupResource) (w indirectWrite) {
	w = indirectWrite{by: endpoint{resource, "scale"}, of: resource}
	switch {
	case slices.Contains(scaled, resource):
		w.fields = []fieldpath.Path{fieldpath.MakePathOrDie("spec", "replicas")}
	//guard:granular-scale-custom-resources
	case strings.Contains(resource.Group, "."):
		w.fields = []fieldpath.Path{fieldpath.MakePathOrDie("spec")}
	}
	return w
}

// indirectWritesBy returns the indirect writes of requests at an endpoint.
func indirectWritesBy(p endpoint) (writes []indirectWrite) {
	if p.subresource == "scale" {
		return []indirectWrite{scaleOf(p.GroupResource)}
	}
	for _, w := range indirectWrites {
		if w.by == p {
			writes = append(writes, w)
		}
	}
	return writes
}

// indirectWritesOf returns the indirect writes that change a resource.
func indirectWritesOf(resource schema.GroupResource) []indirectWrite {
	writes := []indirectWrite{scaleOf(resource)}
	for _, w := range indirectWrites {
		if w.of == resource {
			writes = append(writes, w)
		}
	}
	return writes
}

// changes reports whether the write may change a field of an exclusion that the object of the request does not show.
func (w indirectWrite) changes(r *Rule) bool {
	//guard:granular-indirect-writes
	return r.excluded && (touches(r.pattern, w.fields) || r.newValues != nil && touches(r.pattern, w.merged))
}

// touches reports whether a pattern matches one of the fields, a field that contains it or one inside.
func touches(p pattern, fields []fieldpath.Path) bool {
	return slices.ContainsFunc(fields, func(f fieldpath.Path) bool { return p.covers(f) || p.isBelow(f) })
}

// without returns the rules by which exclusions protect the fields that the write changes without showing them, from the rules of the
// resource. A rule for every write of the resource is not repeated for its subresources.
func (w indirectWrite) without(rules []Rule) (result []Rule) {
	for i := range rules {
		r := &rules[i]
		if w.changes(r) && (len(r.pattern) > 0 || w.of != w.by.GroupResource) {
			result = append(result, r.withoutPath(w.by.String()))
		}
	}
	return result
}

// indirectRules returns the rules that an endpoint has in addition to the rules of its resource.
func (t *Table) indirectRules(p endpoint, version string) (result []Rule) {
	for _, w := range indirectWritesBy(p) {
		rules := t.directRules(w.of.WithVersion(version))
		result = append(result, w.without(rules)...)
		//guard:granular-rules-bindings
		if w.hasRules {
			result = append(result, slices.DeleteFunc(rules, func(r Rule) bool { return r.source == builtInSource })...)
		}
	}
	return result
}

// excludingResources returns the resources whose exclusions apply to requests for a resource or its subresources.
func excludingResources(resource schema.GroupResource) []schema.GroupResource {
	resources := []schema.GroupResource{resource}
	for _, w := range indirectWrites {
		//guard:granular-resources-exclusions-others
		if w.by.GroupResource == resource && w.of != resource {
			resources = append(resources, w.of)
		}
	}
	return resources
}

// deletions are the fields that the deletion of an object changes while its finalizers keep it.
var deletions = []struct {
	of     schema.GroupResource // empty stands for all resources
	fields []fieldpath.Path
	reason string
}{
	{fields: []fieldpath.Path{finalizers}, reason: "a deletion may add or remove the finalizers orphan and foregroundDeletion"},
	{of: schema.GroupResource{Resource: "namespaces"}, fields: []fieldpath.Path{fieldpath.MakePathOrDie("status", "phase")}, reason: "the deletion of a namespace changes status.phase"},
	{
		of: schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, fields: []fieldpath.Path{conditions},
		reason: "the deletion of a CustomResourceDefinition changes status.conditions",
	},
}

const reasonVersions = "a write in a version whose schema lacks the field, or has it elsewhere, may change it: name the apiVersions in which the objects have it"

// Unseen returns why some requests change the field although the exclusion does not apply to them.
func (e Exclusion) Unseen() (reasons []string) {
	if e.Path == "" {
		return nil
	}
	//guard:granular-exclusions-without-versions
	if e.Others && len(e.Except) == 0 && e.Resource.Group != "" { // the core group has one version
		reasons = append(reasons, reasonVersions)
	}
	p := make(pattern, 0, len(e.Names))
	for _, name := range e.Names {
		p = append(p, step{kind: stepName, name: name})
	}
	for _, d := range deletions {
		if (d.of.Empty() || d.of == e.Resource) && touches(p, d.fields) {
			reasons = append(reasons, d.reason)
		}
	}
	return reasons
}

// withoutPath returns the rule by which an exclusion protects its field from requests whose objects do not have the field, or have it
// elsewhere: in another version, or at another endpoint. So the rule excludes every write. If the permission has a parameter, it cannot be
// derived without the path of the field, and the rule is broken: it denies every write.
func (r *Rule) withoutPath(where string) Rule {
	everything := Rule{permission: r.permission, excluded: true, source: r.source, broken: r.broken, field: r.field}
	if r.broken == "" && r.parameter != nil {
		everything.broken = fmt.Sprintf("%s excludes a field, but has no path for it in %s", r.source, where)
	}
	return everything
}
