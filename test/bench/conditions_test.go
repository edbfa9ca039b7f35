/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// evaluated are expressions that both sides evaluate to true.
var evaluated = []struct{ name, expression string }{
	{"field", `object.spec.storageClassName == "dev"`},
	{"medium", `object.spec.storageClassName in ["dev", "test"] && has(object.metadata.labels.team) && object.metadata.name.startsWith("web-") && !has(object.spec.nodeName)`},
	{"macro", `object.spec.storageClassName == "dev" && object.spec.disks.all(d, d.sizeGiB <= 100.0 && d.name.startsWith("data-"))`},
	{"labels", `object.metadata.labels.all(k, k.startsWith("example.com/") || object.metadata.labels[k] != "")`},
}

// machine is an object of about two kilobytes.
func machine(b *testing.B) *demov1alpha1.VirtualMachine {
	b.Helper()
	vm := &demov1alpha1.VirtualMachine{
		TypeMeta: metav1.TypeMeta{APIVersion: "demo.proviso.dev/v1alpha1", Kind: "VirtualMachine"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "n", UID: "0d3a7f3e-7a56-4bd5-8a7d-5d2b3f6d7c11", ResourceVersion: "123456", Generation: 3,
			Labels: map[string]string{"team": "web"}, Annotations: map[string]string{"example.com/note": strings.Repeat("x", 400)},
			Finalizers: []string{"example.com/protect"},
		},
		Spec: demov1alpha1.VirtualMachineSpec{Image: "debian-12", StorageClassName: "dev", Tags: []string{"a", "b", "c"}},
	}
	for i := range 8 {
		vm.Labels[fmt.Sprintf("example.com/label-%d", i)] = fmt.Sprintf("value-%d", i)
		vm.Spec.Disks = append(vm.Spec.Disks, demov1alpha1.VirtualMachineDisk{Name: fmt.Sprintf("data-%d", i), SizeGiB: 10, StorageClassName: "dev"})
		vm.Status.Conditions = append(vm.Status.Conditions, metav1.Condition{Type: fmt.Sprintf("Condition%d", i), Status: metav1.ConditionTrue, Reason: "Fine"})
	}
	text, err := json.Marshal(vm)
	if err != nil {
		b.Fatal(err)
	}
	if len(text) < 1800 || len(text) > 2600 {
		b.Fatalf("the object has %d bytes", len(text))
	}
	return vm
}

func untyped(b *testing.B, object runtime.Object) *unstructured.Unstructured {
	b.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		b.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// admitted is an update as admission sees it. Both sides get it, and with it the objects as
// they are: what they make of them belongs to what is measured.
func admitted(object runtime.Object) admission.Attributes {
	kind := schema.GroupVersionKind{Group: "demo.proviso.dev", Version: "v1alpha1", Kind: "VirtualMachine"}
	resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "virtualmachines"}
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}}
	return admission.NewAttributesRecord(object, object, kind, "n", "web-1", resource, "", admission.Update, &metav1.UpdateOptions{}, false, alice)
}

// BenchmarkCondition is one evaluation of one condition in process, and beside it that of
// the same expression in a ValidatingAdmissionPolicy. Both are compiled beforehand, and read
// the object anew.
func BenchmarkCondition(b *testing.B) {
	vm := machine(b)
	for _, e := range evaluated {
		for _, o := range []struct {
			name   string
			object runtime.Object
		}{{"typed", vm}, {"unstructured", untyped(b, vm)}} {
			b.Run(fmt.Sprintf("expression=%s/object=%s", e.name, o.name), func(b *testing.B) {
				b.Run("by=policy", func(b *testing.B) { evaluatePolicy(b, e.expression, o.object) })
				b.Run("by=admission-policy", func(b *testing.B) { evaluateAdmissionPolicy(b, e.expression, o.object) })
			})
		}
	}
}

func evaluatePolicy(b *testing.B, expression string, object runtime.Object) {
	b.Helper()
	condition, data := conditionOf(b, expression), admitted(object)
	defer reportCPU(b)()
	for b.Loop() {
		if outcome := condition.EvaluateFunc(b.Context(), data); !outcome.IsTrue() {
			b.Fatal(outcome.Err())
		}
	}
}

// reportCPU reports allocations, and the processor time of the process per operation, garbage
// collection included: unlike the time that passes, others on the machine add nothing to it.
func reportCPU(b *testing.B) func() {
	b.Helper()
	b.ReportAllocs()
	start := processorTime(b)
	return func() { b.ReportMetric(float64(processorTime(b)-start)/float64(b.N), "cpu-ns/op") }
}

func processorTime(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// nobody answers the checks of conditions, of which those that are measured make none.
var nobody = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
})

// conditionOf is the condition that is left of a policy.
func conditionOf(b *testing.B, expression string) authorization.Condition {
	b.Helper()
	compiler := compilers.Policies(b)
	key := engine.Key{Name: "p"}
	policy, err := engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
		Effect: policyv1alpha1.PolicyEffectAllow, Condition: expression,
		Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}},
	}, compiler)
	if err != nil {
		b.Fatal(err)
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(map[engine.Key]*engine.Policy{key: policy}))
	granting := &engine.Authorizer{Source: source, Part: engine.Granting, Checks: nobody}
	attributes := admitted(nil)
	conditions := granting.Decide(b.Context(), authorizer.AttributesRecord{
		User: attributes.GetUserInfo(), Verb: "update", APIGroup: "demo.proviso.dev", APIVersion: "v1alpha1", Resource: "virtualmachines",
		Namespace: attributes.GetNamespace(), Name: attributes.GetName(), ResourceRequest: true,
	}).Conditions()
	if len(conditions) != 1 {
		b.Fatalf("%d conditions", len(conditions))
	}
	return conditions[0]
}

// validation is an expression of an admission policy.
type validation string

func (v validation) GetExpression() string      { return string(v) }
func (v validation) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.BoolType} }

func evaluateAdmissionPolicy(b *testing.B, expression string, object runtime.Object) {
	b.Helper()
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		b.Fatal(err)
	}
	evaluator := compiler.CompileCondition([]admissioncel.ExpressionAccessor{validation(expression)},
		admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	bindings := admissioncel.OptionalVariableBindings{Authorizer: nobody}
	attributes := admitted(object)
	gvk, gvr := attributes.GetKind(), attributes.GetResource()
	// The request is made once for all policies that look at it, the versioned objects too,
	// but those are read anew.
	request := admissioncel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(gvk))
	defer reportCPU(b)()
	for b.Loop() {
		versioned := &admission.VersionedAttributes{
			Attributes: attributes, VersionedKind: gvk,
			VersionedObject: admission.NewLazyObject(attributes.GetObject()), VersionedOldObject: admission.NewLazyObject(attributes.GetOldObject()),
		}
		results, _, err := evaluator.ForInput(b.Context(), versioned, request, bindings, nil, celconfig.RuntimeCELCostBudget)
		if err != nil || results[0].EvalResult != types.True {
			b.Fatal(results, err)
		}
	}
}
