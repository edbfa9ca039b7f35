/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// eventually is the mark of rows about what controllers do in their own time.
const eventually = "eventually"

// TestControllers lists everything that can be listed, and then has kube-controller-manager do its work on what a user
// of policies creates: once with the controllers excluded from both doors, as by default, and once with RBAC alone allowing them their
// writes. With the PodDisruptionBudget of the template protection they let no running pod be evicted.
func TestControllers(t *testing.T) {
	r := newRig(t, "", func(c *cluster.Config) { c.ControllerManager = true })
	rows := r.prepare(t, "controllers.yaml", eventually)
	everything := r.everything(t)
	for i, excluded := range []string{"", `
excludedIdentities: {users: ["system:serviceaccount:proviso-system:proviso-apiserver"]}`} {
		t.Run([]string{"excluded", "allowed by RBAC"}[i], func(t *testing.T) {
			r.configure(t, everything+excluded)
			r.proxy.reset()
			testControllers(t, r, rows["controllers"], fmt.Sprintf("controlled-%d", i))
			for _, call := range r.proxy.calls() {
				if call.UserInfo.Username != "dana" {
					t.Errorf("the inner door was called for %s: %s %s/%s in %s", call.UserInfo.Username, call.Operation, call.Resource.Resource, call.SubResource, call.Namespace)
				}
			}
		})
	}
	t.Run("evictions", func(t *testing.T) {
		r.MustKubectl(t, "create", "namespace", "evictions")
		r.MustKubectl(t, "apply", "-n", "evictions", "-f", filepath.Join(r.Manifests, "templates", "protection", "pods.yaml"))
		testControllers(t, r, rows["evictions"], "evictions")
	})
	t.Run("owners", func(t *testing.T) { testOwners(t, r, rows, everything) })
}

// everything returns the list of all resources that can be listed, of those that the kube-apiserver serves with a verb that writes.
func (r *rig) everything(t *testing.T) string {
	t.Helper()
	list := "resources:"
	count := 0
	for _, path := range []string{"/api", "/apis"} {
		accept := http.Header{"Accept": {"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}}
		answer, err := r.Sender.Do(t.Context(), nil, requests.Request{Method: http.MethodGet, Path: path, Header: accept})
		if err != nil || answer.Code != http.StatusOK {
			t.Fatalf("%s: %+v %v", path, answer, err)
		}
		groups := &apidiscoveryv2.APIGroupDiscoveryList{}
		if err := json.Unmarshal([]byte(answer.Body), groups); err != nil {
			t.Fatal(err)
		}
		for _, resource := range writable(groups) {
			if errs := innerdoor.ValidateResources([]innerdoor.Resource{resource}, field.NewPath("resources")); len(errs) == 0 {
				list += fmt.Sprintf("\n- {group: %q, resource: %s, subresource: %q}", resource.Group, resource.Resource, resource.Subresource)
				count++
			}
		}
	}
	t.Logf("%d resources are listed", count)
	if count < 80 {
		t.Fatalf("only %d resources can be listed:\n%s", count, list)
	}
	return list
}

// writable returns the resources and subresources that are served with a verb that writes, each once.
func writable(groups *apidiscoveryv2.APIGroupDiscoveryList) []innerdoor.Resource {
	var resources []innerdoor.Resource
	add := func(verbs []string, resource innerdoor.Resource) {
		writes := slices.ContainsFunc(verbs, func(verb string) bool {
			return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, verb)
		})
		if writes && !slices.Contains(resources, resource) {
			resources = append(resources, resource)
		}
	}
	for _, group := range groups.Items {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				add(r.Verbs, innerdoor.Resource{Group: group.Name, Resource: r.Resource})
				for _, s := range r.Subresources {
					add(s.Verbs, innerdoor.Resource{Group: group.Name, Resource: r.Resource, Subresource: s.Subresource})
				}
			}
		}
	}
	return resources
}

