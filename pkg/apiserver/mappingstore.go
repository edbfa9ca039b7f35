/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
)

// NewMappingStore returns a client of the store of FieldPermissionMappings. hack/next has this file for the next version of
// the libraries.
func NewMappingStore(config storagebackend.ConfigForResource, prefix string) (storage.Interface, factory.DestroyFunc, error) {
	return factory.Create(config,
		func() runtime.Object { return &policyapi.FieldPermissionMapping{} },
		func() runtime.Object { return &policyapi.FieldPermissionMappingList{} }, prefix)
}
