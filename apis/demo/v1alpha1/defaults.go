/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

import "k8s.io/utils/ptr"

// SetDefaults_VirtualMachineSpec gives a machine one processor.
func SetDefaults_VirtualMachineSpec(spec *VirtualMachineSpec) {
	if spec.CPUShare == nil {
		spec.CPUShare = ptr.To(1.0)
	}
}