// configure gives the first kube-apiserver and Proviso another configuration, and waits until the front door lets writes pass.
func (r *rig) configure(t *testing.T, configuration string) {
	t.Helper()
	r.InnerDoor.Configuration = configuration
	if err := errors.Join(r.WriteInnerDoor(t.Context()), r.Kill(), r.StartProviso(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.shows(t, "/readyz/inner-door", r.KubeAPIServerURL()+": known:")
}

// testControllers creates and deletes objects, and expects what controllers make of them.
func testControllers(t *testing.T, r *rig, rows []*requests.Row, namespace string) {
	runner := r.runner()
	runner.Values = map[string]string{"ns": namespace}
	runner.After = func(row *requests.Row, answer *requests.Answer, _ []*admissionv1.AdmissionRequest) {
		object := metav1.PartialObjectMetadata{}
		if row.Do == "get" && json.Unmarshal([]byte(answer.Body), &object) == nil {
			runner.Values["uid "+object.Name] = string(object.UID)
		}
	}
	for _, row := range rows {
		if row.Is(eventually) {
			runner.Await(t, row)
		} else if problem := runner.Try(t, row); problem != "" {
			t.Fatalf("%s: %s", row, problem)
		}
	}
}

// testOwners has users who may update objects, and set an owner, by whose deletion the object would be deleted, too. Without the admission
// plugin OwnerReferencesPermissionEnforcement they may. With it they must be allowed to delete the object.
func testOwners(t *testing.T, r *rig, rows map[string][]*requests.Row, everything string) {
	const plugin, option = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement", "\nownerReferencesPermissionEnforcement: true"
	runner := r.runner()
	runner.Values = map[string]string{"ns": demo}
	runner.Run(t, rows["before owners"])
	const byPlugin, byInnerDoor = "cannot set an ownerRef on a resource you can't delete", "policy=owners-delete reason=NotMet"
	const byNobody = "no policy and no other authorizer allows it"
	for _, step := range []struct {
		name, settings string
		args           []string
		// refused has what the message of a refusal to set an owner contains, by user and object.
		refused map[string]string
		// differs says that the check of what is installed reports the plugin.
		differs bool
	}{
		{name: "without the plugin"},
		{name: "with the plugin and the option", settings: option, args: []string{plugin}, refused: map[string]string{
			"olga plain": byPlugin, "olga loose": byPlugin, "ruth plain": byPlugin, "ruth loose": byPlugin, "otto plain": byInnerDoor, "rita plain": byInnerDoor,
		}},
		// The plugin hears from the front door that rita and otto may delete, on conditions that nothing evaluates then.
		{name: "with the plugin, without the option", args: []string{plugin}, differs: true, refused: map[string]string{
			"olga plain": byPlugin, "olga loose": byPlugin, "ruth plain": byPlugin, "ruth loose": byPlugin,
		}},
		{name: "without the plugin, with the option", settings: option, refused: map[string]string{
			"olga plain": byNobody, "olga loose": byNobody, "ruth plain": byNobody, "ruth loose": byNobody, "otto plain": byInnerDoor, "rita plain": byInnerDoor,
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			if !slices.Equal(r.Servers[0].Args, step.args) {
				r.Servers[0].Args = step.args
				if err := errors.Join(r.KillKubeAPIServer(), r.StartKubeAPIServer(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			r.configure(t, everything+step.settings)
			for _, user := range []string{"olga", "otto", "rita", "ruth"} {
				for _, name := range []string{"plain", "loose"} {
					runner.Values["name"] = name
					runner.As = func(*requests.Row) *requests.User { return certified(user) }
					message, refused := step.refused[user+" "+name]
					runner.Want = func(row *requests.Row) *requests.Outcome {
						if refused && row.Name == "set an owner" {
							return &requests.Outcome{Code: http.StatusForbidden, Says: requests.Texts{message}}
						}
						return &row.Outcome
					}
					await(t, runner, rows["owners"][:1])
					runner.Run(t, rows["owners"])
				}
			}
			if output, err := r.check(t); step.differs != strings.Contains(output, "OwnerReferencesPermissionEnforcement is on") || (err != nil) != step.differs {
				t.Errorf("the check of what is installed: %v: %s", err, output)
			}
		})
	}
}
