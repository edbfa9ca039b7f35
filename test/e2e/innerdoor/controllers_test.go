/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// teams are the policies for dana, who writes what has the label team=blue. She has no rights by RBAC.
const teams = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-reads-all}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules: [{verbs: [get, list], apiGroups: ["*"], resources: ["*"]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-blue}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [create, update, patch], apiGroups: [""], apiVersions: [v1], resources: [namespaces, configmaps, persistentvolumeclaims, secrets, resourcequotas, serviceaccounts]}
  - {verbs: [create, update, patch], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  condition: object.metadata.?labels["team"].orValue("") == "blue"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: dana-deletes-blue}
spec:
  effect: Allow
  subjects: [{kind: User, name: dana}]
  rules:
  - {verbs: [delete], apiGroups: [""], apiVersions: [v1], resources: [namespaces, configmaps, persistentvolumeclaims]}
  - {verbs: [delete], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  condition: oldObject.metadata.?labels["team"].orValue("") == "blue"
`

// TestControllers lists everything that can be listed, and then has kube-controller-manager do its work on what a user
// of policies creates: once with the controllers excluded from both doors, as by default, and once with RBAC alone allowing them their
// writes.
func TestControllers(t *testing.T) {
	r := newRig(t, "", func(c *cluster.Config) { c.ControllerManager = true })
	r.apply(t, teams)
	if _, err := r.Kubectl(t.Context(), "", "wait", "--for=condition=Ready", "clusterauthorizationpolicies", "--all"); err != nil {
		t.Fatal(err)
	}
	everything := r.everything(t)
	for i, excluded := range []string{"", `
excludedIdentities: {users: ["system:serviceaccount:proviso-system:proviso-apiserver"]}`} {
		t.Run([]string{"excluded", "allowed by RBAC"}[i], func(t *testing.T) {
			r.configure(t, everything+excluded)
			r.proxy.reset()
			testControllers(t, r, fmt.Sprintf("controlled-%d", i))
			for _, call := range r.proxy.calls() {
				if call.UserInfo.Username != "dana" {
					t.Errorf("the inner door was called for %s: %s %s/%s in %s", call.UserInfo.Username, call.Operation, call.Resource.Resource, call.SubResource, call.Namespace)
				}
			}
		})
	}
	t.Run("owners", func(t *testing.T) { testOwners(t, r, everything) })
}

// everything returns the list of all resources that can be listed, of those that the kube-apiserver serves with a verb that writes.
func (r *rig) everything(t *testing.T) string {
	t.Helper()
	list := "resources:"
	count := 0
	for _, path := range []string{"/api", "/apis"} {
		accept := http.Header{"Accept": {"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}}
		answer, err := r.sender.Do(t.Context(), nil, requests.Request{Method: http.MethodGet, Path: path, Header: accept})
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
	if err := r.WriteInnerDoor(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.StartProviso(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll.Holds(t, "kube-apiserver is known to call the inner door", func() bool {
		_, state := r.direct(t, "/readyz/inner-door")
		return strings.Contains(state, r.KubeAPIServerURL()+": known:")
	})
}

// testControllers creates and deletes objects, and expects what controllers make of them.
func testControllers(t *testing.T, r *rig, namespace string) {
	base := "/api/v1/namespaces/" + namespace
	deployments := "/apis/apps/v1/namespaces/" + namespace + "/deployments"
	send := func(user, method, path, body string, want int) string {
		t.Helper()
		code, answer := r.send(t, user, method, path, jsonType, body)
		if code != want {
			t.Fatalf("%s %s: got %d %.600s, want %d", method, path, code, answer, want)
		}
		return answer
	}
	get := func(path, want string) func() bool {
		return func() bool {
			code, answer := r.send(t, cluster.Admin, "GET", path, "", "")
			return code == http.StatusOK && strings.Contains(answer, want)
		}
	}
	gone := func(path string) func() bool {
		return func() bool {
			code, _ := r.send(t, cluster.Admin, "GET", path, "", "")
			return code == http.StatusNotFound
		}
	}
	uid := func(path string) string {
		var object struct {
			Metadata struct {
				UID string `json:"uid"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal([]byte(send("dana", "GET", path, "", 200)), &object); err != nil {
			t.Fatal(err)
		}
		return object.Metadata.UID
	}

	send("dana", "POST", "/api/v1/namespaces", labelled("Namespace", namespace+"-red", "red", ""), 403)
	send("dana", "POST", "/api/v1/namespaces", labelled("Namespace", namespace, "blue", ""), 201)
	poll.Holds(t, "the namespace has its ServiceAccount", get(base+"/serviceaccounts/default", ""))
	poll.Holds(t, "the namespace has the CA", get(base+"/configmaps/kube-root-ca.crt", "BEGIN CERTIFICATE"))
	send("dana", "POST", base+"/serviceaccounts", labelled("ServiceAccount", "ci", "blue", ""), 201)
	send("dana", "POST", base+"/secrets", `{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
		"metadata": {"name": "token", "labels": {"team": "blue"}, "annotations": {"kubernetes.io/service-account.name": "ci"}}}`, 201)
	poll.Holds(t, "the Secret has a token", get(base+"/secrets/token", `"token":`))

	// A Deployment becomes a ReplicaSet, and that becomes Pods.
	blue := strings.Replace(strings.Replace(deployment, `"name": "d"`, `"name": "d", "labels": {"team": "blue"}`, 1), `"replicas": 1`, `"replicas": 2`, 1)
	send("dana", "POST", deployments, deployment, 403)
	send("dana", "POST", deployments, blue, 201)
	poll.Holds(t, "the Deployment has Pods", func() bool {
		_, answer := r.send(t, cluster.Admin, "GET", base+"/pods?labelSelector=a=b", "", "")
		return strings.Count(answer, `"image":`) == 2
	})
	poll.Holds(t, "the Deployment has its status", get(deployments+"/d", `"unavailableReplicas":2`))

	// A quota is enforced and counted.
	send("dana", "POST", base+"/resourcequotas", labelled("ResourceQuota", "q", "blue", `, "spec": {"hard": {"configmaps": "6"}}`), 201)
	poll.Holds(t, "the quota counts", get(base+"/resourcequotas/q", `"used":{"configmaps":"1"}`))
	for _, name := range []string{"background", "foreground", "orphan", "owned-by-quota", "last"} {
		send("dana", "POST", base+"/configmaps", labelled("ConfigMap", name, "blue", ""), 201)
	}
	if answer := send("dana", "POST", base+"/configmaps", labelled("ConfigMap", "too-many", "blue", ""), 403); !strings.Contains(answer, "exceeded quota") {
		t.Errorf("got %.600s, want a refusal by the quota", answer)
	}
	send("dana", "DELETE", base+"/configmaps/last", "", 200)
	poll.Holds(t, "the quota counts what is deleted", get(base+"/resourcequotas/q", `"used":{"configmaps":"5"}`))

	// Dependents go with their owner, or stay.
	for _, policy := range []string{"Background", "Foreground", "Orphan"} {
		owner := strings.ToLower(policy)
		send("dana", "POST", base+"/persistentvolumeclaims", strings.Replace(claim("of-"+owner, "dev", `"team": "blue"`), `"labels"`,
			fmt.Sprintf(`"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": %q, "uid": %q, "blockOwnerDeletion": true}], "labels"`, owner, uid(base+"/configmaps/"+owner)), 1), 201)
		send("dana", "DELETE", base+"/configmaps/"+owner, `{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "`+policy+`"}`, 200)
		poll.Holds(t, owner+": the owner is gone", gone(base+"/configmaps/"+owner))
		if policy == "Orphan" {
			poll.Holds(t, "the orphan stays", func() bool {
				_, answer := r.send(t, cluster.Admin, "GET", base+"/persistentvolumeclaims/of-orphan", "", "")
				return strings.Contains(answer, `"of-orphan"`) && !strings.Contains(answer, "ownerReferences")
			})
			continue
		}
		poll.Holds(t, owner+": the dependent is gone", gone(base+"/persistentvolumeclaims/of-"+owner))
	}
	send("dana", "DELETE", deployments+"/d", `{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}`, 200)
	poll.Holds(t, "the Deployment is gone", gone(deployments+"/d"))

	// A ClusterRole is aggregated.
	const role = `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "%s", "labels": {"into": "%s"}}, %s}`
	roles := "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	send(cluster.Admin, "POST", roles, fmt.Sprintf(role, namespace+"-all", "", `"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"into": "`+namespace+`"}}]}`), 201)
	send(cluster.Admin, "POST", roles, fmt.Sprintf(role, namespace+"-part", namespace, `"rules": [{"apiGroups": ["example.com"], "resources": ["aggregated"], "verbs": ["get"]}]`), 201)
	poll.Holds(t, "the ClusterRole has the rules of the other", get(roles+"/"+namespace+"-all", `"aggregated"`))

	send("dana", "DELETE", base, "", 200)
	poll.Holds(t, "the namespace is gone", gone(base))
}

// owners are the policies and roles of users who may not both update and delete by RBAC: olga may update by a policy,
// and ruth by RBAC. otto and rita may do the same, and delete what has a label by a policy.
const owners = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: owners-update}
spec:
  effect: Allow
  subjects: [{kind: User, name: olga}, {kind: User, name: otto}]
  rules: [{verbs: [update, patch], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.metadata.?labels["team"].orValue("") == "blue"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: owners-delete}
spec:
  effect: Allow
  subjects: [{kind: User, name: otto}, {kind: User, name: rita}]
  rules: [{verbs: [delete], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: oldObject.metadata.name.startsWith("loose")
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: owners-read}
spec:
  effect: Allow
  subjects: [{kind: User, name: olga}, {kind: User, name: otto}, {kind: User, name: rita}, {kind: User, name: ruth}]
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: updates}
rules: [{verbs: [update, patch], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: updates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: updates}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rita}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: ruth}]
`

