/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/util/compatibility"

	"github.com/proviso-authz/proviso/pkg/version"
)

// unreachable writes a kubeconfig file of a kube-apiserver that does not answer.
func unreachable(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, `
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
`)
	return file
}

// TestConfigSaysWhichFlagIsWrong makes the configuration from options that are valid, but name files that are missing
// or cannot be used. Each error leads to the flag.
func TestConfigSaysWhichFlagIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, o *Options)
		want   []string
	}{
		{name: "nothing is wrong", change: func(*testing.T, *Options) {}},
		{name: "no directory for the certificate", change: func(t *testing.T, o *Options) {
			file := filepath.Join(t.TempDir(), "file")
			write(t, file, "")
			o.SecureServing.ServerCert.CertDirectory = filepath.Join(file, "below")
		}, want: []string{"self-made serving certificate: ", "certificate directory: "}},
		{name: "half a pair", change: func(_ *testing.T, o *Options) {
			o.SecureServing.ServerCert.CertKey.CertFile = "/nowhere"
		}, want: []string{"secure serving: "}},
		{name: "no kubeconfig of authentication", change: func(_ *testing.T, o *Options) {
			o.Authentication.RemoteKubeConfigFile = "/nowhere"
		}, want: []string{"authentication: --authentication-kubeconfig: ", "/nowhere"}},
		{name: "no CA of clients", change: func(_ *testing.T, o *Options) {
			o.Authentication.ClientCert.ClientCA = "/nowhere"
		}, want: []string{"authentication: CA of clients: ", "/nowhere"}},
		{name: "no kubeconfig of authorization", change: func(_ *testing.T, o *Options) {
			o.Authorization.RemoteKubeConfigFile = "/nowhere"
		}, want: []string{"authorization: --authorization-kubeconfig: ", "/nowhere"}},
		{name: "no kubeconfig of authorization, with webhooks", change: func(t *testing.T, o *Options) {
			o.Authorization.RemoteKubeConfigFile, o.Authorization.ConfigFile = "/nowhere", filepath.Join(t.TempDir(), "file")
		}, want: []string{"authorization: --authorization-kubeconfig: ", "/nowhere"}},
		{name: "no webhooks", change: func(_ *testing.T, o *Options) {
			o.Authorization.ConfigFile = "/nowhere"
		}, want: []string{"authorization: --authorization-config: ", "/nowhere"}},
		{name: "no kubeconfig", change: func(_ *testing.T, o *Options) {
			o.Authentication.RemoteKubeConfigFile, o.Authorization.RemoteKubeConfigFile = o.CoreAPI.CoreAPIKubeconfigPath, o.CoreAPI.CoreAPIKubeconfigPath
			o.CoreAPI.CoreAPIKubeconfigPath = "/nowhere"
		}, want: []string{"/nowhere"}},
		{name: "no audit policy", change: func(_ *testing.T, o *Options) {
			o.Audit.PolicyFile = "/nowhere"
		}, want: []string{"auditing: ", "/nowhere"}},
		{name: "no configuration of traces", change: func(_ *testing.T, o *Options) {
			o.Traces.ConfigFile = "/nowhere"
		}, want: []string{"tracing: ", "/nowhere"}},
		{name: "no configuration of admission", change: func(_ *testing.T, o *Options) {
			o.Admission.ConfigFile = "/nowhere"
		}, want: []string{"admission: ", "/nowhere"}},
		{name: "no CA of the front door", change: func(t *testing.T, o *Options) {
			o.FrontDoor.Listener, o.FrontDoor.ClientCAFile = listenerOf(t), "/nowhere"
		}, want: []string{"--webhook-client-ca-file: ", "/nowhere"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := NewOptions()
			o.DataDir, o.CoreAPI.CoreAPIKubeconfigPath, o.SecureServing.Listener = t.TempDir(), unreachable(t), listenerOf(t)
			tc.change(t, o)
			completed, err := o.Complete()
			if err != nil {
				t.Fatal(err)
			}
			config, err := completed.Config()
			if len(tc.want) == 0 {
				if err != nil || config == nil {
					t.Fatalf("got %v, %v, want a configuration", config, err)
				}
				return
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want an error with %q", err, want)
				}
			}
		})
	}
}

