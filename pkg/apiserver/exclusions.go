/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
)

// Exclusions finds the excluded fields that the feature gate FineGrainedAuthorization would
// enforce. It reads etcd directly, because without the gate the server has no endpoint for
// mappings.
type Exclusions struct {
	schemas Fields
	options *storagebackend.ConfigForResource
	prefix  string
	// serving is the context of the server, in which the connection to etcd lives.
	//nolint:containedctx // the connection outlives the call that opens it
	serving context.Context
	store   storage.Interface // nil until etcd has answered
}

// NewExclusions returns Exclusions whose connection to etcd stays open until ctx ends. It must stay
// open while the server runs: the storage layer checks once per etcd endpoint whether it supports
// progress requests, on its first connection to the endpoint. If that check fails, the store
// answers consistent lists instead of the watch cache, and each probe of it (pkg/controller) reads all
// objects.
func (c *Config) NewExclusions(ctx context.Context) (*Exclusions, error) {
	schemas, err := NewFields(c.GenericConfig.OpenAPIV3Config, nil)
	if err != nil {
		return nil, err
	}
	options, err := c.GenericConfig.RESTOptionsGetter.GetRESTOptions(policyapi.Resource("fieldpermissionmappings"), &policyapi.FieldPermissionMapping{})
	if err != nil {
		return nil, fmt.Errorf("options of the store: %w", err)
	}
	return &Exclusions{schemas: schemas, options: options.StorageConfig, prefix: "/" + options.ResourcePrefix, serving: ctx}, nil
}

// connect opens the connection. It fails if etcd does not answer.
func (e *Exclusions) connect() error {
	if e.store != nil {
		return nil
	}
	store, destroy, err := NewMappingStore(*e.options, e.prefix)
	if err != nil {
		return fmt.Errorf("client of the store: %w", err)
	}
	context.AfterFunc(e.serving, destroy)
	e.store = store
	return nil
}

// Sources returns the names of stored FieldPermissionMappings, and of schemas of this server, that
// exclude fields. An invalid mapping is included if it may exclude a field. It must not be called
// concurrently.
func (e *Exclusions) Sources(ctx context.Context) ([]string, error) {
	if err := e.connect(); err != nil {
		return nil, err
	}
	list := &policyapi.FieldPermissionMappingList{}
	if err := e.store.GetList(ctx, e.prefix, storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list); err != nil {
		return nil, fmt.Errorf("reading FieldPermissionMappings: %w", err)
	}
	mappings := make([]*policyapi.FieldPermissionMapping, 0, len(list.Items))
	for i := range list.Items {
		mappings = append(mappings, &list.Items[i])
	}
	return e.schemas.Markers.NewTable(mappings...).Excluding(), nil
}
