/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// untouched are the metrics that no request of TestMetrics counts, with the reason. Other tests count them.
var untouched = map[string]string{
	"proviso_authorization_config_controller_automatic_reloads_total":                 "the file is read once a minute: TestReload of pkg/authorization/webhook",
	"proviso_authorization_config_controller_automatic_reload_last_timestamp_seconds": "the file is read once a minute: TestReload of pkg/authorization/webhook",
	"proviso_authorization_kube_apiserver_refusals_total":                             "hundreds of checks must wait: TestRefusalsAreCounted of pkg/authorization/webhook",
	"proviso_enforcement_never_evaluated_total":                                       "no request can count it, unless there is a mistake: TestNeverEvaluated of pkg/enforcement",
	"proviso_policy_compile_failures_total":                                           "a policy that does not compile is refused when it is written: TestPoliciesBrokenInEtcd",
	"proviso_policy_audited_requests_total":                                           "the status of the policy is written some time later, which is a request: TestAuditedByPolicy of pkg/policy",
	"proviso_webhook_conditions_answers_total":                                        "the gate UpstreamConditionalDecisions is off: TestConditionsAreCounted of pkg/innerdoor",
	"proviso_webhook_authorize_unaudited_total":                                       "many slow evaluations must run at the same time: TestUnauditedAreCounted of pkg/frontdoor",
	"proviso_webhook_authorize_webhooks_busy_total":                                   "many webhooks must be slow at the same time: TestCallsOfOneUser of pkg/frontdoor",
	"proviso_webhook_authorize_namespaces_unevaluated_total":                          "many slow evaluations must run at the same time: TestUnevaluatedNamespacesAreCounted of pkg/frontdoor",
	"proviso_inner_door_called":                                                       "the server of the test has no inner door: TestInnerDoor of test/e2e/innerdoor",
	"proviso_inner_door_known":                                                        "the server of the test has no inner door: TestInnerDoor of test/e2e/innerdoor",
	"proviso_inner_door_probes_total":                                                 "the server of the test has no inner door: TestInnerDoor of test/e2e/innerdoor",
	"proviso_webhook_authorize_inner_door_answers_total":                              "the server of the test has no inner door: TestInnerDoor of test/e2e/innerdoor",
	"proviso_webhook_authorize_inner_door_read_checks_total":                          "the server of the test has no inner door: TestInnerDoor of test/e2e/innerdoor",
	"proviso_webhook_admit_requests_total":                                            "the server of the test has no inner door: TestWritesAreCounted of pkg/innerdoor",
	"proviso_webhook_admit_refusals_total":                                            "the server of the test has no inner door: TestWritesAreCounted of pkg/innerdoor",
	"proviso_webhook_admit_undecided_total":                                           "the server of the test has no inner door: TestWritesAreCounted of pkg/innerdoor",
	"proviso_webhook_admit_duration_seconds":                                          "the server of the test has no inner door: TestWritesAreCounted of pkg/innerdoor",
	"proviso_barrier_policies":                                                        "the server of the test writes no barriers: TestWritesAreCounted of pkg/barrier/barriercontroller",
	"proviso_barrier_orphaned":                                                        "the server of the test writes no barriers: TestWritesAreCounted of pkg/barrier/barriercontroller",
	"proviso_barrier_leader":                                                          "the server of the test writes no barriers: TestWritesAreCounted of pkg/barrier/barriercontroller",
	"proviso_barrier_writes_total":                                                    "the server of the test writes no barriers: TestWritesAreCounted of pkg/barrier/barriercontroller",
	"proviso_barrier_rollout_policies":                                                "the server of the test writes no barriers: tests of pkg/barrier/rollout",
	"proviso_barrier_rollout_probes_total":                                            "the server of the test writes no barriers: tests of pkg/barrier/rollout",
	"proviso_barrier_rollout_server_loaded":                                           "the server of the test writes no barriers: tests of pkg/barrier/rollout",
}

