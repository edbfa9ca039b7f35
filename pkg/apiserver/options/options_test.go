/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/proviso-authz/proviso/pkg/apiserver/options"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// TestHelp keeps what users see and rely on: the flags, their defaults and their texts.
func TestHelp(t *testing.T) {
	cmd := options.NewCommand(context.Background())
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/help.txt", out.String())
}

func TestVersionFlag(t *testing.T) {
	cmd := options.NewCommand(context.Background())
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "proviso-apiserver v") || !strings.Contains(out.String(), "Kubernetes libraries") {
		t.Errorf("got %q, want the version and that of the libraries", out.String())
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"the defaults", nil, nil},
		{"no port", []string{"--secure-port=0"}, []string{"--secure-port must not be 0"}},
		{"no hosts for a certificate", []string{"--self-made-cert-hosts="}, []string{"--self-made-cert-hosts must not be empty"}},
		{"no hosts, but a certificate", []string{"--self-made-cert-hosts=", "--tls-cert-file=a", "--tls-private-key-file=b"}, nil},
		{"a front door", []string{"--webhook-secure-port=8444", "--webhook-client-ca-file=a", "--webhook-allowed-names=b,c"}, nil},
		{"a front door for anybody", []string{"--webhook-secure-port=8444"}, []string{"--webhook-secure-port needs --webhook-client-ca-file"}},
		{"a front door without a port", []string{"--webhook-client-ca-file=a"}, []string{"need --webhook-secure-port"}},
		{"names without a front door", []string{"--webhook-allowed-names=a"}, []string{"need --webhook-secure-port"}},
		{"an empty name", []string{"--webhook-secure-port=8444", "--webhook-client-ca-file=a", "--webhook-allowed-names=,a"}, []string{"empty name"}},
		{"an inner door", []string{"--webhook-secure-port=8444", "--webhook-client-ca-file=a", "--inner-door-config=a"}, nil},
		{"servers of an inner door that there is not", []string{"--kube-apiserver-servers=https://a:6443"}, []string{"--kube-apiserver-servers needs --inner-door-config"}},
		{"servers for barriers", []string{"--kube-apiserver-servers=https://a:6443", "--barriers"}, nil},
		{"a server without https", []string{"--kube-apiserver-servers=http://a:6443"}, []string{`--kube-apiserver-servers "http://a:6443" must be https://host:port`, "needs --inner-door-config"}},
		{"one server twice", []string{"--kube-apiserver-servers=https://a,https://A:443/"}, []string{`--kube-apiserver-servers has "https://a:443" twice`, "needs --inner-door-config"}},
		{"an inner door without a front door", []string{"--inner-door-config=a"}, []string{"--inner-door-config needs --webhook-secure-port"}},
		{"no such port", []string{"--webhook-secure-port=65536", "--webhook-client-ca-file=a"}, []string{"between 0 and 65535"}},
		{"everything at once", []string{"--secure-port=0", "--self-made-cert-hosts=", "--storage-media-type=x/y", "--disable-admission-plugins=Nobody"},
			[]string{"--secure-port", "--self-made-cert-hosts", "--storage-media-type", `plugin "Nobody" is unknown`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options.NewOptions()
			sections := o.Flags()
			all := pflag.NewFlagSet("all", pflag.ContinueOnError)
			for _, section := range sections.FlagSets {
				all.AddFlagSet(section)
			}
			if err := all.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			completed, err := o.Complete()
			if err != nil {
				t.Fatal(err)
			}
			got := errors.Join(completed.Validate()...)
			if len(tc.want) == 0 && got != nil {
				t.Errorf("got %v, want no error", got)
			}
			for _, want := range tc.want {
				if got == nil || !strings.Contains(got.Error(), want) {
					t.Errorf("got %v, want %q among the errors", got, want)
				}
			}
		})
	}
}

func TestComplete(t *testing.T) {
	t.Run("kubeconfig is the default of the others", func(t *testing.T) {
		o := options.NewOptions()
		o.CoreAPI.CoreAPIKubeconfigPath = "core"
		o.Authentication.RemoteKubeConfigFile = "own"
		completed, err := o.Complete()
		if err != nil {
			t.Fatal(err)
		}
		if completed.Authorization.RemoteKubeConfigFile != "core" || completed.Authentication.RemoteKubeConfigFile != "own" {
			t.Errorf("got %q for authorization and %q for authentication", completed.Authorization.RemoteKubeConfigFile, completed.Authentication.RemoteKubeConfigFile)
		}
	})
	t.Run("etcd is embedded when there is none", func(t *testing.T) {
		o := options.NewOptions()
		o.DataDir = "/data"
		completed, err := o.Complete()
		if err != nil {
			t.Fatal(err)
		}
		if got := completed.Etcd.StorageConfig.Transport.ServerList; len(got) != 1 || got[0] != "unix:///data/client.sock" {
			t.Errorf("got %q, want a socket in the data directory", got)
		}
		if got := completed.SecureServing.ServerCert.CertDirectory; got != filepath.Join("/data", "certificates") {
			t.Errorf("got %q for certificates, want a folder in the data directory", got)
		}
	})
	t.Run("a path too long for a socket", func(t *testing.T) {
		o := options.NewOptions()
		o.DataDir = "/" + strings.Repeat("x", 200)
		if _, err := o.Complete(); err == nil || !strings.Contains(err.Error(), "--data-dir") {
			t.Errorf("got %v, want an error that names the flag", err)
		}
	})
}
