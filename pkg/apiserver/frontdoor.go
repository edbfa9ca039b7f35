/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/proviso-authz/proviso/pkg/bridge"
	"github.com/proviso-authz/proviso/pkg/granular"
)

// FrontDoorConfig is what the listener of the front door needs.
type FrontDoorConfig struct {
	// Serving has a listener, a serving certificate and the CA of clients.
	Serving *genericapiserver.SecureServingInfo
	// AllowedNames are the common names of clients. If empty, any will do.
	AllowedNames []string
	// Fields answers by kube-apiserver who has the verb granular, with the delegation marker.
	// Nil means that permission on fields lets nobody pass.
	Fields authorizer.UnconditionalAuthorizer
}

var errNoClientCA = errors.New("the front door needs the CA of its clients")

// newFrontDoor makes the front door, or nil if it is not wanted. It lets pass on conditions
// exactly what the enforcer covers.
func (c CompletedConfig) newFrontDoor() (*bridge.Server, error) {
	config := c.extra.FrontDoor
	if config == nil {
		return nil, nil
	}
	if config.Serving == nil || config.Serving.ClientCA == nil {
		return nil, errNoClientCA
	}
	door, err := bridge.NewFrontDoor(bridge.Config{Chain: c.extra.Chains.FrontDoor, Policies: c.extra.Policies, Enforces: c.extra.Enforcer.Covers, Fields: c.fieldsOf(config)})
	if err != nil {
		return nil, err
	}
	clients, err := bridge.NewClients(config.Serving.ClientCA.VerifyOptions, config.AllowedNames)
	if err != nil {
		return nil, err
	}
	return bridge.NewServer(config.Serving, bridge.NewHandler(door, clients))
}

// fieldsOf says who else passes the front door, if the server checks fields at all. Who
// connects changes none.
func (c CompletedConfig) fieldsOf(config *FrontDoorConfig) *bridge.Fields {
	if c.extra.Mappings == nil || config.Fields == nil {
		return nil
	}
	return &bridge.Fields{KubeAPIServer: config.Fields, Question: func(attributes authorizer.Attributes) (authorizer.Attributes, bool) {
		if c.extra.Enforcer.Connects(attributes) {
			return nil, false
		}
		return granular.Question(attributes)
	}}
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
