/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options_test

import (
	"errors"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/proviso-authz/proviso/pkg/apiserver/options"
	"github.com/proviso-authz/proviso/pkg/features"
)

// TestConditionsNeedThePlugin refuses to start a server that would let requests pass on
// conditions that nothing enforces.
func TestConditionsNeedThePlugin(t *testing.T) {
	for _, tc := range []struct {
		name            string
		gate, pluginOff bool
		wantRefusal     bool
	}{
		{"as it comes", true, false, false},
		{"the plugin is off", true, true, true},
		{"the gate is off", false, false, false},
		{"both are off", false, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ConditionalAuthorization, tc.gate)
			o := options.NewOptions()
			if tc.pluginOff {
				o.Admission.DisablePlugins = []string{"AuthorizationConditionsEnforcer"}
			}
			completed, err := o.Complete()
			if err != nil {
				t.Fatal(err)
			}
			got := errors.Join(completed.Validate()...)
			if (got != nil) != tc.wantRefusal {
				t.Fatalf("got %v, want a refusal %v", got, tc.wantRefusal)
			}
			for _, flag := range []string{"--feature-gates=ConditionalAuthorization=true", "--disable-admission-plugins=AuthorizationConditionsEnforcer"} {
				if tc.wantRefusal && !strings.Contains(got.Error(), flag) {
					t.Errorf("got %v, want it to name %s", got, flag)
				}
			}
		})
	}
}

// TestGatesNeedConditions refuses to start a server whose checks of fields, or grants of
// impersonation, could not be conditions.
func TestGatesNeedConditions(t *testing.T) {
	for _, gate := range []featuregate.Feature{features.FineGrainedAuthorization, features.ConditionalImpersonation} {
		for _, tc := range []struct {
			name           string
			on, conditions bool
			wantRefusal    bool
		}{
			{"as it comes", false, true, false},
			{"on", true, true, false},
			{"on without conditions", true, false, true},
			{"neither", false, false, false},
		} {
			t.Run(string(gate)+"/"+tc.name, func(t *testing.T) {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ConditionalAuthorization, tc.conditions)
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, tc.on)
				completed, err := options.NewOptions().Complete()
				if err != nil {
					t.Fatal(err)
				}
				if got := errors.Join(completed.Validate()...); (got != nil) != tc.wantRefusal || got != nil && !strings.Contains(got.Error(), string(gate)+"=true needs") {
					t.Errorf("got %v, want a refusal %v", got, tc.wantRefusal)
				}
			})
		}
	}
}

// TestInnerDoorNeedsConditions refuses to serve an inner door that would evaluate no conditions.
func TestInnerDoorNeedsConditions(t *testing.T) {
	for _, on := range []bool{true, false} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ConditionalAuthorization, on)
		o := options.NewOptions()
		o.FrontDoor.BindPort, o.FrontDoor.ClientCAFile, o.FrontDoor.InnerDoorConfig = 8444, "ca.crt", "inner-door.yaml"
		completed, err := o.Complete()
		if err != nil {
			t.Fatal(err)
		}
		if got := errors.Join(completed.Validate()...); (got == nil) != on || got != nil && !strings.Contains(got.Error(), "--inner-door-config needs") {
			t.Errorf("ConditionalAuthorization %t: got %v", on, got)
		}
	}
}

// TestConditionsForKubeAPIServerNeedConditions turns off the gate that the gate UpstreamConditionalDecisions needs.
func TestConditionsForKubeAPIServerNeedConditions(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ConditionalAuthorization, false)
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.UpstreamConditionalDecisions, true)
	got := errorsOf(t, parsed(t))
	if len(got) != 1 || !strings.Contains(got[0].Error(), "UpstreamConditionalDecisions=true needs ConditionalAuthorization=true") {
		t.Errorf("got %v, want the error of the gate", got)
	}
}
