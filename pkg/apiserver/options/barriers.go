/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

// defaultNamespace is the namespace of Proviso in artifacts/.
const defaultNamespace = "proviso-system"

// BarrierOptions are the options of barriers.
type BarrierOptions struct {
	// Enabled has the server write barriers.
	Enabled bool
	// Namespace is the namespace of Proviso.
	Namespace string
}

// NewBarrierOptions returns the defaults: the server writes no barriers.
func NewBarrierOptions() *BarrierOptions { return &BarrierOptions{Namespace: defaultNamespace} }

// AddFlags adds the flags of the options to a set.
func (o *BarrierOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Enabled, "barriers", o.Enabled,
		"Write a ValidatingAdmissionPolicy and a binding for each Deny policy, and for the exclusions of each FieldPermissionMapping, by which kube-apiserver enforces them on the resources that it serves. Needs the permissions of artifacts/barriers. Before you turn it off, see docs/barriers.md: written barriers stay, and policies and mappings that have one cannot be deleted until the command remove-barriers has removed it.")
	fs.StringVar(&o.Namespace, "barriers-namespace", o.Namespace,
		"The namespace of Proviso, which has the Lease of the replica that writes barriers. Its service account proviso-apiserver is exempt from barriers.")
}

// Validate returns all errors in the options.
func (o *BarrierOptions) Validate() []error {
	if !o.Enabled {
		return nil
	}
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		return []error{fmt.Errorf("--barriers-namespace %q: %s", o.Namespace, strings.Join(problems, ", "))}
	}
	return nil
}

// config returns the configuration of barriers, or nil if they are disabled. The identities that the doors leave out are exempt from
// barriers, too. innerDoor is nil without an inner door.
func (o *BarrierOptions) config(innerDoor *manifest.Config) *apiserver.BarriersConfig {
	if !o.Enabled {
		return nil
	}
	config := &apiserver.BarriersConfig{Namespace: o.Namespace, Exempt: manifest.DefaultIdentities(o.Namespace)}
	if innerDoor != nil && len(innerDoor.Identities.Users)+len(innerDoor.Identities.Groups) > 0 {
		config.Exempt = innerDoor.Identities
	}
	return config
}
