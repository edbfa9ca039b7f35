/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// prepare creates the objects of artifacts/: the namespace, the ServiceAccount and its
// permissions, and the permissions of the users.
func (c *Cluster) prepare(ctx context.Context) error {
	var manifests []string
	add := func(path ...string) error {
		content, err := os.ReadFile(filepath.Join(path...))
		manifests = append(manifests, string(content))
		return err
	}
	var err error
	if c.Deployment {
		err = c.addOverlay(ctx, &manifests)
	} else {
		err = errors.Join(add(c.Manifests, "base", "namespace.yaml"), add(c.Manifests, "base", "serviceaccount.yaml"), add(c.Manifests, "base", "rbac.yaml"), add(c.Manifests, "barriers", "rbac.yaml"))
	}
	err = errors.Join(err, add(c.Manifests, "dev", "users.yaml"))
	if c.InnerDoor != nil {
		err = errors.Join(err, add(c.InnerDoorFiles(), "canary.yaml"))
	}
	if err != nil {
		return err
	}
	_, err = c.apply(ctx, strings.Join(manifests, "\n---\n")) // the APIServices of an overlay are not available yet
	return err
}

// addOverlay adds the objects of the overlay for the cluster.
func (c *Cluster) addOverlay(ctx context.Context, manifests *[]string) error {
	overlay, err := c.overlay(ctx)
	if err != nil {
		return err
	}
	manifest, err := c.Kubectl(ctx, "", "kustomize", filepath.Join(c.Manifests, overlay))
	*manifests = append(*manifests, manifest)
	return err
}

// overlay returns the folder of the overlay for the cluster, relative to Manifests. If kube-apiserver owns the APIService of
// authorization.k8s.io/v1alpha1, the overlay does not have it.
func (c *Cluster) overlay(ctx context.Context) (string, error) {
	overlay := "overlays/demo"
	if c.Managed {
		overlay = "overlays/managed"
	}
	owned, err := c.ownedByKubeAPIServer(ctx)
	if err != nil || !owned {
		return overlay, err
	}
	dir := filepath.Join(c.Dir, "without-authorization.k8s.io")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	back, err := filepath.Rel(dir, c.Manifests)
	if err != nil {
		return "", err
	}
	kustomization := fmt.Sprintf("resources: [%s/%s]\ncomponents: [%s/without-authorization.k8s.io]\n", back, overlay, back)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		return "", err
	}
	return filepath.Rel(c.Manifests, dir)
}

// officialReviews is the APIService of reviews that a kube-apiserver may own.
const officialReviews = "v1alpha1.authorization.k8s.io"

// ownedByKubeAPIServer reports whether kube-apiserver manages the APIService of reviews, as it does for a version that it serves
// itself. Such an APIService must be left alone.
func (c *Cluster) ownedByKubeAPIServer(ctx context.Context) (bool, error) {
	stored, err := c.get(ctx, "apiregistration.k8s.io/v1", "APIService", officialReviews)
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	label := stored.GetLabels()["kube-aggregator.kubernetes.io/automanaged"]
	return label == "onstart" || label == "true", nil
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
metadata:
  name: %[1]s.%[2]s
  labels: {kube-aggregator.kubernetes.io/automanaged: "false"}
spec:
  group: %[2]s
  version: %[1]s
  groupPriorityMinimum: %[3]d
  versionPriority: 9
  caBundle: %[4]s
  service: {name: %[5]s, namespace: %[6]s, port: %[7]d}
`

// Register creates the Service and the APIServices, with the CA of Proviso's certificate, and
// waits until kube-apiserver reports them as available. It leaves out the APIService that kube-apiserver owns.
func (c *Cluster) Register(ctx context.Context) error {
	if c.Deployment {
		// A Service with a cluster address cannot be changed to type ExternalName, so it is
		// deleted first.
		if err := c.Delete(ctx, fmt.Sprintf(service, Service, Namespace, c.ports.Proviso)); err != nil {
			return err
		}
	}
	if err := c.Apply(ctx, fmt.Sprintf(service, Service, Namespace, cmp.Or(c.ServicePort, c.ports.Proviso))); err != nil {
		return err
	}
	versions := []string{officialReviews, "v1alpha1.authorization.proviso.dev", "v1alpha1.policy.proviso.dev"}
	if !c.Managed { // the overlay managed has no demo API
		versions = append(versions, "v1alpha1.demo.proviso.dev")
	}
	return c.RegisterVersions(ctx, versions...)
}

// RegisterVersions is Register for some APIServices, without the Service.
func (c *Cluster) RegisterVersions(ctx context.Context, names ...string) error {
	owned, err := c.ownedByKubeAPIServer(ctx)
	if err != nil {
		return err
	}
	if owned && slices.Contains(names, officialReviews) {
		c.Log("kube-apiserver owns the APIService %s, which is left alone: use authorization.proviso.dev", officialReviews)
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == officialReviews })
	}
	if len(names) == 0 {
		return nil
	}
	ca, err := os.ReadFile(c.ProvisoCAFile())
	if err != nil {
		return err
	}
	bundle, manifest := base64.StdEncoding.EncodeToString(ca), ""
	for _, name := range names {
		version, group, _ := strings.Cut(name, ".")
		priority := 1000
		if name == officialReviews {
			priority = 17600 // the priority of the built-in version of the group
		}
		manifest += fmt.Sprintf(apiService, version, group, priority, bundle, Service, Namespace, cmp.Or(c.ServicePort, c.ports.Proviso))
	}
	if err := c.Apply(ctx, manifest); err != nil {
		return err
	}
	return c.waitForDiscovery(ctx, names)
}

// waitForDiscovery waits until kube-apiserver lists the resources of an available APIService,
// which takes a moment. kubectl uses this list to find kinds and to validate objects.
func (c *Cluster) waitForDiscovery(ctx context.Context, names []string) error {
	resources := make([]string, 0, len(names)) // one resource of each group, or the group
	for _, name := range names {
		resources = append(resources, map[string]string{
			officialReviews: "authorizationconditionsreviews", "v1alpha1.authorization.proviso.dev": "authorization.proviso.dev",
			"v1alpha1.policy.proviso.dev": "clusterauthorizationpolicies", "v1alpha1.demo.proviso.dev": "virtualmachines",
		}[name])
	}
	lists := []struct{ path, accept string }{
		{path: "/apis", accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
		{path: "/openapi/v3", accept: "application/json"},
		{path: "/openapi/v2", accept: "application/json"},
	}
	for _, list := range lists {
		wanted := resources
		if list.path == "/openapi/v3" {
			wanted = nil
			for _, name := range names {
				version, group, _ := strings.Cut(name, ".")
				wanted = append(wanted, "apis/"+group+"/"+version)
			}
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
		if err := c.poll(ctx, c.Servers[0].process, probe{url: c.KubeAPIServerURL() + list.path, caFile: c.CAFile(), client: c.userPair(Admin), accept: list.accept, check: check}); err != nil {
			return err
		}
	}
	return nil
}