// TestPortThatIsTaken checks that the error names the flag for the port of the front door, and not the flag for the main port.
func TestPortThatIsTaken(t *testing.T) {
	t.Parallel()
	taken := listenerOf(t)
	o := NewOptions()
	o.DataDir, o.CoreAPI.CoreAPIKubeconfigPath, o.SecureServing.Listener = t.TempDir(), unreachable(t), listenerOf(t)
	o.FrontDoor.BindAddress, o.FrontDoor.BindPort = net.IPv4(127, 0, 0, 1), taken.Addr().(*net.TCPAddr).Port
	o.FrontDoor.ClientCAFile = filepath.Join(t.TempDir(), "ca.crt")
	made, err := ensureSelfMade(filepath.Dir(o.FrontDoor.ClientCAFile), []string{"localhost"}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	if made.CAFile != o.FrontDoor.ClientCAFile {
		t.Fatalf("the CA is in %s", made.CAFile)
	}
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if config, err := completed.Config(); err == nil || !strings.HasPrefix(err.Error(), "--webhook-secure-port: ") {
		t.Errorf("got %v, %v, want an error of the port of the front door", config, err)
	}
}

// TestCertificateOfItsOwn serves with the certificate that the server generates, and generates it once.
func TestCertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	o := NewOptions()
	o.DataDir, o.CoreAPI.CoreAPIKubeconfigPath = t.TempDir(), unreachable(t)
	var contents []string
	for range 2 {
		o.SecureServing.Listener = listenerOf(t)
		completed, err := o.Complete()
		if err != nil {
			t.Fatal(err)
		}
		config, err := completed.Config()
		if err != nil {
			t.Fatal(err)
		}
		served, _ := config.GenericConfig.SecureServing.Cert.CurrentCertKeyContent()
		contents = append(contents, string(served))
	}
	if stored := read(t, filepath.Join(o.DataDir, "certificates", "tls.crt")); contents[0] != stored || contents[1] != stored {
		t.Error("the server serves another certificate than the one in its data directory")
	}
	if info, err := os.Stat(filepath.Join(o.DataDir, "certificates")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v, want a directory that only its owner can read", info, err)
	}
}

type addressed struct {
	net.Listener
	address net.Addr
}

func (a addressed) Addr() net.Addr { return a.address }

func TestExternalAddress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, given string
		address     net.Addr
		want        string
	}{
		{name: "the address that is given", given: "proviso.example.com:443", address: &net.TCPAddr{Port: 6443}, want: "proviso.example.com:443"},
		{name: "the port of the listener", address: &net.TCPAddr{IP: net.IPv4zero, Port: 6443}, want: "localhost:6443"},
		{name: "a listener for IPv6", address: &net.TCPAddr{IP: net.IPv6loopback, Port: 6443}, want: "localhost:6443"},
		{name: "a listener without ports", address: &net.UnixAddr{Name: "/run/socket", Net: "unix"}, want: "localhost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			config := &genericapiserver.RecommendedConfig{}
			config.ExternalAddress = tc.given
			config.SecureServing = &genericapiserver.SecureServingInfo{Listener: addressed{address: tc.address}}
			if got := externalAddress(config); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestDemoAuthorizer asks that nodes get their permissions with the demo API only.
func TestDemoAuthorizer(t *testing.T) {
	t.Parallel()
	o := NewOptions()
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if completed.demoAuthorizer() != nil {
		t.Error("nodes may write objects although the demo API is not served")
	}
	completed.EnableDemoAPI = true
	demo := completed.demoAuthorizer()
	for _, tc := range []struct {
		name     string
		resource schema.GroupResource
		want     bool
	}{
		{name: "machines", resource: schema.GroupResource{Group: "demo.proviso.dev", Resource: "virtualmachines"}, want: true},
		{name: "pods", resource: schema.GroupResource{Resource: "pods"}, want: true},
		{name: "pods of another group", resource: schema.GroupResource{Group: "demo.proviso.dev", Resource: "pods"}},
		{name: "secrets", resource: schema.GroupResource{Resource: "secrets"}},
	} {
		d := demo.Decide(t.Context(), authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "system:node:a", Groups: []string{user.NodesGroup}},
			Verb: "create", APIGroup: tc.resource.Group, Resource: tc.resource.Resource, ResourceRequest: true,
		})
		if d.CanBecomeAllowed() != tc.want || d.IsAllow() {
			t.Errorf("%s: can be allowed %v, want %v, and on conditions only", tc.name, d.CanBecomeAllowed(), tc.want)
		}
	}
}

// TestVersionOfFeaturesIsThatOfTheLibraries asks that /version has the version of Proviso, while feature gates go by the
// version of the Kubernetes libraries.
func TestVersionOfFeaturesIsThatOfTheLibraries(t *testing.T) {
	t.Parallel()
	libraries := compatibility.DefaultBuildEffectiveVersion()
	effective := effectiveVersion{libraries}
	if got := effective.Info(); got.GitVersion != version.Get().GitVersion {
		t.Errorf("got %s, want the version of Proviso", got.GitVersion)
	}
	if !effective.EmulationVersion().EqualTo(libraries.EmulationVersion()) || !effective.BinaryVersion().EqualTo(libraries.BinaryVersion()) {
		t.Errorf("got %s and %s, want the versions of the Kubernetes libraries", effective.EmulationVersion(), effective.BinaryVersion())
	}
}