// metricsPolicies are the policies of TestMetrics. Each is about a user of its own.
const metricsPolicies = `
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: reads}
spec:
  effect: Allow
  subjects: [{kind: User, name: reader}]
  rules: [{verbs: [get, list], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: no-reads-of-closed}
spec:
  effect: Deny
  subjects: [{kind: User, name: reader}]
  rules: [{verbs: [get], apiGroups: [demo.proviso.dev], resources: [virtualmachines], resourceNames: [closed]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: too-expensive}
spec:
  effect: NoOpinion
  subjects: [{kind: User, name: reader}]
  rules: [{verbs: [list], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
  condition: >-
    [1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d,
    request.userInfo.groups.all(g, g.matches(".*" + string(a + b + c + d) + "x|s.*") || a + b + c + d > 0)))))
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: good-images}
spec:
  effect: Allow
  subjects: [{kind: User, name: writer}]
  rules: [{verbs: [create, update], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: object.spec.image == "good"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: fails-on-tags}
spec:
  effect: Deny
  subjects: [{kind: User, name: writer}]
  rules: [{verbs: [update], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: object.spec.tags[0] == "x"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: good-patches, namespace: demo}
spec:
  effect: Allow
  subjects: [{kind: User, name: patcher}]
  rules: [{verbs: [patch], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: object.spec.image == "good"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: checked}
spec:
  effect: Allow
  subjects: [{kind: User, name: checker}]
  rules: [{verbs: [create], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: authorizer.group("").resource("secrets").namespace("demo").check("get").allowed()
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: checks}
spec:
  effect: Allow
  subjects: [{kind: User, name: checker}]
  rules: [{verbs: [get], apiGroups: [""], resources: [secrets]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: as-frank}
spec:
  effect: Allow
  subjects: [{kind: User, name: carol}]
  rules: [{verbs: [constrainedimpersonate], apiGroups: [authentication.k8s.io], apiVersions: ["*"], resources: [users]}]
  condition: impersonatedUser.username == "frank" && object.spec.image == "good"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: as-nobody}
spec:
  effect: Deny
  subjects: [{kind: User, name: carol}]
  rules: [{verbs: [constrainedimpersonate], apiGroups: [authentication.k8s.io], resources: [groups]}]
  condition: request.name == "nobody"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: frank-creates}
spec:
  effect: Allow
  subjects: [{kind: User, name: frank}]
  rules: [{verbs: [create], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: labels}
spec:
  effect: Allow
  subjects: [{kind: User, name: labeller}]
  rules: [{verbs: [granular, "granular:label(team)"], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
  condition: request.namespace == "demo"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: all-but-devices}
spec:
  effect: Allow
  subjects: [{kind: User, name: devices}]
  rules: [{verbs: [patch], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: keeps-machines}
spec:
  effect: Deny
  subjects: [{kind: User, name: keeper}]
  rules: [{verbs: [delete], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: oldObject.metadata.name == "kept"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermissionMapping
metadata: {name: admin-access}
spec:
  resources: [{apiGroup: demo.proviso.dev, resource: virtualmachines}]
  fields: [{path: spec.adminAccess, permission: adminDevices, exclusion: {newValues: value == true}}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: reads-configmaps}
spec:
  effect: Allow
  subjects: [{kind: User, name: core}]
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: data-of-configmaps}
spec:
  effect: Allow
  subjects: [{kind: User, name: core}]
  rules: [{verbs: [create], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: size(object.data) == 0
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: keeps-configmaps}
spec:
  effect: Deny
  subjects: [{kind: User, name: core}]
  rules: [{verbs: [delete], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  condition: oldObject.metadata.name == "kept"
---
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: only-in-demo, namespace: demo}
spec:
  effect: Allow
  subjects: [{kind: User, name: core}]
  rules: [{verbs: [list], apiGroups: [""], resources: [configmaps]}]
  condition: request.namespace == "demo"
`

// The paths and media types of the requests.
const (
	vmPath       = "/apis/demo.proviso.dev/v1alpha1/namespaces/demo/virtualmachines"
	reviewsPath  = "/apis/authorization.k8s.io/v1alpha1/"
	mergePatch   = "application/merge-patch+json"
	anyJSON      = "application/json"
	frontDoorURL = "/webhooks/authorize"
)

func vmJSON(name, image string) string {
	return fmt.Sprintf(`{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":%q,"namespace":"demo"},"spec":{"image":%q}}`, name, image)
}

