/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// prepare creates the objects of artifacts/: the namespace, the ServiceAccount and its
// permissions, and the permissions of the users.
func (c *Cluster) prepare(ctx context.Context) error {
	manifests := [][]string{
		{"-f", "base/namespace.yaml"}, {"-f", "base/serviceaccount.yaml"}, {"-f", "base/rbac.yaml"}, {"-f", "dev/users.yaml"},
	}
	if c.Deployment {
		manifests = [][]string{{"-k", "overlays/demo"}, {"-f", "dev/users.yaml"}}
	}
	for _, m := range manifests {
		if _, err := c.Kubectl(ctx, "", "apply", "--server-side", "--validate=strict", m[0], filepath.Join(c.Manifests, m[1])); err != nil {
			return err
		}
	}
	return nil
}

// service directs kube-apiserver, which runs outside the cluster network, to Proviso on this
// machine.
const service = `
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: %s}
spec:
  type: ExternalName
  externalName: localhost
  ports: [{name: https, port: %d}]
`

const apiService = `
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  version: %[1]s
  groupPriorityMinimum: %[3]d
  versionPriority: 9
  caBundle: %[4]s
  service: {name: %[5]s, namespace: %[6]s, port: %[7]d}
`

// Register creates the Service and the APIServices, with the CA of Proviso's certificate, and
// waits until kube-apiserver reports them as available.
func (c *Cluster) Register(ctx context.Context) error {
	ca, err := os.ReadFile(c.ProvisoCAFile())
	if err != nil {
		return err
	}
	bundle := base64.StdEncoding.EncodeToString(ca)
	names := []string{"v1alpha1.authorization.k8s.io", "v1alpha1.authorization.proviso.dev", "v1alpha1.policy.proviso.dev", "v1alpha1.demo.proviso.dev"}
	manifest := fmt.Sprintf(service, Service, Namespace, c.ports.Proviso)
	for _, name := range names {
		version, group, _ := strings.Cut(name, ".")
		priority := 1000
		if group == "authorization.k8s.io" {
			priority = 17600 // the priority of the built-in version of the group
		}
		manifest += fmt.Sprintf(apiService, version, group, priority, bundle, Service, Namespace, c.ports.Proviso)
	}
	if c.Deployment {
		// A Service with a cluster address cannot be changed to type ExternalName, so it is
		// deleted first.
		if _, err := c.Kubectl(ctx, "", "delete", "--namespace="+Namespace, "--ignore-not-found", "service", Service); err != nil {
			return err
		}
	}
	if _, err := c.Kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := c.Kubectl(ctx, "", "wait", "--for=condition=Available", "--timeout="+time.Minute.String(), "apiservice/"+name); err != nil {
			return err
		}
	}
	return c.waitForDiscovery(ctx)
}

// waitForDiscovery waits until kube-apiserver lists the resources of an available APIService,
// which takes a moment. kubectl uses this list to find kinds and to validate objects.
func (c *Cluster) waitForDiscovery(ctx context.Context) error {
	resources := []string{`"authorization.proviso.dev"`, "authorizationconditionsreviews", "clusterauthorizationpolicies", "virtualmachines"} // a group, or one resource of it
	lists := []struct{ path, accept string }{
		{path: "/apis", accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
		{path: "/openapi/v3", accept: "application/json"},
		{path: "/openapi/v2", accept: "application/json"},
	}
	for _, list := range lists {
		wanted := resources
		if list.path == "/openapi/v3" {
			wanted = []string{"apis/authorization.k8s.io/v1alpha1", "apis/authorization.proviso.dev/v1alpha1", "apis/policy.proviso.dev/v1alpha1", "apis/demo.proviso.dev/v1alpha1"}
		}
		check := func(response *http.Response) error {
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return err
			}
			for _, name := range wanted {
				if !strings.Contains(string(body), name) {
					return fmt.Errorf("%s does not list %s yet", list.path, name)
				}
			}
			return nil
		}
		if err := c.poll(ctx, c.KubeAPIServer, probe{url: c.KubeAPIServerURL() + list.path, caFile: c.CAFile(), client: c.userPair(Admin), accept: list.accept, check: check}); err != nil {
			return err
		}
	}
	return nil
}
