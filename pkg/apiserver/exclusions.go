/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
)

// Exclusions returns the sources of the exclusions that the feature gate FineGrainedAuthorization would
// enforce: FieldPermissionMappings in the store, and schemas that the server serves. It reads etcd
// directly, because without the gate the server has no endpoint for mappings. A mapping that is not
// valid counts if it may exclude a field.
func (c *Config) Exclusions(ctx context.Context) ([]string, error) {
	schemas, err := NewFields(c.GenericConfig.OpenAPIV3Config, nil)
	if err != nil {
		return nil, err
	}
	options, err := c.GenericConfig.RESTOptionsGetter.GetRESTOptions(policyapi.Resource("fieldpermissionmappings"), &policyapi.FieldPermissionMapping{})
	if err != nil {
		return nil, fmt.Errorf("options of the store: %w", err)
	}
	prefix := "/" + options.ResourcePrefix
	store, destroy, err := factory.Create(*options.StorageConfig,
		func() runtime.Object { return &policyapi.FieldPermissionMapping{} },
		func() runtime.Object { return &policyapi.FieldPermissionMappingList{} }, prefix)
	if err != nil {
		return nil, fmt.Errorf("client of the store: %w", err)
	}
	defer destroy()
	list := &policyapi.FieldPermissionMappingList{}
	if err := store.GetList(ctx, prefix, storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list); err != nil {
		return nil, fmt.Errorf("reading FieldPermissionMappings: %w", err)
	}
	mappings := make([]*policyapi.FieldPermissionMapping, 0, len(list.Items))
	for i := range list.Items {
		mappings = append(mappings, &list.Items[i])
	}
	return schemas.Markers.NewTable(mappings...).Excluding(), nil
}