// outcome is a request of TestMetrics.
type outcome struct {
	name string
	// user is impersonated by the admin, unless requester is set, who impersonates user and groups then.
	user, requester, groups string
	method, path, kind      string
	body                    string
	// example names a review of artifacts/examples/reviews that is the body.
	example string
	want    int
}

// outcomes are requests to the server, one for each outcome that its metrics distinguish.
var outcomes = []outcome{
	{name: "allowed", user: "reader", method: http.MethodGet, path: vmPath + "/one", want: 200},
	{name: "denied", user: "reader", method: http.MethodGet, path: vmPath + "/closed", want: 403},
	{name: "no opinion", user: "stranger", method: http.MethodGet, path: vmPath + "/one", want: 403},
	{name: "allowed by kube-apiserver", user: "stranger", method: http.MethodGet, path: "/version", want: 200},
	{name: "a condition is over its budget", user: "reader", method: http.MethodGet, path: vmPath, want: 403},
	{name: "allowed on conditions, which are true", user: "writer", method: http.MethodPost, path: vmPath, body: vmJSON("two", "good"), want: 201},
	{name: "allowed on conditions, which are false", user: "writer", method: http.MethodPost, path: vmPath, body: vmJSON("three", "bad"), want: 403},
	{name: "allowed on conditions, which fail", user: "writer", method: http.MethodPut, path: vmPath + "/two", body: vmJSON("two", "good"), want: 403},
	{name: "allowed on conditions of the namespace", user: "patcher", method: http.MethodPatch, path: vmPath + "/one", kind: mergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, want: 200},
	{name: "a secondary check", user: "checker", method: http.MethodPost, path: vmPath, body: vmJSON("four", "any"), want: 201},
	{name: "a permission on a field", user: "labeller", method: http.MethodPatch, path: vmPath + "/one", kind: mergePatch, body: `{"metadata":{"labels":{"team":"blue"}}}`, want: 200},
	{name: "no permission on a field", user: "labeller", method: http.MethodPatch, path: vmPath + "/one", kind: mergePatch, body: `{"spec":{"image":"bad"}}`, want: 403},
	{name: "an excluded field", user: "devices", method: http.MethodPatch, path: vmPath + "/one", kind: mergePatch, body: `{"spec":{"adminAccess":true}}`, want: 403},
	{name: "no excluded field", user: "devices", method: http.MethodPatch, path: vmPath + "/one", kind: mergePatch, body: `{"metadata":{"labels":{"c":"d"}}}`, want: 200},
	{name: "impersonation on conditions, which are true", requester: "carol", user: "frank", method: http.MethodPost, path: vmPath, body: vmJSON("five", "good"), want: 201},
	{name: "impersonation on conditions, which are false", requester: "carol", user: "frank", method: http.MethodPost, path: vmPath, body: vmJSON("six", "bad"), want: 403},
	{name: "impersonation of another user", requester: "carol", user: "writer", groups: "nobody", method: http.MethodPost, path: vmPath, body: vmJSON("seven", "good"), want: 403},
	{name: "a policy that is refused", method: http.MethodPost, path: "/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies", want: 422, body: `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"ClusterAuthorizationPolicy","metadata":{"name":"refused"},"spec":{"effect":"Deny","rules":[{"verbs":["get"],"apiGroups":["*"],"resources":["*"]}],"condition":"nothing.here"}}`},

	{name: "a review that is allowed", method: http.MethodPost, path: reviewsPath + "subjectaccessreviews", body: accessReviewOf("reader", "get", "demo.proviso.dev", "virtualmachines", ""), want: 201},
	{name: "a review that is denied", method: http.MethodPost, path: reviewsPath + "subjectaccessreviews", body: accessReviewOf("reader", "get", "demo.proviso.dev", "virtualmachines", "closed"), want: 201},
	{name: "a review with conditions", method: http.MethodPost, path: reviewsPath + "subjectaccessreviews", body: strings.Replace(accessReviewOf("writer", "update", "demo.proviso.dev", "virtualmachines", ""), `"spec":{`, `"spec":{"conditionalAuthorization":{"mode":"HumanReadable"},`, 1), want: 201},
	{name: "a review that decides a condition", method: http.MethodPost, path: reviewsPath + "subjectaccessreviews", body: accessReviewOf("labeller", "granular", "demo.proviso.dev", "virtualmachines", "one"), want: 201},
	{name: "a self review", user: "writer", method: http.MethodPost, path: reviewsPath + "selfsubjectaccessreviews", body: strings.Replace(strings.Replace(accessReviewOf("", "get", "demo.proviso.dev", "virtualmachines", ""), `"user":"",`, "", 1), "SubjectAccessReview", "SelfSubjectAccessReview", 1), want: 201},
	{name: "conditions that are true", method: http.MethodPost, path: reviewsPath + "authorizationconditionsreviews", example: "conditions-allow", want: 201},
	{name: "conditions that fail", method: http.MethodPost, path: reviewsPath + "authorizationconditionsreviews", example: "conditions-error-denies", want: 201},
	{name: "conditions of an unknown type", method: http.MethodPost, path: reviewsPath + "authorizationconditionsreviews", example: "conditions-unknown-type", want: 201},
	{name: "conditions that depend on the object", method: http.MethodPost, path: reviewsPath + "authorizationconditionsreviews", example: "conditions-impersonation", want: 201},
	{name: "conditions that their author cannot read", method: http.MethodPost, path: reviewsPath + "authorizationconditionsreviews", want: 201, body: `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{
"operation":"CREATE","userInfo":{"username":"system:node:one"},"kind":{"group":"demo.proviso.dev","version":"v1alpha1","kind":"VirtualMachine"},"resource":{"group":"demo.proviso.dev","version":"v1alpha1","resource":"virtualmachines"},"namespace":"demo","object":` + strings.Replace(vmJSON("n", "any"), `"spec":{`, `"spec":{"nodeName":"one",`, 1) + `,
"conditionSets":[{"authorizerName":"node.proviso.dev","conditions":[{"id":"node.proviso.dev/own-node","effect":"Allow","type":"k8s.io/node-authorizer","condition":"one"}]}]}}`},
	{name: "an impersonation review", method: http.MethodPost, path: reviewsPath + "impersonationreviews", example: "impersonation-deputy", want: 201},
	{name: "an impersonation review with conditions", method: http.MethodPost, path: reviewsPath + "impersonationreviews", want: 201, body: `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"ImpersonationReview","spec":{"user":"carol","impersonate":{"username":"frank"},"resourceAttributes":{"verb":"create","group":"demo.proviso.dev","version":"v1alpha1","resource":"virtualmachines","namespace":"demo"}}}`},

	{name: "a webhook allows", user: "hooked-allow", method: http.MethodGet, path: vmPath + "/one", want: 200},
	{name: "a webhook has allowed before", user: "hooked-allow", method: http.MethodGet, path: vmPath + "/one", want: 200},
	{name: "a webhook fails", user: "hooked-fail", method: http.MethodGet, path: vmPath + "/one", want: 500},
	{name: "a webhook has conditions of its own", user: "hooked-conditional", method: http.MethodPost, path: vmPath, body: vmJSON("eight", "any"), want: 201},
}

