/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The verbs and resources that kubectl auth can-i knows. Others cause a warning.
var (
	resourceVerbs = sets.New("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "use", "bind", "impersonate", "*",
		"approve", "sign", "escalate", "attest")
	nonResourceURLVerbs = sets.New("get", "put", "post", "head", "options", "delete", "patch", "*")
	// nonStandardResources are resources that no server serves: users and groups, for the verb impersonate.
	nonStandardResources = sets.New("users", "groups")
)

// complete reads the arguments and the file, and prints the warnings of kubectl auth can-i.
func (o *options) complete(args []string) error {
	o.verb = args[0]
	if len(args) == 2 && strings.HasPrefix(args[1], "/") {
		o.nonResourceURL = args[1]
		if !nonResourceURLVerbs.Has(o.verb) {
			o.warn(fmt.Sprintf("verb '%s' is not a known verb", o.verb))
		}
		return nil
	}
	mapper, err := o.flags.ToRESTMapper()
	if err != nil {
		return err
	}
	if len(args) == 2 {
		resource, name, _ := strings.Cut(args[1], "/")
		o.name = name
		if o.resource, err = o.resourceFor(mapper, resource); err != nil {
			return err
		}
	}
	if o.filename != "" {
		if err := o.readObject(mapper); err != nil {
			return err
		}
	}
	o.warnAboutResource()
	return nil
}

// resourceFor resolves a resource as kubectl auth can-i does. A resource that the server does not have causes a warning.
func (o *options) resourceFor(mapper meta.RESTMapper, argument string) (schema.GroupVersionResource, error) {
	if argument == "*" {
		return schema.GroupVersionResource{Resource: argument}, nil
	}
	full, groupResource := schema.ParseResourceArg(strings.ToLower(argument))
	if full != nil {
		if found, err := mapper.ResourceFor(*full); err == nil && !found.Empty() {
			return found, nil
		}
	}
	found, err := mapper.ResourceFor(groupResource.WithVersion(""))
	if err == nil {
		return found, nil
	}
	if isUnreachable(err) {
		return found, err
	}
	if !nonStandardResources.Has(groupResource.String()) {
		text := fmt.Sprintf("the server doesn't have a resource type '%s'", groupResource.Resource)
		if groupResource.Group != "" {
			text += fmt.Sprintf(" in group '%s'", groupResource.Group)
		}
		o.warn(text)
	}
	return schema.GroupVersionResource{Resource: argument}, nil
}

// isUnreachable reports whether no server has answered.
func isUnreachable(err error) bool {
	_, isURL := errors.AsType[*url.Error](err)
	return isURL
}

func (o *options) warnAboutResource() {
	if o.allNamespaces {
		return
	}
	if namespaced, known := o.isNamespaced(); known && !namespaced {
		text := fmt.Sprintf("resource '%s' is not namespace scoped", o.resource.Resource)
		if o.resource.Group != "" {
			text += fmt.Sprintf(" in group '%s'", o.resource.Group)
		}
		o.warn(text)
	}
	if !resourceVerbs.Has(o.verb) {
		o.warn(fmt.Sprintf("verb '%s' is not a known verb", o.verb))
	}
}

// isNamespaced reports whether the resource is in namespaces. known is false if the server does not tell.
func (o *options) isNamespaced() (namespaced, known bool) {
	if o.resource.Resource == "*" {
		return true, true
	}
	resources, err := o.clients.discovery.ServerResourcesForGroupVersion(o.resource.GroupVersion().String())
	if err != nil {
		return true, false
	}
	for i := range resources.APIResources {
		if resources.APIResources[i].Name == o.resource.Resource {
			return resources.APIResources[i].Namespaced, true
		}
	}
	return false, false
}
