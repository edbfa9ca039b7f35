/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/proviso-authz/proviso/pkg/apiserver/options"
	"github.com/proviso-authz/proviso/pkg/features"
)

// parsed returns options with the given flags.
func parsed(t *testing.T, args ...string) *options.Options {
	t.Helper()
	o := options.NewOptions()
	all := pflag.NewFlagSet("all", pflag.ContinueOnError)
	for _, section := range o.Flags().FlagSets {
		all.AddFlagSet(section)
	}
	if err := all.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func errorsOf(t *testing.T, o *options.Options) []error {
	t.Helper()
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return completed.Validate()
}

// TestEveryGroupOfOptionsIsValidated has a mistake for each group of options that can have one. Exactly one error
// says what is wrong: a group that Validate leaves out would start the server with the mistake.
func TestEveryGroupOfOptionsIsValidated(t *testing.T) {
	for _, tc := range []struct {
		name   string
		args   []string
		change func(*options.Options)
		want   string
	}{
		{name: "generic: requests", args: []string{"--max-requests-inflight=-1"}, want: "--max-requests-inflight can not be negative"},
		{name: "generic: timeout", args: []string{"--request-timeout=-1s"}, want: "--request-timeout can not be negative"},
		{name: "generic: goaway", args: []string{"--goaway-chance=0.5"}, want: "--goaway-chance can not be less than 0 or greater than 0.02"},
		{name: "serving: a port that is none", args: []string{"--secure-port=65536"}, want: "--secure-port 65536 must be between"},
		{name: "serving: a port below zero", args: []string{"--secure-port=-1"}, want: "--secure-port -1 must be between"},
		{name: "front door: a port below zero", args: []string{"--webhook-secure-port=-1", "--webhook-client-ca-file=a"}, want: "--webhook-secure-port -1 must be between 0 and 65535"},
		{name: "front door: names and a port, but no CA", args: []string{"--webhook-secure-port=8444", "--webhook-allowed-names=a"}, want: "--webhook-secure-port needs --webhook-client-ca-file"},
		{name: "etcd: a backend", args: []string{"--storage-backend=etcd2"}, want: "--storage-backend invalid"},
		{name: "etcd: a reload of nothing", args: []string{"--encryption-provider-config-automatic-reload"}, want: "must be set with --encryption-provider-config"},
		{name: "authentication: a header that is blank", args: []string{"--requestheader-username-headers= "}, want: "requestheader-username-headers"},
		{name: "authentication: no attempts", change: func(o *options.Options) { o.Authentication.WebhookRetryBackoff.Steps = 0 }, want: "retry attempts must be greater"},
		{name: "authorization: no attempts", change: func(o *options.Options) { o.Authorization.WebhookRetryBackoff.Steps = 0 }, want: "retry attempts must be greater"},
		{name: "authorization: no backoff", change: func(o *options.Options) { o.Authorization.WebhookRetryBackoff = nil }, want: "no retry backoff"},
		{name: "authorization: a group without a name", change: func(o *options.Options) {
			o.Authorization.AlwaysAllowGroups = append(o.Authorization.AlwaysAllowGroups, "")
		}, want: "the groups that are always allowed must not include an empty name"},
		{name: "auditing: an age", args: []string{"--audit-log-path=-", "--audit-log-maxage=-1"}, want: "--audit-log-maxage -1 can't be a negative number"},
		{name: "auditing: a format", args: []string{"--audit-log-path=-", "--audit-log-format=xml"}, want: "invalid audit log format xml"},
		{name: "admission: on and off", args: []string{"--enable-admission-plugins=NamespaceLifecycle", "--disable-admission-plugins=NamespaceLifecycle"}, want: "[NamespaceLifecycle] in enable-admission-plugins and disable-admission-plugins"},
		{name: "egress: a file", args: []string{"--egress-selector-config-file=/nowhere"}, want: "egress-selector-config-file /nowhere does not exist"},
		{name: "staleness: nothing", args: []string{"--policy-staleness-bound=0s"}, want: "--policy-staleness-bound must be at least 1s"},
		{name: "staleness: below zero", args: []string{"--policy-staleness-bound=-1m"}, want: "--policy-staleness-bound must be at least 1s"},
		{name: "staleness: nearly a second", args: []string{"--policy-staleness-bound=999ms"}, want: "--policy-staleness-bound must be at least 1s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := parsed(t, tc.args...)
			if tc.change != nil {
				tc.change(o)
			}
			got := errorsOf(t, o)
			if len(got) != 1 || !strings.Contains(got[0].Error(), tc.want) {
				t.Errorf("got %v, want one error with %q", got, tc.want)
			}
		})
	}
}