func accessReviewOf(user, verb, group, resource, name string) string {
	return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","spec":{"user":%q,"resourceAttributes":{"verb":%q,"group":%q,"version":"v1alpha1","resource":%q,"namespace":"demo","name":%q}}}`, user, verb, group, resource, name)
}

// doorReview is a request to the front door.
type doorReview struct {
	name, user, verb, group, version, resource, object string
	// raw is sent instead of a review, if it is set.
	raw  string
	want string
}

var doorReviews = []doorReview{
	{name: "allowed", user: "core", verb: "get", version: "v1", resource: "configmaps", want: `"allowed":true`},
	{name: "denied", user: "reader", verb: "get", group: "demo.proviso.dev", version: "v1alpha1", resource: "virtualmachines", object: "closed", want: `"denied":true`},
	{name: "no opinion", user: "stranger", verb: "get", version: "v1", resource: "configmaps", want: `"allowed":false`},
	{name: "a condition of the namespace", user: "core", verb: "list", version: "v1", resource: "configmaps", want: `"allowed":true`},
	{name: "allowed on conditions", user: "writer", verb: "create", group: "demo.proviso.dev", version: "v1alpha1", resource: "virtualmachines", want: `"allowed":true`},
	{name: "left to the server", user: "keeper", verb: "delete", group: "demo.proviso.dev", version: "v1alpha1", resource: "virtualmachines", want: `"allowed":false`},
	{name: "folded to no opinion", user: "core", verb: "create", version: "v1", resource: "configmaps", want: `"allowed":false`},
	{name: "folded to denied", user: "core", verb: "delete", version: "v1", resource: "configmaps", want: `"denied":true`},
	{name: "allowed on fields", user: "bob", verb: "update", group: "demo.proviso.dev", version: "v1alpha1", resource: "virtualmachines", want: `"allowed":true`},
	{name: "not allowed on fields", user: "stranger", verb: "update", group: "demo.proviso.dev", version: "v1alpha1", resource: "virtualmachines", want: `"allowed":false`},
	{name: "too long", raw: `{"spec":{"user":"` + strings.Repeat("x", 300<<10) + `"}}`, want: `"denied":true`},
	{name: "not a review", raw: `[]`, want: `"code":400`},
}

