/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/place"
)

// places are the places of a front door. Each one may be missing.
type places struct {
	enforces, create, serves, elsewhere func(authorizer.Attributes) bool
	handler                             *place.KubeAPIServer
	inner                               *place.InnerDoor
	barriers                            *place.Barriers
}

func (p places) table() *place.Table {
	all := []place.Place{&place.Server{Enforces: p.enforces, Create: p.create}}
	if p.elsewhere != nil {
		all = append(all, &place.AggregatedServer{Enforces: p.elsewhere, Configuration: func(authorizer.Attributes) string { return "" }})
	}
	if p.serves != nil {
		all = append(all, &place.Unenforced{Serves: p.serves})
	}
	if p.handler != nil {
		all = append(all, p.handler)
	}
	if p.inner != nil {
		all = append(all, p.inner)
	}
	table, err := place.NewTable(p.barriers, all...)
	if err != nil {
		panic(err)
	}
	return table
}

// newHandler returns the place of kube-apiservers that handle conditions. They serve all versions but v2. Only Secrets have excluded fields.
func newHandler() *place.KubeAPIServer {
	return &place.KubeAPIServer{
		IsLocal:   func(version schema.GroupVersion) bool { return version.Version != "v2" },
		Excludes:  func(resource schema.GroupVersionResource) bool { return resource.Resource == "secrets" },
		AllHandle: func() bool { return true },
	}
}

// isInnerDoorCanary is the function Canary of an inner door.
func isInnerDoorCanary(_ *place.Client, a authorizer.Attributes) bool {
	_, ok := innerdoor.CanaryOf(a, "proviso-system")
	return ok
}