// TestBoundsOfOptionsAreValid has values at the bounds, which are no mistakes.
func TestBoundsOfOptionsAreValid(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
	}{
		{name: "the least staleness", args: []string{"--policy-staleness-bound=1s"}},
		{name: "the greatest port", args: []string{"--secure-port=65535"}},
		{name: "the greatest port of the front door", args: []string{"--webhook-secure-port=65535", "--webhook-client-ca-file=a"}},
		{name: "no front door, said aloud", args: []string{"--webhook-secure-port=0"}},
		{name: "no plugin that is optional", args: []string{"--disable-admission-plugins=NamespaceLifecycle,ValidatingAdmissionPolicy,MutatingAdmissionPolicy,ValidatingAdmissionWebhook,MutatingAdmissionWebhook"}},
		{name: "demo and ignored exclusions", args: []string{"--enable-demo-api", "--ignore-field-exclusions"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := errorsOf(t, parsed(t, tc.args...)); len(got) > 0 {
				t.Errorf("got %v, want no error", got)
			}
		})
	}
}

// TestHalfAPairIsNotReplaced asks that one half of a certificate is taken for a certificate, so that the server fails
// to read the other half. It would otherwise serve a certificate that it made, and not the one that was asked for.
func TestHalfAPairIsNotReplaced(t *testing.T) {
	for _, flag := range []string{"--tls-cert-file=a", "--tls-private-key-file=a"} {
		if got := errorsOf(t, parsed(t, "--self-made-cert-hosts=", flag)); len(got) > 0 {
			t.Errorf("%s: got %v, want no error, because no certificate is made", flag, got)
		}
	}
}

// TestALackOfTheGatesIsSaidOnce has several gates wrong at once. The first error is enough to find the flag.
func TestALackOfTheGatesIsSaidOnce(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ConditionalAuthorization, false)
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.FineGrainedAuthorization, true)
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ConditionalImpersonation, true)
	got := errorsOf(t, parsed(t, "--disable-admission-plugins=AuthorizationConditionsEnforcer"))
	if len(got) != 1 || !strings.Contains(got[0].Error(), "FineGrainedAuthorization=true needs ConditionalAuthorization=true") {
		t.Errorf("got %v, want the error of the gate", got)
	}
}

// TestValidateChangesNothing validates twice, with every kind of mistake, and gets the same errors.
func TestValidateChangesNothing(t *testing.T) {
	o := parsed(t, "--secure-port=0", "--self-made-cert-hosts=", "--policy-staleness-bound=0s", "--webhook-secure-port=-1", "--egress-selector-config-file=/nowhere")
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	first, second := errors.Join(completed.Validate()...), errors.Join(completed.Validate()...)
	if first == nil || first.Error() != second.Error() {
		t.Errorf("got %v, and then %v", first, second)
	}
}

// TestDefaultsAreSafe holds the defaults by which a server that is configured by no flag is safe.
func TestDefaultsAreSafe(t *testing.T) {
	t.Parallel()
	o := options.NewOptions()
	if o.FrontDoor.BindPort != 0 || o.FrontDoor.Listener != nil {
		t.Error("the front door is open by default")
	}
	if o.EnableDemoAPI || o.IgnoreFieldExclusions {
		t.Error("the demo API is served, or exclusions are ignored, by default")
	}
	if o.PolicyStalenessBound != time.Minute {
		t.Errorf("got a staleness bound of %s, want a minute", o.PolicyStalenessBound)
	}
	if o.Authentication.TolerateInClusterLookupFailure || o.Authentication.SkipInClusterLookup {
		t.Error("the server serves clients as anonymous, by default, if it cannot read how to authenticate them")
	}
	if got := o.Admission.RecommendedPluginOrder[0]; got != "AuthorizationConditionsEnforcer" {
		t.Errorf("the first admission plugin is %s, and would see objects that their authors may not write", got)
	}
	if got := o.Etcd.StorageConfig.Prefix; got != "/registry/proviso" {
		t.Errorf("got the prefix %s, which may be one of kube-apiserver", got)
	}
	if o.SecureServing.HTTP2MaxStreamsPerConnection < 1000 {
		t.Errorf("got %d streams for each connection, but kube-apiserver sends the requests of all clients over few", o.SecureServing.HTTP2MaxStreamsPerConnection)
	}
}

// TestCompleteKeepsWhatIsGiven completes options in which nothing is missing.
func TestCompleteKeepsWhatIsGiven(t *testing.T) {
	o := parsed(t, "--etcd-servers=https://etcd:2379", "--cert-dir=/certs", "--kubeconfig=core", "--authentication-kubeconfig=own", "--authorization-kubeconfig=other", "--data-dir=/"+strings.Repeat("x", 200))
	completed, err := o.Complete()
	if err != nil {
		t.Fatalf("a long data directory matters although etcd is not embedded: %v", err)
	}
	if got := completed.Etcd.StorageConfig.Transport.ServerList; len(got) != 1 || got[0] != "https://etcd:2379" {
		t.Errorf("got %v, want the server that is given", got)
	}
	if got := completed.SecureServing.ServerCert.CertDirectory; got != "/certs" {
		t.Errorf("got the directory %s", got)
	}
	if completed.Authentication.RemoteKubeConfigFile != "own" || completed.Authorization.RemoteKubeConfigFile != "other" {
		t.Errorf("got %q for authentication and %q for authorization", completed.Authentication.RemoteKubeConfigFile, completed.Authorization.RemoteKubeConfigFile)
	}
}