// measured is a server whose metrics the test compares.
type measured struct {
	*separate
	// frontDoor is the URL of the front door, and kubeAPIServer has the client certificate for it.
	frontDoor     string
	kubeAPIServer *http.Client
}

func newMeasured(t *testing.T) *measured {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.New(dir, "front-door-ca", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Client("kube-apiserver", "kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	_ = listener.Close()
	// The bound on staleness is long, so that the server does not look for lost policies meanwhile.
	m := &measured{frontDoor: fmt.Sprintf("https://localhost:%d%s", address.Port, frontDoorURL), separate: newSeparate(t, fmt.Sprintf("measured-%d", address.Port),
		"--enable-demo-api", "--policy-staleness-bound=1h", "--feature-gates=ConditionalImpersonation=true,FineGrainedAuthorization=true,WebhooksAtFrontDoor=true",
		"--authorization-config="+hooks(t), "--webhook-bind-address=127.0.0.1", fmt.Sprintf("--webhook-secure-port=%d", address.Port),
		"--webhook-client-ca-file="+ca.Files().Cert, "--webhook-allowed-names=kube-apiserver")}
	m.kubeAPIServer = withCA(t, stack.CAFile(), pair.Cert, pair.Key)
	return m
}

// hooks serves a webhook whose answer depends on the user, and returns a configuration with it.
func hooks(t *testing.T) (file string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/conditions") {
			_, _ = io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","response":{"allowed":true}}`)
			return
		}
		var review authorizationv1alpha1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		status := `{"allowed":false}`
		switch review.Spec.User {
		case "hooked-allow":
			status = `{"allowed":true}`
		case "hooked-fail":
			w.WriteHeader(http.StatusForbidden)
			return
		case "hooked-conditional":
			status = `{"allowed":false,"conditionsChain":[{"authorizerName":"hook","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/language","condition":"x"}]}]}`
		}
		_, _ = io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","status":`+status+`}`)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfig := clientcmdapi.NewConfig()
	for _, name := range []string{"reviews", "conditions"} {
		kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: server.URL + "/" + name, CertificateAuthorityData: ca}
		kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	}
	kubeconfig.CurrentContext = "reviews"
	dir := t.TempDir()
	if err := clientcmd.WriteToFile(*kubeconfig, filepath.Join(dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "config.yaml")
	content := `apiVersion: config.proviso.dev/v1alpha1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: hook.example.com
  webhook:
    timeout: 10s
    subjectAccessReviewVersion: v1alpha1
    failurePolicy: NoOpinion
    authorizedTTL: 5m
    unauthorizedTTL: 5m
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: ` + filepath.Join(dir, "kubeconfig") + `}
    conditionsEndpointKubeConfigContext: conditions
    authorizationConditionsReviewVersion: v1alpha1
    matchConditionSubjectAccessReviewVersion: v1
    matchConditions: [{expression: "request.user.startsWith('hooked-')"}]
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// send sends the request of an outcome, and returns the code and the body of the answer.
func (m *measured) send(t *testing.T, o outcome) (int, string) {
	t.Helper()
	body := o.body
	if o.example != "" {
		content, err := os.ReadFile(filepath.Join(stack.Repository, "artifacts", "examples", "reviews", o.example+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		converted, err := yaml.ToJSON(content)
		if err != nil {
			t.Fatal(err)
		}
		body = string(converted)
	}
	r, err := http.NewRequestWithContext(t.Context(), o.method, m.URL()+o.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", anyJSON)
	if o.kind != "" {
		r.Header.Set("Content-Type", o.kind)
	}
	if o.user != "" {
		r.Header.Set("Impersonate-User", o.user)
	}
	if o.groups != "" {
		r.Header.Set("Impersonate-Group", o.groups)
	}
	client := m.http
	if o.requester != "" {
		certFile, keyFile := stack.UserCertificate(o.requester)
		client = withCA(t, stack.CAFile(), certFile, keyFile)
	}
	return sent(t, client, r)
}

// waitForCache waits until the watch cache has an object that was patched. The server retries a patch that is refused with an
// old object of the cache, and counts it twice.
func (m *measured) waitForCache(t *testing.T, path, patched string) {
	t.Helper()
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(patched), &object); err != nil {
		t.Fatal(err)
	}
	if code, body := m.get(t, path+"?resourceVersion="+object.ResourceVersion); code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, code, body)
	}
}

// askFrontDoor sends a review to the front door, and returns the answer.
func (m *measured) askFrontDoor(t *testing.T, q doorReview) string {
	t.Helper()
	body := q.raw
	if body == "" {
		body = fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":%q,"resourceAttributes":{"verb":%q,"group":%q,"version":%q,"resource":%q,"namespace":"demo","name":%q}}}`,
			q.user, q.verb, q.group, q.version, q.resource, q.object)
	}
	_, answer := post(t, m.kubeAPIServer, m.frontDoor, body)
	return answer
}

