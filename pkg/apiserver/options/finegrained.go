/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"fmt"

	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/features"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// applyFineGrained returns the configuration of the authorizers for permission on fields
// (KEP-3617). It returns nil if the gate FineGrainedAuthorization or ConditionalAuthorization is off.
func (o CompletedOptions) applyFineGrained(config *apiserver.Config) (*granular.Config, error) {
	gates := config.GenericConfig.FeatureGate
	if !gates.Enabled(features.FineGrainedAuthorization) || !gates.Enabled(features.ConditionalAuthorization) {
		return nil, nil
	}
	kubeAPIServer, err := loadClientConfig(o.CoreAPI.CoreAPIKubeconfigPath)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	schemas, err := apiserver.NewFields(config.GenericConfig.OpenAPIV3Config, kubeAPIServer)
	if err != nil {
		return nil, err
	}
	for _, warning := range schemas.Markers.Warnings() {
		klog.Background().Info("A schema has a field marker that should be corrected", "warning", warning)
	}
	config.ExtraConfig.Mappings = mapping.NewSource(schemas.Markers)
	if frontDoor := config.ExtraConfig.FrontDoor; frontDoor != nil {
		// Only one attempt: kube-apiserver, which calls the front door, does not wait for more.
		if frontDoor.Fields, err = o.Authorization.kubeAPIServer(o.Authorization.AllowCacheTTL, o.Authorization.DenyCacheTTL, 1); err != nil {
			return nil, err
		}
	}
	return &granular.Config{Types: schemas.Types, Mappings: config.ExtraConfig.Mappings}, nil
}
