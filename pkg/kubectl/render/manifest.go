/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proviso-authz/proviso/pkg/barrier"
)

// manifests returns the objects of barriers in the form in which users write them: each policy before its binding, without what servers
// set. Barriers without objects are left out.
func manifests(barriers []*barrier.Barrier) ([]map[string]any, error) {
	var objects []map[string]any
	for _, b := range barriers {
		if b.Policy == nil {
			continue
		}
		for _, object := range []runtime.Object{b.Policy, b.Binding} {
			fields, err := plain(object)
			if err != nil {
				return nil, err
			}
			objects = append(objects, fields)
		}
	}
	return objects, nil
}

// plain returns the fields of an object without what servers set.
func plain(object runtime.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(fields, "status")
	return fields, nil
}
