/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package guard writes the guard: a static ValidatingAdmissionPolicy with which kube-apiserver refuses changes of barriers by all users but
// Proviso.
//
// Invariants:
//
//   - The guard refuses only writes of ValidatingAdmissionPolicies and their bindings that are marked as barriers, or that have the name
//     of a barrier.
//   - It refuses no update without a change, such as those that migrate stored objects, and no write of a status.
//
// The package writes to no cluster: kube-apiserver reads the manifest from a file.
package guard

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

// Name is the name of the guard. kube-apiserver requires the suffix of static objects.
const Name = "barriers.proviso.dev.static.k8s.io"

// serviceAccount is the name of Proviso's ServiceAccount.
const serviceAccount = "proviso-apiserver"

const message = "this object is a barrier, which Proviso generates from a Deny policy or a mapping: change or delete that instead"

// isBarrier returns an expression that is true for a barrier or the sentinel, by its label or its name. variable is object or oldObject.
func isBarrier(variable string) string {
	var names []string // an object that is created with generateName has none yet
	for _, suffix := range barrier.NameSuffixes() {
		names = append(names, fmt.Sprintf("%s.metadata.?name.orValue(\"\").endsWith(%s)", variable, strconv.Quote(suffix)))
	}
	names = append(names, fmt.Sprintf("%s.metadata.?name.orValue(\"\") == %s", variable, strconv.Quote(barrier.SentinelName)))
	return fmt.Sprintf("(%s != null && (%s.metadata.?labels[%s].orValue(\"\") == %s || %s))",
		variable, variable, strconv.Quote(barrier.ManagedByLabel), strconv.Quote(barrier.ManagedBy), strings.Join(names, " || "))
}

// isUnchanged is true for an update that changes nothing but fields that the API server manages.
func isUnchanged() string {
	operands := []string{`request.operation == "UPDATE"`, "object.spec == oldObject.spec"}
	for _, field := range []struct{ name, empty string }{{"labels", "{}"}, {"annotations", "{}"}, {"finalizers", "[]"}, {"ownerReferences", "[]"}} {
		operands = append(operands, fmt.Sprintf("object.metadata.?%s.orValue(%s) == oldObject.metadata.?%s.orValue(%s)", field.name, field.empty, field.name, field.empty))
	}
	return strings.Join(operands, " && ")
}

// New returns the policy and the binding of the guard. namespace is the namespace of Proviso.
func New(namespace string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, error) {
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return nil, nil, fmt.Errorf("namespace %q: %s", namespace, strings.Join(problems, ", "))
	}
	proviso := serviceaccount.MakeUsername(namespace, serviceAccount)
	meta := metav1.ObjectMeta{Name: Name}
	policy := barrier.NewPolicy(meta, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{
			MatchPolicy: ptr.To(admissionregistrationv1.Exact),
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{barrier.NewRule(
				[]string{admissionregistrationv1.GroupName}, []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, ptr.To(admissionregistrationv1.ClusterScope),
				admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete,
			)},
		},
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "not-proviso", Expression: "request.userInfo.username != " + strconv.Quote(proviso)},
			{Name: "barriers", Expression: isBarrier("object") + " || " + isBarrier("oldObject")},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: isUnchanged(), Message: message, Reason: ptr.To(metav1.StatusReasonForbidden)}},
	})
	return policy, barrier.NewBinding(meta, nil, admissionregistrationv1.Deny), nil
}

// Manifest returns the guard as a file for the directory of static manifests.
func Manifest(namespace string) ([]byte, error) {
	policy, binding, err := New(namespace)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for i, object := range []any{policy, binding} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		delete(fields, "status")
		content, err := yaml.Marshal(fields)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(content)
	}
	return text.Bytes(), nil
}