// exposition is what /metrics shows of Proviso.
type exposition struct {
	// help and kind are by name of the metric, and values by series, as they are printed.
	help, kind map[string]string
	values     map[string]float64
}

// seriesPattern reads a series: the name, the labels and the value.
var seriesPattern = regexp.MustCompile(`^([a-z_]+)(\{.*\})? ([^ ]+)$`)

func (m *measured) scrape(t *testing.T) *exposition {
	t.Helper()
	e := &exposition{help: map[string]string{}, kind: map[string]string{}, values: map[string]float64{}}
	_, body := m.get(t, "/metrics")
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP proviso_"); ok {
			name, help, _ := strings.Cut(rest, " ")
			e.help["proviso_"+name] = help
		} else if rest, ok := strings.CutPrefix(line, "# TYPE proviso_"); ok {
			name, kind, _ := strings.Cut(rest, " ")
			e.kind["proviso_"+name] = kind
		} else if strings.HasPrefix(line, "proviso_") {
			match := seriesPattern.FindStringSubmatch(line)
			if match == nil {
				t.Fatalf("cannot read %q", line)
			}
			value, err := strconv.ParseFloat(match[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			e.values[match[1]+match[2]] = value
		}
	}
	return e
}

// settled scrapes until nothing but the scrapes changes the metrics.
func (m *measured) settled(t *testing.T) *exposition {
	t.Helper()
	last, quiet := m.scrape(t), 0
	for range 120 {
		time.Sleep(200 * time.Millisecond)
		next := m.scrape(t)
		var grown float64
		for series, value := range next.values {
			if next.kind[next.metricOf(series)] == "counter" {
				grown += value - last.values[series]
			}
		}
		// A scrape is a decision of the authorizer of privileged groups, and one of the authorization filter.
		if quiet++; grown != 2 {
			quiet = 0
		}
		if quiet == 15 {
			return next
		}
		last = next
	}
	t.Fatal("the metrics do not settle")
	return nil
}

// metricOf returns the metric of a series. A histogram has three kinds of series.
func (e *exposition) metricOf(series string) string {
	name, _, _ := strings.Cut(series, "{")
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if metric, ok := strings.CutSuffix(name, suffix); ok && e.kind[metric] == "histogram" {
			return metric
		}
	}
	return name
}

var bound = regexp.MustCompile(`,?le="([^"]*)"`)

