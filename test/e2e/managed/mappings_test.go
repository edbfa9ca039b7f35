/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package managed_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// mappings exclude fields of Deployments and ReplicaSets. RBAC allows erin and frank to write both. frank has the verbs of the fields, too.
const mappings = `
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: rollouts}
spec:
  description: who may pause rollouts, and set the tier
  resources: [{apiGroup: apps, apiVersions: [v1], resource: deployments}]
  fields:
  - {path: spec.paused, permission: pauses, exclusion: {}}
  - {path: 'metadata.labels["tier"]', permission: tier, exclusion: {newValues: value == "prod" || oldValue == "prod"}}
  - {path: status.observedGeneration, permission: observations, exclusion: {}}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: scaling}
spec:
  description: who may scale
  resources: [{apiGroup: apps, apiVersions: [v1], resource: replicasets}]
  fields:
  - {path: spec.replicas, permission: replicas, exclusion: {}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "mappings:writer"}
rules: [{apiGroups: [apps], resources: [deployments, deployments/status, replicasets, replicasets/scale], verbs: [get, list, create, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "mappings:fields"}
rules: [{apiGroups: [apps], resources: [deployments, deployments/status, replicasets, replicasets/scale], verbs: ["granular:pauses", "granular:tier", "granular:observations", "granular:replicas"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "mappings:writer"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "mappings:writer"}
subjects: [{kind: User, name: erin, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: frank, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: deployment-controller, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "mappings:fields"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "mappings:fields"}
subjects: [{kind: User, name: frank, apiGroup: rbac.authorization.k8s.io}]
`

// workload returns the manifest of a Deployment or a ReplicaSet.
func workload(kind, name, labels, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":%q,"metadata":{"name":%q,"namespace":"default","labels":{%s}},"spec":{"selector":{"matchLabels":{"app":"a"}},%s
		"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}`, kind, name, labels, spec)
}

// TestMappings has users whom RBAC allows everything change excluded fields in each way, with and without the verb of the field, and other
// fields without it.
func TestMappings(t *testing.T) {
	t.Parallel()
	for _, kubernetes := range cluster.BuiltKubernetes(filepath.Join("..", "..", "..", "_output", "bin")) {
		t.Run(kubernetes.Name, func(t *testing.T) {
			t.Parallel()
			testMappings(t, newRig(t, cluster.Config{Managed: true, Oldest: kubernetes.Oldest, Args: []string{"--barriers", "--feature-gates=FineGrainedAuthorization=true"}}, (*cluster.Cluster).Up))
		})
	}
}

// TestMappingsWithFrontDoor is TestMappings where kube-apiserver asks the front door before RBAC, also for the verb of a field.
func TestMappingsWithFrontDoor(t *testing.T) {
	t.Parallel()
	testMappings(t, newRig(t, cluster.Config{}, func(c *cluster.Cluster, ctx context.Context) error {
		c.Args = []string{"--barriers", "--feature-gates=FineGrainedAuthorization=true", "--kube-apiserver-servers=" + c.KubeAPIServerURL()}
		return c.Up(ctx)
	}))
}

