/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/randfill"

	"github.com/proviso-authz/proviso/pkg/cel"
)

// builtInKinds makes an empty object of each kind that the oracle evaluates with its Go type in the
// process, and as it is decoded from JSON elsewhere.
var builtInKinds = []func() runtime.Object{
	func() runtime.Object { return &corev1.Pod{} },
	func() runtime.Object { return &corev1.Service{} },
	func() runtime.Object { return &corev1.ConfigMap{} },
	func() runtime.Object { return &corev1.Secret{} },
	func() runtime.Object { return &corev1.PersistentVolumeClaim{} },
	func() runtime.Object { return &corev1.Node{} },
	func() runtime.Object { return &appsv1.Deployment{} },
	func() runtime.Object { return &batchv1.Job{} },
	func() runtime.Object { return &networkingv1.NetworkPolicy{} },
	func() runtime.Object { return &rbacv1.ClusterRole{} },
}

// typedInput is an object of a built-in kind and what it is decoded to.
type typedInput struct {
	object  runtime.Object
	decoded map[string]any
}

// typedInputs are objects of all built-in kinds, of each one that is nearly empty and some with
// fields at random.
func typedInputs(tb testing.TB) []typedInput {
	tb.Helper()
	const each = 4
	filler := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 2).Funcs(metafuzzer.Funcs(serializer.NewCodecFactory(runtime.NewScheme()))...)
	var inputs []typedInput
	for _, kind := range builtInKinds {
		for i := range each {
			object := kind()
			if i > 0 {
				filler.Fill(object)
			}
			accessor, err := meta.Accessor(object)
			if err != nil {
				tb.Fatal(err)
			}
			accessor.SetName("web")
			accessor.SetLabels(map[string]string{"owner": "alice", "web": "web", "": "x"})
			inputs = append(inputs, typedInput{object: object, decoded: decoded(tb, object)})
		}
	}
	return inputs
}

// decoded is an object as it is decoded from JSON.
func decoded(tb testing.TB, object runtime.Object) map[string]any {
	tb.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	var data map[string]any
	if err := utiljson.Unmarshal(text, &data); err != nil {
		tb.Fatal(err)
	}
	return data
}

// input is what is unknown at authorization, as the process and as a reader of JSON has it.
type input struct {
	values cel.Values
	// typed is the object in the process, if it has a type there.
	typed runtime.Object
}

// inProcess returns the values that the process evaluates, for one evaluation.
func (in input) inProcess() cel.Values {
	values := make(cel.Values, len(in.values)+2)
	for name, value := range in.values {
		values[name] = value
	}
	if in.typed != nil {
		values[cel.Object] = (&cel.ObjectReader{}).Read(in.typed)
	}
	return values
}
