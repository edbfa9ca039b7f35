/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/etcd"
	"github.com/proviso-authz/proviso/pkg/features"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// TestStoresOutOfReach tells a store that does not answer, with which the server starts, from an answer that says that
// exclusions exist or cannot be read, with which it does not start.
func TestStoresOutOfReach(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{name: "the time is over", err: context.DeadlineExceeded, want: true},
		{name: "the server ends", err: context.Canceled, want: true},
		{name: "the time is over, wrapped", err: fmt.Errorf("reading: %w", context.DeadlineExceeded), want: true},
		{name: "etcd is not there", err: status.Error(codes.Unavailable, "refused"), want: true},
		{name: "etcd takes too long", err: status.Error(codes.DeadlineExceeded, "late"), want: true},
		{name: "etcd is not there, wrapped", err: fmt.Errorf("client of the store: %w", status.Error(codes.Unavailable, "refused")), want: true},
		{name: "the storage layer says so", err: storage.NewUnreachableError("/k", 0), want: true},
		{name: "etcd denies", err: status.Error(codes.PermissionDenied, "no")},
		{name: "a certificate is wrong", err: status.Error(codes.Unauthenticated, "no")},
		{name: "the answer is corrupt", err: storage.NewInternalError(errors.New("cannot decode"))},
		{name: "there are exclusions", err: errExclusionsIgnored},
		{name: "another error", err: errors.New("unavailable")},
	} {
		if got := isOutOfReach(tc.err); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// gates returns feature gates of their own, so that tests can run in parallel.
func gates(t *testing.T, fineGrained bool) featuregate.FeatureGate {
	t.Helper()
	copied := utilfeature.DefaultFeatureGate.DeepCopy()
	if err := copied.SetFromMap(map[string]bool{string(features.FineGrainedAuthorization): fineGrained}); err != nil {
		t.Fatal(err)
	}
	return copied
}

// storeOf starts etcd, and returns the configuration of a server whose store it is, and the store of mappings.
func storeOf(t *testing.T) (*apiserver.Config, storage.Interface) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ex") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	member, err := etcd.Start(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close() })
	endpoint, err := etcd.Endpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	etcdOptions := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/test", apiserver.Codecs.LegacyCodec(apiserver.StorageVersions...)))
	etcdOptions.StorageConfig.Transport.ServerList, etcdOptions.SkipHealthEndpoints = []string{endpoint}, true
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	if err := etcdOptions.ApplyTo(&generic.Config); err != nil {
		t.Fatal(err)
	}
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(apiserver.Scheme))
	restOptions, err := generic.RESTOptionsGetter.GetRESTOptions(policyapi.Resource("fieldpermissionmappings"), &policyapi.FieldPermissionMapping{})
	if err != nil {
		t.Fatal(err)
	}
	store, destroy, err := apiserver.NewMappingStore(*restOptions.StorageConfig, "/"+restOptions.ResourcePrefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	return &apiserver.Config{GenericConfig: generic}, store
}

// TestExclusionsKeepTheServerFromStarting adds mappings one after the other, and starts a server with each gate and flag.
func TestExclusionsKeepTheServerFromStarting(t *testing.T) {
	t.Parallel()
	config, store := storeOf(t)
	add := func(name string, fields ...policyapi.FieldPermission) {
		t.Helper()
		m := things.Mapping(name, things.Spec(fields...))
		if err := store.Create(t.Context(), "/policy.proviso.dev/fieldpermissionmappings/"+name, m, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	check := func(o CompletedOptions, on bool) error {
		t.Helper()
		config.GenericConfig.FeatureGate = gates(t, on)
		return o.checkExclusions(t.Context(), config, func(err error) { t.Errorf("the server ends later: %v", err) })
	}
	options := CompletedOptions{&completedOptions{}}

	if err := check(options, false); err != nil {
		t.Errorf("without mappings: got %v, want no error", err)
	}
	add("plain", things.Field("spec.a", "verb:a"))
	if err := check(options, false); err != nil {
		t.Errorf("without exclusions: got %v, want no error", err)
	}
	for i := range 12 {
		add(fmt.Sprintf("excluding-%02d", i), things.Excluded("spec.a", "verb:a", ""))
		err := check(options, false)
		if !errors.Is(err, errExclusionsIgnored) || !strings.Contains(err.Error(), "excluding-00") {
			t.Fatalf("with %d exclusions: got %v, want an error that names them", i+1, err)
		}
		if more := strings.Contains(err.Error(), ", and "); more != (i >= maxNamedExclusions) {
			t.Errorf("with %d exclusions: got %v", i+1, err)
		}
		if i == 11 && (!strings.HasSuffix(err.Error(), ", and 2 more)") || strings.Contains(err.Error(), "excluding-10")) {
			t.Errorf("got %v, want ten names and the number of the others", err)
		}
	}
	if err := check(options, true); err != nil {
		t.Errorf("with the gate, which enforces them: got %v, want no error", err)
	}
	ignoring := CompletedOptions{&completedOptions{Options: Options{IgnoreFieldExclusions: true}}}
	if err := check(ignoring, false); err != nil {
		t.Errorf("with the flag: got %v, want no error", err)
	}
}

// TestPoliciesAreLoadedWhenExclusionsAreKnown checks that a server whose store does not answer loads no policies, so that it denies
// requests, and that policies need not wait if the store answers.
func TestPoliciesAreLoadedWhenExclusionsAreKnown(t *testing.T) {
	t.Parallel()
	config, _ := storeOf(t)
	config.GenericConfig.FeatureGate = gates(t, false)
	options, end := CompletedOptions{&completedOptions{}}, func(err error) { t.Errorf("the server ends: %v", err) }
	if err := options.checkExclusions(t.Context(), config, end); err != nil || config.ExtraConfig.LoadPolicies != nil {
		t.Errorf("a store that answers: got %v, and policies wait: %v", err, config.ExtraConfig.LoadPolicies != nil)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := options.checkExclusions(ended, config, end); err != nil {
		t.Fatalf("a store that does not answer: got %v, want the server to start", err)
	}
	select {
	case <-config.ExtraConfig.LoadPolicies:
		t.Error("policies are loaded although it is unknown whether fields are excluded")
	default:
		if config.ExtraConfig.LoadPolicies == nil {
			t.Error("policies do not wait")
		}
	}
}
