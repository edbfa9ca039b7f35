/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// metadataOfStatus are the resources whose metadata kube-apiserver lets writes of the subresource status change, by their group. A status of
// a custom resource, and of the other built-in resources, is written without metadata.
var metadataOfStatus = map[string][]string{
	"":                    {"namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "replicationcontrollers", "resourcequotas", "services"},
	"apps":                {"daemonsets", "deployments", "replicasets", "statefulsets"},
	"autoscaling":         {"horizontalpodautoscalers"},
	"batch":               {"cronjobs", "jobs"},
	"certificates.k8s.io": {"certificatesigningrequests"},
	"networking.k8s.io":   {"ingresses"},
	"policy":              {"poddisruptionbudgets"},
}

// keptByStatus are the fields of metadata that such writes leave as they are.
var keptByStatus = map[string]string{"deployments": "labels", "pods": "ownerReferences"}

// statusMistakes returns a warning for each resource of a Deny policy whose condition reads metadata, if the policy leaves out the writes of
// the status, which can change the same metadata.
func (s *search) statusMistakes(spec *policyv1alpha1.AuthorizationPolicySpec) (warnings []policyv1alpha1.ExpressionWarning) {
	if spec.Effect != policyv1alpha1.PolicyEffectDeny || s.evaluate(s.expression, cel.Values{cel.Operation: cel.Known("UPDATE")}) == isFalse {
		return nil
	}
	var fields []string
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		if s.expression.ReadsField("metadata", name) {
			fields = append(fields, name)
		}
	}
	for i := range spec.Rules {
		for j, resource := range spec.Rules[i].Resources {
			read := slices.DeleteFunc(slices.Clone(fields), func(name string) bool { return name == keptByStatus[resource] })
			if len(read) == 0 || !updates(&spec.Rules[i]) || !slices.ContainsFunc(spec.Rules[i].APIGroups, func(group string) bool { return misses(spec, group, resource) }) {
				continue
			}
			warnings = append(warnings, warningAt(field.NewPath("spec", "rules").Index(i).Child("resources").Index(j),
				"the condition reads metadata.%s, which a write of %s/status can change, too: add %[2]s/status to the resources, with a condition that lets writes of the status itself pass", strings.Join(read, ", metadata."), resource))
		}
	}
	return warnings
}

// updates reports whether a rule describes updates.
func updates(rule *policyv1alpha1.PolicyRule) bool {
	return slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb == "*" || verb == "update" || verb == "patch" })
}

// misses reports whether writes of the status of a resource can change metadata, and no rule of a policy describes them.
func misses(spec *policyv1alpha1.AuthorizationPolicySpec, group, resource string) bool {
	return slices.Contains(metadataOfStatus[group], resource) && !slices.ContainsFunc(spec.Rules, func(rule policyv1alpha1.PolicyRule) bool {
		return updates(&rule) && slices.ContainsFunc(rule.APIGroups, func(g string) bool { return g == "*" || g == group }) &&
			slices.ContainsFunc(rule.Resources, func(r string) bool { return r == "*" || r == "*/status" || r == resource+"/status" })
	})
}
