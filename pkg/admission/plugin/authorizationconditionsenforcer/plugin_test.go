/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationconditionsenforcer_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/proviso-authz/proviso/pkg/admission/plugin/authorizationconditionsenforcer"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

var operations = []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}

// TestPlugin makes a plugin as a server does.
func TestPlugin(t *testing.T) {
	t.Parallel()
	chain, err := authorization.NewChain()
	if err != nil {
		t.Fatal(err)
	}
	for _, conditional := range []bool{true, false} {
		options := genericoptions.NewAdmissionOptions()
		before := options.RecommendedPluginOrder[0]
		authorizationconditionsenforcer.AddTo(options)
		if got := options.RecommendedPluginOrder; got[0] != authorizationconditionsenforcer.PluginName || got[1] != before {
			t.Errorf("got the order %v, want the plugin before all others", got)
		}
		made, err := options.Plugins.InitPlugin(authorizationconditionsenforcer.PluginName, nil, nothing{})
		if err == nil {
			t.Errorf("without an enforcer: got %v, want an error", made)
		}
		enforcer, err := enforcement.New(enforcement.Config{Chain: chain, Conditional: conditional})
		if err != nil {
			t.Fatal(err)
		}
		made, err = options.Plugins.InitPlugin(authorizationconditionsenforcer.PluginName, nil, authorizationconditionsenforcer.Initializer{Enforcer: enforcer})
		if err != nil {
			t.Fatal(err)
		}
		for _, operation := range operations {
			if made.Handles(operation) != conditional {
				t.Errorf("conditional %v: handles %s %v", conditional, operation, made.Handles(operation))
			}
		}
		if err := enforcer.ApplyTo(&genericapiserver.Config{}); err != nil {
			t.Errorf("the enforcer does not know its plugin: %v", err)
		}
		attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", admission.Create, nil, false, nil)
		if err := made.(admission.ValidationInterface).Validate(t.Context(), attributes, nil); !apierrors.IsForbidden(err) {
			t.Errorf("a request that was not authorized: got %v, want 403", err)
		}
	}
}

// nothing initializes nothing, and does not mind other plugins.
type nothing struct{}

func (nothing) Initialize(admission.Interface) {
	authorizationconditionsenforcer.Initializer{}.Initialize(other{})
}

type other struct{ admission.Interface }
