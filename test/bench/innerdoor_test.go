/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// innerDoorObjects are the permissions for the benchmark: rob may write by RBAC, and users of the group tenants by a policy. In the namespace
// ruled, a ValidatingAdmissionPolicy has the same rule.
const innerDoorObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: free}
---
apiVersion: v1
kind: Namespace
metadata: {name: ruled}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writer}
rules: [{verbs: [create, update, get], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: rob}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: tenants}
spec:
  effect: Allow
  subjects: [{kind: Group, name: tenants}]
  rules: [{verbs: [create, update], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: object.metadata.?labels["team"].orValue("") == "blue"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: tenants-read}
spec:
  effect: Allow
  subjects: [{kind: Group, name: tenants}]
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: blue}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  validations: [{expression: 'object.metadata.?labels["team"].orValue("") == "blue"', reason: Forbidden}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: blue}
spec:
  policyName: blue
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ruled}}}
`

// startDoors runs a control plane with the objects of the benchmark.
func startDoors(b *testing.B, innerDoor *cluster.InnerDoor) *cluster.Cluster {
	b.Helper()
	c := startWith(b, innerDoor)
	if _, err := c.Kubectl(b.Context(), innerDoorObjects, "apply", "-f", "-"); err != nil {
		b.Fatal(err)
	}
	return c
}

// connectAs is connect as a user of any name.
func connectAs(b *testing.B, c *cluster.Cluster, user string, groups ...string) *rest.Config {
	b.Helper()
	config := connect(b, c, cluster.Admin)
	var err error
	if config.CertFile, config.KeyFile, err = c.NewUser(user, groups...); err != nil {
		b.Fatal(err)
	}
	config.CertData, config.KeyData = nil, nil
	return config
}

// writes returns an attempt to create a ConfigMap, or to update the same one.
func writes(b *testing.B, config *rest.Config, namespace, name string, creates bool) attempt {
	b.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "blue"}}, Data: map[string]string{}}
	maps := client.CoreV1().ConfigMaps(namespace)
	if creates {
		object.GenerateName = name + "-"
		return func(ctx context.Context, _ int) error {
			_, err := maps.Create(ctx, object, metav1.CreateOptions{})
			return err
		}
	}
	object.Name = name
	sent := 0
	return func(ctx context.Context, _ int) error {
		sent++
		object.Data["sent"] = fmt.Sprint(sent)
		_, err := maps.Update(ctx, object, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		}
		return err
	}
}

// untilPasses waits until an attempt succeeds.
func untilPasses(b *testing.B, try attempt) {
	b.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(b.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = try(ctx, 0)
		return last == nil, nil
	}); err != nil {
		b.Fatal(errors.Join(err, last))
	}
}

// BenchmarkInnerDoor compares writes, which take turns in one run: by a user whom a policy allows them on a condition ("policy"), and by a user
// whom RBAC allows them ("rbac"), where kube-apiserver has the inner door; by the latter where it has only the front door ("without"), and
// there with the same rule as a ValidatingAdmissionPolicy ("vap"). One operation is one turn of each, of 20 writes. The metrics are medians, and their
// differences to "without".
func BenchmarkInnerDoor(b *testing.B) {
	doors := startDoors(b, &cluster.InnerDoor{Configuration: "resources: [{resource: configmaps}]"})
	without := startDoors(b, nil)
	for _, write := range []struct {
		name    string
		creates bool
	}{{"create", true}, {"update", false}} {
		b.Run("write="+write.name, func(b *testing.B) {
			ways := []*way{
				{name: "without", connections: []attempt{writes(b, connectAs(b, without, "rob"), "free", "without", write.creates)}},
				{name: "vap", connections: []attempt{writes(b, connectAs(b, without, "rob"), "ruled", "vap", write.creates)}},
				{name: "rbac", connections: []attempt{writes(b, connectAs(b, doors, "rob"), "free", "rbac", write.creates)}},
				{name: "policy", connections: []attempt{writes(b, connectAs(b, doors, "pat", "tenants"), "free", "policy", write.creates)}},
			}
			compareWays(b, ways)
		})
	}
}

// doorClient returns a client with kube-apiserver's certificate for Proviso's port.
func doorClient(b *testing.B, c *cluster.Cluster) *http.Client {
	b.Helper()
	certFile, keyFile, err := c.FrontDoorCertificate()
	if err != nil {
		b.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		b.Fatal(err)
	}
	ca, err := os.ReadFile(c.CAFile())
	if err != nil {
		b.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(ca)
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
}

const (
	frontDoorReview = `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "user-%d", "groups": ["tenants", "system:authenticated"],
  "resourceAttributes": {"verb": "create", "version": "v1", "resource": "configmaps", "namespace": "free"}}}`
	innerDoorReview = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", "namespace": "free", "name": "a", "userInfo": {"username": "user-%d", "groups": ["tenants", "system:authenticated"]},
  "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
  "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
  "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "free", "labels": {"team": "blue"}, "creationTimestamp": null}, "data": {"key": "value"}}, "oldObject": null, "dryRun": false,
  "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}}}`
)

var digestInManifest = regexp.MustCompile(`/webhooks/admit/[0-9a-f]+`)

// BenchmarkDoors is how many reviews one replica answers at each door, sent by 16 users at a time over one connection, as kube-apiserver sends
// them. One operation is one review. cpu-us is the processor time of Proviso for one: the machine also runs the clients.
func BenchmarkDoors(b *testing.B) {
	const users = 16
	c := startDoors(b, &cluster.InnerDoor{Configuration: "resources: [{resource: configmaps}]"})
	untilPasses(b, writes(b, connectAs(b, c, "pat", "tenants"), "free", "doors", true))
	manifest, err := os.ReadFile(filepath.Join(c.InnerDoorFiles(), "manifests", "inner-door.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	client := doorClient(b, c)
	for _, door := range []struct{ name, path, review string }{
		{"front", "/webhooks/authorize", frontDoorReview}, {"inner", string(digestInManifest.Find(manifest)), innerDoorReview},
	} {
		b.Run("door="+door.name, func(b *testing.B) {
			w := &way{name: door.name}
			for i := range users {
				body := fmt.Appendf(nil, door.review, i)
				w.connections = append(w.connections, func(ctx context.Context, _ int) error {
					return isAllowed(ctx, client, c.FrontDoorURL()+door.path, body)
				})
			}
			if err := w.round(b.Context()); err != nil {
				b.Fatal(err)
			}
			w.elapsed, w.latencies = 0, nil
			before := processTime(b, c.Pid())
			for b.Loop() {
				if err := w.round(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(w.perSecond(), "reviews/s")
			b.ReportMetric(float64(w.median().Microseconds()), "p50-us")
			b.ReportMetric(float64((processTime(b, c.Pid())-before).Microseconds())/float64(len(w.latencies)), "cpu-us")
		})
	}
}

// isAllowed sends a review, and returns an error unless it is allowed.
func isAllowed(ctx context.Context, client *http.Client, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var review struct {
		Status   struct{ Allowed bool }
		Response struct{ Allowed bool }
	}
	if err := json.Unmarshal(content, &review); err != nil || !review.Status.Allowed && !review.Response.Allowed {
		return fmt.Errorf("%w: %d %s", errUnexpected, response.StatusCode, content)
	}
	return nil
}
