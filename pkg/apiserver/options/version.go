/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"

	"github.com/proviso-authz/proviso/pkg/version"
)

// effectiveVersion makes /version return the version of Proviso. Feature gates and CEL libraries
// still use the version of the Kubernetes libraries.
type effectiveVersion struct {
	basecompatibility.EffectiveVersion
}

// Info returns the version of Proviso.
func (effectiveVersion) Info() *apimachineryversion.Info {
	info := version.Get()
	return &info
}
