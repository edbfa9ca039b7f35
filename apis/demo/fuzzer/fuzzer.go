/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package fuzzer fills objects of demo.proviso.dev with random content that survives a
// round trip through every version.
package fuzzer

import (
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/proviso-authz/proviso/apis/demo"
)

// Funcs returns the functions for fields whose content must not be completely random.
func Funcs(_ runtimeserializer.CodecFactory) []any {
	return []any{
		func(spec *demo.VirtualMachineSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			// An empty share would be defaulted.
			spec.CPUShare = ptr.To(float64(1+c.Intn(1000)) / 8)
			// A server writes a quantity in its canonical form, such as 2k for 2000.
			memory := resource.MustParse(resource.NewQuantity(c.Int63(), resource.BinarySI).String())
			spec.Memory = ptr.To(memory.String())
		},
	}
}
