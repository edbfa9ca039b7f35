/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier_test

import (
	"encoding/json"
	"sync"
	"testing"

	gocel "github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/costbound"
	"github.com/proviso-authz/proviso/test/testutil/barrierlaw"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var admissionEnv = sync.OnceValues(func() (*gocel.Env, error) {
	environment, err := cel.NewAdmissionEnvironment()
	if err != nil {
		return nil, err
	}
	return environment.Engine().Env, nil
})

// costs compares the bound of the cost of a barrier with the cost that cel-go counts.
type costs struct {
	bound   costbound.Bound
	program gocel.Program
}

// costsShare is the share of the policies whose cost is compared: compiling their expressions once more takes longer than all else.
const costsShare = 8

// costsOf returns nil if a policy has no barrier, or is not compared.
func (l *law) costsOf(tb testing.TB, b *barrier.Barrier) *costs {
	tb.Helper()
	if b.Policy == nil || l.compiled.Add(1)%costsShare != 1 {
		return nil
	}
	bound, err := costbound.Of(b.Policy)
	if err != nil {
		tb.Fatal(err)
	}
	env, err := admissionEnv()
	if err != nil {
		tb.Fatal(err)
	}
	checked, issues := env.Compile(b.Policy.Spec.Variables[0].Expression)
	if issues.Err() != nil {
		tb.Fatal(issues.Err())
	}
	program, err := env.Program(checked)
	if err != nil {
		tb.Fatal(err)
	}
	return &costs{bound: bound, program: program}
}

// compare evaluates the barrier for a write, and fails if it costs more than the bound.
func (c *costs) compare(tb testing.TB, l *law, w *barrierlaw.Write) {
	tb.Helper()
	if c == nil {
		return
	}
	attributes := w.Attributes()
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(attributes.GetKind()))
	object, size := unstructuredOf(tb, attributes.GetObject())
	oldObject, oldSize := unstructuredOf(tb, attributes.GetOldObject())
	requested, _ := unstructuredOf(tb, request)
	values := map[string]any{
		"object": object, "oldObject": oldObject, "request": requested, "namespaceObject": namespaceOf(tb, w, attributes),
		"authorizer": library.NewAuthorizerVal(w.User, l.checks),
	}
	_, details, _ := c.program.Eval(values)
	if details == nil || details.ActualCost() == nil {
		return
	}
	if cost, most := *details.ActualCost(), c.bound.Cost(max(size, oldSize)); cost > most && most < cel.CostLimit {
		tb.Errorf("cost %d, bound %d for %d bytes\nwrite: %v", cost, most, max(size, oldSize), w)
	}
}

// namespaceOf returns the namespace of a write, as an expression sees it.
func namespaceOf(tb testing.TB, w *barrierlaw.Write, attributes admission.Attributes) any {
	tb.Helper()
	for _, namespace := range barrierlaw.Namespaces {
		if namespace.Name == w.Namespace && attributes.GetResource().Resource != "namespaces" {
			object, _ := unstructuredOf(tb, plugincel.CreateNamespaceObject(namespace))
			return object
		}
	}
	return nil
}

// unstructuredOf returns an object as an expression sees it, and its size as JSON.
func unstructuredOf(tb testing.TB, object any) (any, int) {
	tb.Helper()
	if o, isObject := object.(runtime.Object); object == nil || isObject && o == nil {
		return nil, 0
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		tb.Fatal(err)
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		tb.Fatal(err)
	}
	return content, len(encoded)
}
