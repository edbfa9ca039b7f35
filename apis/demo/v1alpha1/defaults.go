/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import (
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/apis/demo/validation"
)

// SetDefaults_VirtualMachineSpec sets cpuShare to 1 if it is omitted, and converts memory to the
// canonical form of its quantity, as decoding does for fields of type Quantity, so that the same
// amount in another text, such as 1024Mi for 1Gi, is no change. It leaves invalid quantities to
// validation.
func SetDefaults_VirtualMachineSpec(spec *VirtualMachineSpec) {
	if spec.CPUShare == nil {
		spec.CPUShare = ptr.To(1.0)
	}
	if spec.Memory != nil {
		if quantity, err := validation.ParseMemory(*spec.Memory); err == nil {
			spec.Memory = ptr.To(quantity.String())
		}
	}
}