// since shows what has been counted since an earlier exposition, by metric. Instead of times, it shows #, and instead of the
// counts in the buckets of a duration, their bounds.
func (e *exposition) since(before *exposition) map[string][]string {
	shown, bounds := map[string][]string{}, map[string][]float64{}
	add := func(metric, series string, value any) {
		shown[metric] = append(shown[metric], fmt.Sprintf("%s %v", series, value))
	}
	for series, value := range e.values {
		metric, n := e.metricOf(series), value-before.values[series]
		isTime := strings.HasSuffix(metric, "_seconds")
		switch {
		case e.kind[metric] == "gauge" && (isTime || strings.HasSuffix(metric, "_revision")):
			add(metric, series, "#")
		case e.kind[metric] == "gauge":
			add(metric, series, value)
		case n == 0:
		case isTime && strings.HasPrefix(series, metric+"_sum"):
			add(metric, series, "#")
		case isTime && strings.HasPrefix(series, metric+"_bucket"):
		default:
			add(metric, series, n)
		}
		if match := bound.FindStringSubmatch(series); match != nil && isTime && bounds[metric] == nil {
			for other := range e.values {
				if le := bound.FindStringSubmatch(other); le != nil && bound.ReplaceAllString(other, "") == bound.ReplaceAllString(series, "") {
					limit, _ := strconv.ParseFloat(le[1], 64) // it is a number, or the exposition would be refused
					bounds[metric] = append(bounds[metric], limit)
				}
			}
		}
	}
	for metric, lines := range shown {
		slices.Sort(lines)
		if limits := bounds[metric]; limits != nil {
			slices.Sort(limits)
			shown[metric] = append([]string{fmt.Sprint("# the bounds of its buckets: ", limits)}, lines...)
		}
	}
	return shown
}

// print prints metrics as an exposition.
func (e *exposition) print(shown map[string][]string) string {
	var b strings.Builder
	for _, metric := range slices.Sorted(maps.Keys(shown)) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s\n", metric, e.help[metric], metric, e.kind[metric], strings.Join(shown[metric], "\n"))
	}
	return b.String()
}

// TestMetrics makes one request for each outcome, to a server of its own, and compares all of its metrics. A metric that
// no request counts fails the test, unless untouched has a reason.
func TestMetrics(t *testing.T) {
	m := newMeasured(t)
	m.apply(t, metricsPolicies)
	if code, body := m.send(t, outcome{method: http.MethodPost, path: vmPath, body: vmJSON("one", "good")}); code != http.StatusCreated {
		t.Fatalf("the machine for the test: %d %s", code, body)
	}
	poll.Holds(t, "all policies are ready", func() bool {
		return m.metric(t, `proviso_policy_policies{state="ready"}`) == strconv.Itoa(strings.Count(metricsPolicies, "AuthorizationPolicy\n")) &&
			m.metric(t, `proviso_policy_field_permission_mappings{state="ready"}`) == "1"
	})
	before := m.settled(t)
	for _, o := range outcomes {
		code, body := m.send(t, o)
		if code != o.want {
			t.Errorf("%s: got %d %s, want %d", o.name, code, body, o.want)
		}
		if o.method == http.MethodPatch && code == http.StatusOK {
			m.waitForCache(t, o.path, body)
		}
	}
	for _, q := range doorReviews {
		if answer := m.askFrontDoor(t, q); !strings.Contains(answer, q.want) {
			t.Errorf("the front door, %s: got %s, want %s", q.name, answer, q.want)
		}
	}
	after := m.scrape(t)
	touched := after.since(before)
	golden.Compare(t, filepath.Join("testdata", "metrics.golden.txt"), after.print(touched))
	documented, err := os.ReadFile(filepath.Join(stack.Repository, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("(?m)^\\| `(proviso_[a-z_]+)` ").FindAllSubmatch(documented, -1) {
		name := string(match[1])
		switch reason, excused := untouched[name]; {
		case touched[name] == nil && !excused:
			t.Errorf("no request counts %s", name)
		case touched[name] != nil && excused:
			t.Errorf("a request counts %s, which untouched excuses: %s", name, reason)
		}
		delete(touched, name)
	}
	for name := range touched {
		t.Errorf("%s is not documented", name)
	}
}
