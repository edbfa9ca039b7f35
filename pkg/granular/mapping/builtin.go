/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/cel"
)

const builtInSource = "the built-in mapping"

// byPrefix makes the domain of a key, which ends at the first slash, the parameter.
var byPrefix = &policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentSlashDelimitedPrefix}

// builtIn are the permissions that fields of every object need (KEP-3617, "List of known fields wanting
// these features"). Finalizers and liens are parameterized as labels are, conditions by
// their type.
var builtIn = []policy.FieldPermission{
	{Path: "metadata", Permission: "metadata"},
	{Path: "metadata.labels", Permission: "labels"},
	{Path: "metadata.labels[*]", Permission: "label", Parameter: byPrefix},
	{Path: "metadata.annotations", Permission: "annotations"},
	{Path: "metadata.annotations[*]", Permission: "annotation", Parameter: byPrefix},
	{Path: "metadata.finalizers", Permission: "finalizers"},
	{Path: "metadata.finalizers[*]", Permission: "finalizer", Parameter: byPrefix},
	{Path: "metadata.liens", Permission: "liens"},
	{Path: "metadata.liens[*]", Permission: "lien", Parameter: byPrefix},
	{Path: "metadata.ownerReferences", Permission: "ownerReferences"},
	{Path: "spec", Permission: "specification"},
	{Path: "spec.replicas", Permission: "replicas"},
	{Path: "status", Permission: "status"},
	{Path: "status.conditions", Permission: "conditions"},
	{Path: "status.conditions[*]", Permission: "condition", Parameter: &policy.FieldPermissionParameter{Key: "type"}},
}

// builtInOfPods are the additional permissions of fields of pods.
var builtInOfPods = []policy.FieldPermission{
	{Path: "spec.nodeName", Permission: "nodeAssignment"},
	{Path: "spec.schedulePaused", Permission: "schedulingPause"},
}

var pods = schema.GroupResource{Resource: "pods"}

var compiledBuiltIn = sync.OnceValue(func() (result struct{ everywhere, pods []Rule }) {
	result.everywhere, result.pods = mustCompile(builtIn), mustCompile(builtInOfPods)
	return result
})

func builtInFor(resource schema.GroupResource) []Rule {
	rules := compiledBuiltIn()
	if resource == pods {
		return append(slices.Clip(rules.everywhere), rules.pods...)
	}
	return rules.everywhere
}

func mustCompile(fields []policy.FieldPermission) []Rule {
	var rules []Rule
	budget := cel.NewBudget()
	for i := range fields {
		r, _, errs := compileField(&fields[i], field.NewPath("fields").Index(i), budget)
		if len(errs) > 0 {
			panic(fmt.Sprintf("the built-in mapping is not valid: %v", errs.ToAggregate()))
		}
		r.source = builtInSource
		rules = append(rules, *r)
	}
	return rules
}