// TestClientCAReadinessOnlyWhereItIsLookedUp has the server wait for kube-apiserver only if it publishes the CAs.
func TestClientCAReadinessOnlyWhereItIsLookedUp(t *testing.T) {
	t.Parallel()
	looked := &bundle{content: "ca"}
	headers := &authenticatorfactory.RequestHeaderConfig{UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User"}}
	for _, tc := range []struct {
		name   string
		change func(*CompletedOptions)
		bundle dynamiccertificates.CAContentProvider
		proxy  *authenticatorfactory.RequestHeaderConfig
		// wantKeys name the CAs for which the check waits. Without any there is no check.
		wantKeys []string
		wantErr  string
	}{
		{name: "the CAs are looked up", bundle: looked, proxy: headers, wantKeys: []string{clientCAKey, proxyCAKey}},
		{name: "there is no front proxy", bundle: looked, wantKeys: []string{clientCAKey}},
		{name: "the lookup is off", change: func(o *CompletedOptions) { o.Authentication.SkipInClusterLookup = true }, bundle: looked},
		{name: "the CA is a file", change: func(o *CompletedOptions) { o.Authentication.ClientCert.ClientCA = "file" }, bundle: looked},
		{name: "only the CA of the front proxy is looked up", change: func(o *CompletedOptions) { o.Authentication.ClientCert.ClientCA = "file" }, bundle: looked, proxy: headers, wantKeys: []string{proxyCAKey}},
		{name: "only the CA of clients is looked up", change: func(o *CompletedOptions) { o.Authentication.RequestHeader.ClientCAFile = "file" }, bundle: looked, proxy: headers, wantKeys: []string{clientCAKey}},
		{name: "both are files", change: func(o *CompletedOptions) {
			o.Authentication.ClientCert.ClientCA, o.Authentication.RequestHeader.ClientCAFile = "file", "file"
		}, bundle: looked, proxy: headers},
		{name: "there is no CA"},
		{name: "no kubeconfig", change: func(o *CompletedOptions) { o.Authentication.RemoteKubeConfigFile = "/nowhere" }, bundle: looked, wantErr: "--authentication-kubeconfig: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := NewOptions()
			o.DataDir, o.CoreAPI.CoreAPIKubeconfigPath = t.TempDir(), unreachable(t)
			completed, err := o.Complete()
			if err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(&completed)
			}
			check, err := completed.clientCAReadiness(tc.bundle, tc.proxy)
			if tc.wantErr != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.wantErr) {
					t.Errorf("got %v, want an error with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || (check != nil) != (tc.wantKeys != nil) {
				t.Fatalf("got %v, %v, want a check of %v", check, err, tc.wantKeys)
			}
			if check != nil && (!slices.Equal(check.keys, tc.wantKeys) || (check.headers != nil) != slices.Contains(tc.wantKeys, proxyCAKey)) {
				t.Errorf("got the keys %v and headers %t, want the keys %v, and headers only with the CA of the front proxy", check.keys, check.headers != nil, tc.wantKeys)
			}
		})
	}
}

// TestFrontDoorLeavesTheMainPortAsItIs opens a front door with the serving options of the main port, which must stay those
// of the main port, and closes nothing if there is no front door.
func TestFrontDoorLeavesTheMainPortAsItIs(t *testing.T) {
	t.Parallel()
	made, err := ensureSelfMade(t.TempDir(), []string{"localhost"}, testTime)
	if err != nil {
		t.Fatal(err)
	}
	mine := listenerOf(t)
	main := *NewOptions().SecureServing.SecureServingOptions
	main.Listener, main.MinTLSVersion = mine, "VersionTLS13"
	main.ServerCert.CertKey.CertFile, main.ServerCert.CertKey.KeyFile = made.CertFile, made.KeyFile

	closed := NewFrontDoorOptions()
	if config, err := closed.config(main); config != nil || err != nil {
		t.Errorf("without a port: got %+v, %v, want no front door", config, err)
	}
	open := NewFrontDoorOptions()
	open.Listener, open.ClientCAFile, open.AllowedNames = listenerOf(t), made.CAFile, []string{"kube-apiserver"}
	config, err := open.config(main)
	if err != nil {
		t.Fatal(err)
	}
	if config.Serving.Listener != open.Listener || config.Serving.MinTLSVersion == 0 || len(config.AllowedNames) != 1 {
		t.Errorf("got %+v, want the listener, the TLS options of the main port and the names of clients", config)
	}
	if main.Listener != mine || main.BindPort == open.BindPort {
		t.Errorf("the main port has the address of the front door: %+v", main)
	}
}
