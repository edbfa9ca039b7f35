/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/bridge"
)

// FrontDoorConfig is what the listener of the front door needs.
type FrontDoorConfig struct {
	// Serving has a listener, a serving certificate and the CA of clients.
	Serving *genericapiserver.SecureServingInfo
	// AllowedNames are the common names of clients. If empty, any will do.
	AllowedNames []string
}

var errNoClientCA = errors.New("the front door needs the CA of its clients")

// newFrontDoor makes the front door, or nil if it is not wanted.
func (c CompletedConfig) newFrontDoor(groups []*genericapiserver.APIGroupInfo) (*bridge.Server, error) {
	config := c.extra.FrontDoor
	if config == nil {
		return nil, nil
	}
	if config.Serving == nil || config.Serving.ClientCA == nil {
		return nil, errNoClientCA
	}
	door, err := bridge.NewFrontDoor(c.extra.Policies, admitted(groups))
	if err != nil {
		return nil, err
	}
	clients, err := bridge.NewClients(config.Serving.ClientCA.VerifyOptions, config.AllowedNames)
	if err != nil {
		return nil, err
	}
	return bridge.NewServer(config.Serving, bridge.NewHandler(door, clients))
}

// admitted returns a function that reports whether this server serves a request and runs
// admission on it, where conditions are evaluated. That is so for the writes that a storage
// offers, and for the verbs of a connection, but not for AuthorizationConditionsReview,
// which is never conditionally authorized.
func admitted(groups []*genericapiserver.APIGroupInfo) func(authorizer.Attributes) bool {
	type key struct{ group, version, resource, subresource string }
	verbs := map[key]sets.Set[string]{}
	for _, group := range groups {
		name := group.PrioritizedVersions[0].Group
		for version, resources := range group.VersionedResourcesStorageMap {
			for path, storage := range resources {
				resource, subresource, _ := strings.Cut(path, "/")
				if (schema.GroupResource{Group: name, Resource: resource}) != authorizationapi.Resource("authorizationconditionsreviews") {
					verbs[key{name, version, resource, subresource}] = admittedVerbs(storage)
				}
			}
		}
	}
	return func(a authorizer.Attributes) bool {
		asked := key{a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource()}
		return a.IsResourceRequest() && verbs[asked].Has(a.GetVerb())
	}
}

// connectVerbs are the verbs under which a connection is authorized, by HTTP method.
var connectVerbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create",
	http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

func admittedVerbs(storage rest.Storage) sets.Set[string] {
	verbs := sets.New[string]()
	add := func(offered bool, verb string) {
		if offered {
			verbs.Insert(verb)
		}
	}
	_, creates := storage.(rest.Creater)
	_, createsNamed := storage.(rest.NamedCreater)
	_, updates := storage.(rest.Updater)
	_, patches := storage.(rest.Patcher)
	_, deletes := storage.(rest.GracefulDeleter)
	_, deletesAll := storage.(rest.CollectionDeleter)
	add(creates || createsNamed, "create")
	add(updates, "update")
	add(patches, "patch")
	add(deletes, "delete")
	add(deletesAll, "deletecollection")
	if connecter, ok := storage.(rest.Connecter); ok {
		for _, method := range connecter.ConnectMethods() {
			verb, known := connectVerbs[strings.ToUpper(method)]
			add(known, verb)
		}
	}
	return verbs
}

// Run serves until ctx ends, and then shuts down gracefully. The front door is there first
// and last: it needs nothing of the rest but policies, and those who ask it are not done
// before the rest is.
func (s *Server) Run(ctx context.Context) error {
	prepared := s.GenericAPIServer.PrepareRun()
	if s.FrontDoor == nil {
		return prepared.RunWithContext(ctx)
	}
	doorCtx, closeDoor := context.WithCancel(context.WithoutCancel(ctx))
	wait, err := s.FrontDoor.Start(doorCtx)
	if err != nil {
		closeDoor()
		return err
	}
	defer wait()
	defer closeDoor()
	return prepared.RunWithContext(ctx)
}