// testOwners has users who may update objects, and set an owner, by whose deletion the object would be deleted, too. Without the admission
// plugin OwnerReferencesPermissionEnforcement they may. With it they must be allowed to delete the object.
func testOwners(t *testing.T, r *rig, everything string) {
	const plugin, option = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement", "\nownerReferencesPermissionEnforcement: true"
	r.apply(t, owners)
	for _, args := range [][]string{{"create", "namespace", demo}, {"wait", "--for=condition=Ready", "clusterauthorizationpolicies", "--all"}} {
		if _, err := r.Kubectl(t.Context(), "", args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"owner", "plain", "loose"} {
		if code, answer := r.send(t, cluster.Admin, "POST", maps, jsonType, labelled("ConfigMap", name, "blue", "")); code != http.StatusCreated {
			t.Fatalf("got %d %s", code, answer)
		}
	}
	const setOwner = `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "00000000-0000-0000-0000-000000000001"}]}}`
	const noOwner, setLabel = `{"metadata": {"ownerReferences": null}}`, `{"metadata": {"labels": {"x": "y"}}}`
	try := func(user, name, patch string) (int, string) {
		return r.send(t, user, "PATCH", maps+"/"+name+"?dryRun=All", mergeType, patch)
	}
	check := func() (string, error) {
		output, err := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "proviso-apiserver"), "inner-door-config", "--check",
			"--config", r.InnerDoorConfig(), "--output", r.InnerDoorFiles(), "--kubeconfig", r.Kubeconfig()).CombinedOutput()
		return string(output), err
	}
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
				if err := r.KillKubeAPIServer(); err != nil {
					t.Fatal(err)
				}
				if err := r.StartKubeAPIServer(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			r.configure(t, everything+step.settings)
			for _, user := range []string{"olga", "otto", "rita", "ruth"} {
				for _, name := range []string{"plain", "loose"} {
					poll.Holds(t, user+" may update", func() bool { code, _ := try(user, name, setLabel); return code == http.StatusOK })
					code, answer := try(user, name, setOwner)
					if message, refused := step.refused[user+" "+name]; refused != (code == http.StatusForbidden) || !refused && code != http.StatusOK || !strings.Contains(answer, message) {
						t.Errorf("%s sets the owner of %s: got %d %.600s, want refused: %t %s", user, name, code, answer, refused, message)
					}
					if code, answer := try(user, name, noOwner); code != http.StatusOK {
						t.Errorf("%s removes no owner of %s: got %d %.600s", user, name, code, answer)
					}
				}
			}
			if output, err := check(); step.differs != strings.Contains(output, "OwnerReferencesPermissionEnforcement is on") || (err != nil) != step.differs {
				t.Errorf("the check of what is installed: %v: %s", err, output)
			}
		})
	}
}