func testMappings(t *testing.T, r *rig) {
	t.Helper()
	if got := r.kubectl(t, mappings, "apply", "--dry-run=server", "-f", "-"); !strings.Contains(got, "kube-apiserver will enforce the exclusion with the ValidatingAdmissionPolicy rollouts.mapping.policy.proviso.dev") {
		t.Errorf("a dry run tells %s", got)
	}
	r.kubectl(t, workload("Deployment", "web", `"other":"a"`, ""), "create", "-f", "-")
	r.kubectl(t, workload("ReplicaSet", "set", `"other":"a"`, `"replicas":1,`), "create", "-f", "-")
	r.kubectl(t, mappings, "apply", "-f", "-")
	r.kubectl(t, "", "wait", "--for=condition=Effective", "--timeout=1m", "fieldpermissionmapping/rollouts", "fieldpermissionmapping/scaling")
	pause := []string{"patch", "deployment/web", "--dry-run=server", "--type=merge", `-p={"spec":{"paused":true}}`}
	eventually(t, "the barrier refuses", func() string {
		output, err := r.Kubectl(t.Context(), "", append(pause, "--as=erin")...)
		if err == nil || !strings.Contains(output, `the field spec.paused is excluded from general permission: changing it also needs the verb "granular:pauses"`) {
			return output
		}
		return ""
	})
	eventually(t, "RBAC has the roles", func() string {
		if output, err := r.Kubectl(t.Context(), "", append(pause, "--as=frank")...); err != nil {
			return output
		}
		return ""
	})
	paused := workload("Deployment", "web", `"other":"a"`, `"paused":true,`)
	applied := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"spec":{"paused":true}}`
	for _, tc := range []struct {
		name, input string
		args        []string
		// field is the excluded field that the write changes, "" if it changes none.
		field string
	}{
		{"create", workload("Deployment", "new", "", ""), []string{"create", "-f", "-"}, ""},
		{"create with the field", workload("Deployment", "new", "", `"paused":true,`), []string{"create", "-f", "-"}, "spec.paused"},
		{"create with generateName", strings.Replace(workload("Deployment", "new-", "", `"paused":true,`), `"name":"new-"`, `"generateName":"new-"`, 1), []string{"create", "-f", "-"}, "spec.paused"},
		{"create with the label", workload("Deployment", "new", `"tier":"prod"`, ""), []string{"create", "-f", "-"}, "metadata.labels.tier"},
		{"create with another value", workload("Deployment", "new", `"tier":"test"`, ""), []string{"create", "-f", "-"}, ""},
		{"replace", workload("Deployment", "web", `"other":"b"`, ""), []string{"replace", "-f", "-"}, ""},
		{"replace with the field", paused, []string{"replace", "-f", "-"}, "spec.paused"},
		{"merge patch", "", pause, "spec.paused"},
		{"strategic merge patch", "", []string{"patch", "deployment/web", "--type=strategic", `-p={"spec":{"paused":true}}`}, "spec.paused"},
		{"JSON patch", "", []string{"patch", "deployment/web", "--type=json", `-p=[{"op":"add","path":"/spec/paused","value":true}]`}, "spec.paused"},
		{"apply", applied, []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, "spec.paused"},
		{"apply of the present value", strings.Replace(applied, `"paused":true`, `"minReadySeconds":0`, 1), []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, ""},
		{"another label", "", []string{"label", "deployment/web", "other=c", "--overwrite"}, ""},
		{"the label with another value", "", []string{"label", "deployment/web", "tier=test"}, ""},
		{"the label", "", []string{"label", "deployment/web", "tier=prod", "--overwrite"}, "metadata.labels.tier"},
		{"status", "", []string{"patch", "deployment/web", "--subresource=status", "--type=merge", `-p={"status":{"observedGeneration":9}}`}, "status.observedGeneration"},
		{"another field of the status", "", []string{"patch", "deployment/web", "--subresource=status", "--type=merge", `-p={"status":{"replicas":1}}`}, ""},
		{"replicas", "", []string{"patch", "replicaset/set", "--type=merge", `-p={"spec":{"replicas":2}}`}, "spec.replicas"},
		{"another field beside replicas", "", []string{"patch", "replicaset/set", "--type=merge", `-p={"spec":{"minReadySeconds":1}}`}, ""},
	} {
		for _, user := range []string{"erin", "frank"} {
			wantRefused := tc.field != "" && user == "erin"
			args := append([]string{"--as=" + user, "--namespace=default", "--dry-run=server"}, tc.args...)
			if !wantRefused && user == "erin" && !strings.HasPrefix(tc.name, "create") {
				args = append([]string{"--as=" + user, "--namespace=default"}, tc.args...)
			}
			output, err := r.Kubectl(t.Context(), tc.input, args...)
			switch {
			case wantRefused && (err == nil || !strings.Contains(output, "the field "+tc.field+" is excluded")):
				t.Errorf("%s by %s: got %v, %s", tc.name, user, err, output)
			case !wantRefused && err != nil:
				t.Errorf("%s by %s: %v, %s", tc.name, user, err, output)
			}
		}
	}
	testIndirectWrites(t, r)
	controller := []string{"--as=system:serviceaccount:kube-system:deployment-controller", "--as-group=system:serviceaccounts:kube-system", "--as-group=system:authenticated"}
	r.kubectl(t, "", append(controller, "patch", "deployment/web", "--subresource=status", "--type=merge", `-p={"status":{"observedGeneration":9}}`)...)

	r.kubectl(t, "", "patch", "validatingadmissionpolicy/rollouts.mapping.policy.proviso.dev", "--type=merge", `-p={"spec":{"validations":[{"expression":"true"}]}}`)
	eventually(t, "a change is undone", func() string {
		if output, err := r.Kubectl(t.Context(), "", append(pause, "--as=erin")...); err == nil {
			return output
		}
		return ""
	})
	eventually(t, "an event tells", func() string {
		if got := r.kubectl(t, "", "get", "events", "-n=default", "-o=jsonpath={range .items[*]}{.involvedObject.kind} {.involvedObject.name} {.reason}\n{end}"); !strings.Contains(got, "FieldPermissionMapping rollouts BarrierRestored") {
			return got
		}
		return ""
	})
	r.kubectl(t, "", "delete", "fieldpermissionmapping/rollouts", "--timeout=1m")
	eventually(t, "the exclusion is gone", func() string {
		output, err := r.Kubectl(t.Context(), "", append(pause, "--as=erin")...)
		if err != nil {
			return output
		}
		return ""
	})
}
