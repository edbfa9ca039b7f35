/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package store stores objects for the tests of a package in one etcd. Each test has a prefix of its own.
package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/proviso-authz/proviso/pkg/etcd"
)

// endpoint is the address of the etcd.
var endpoint string

// Main runs the tests of a package while etcd runs. TestMain calls it.
func Main(m *testing.M) {
	if err := run(m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(m *testing.M) error {
	dir, err := os.MkdirTemp("", "st") // short enough for a socket
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	member, err := etcd.Start(context.Background(), data)
	if err != nil {
		return err
	}
	defer func() { _ = member.Close() }()
	if endpoint, err = etcd.Endpoint(data); err != nil {
		return err
	}
	m.Run() // it sets the exit code
	return nil
}

// Scheme returns a scheme with a group in all of its versions, and the options of requests in one version.
func Scheme(install func(*runtime.Scheme), version schema.GroupVersion) *runtime.Scheme {
	scheme := runtime.NewScheme()
	install(scheme)
	metav1.AddToGroupVersion(scheme, version)
	return scheme
}

// Prefix is the prefix of the keys of a test's objects.
func Prefix(tb testing.TB) string {
	tb.Helper()
	return "/" + strings.NewReplacer("/", "-", "#", "-").Replace(tb.Name())
}

// Options returns the options for a store of a resource, which is stored in one version. The objects are deleted after the test.
func Options(tb testing.TB, scheme *runtime.Scheme, version schema.GroupVersion, resource string) generic.RESTOptions {
	tb.Helper()
	client := Client(tb)
	tb.Cleanup(func() {
		if _, err := client.Delete(context.Background(), Prefix(tb)+"/", clientv3.WithPrefix()); err != nil {
			tb.Error(err)
		}
	})
	config := storagebackend.NewDefaultConfig(Prefix(tb), serializer.NewCodecFactory(scheme).LegacyCodec(version))
	config.Transport.ServerList = []string{endpoint}
	return generic.RESTOptions{
		StorageConfig: config.ForResource(version.WithResource(resource).GroupResource()), Decorator: generic.UndecoratedStorage,
		ResourcePrefix: resource, DeleteCollectionWorkers: 1, EnableGarbageCollection: true,
	}
}

// Client returns a client of the etcd, for objects that no store writes.
func Client(tb testing.TB) *clientv3.Client {
	tb.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
