/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"errors"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/probe"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// ConditionalWritesConfig configures which writes pass the front door on conditions that the inner door evaluates.
type ConditionalWritesConfig struct {
	// Resources are the resources of the manifest.
	Resources []innerdoor.Resource
	// LeavesOut reports whether the manifest leaves out a user.
	LeavesOut func(user.Info) bool
	// Digest is the digest of the manifest.
	Digest string
	// Namespace is the namespace of Proviso, which has the ConfigMap of the canaries.
	Namespace string
	// MissesWebhooks says that the manifest leaves out writes that other authorizers of kube-apiserver allow, and that there are webhooks,
	// which may deny them. Writes then do not pass on conditions.
	MissesWebhooks bool
}

// conditionalWrites is what the front door needs to let writes pass on conditions.
type conditionalWrites struct {
	config ConditionalWritesConfig
	prober *probe.Prober
	// services are the APIServices.
	services *registration.Services
}

var errConditionalWrites = errors.New("writes cannot pass on conditions without a client of kube-apiserver")

// newConditionalWrites returns the conditionalWrites of a front door, for the kube-apiservers of a cluster.
func newConditionalWrites(config ConditionalWritesConfig, servers *cluster.Cluster, services *registration.Services) (*conditionalWrites, error) {
	if servers == nil || services == nil {
		return nil, errConditionalWrites
	}
	prober, err := probe.New(servers, config.Namespace, config.Digest)
	if err != nil {
		return nil, err
	}
	return &conditionalWrites{config: config, prober: prober, services: services}, nil
}

// innerDoor returns the inner door as a place. A review about every kube-apiserver also counts those that handle conditions: they need the inner door for
// resources with excluded fields.
func (f *conditionalWrites) innerDoor() *place.InnerDoor {
	return &place.InnerDoor{
		Listed:         func(r innerdoor.Resource) bool { return slices.Contains(f.config.Resources, r) },
		LeavesOut:      f.config.LeavesOut,
		IsLocal:        f.services.IsLocal,
		MissesWebhooks: f.config.MissesWebhooks,
		Canary: func(client *place.Client, a authorizer.Attributes) bool {
			return f.prober.IsCanary(client.Certificate, a)
		},
		Known: func(client *place.Client) bool {
			if client != nil {
				return f.prober.Known(client.Certificate)
			}
			lacking, _ := f.prober.Unknown()
			return f.prober.KnowsAll() && len(lacking) == 0
		},
	}
}
