/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl"
	"github.com/proviso-authz/proviso/test/testutil/standin"
)

// The requests of the command.
const (
	listCluster    = "GET /apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies"
	listNamespaced = "GET /apis/policy.proviso.dev/v1alpha1/authorizationpolicies"
	listVAPs       = "GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	listBindings   = "GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	reviewOfUser   = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
	reviewOfSelf   = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	whoAmI         = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"

	reviewOfProviso = "POST /apis/authorization.proviso.dev/v1alpha1/subjectaccessreviews"
	selfOfProviso   = "POST /apis/authorization.proviso.dev/v1alpha1/selfsubjectaccessreviews"
)

var (
	errForbidden = apierrors.NewForbidden(authorizationv1.Resource("x"), "", errors.New("never"))
	pod          = `{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {team: red}}}`
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// status is the answer to a review about a user, which must have the marker of Proviso.
func status(t *testing.T, s authorizationv1.SubjectAccessReviewStatus) standin.Handler {
	t.Helper()
	return standin.To(func(review *authorizationv1.SubjectAccessReview) any {
		if len(review.Spec.Extra["authorization.proviso.dev/delegated"]) != 1 || review.Spec.User == "" || len(review.Spec.Groups) == 0 {
			t.Errorf("got the review %+v", review.Spec)
		}
		review.Status = s
		return review
	})
}

// leftOut is the answer of Proviso to a review about a user whom kube-apiserver leaves out.
var leftOut = standin.Warned{Warnings: []string{authorization.WarningLeftOut}, Answer: json.RawMessage(`{"status": {}}`)}

// aboutSelf is the answer to a review about the caller.
func aboutSelf(s authorizationv1.SubjectAccessReviewStatus) standin.Handler {
	return standin.To(func(review *authorizationv1.SelfSubjectAccessReview) any {
		review.Status = s
		return review
	})
}

// vap is a ValidatingAdmissionPolicy about pods, and bound one with its binding.
func vap(t *testing.T, expression, more string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	return read[admissionregistrationv1.ValidatingAdmissionPolicy](t, fmt.Sprintf(`{metadata: {name: vap}, spec: {%s
matchConstraints: {resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}, validations: [{expression: '%s', message: no such pod}]}}`, more, expression))
}

func bound(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy, more string) standin.Answers {
	t.Helper()
	binding := read[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, "{metadata: {name: vap}, spec: {policyName: vap, validationActions: [Deny]"+more+"}}")
	return standin.Answers{
		listVAPs:     admissionregistrationv1.ValidatingAdmissionPolicyList{Items: []admissionregistrationv1.ValidatingAdmissionPolicy{*p}},
		listBindings: admissionregistrationv1.ValidatingAdmissionPolicyBindingList{Items: []admissionregistrationv1.ValidatingAdmissionPolicyBinding{*binding}},
	}
}

// cluster is a cluster with a policy, in which RBAC allows nothing, and there are no ValidatingAdmissionPolicies.
func cluster(t *testing.T, spec string, others ...standin.Answers) *standin.Server {
	t.Helper()
	policies := policyv1alpha1.ClusterAuthorizationPolicyList{}
	if spec != "" {
		policies.Items = append(policies.Items, *read[policyv1alpha1.ClusterAuthorizationPolicy](t, "{metadata: {name: p}, spec: {"+spec+"}}"))
	}
	answers := standin.Answers{
		listCluster: policies, listNamespaced: policyv1alpha1.AuthorizationPolicyList{},
		reviewOfUser: status(t, authorizationv1.SubjectAccessReviewStatus{}),
		whoAmI: standin.To(func(review *authenticationv1.SelfSubjectReview) any {
			review.Status.UserInfo = authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
			return review
		}),
		listVAPs: admissionregistrationv1.ValidatingAdmissionPolicyList{}, listBindings: admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
		"GET /api/v1/namespaces/n": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"tier": "prod"}}},
	}
	for _, more := range others {
		maps.Copy(answers, more)
	}
	resource := func(name, kind string, namespaced bool) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"create", "get"}}
	}
	return standin.New(t, standin.Discovery(
		metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{resource("pods", "Pod", true), resource("configmaps", "ConfigMap", true), resource("namespaces", "Namespace", false), resource("nodes", "Node", false)}},
	), answers)
}

// runWith runs the command with a cluster. Its namespace is n.
func runWith(t *testing.T, server *standin.Server, input, args string) (e explained, errOut string, code int) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	code = kubectl.Run(t.Context(), append(append([]string{"explain"}, strings.Fields(args)...), "-o", "json", "-n", "n", "--kubeconfig=/dev/null", "--server="+server.URL, "--cache-dir="+t.TempDir()), streams)
	if code != 2 {
		if err := json.Unmarshal(stdout.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v: %s%s", args, err, stdout, stderr)
		}
	}
	return e, stderr.String(), code
}

// TestQuestions explains requests in arguments with a cluster: what RBAC allows, the stored object, the namespace and ValidatingAdmissionPolicies.
func TestQuestions(t *testing.T) {
	t.Parallel()
	const (
		pods  = `rules: [{verbs: ["*"], apiGroups: [""], apiVersions: [v1], resources: ["*"]}]`
		allow = `effect: Allow, subjects: [{kind: User, name: alice}], ` + pods
		blue  = allow + `, condition: 'object.metadata.labels.team == "blue"'`
	)
	byRBAC := authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "RBAC: allowed by RoleBinding"}
	object := func(labels string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"n","labels":` + labels + `}}`)
	}
	moved := allow + `, condition: 'object.metadata.labels.team == oldObject.metadata.labels.team'`
	for _, tc := range []struct {
		name, policy, args string
		others             standin.Answers
		want, near, note   string
		kube               string // the opinion of kube-apiserver
	}{
		{name: "a policy allows", policy: allow, args: "create -f - --as=alice", want: "yes", kube: "NoOpinion", note: "ValidatingAdmissionPolicies of the cluster, other than barriers of Proviso, that match the request: 0"},
		{name: "the object is refused", policy: blue, args: "create -f - --as=alice --as-group=devs", want: "no", near: "metadata.labels.team", kube: "NoOpinion"},
		{name: "another user", policy: allow, args: "create -f - --as=bob", want: "no", kube: "NoOpinion"},
		{name: "RBAC allows", args: "create -f - --as=bob", others: standin.Answers{reviewOfUser: status(t, byRBAC)}, want: "yes", kube: "Allow"},
		{name: "a user who is left out", policy: "effect: Deny, " + strings.TrimPrefix(allow, "effect: Allow, "), args: "create -f - --as=alice", others: standin.Answers{reviewOfUser: status(t, byRBAC), reviewOfProviso: leftOut}, want: "yes", kube: "Allow", note: authorization.WarningLeftOut},
		{name: "a user who is left out, without a role", policy: allow, args: "create -f - --as=alice", others: standin.Answers{reviewOfProviso: leftOut}, want: "no", kube: "NoOpinion", note: authorization.WarningLeftOut},
		{name: "oneself, left out", policy: allow, args: "create -f -", others: standin.Answers{reviewOfProviso: errForbidden, selfOfProviso: leftOut}, want: "no", kube: "NoOpinion", note: authorization.WarningLeftOut},
		{name: "a caller who may not ask whether the user is left out", policy: allow, args: "create -f - --as=alice", others: standin.Answers{reviewOfProviso: errForbidden, selfOfProviso: leftOut}, want: "yes", kube: "NoOpinion", note: "whether kube-apiserver decides the request without Proviso is not known: "},
		{name: "oneself, who may not ask whether one is left out", policy: allow, args: "create -f -", others: standin.Answers{reviewOfProviso: errForbidden, selfOfProviso: errForbidden}, want: "yes", kube: "NoOpinion", note: "whether kube-apiserver decides the request without Proviso is not known: "},
		{name: "RBAC allows what is assumed", args: "create pods --as=bob --rbac-allows", others: standin.Answers{reviewOfUser: errForbidden}, want: "yes", kube: "Allow", note: "not evaluated without an object"},
		{name: "kube-apiserver denies", policy: allow, args: "create -f - --as=alice", others: standin.Answers{reviewOfUser: status(t, authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "a webhook"})}, want: "no", kube: "Unknown"},
		{name: "no permission to review another user", policy: allow, args: "create -f - --as=alice", others: standin.Answers{reviewOfUser: errForbidden}, want: "yes", kube: "Unknown", note: "what RBAC allows is not known: "},
		{name: "oneself, by RBAC", args: "create -f -", others: standin.Answers{reviewOfUser: errForbidden, reviewOfSelf: aboutSelf(byRBAC)}, want: "yes", kube: "Allow"},
		{name: "oneself, not by RBAC", args: "create -f -", others: standin.Answers{reviewOfUser: errForbidden, reviewOfSelf: aboutSelf(authorizationv1.SubjectAccessReviewStatus{})}, want: "no", kube: "NoOpinion"},
		{name: "oneself, perhaps by a policy", args: "create -f -", others: standin.Answers{reviewOfUser: errForbidden, reviewOfSelf: aboutSelf(authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "policy=x"})}, want: "no", kube: "Unknown", note: "because policies decide before RBAC"},
		{name: "oneself, denied by a policy", policy: allow, args: "create -f -", others: standin.Answers{reviewOfUser: errForbidden, reviewOfSelf: aboutSelf(authorizationv1.SubjectAccessReviewStatus{Denied: true})}, want: "yes", kube: "Unknown", note: "because policies decide before RBAC"},
		{name: "the namespace", policy: allow + `, condition: 'namespaceObject.metadata.labels.tier == "prod"'`, args: "create -f - --as=alice", want: "yes", kube: "NoOpinion"},
		{name: "a namespace that may not be read", policy: allow + `, condition: 'namespaceObject.metadata.labels.tier == "prod"'`, args: "create -f - --as=alice", others: standin.Answers{"GET /api/v1/namespaces/n": errForbidden}, want: "yes-if", kube: "NoOpinion", note: "the namespace of the request is not known"},
		{name: "an update with the stored object", policy: moved, args: "update pods/web -f - --as=alice", others: standin.Answers{"GET /api/v1/namespaces/n/pods/web": object(`{"team":"red"}`)}, want: "yes", kube: "NoOpinion"},
		{name: "an update of another stored object", policy: moved, args: "update pods/web -f - --as=alice", others: standin.Answers{"GET /api/v1/namespaces/n/pods/web": object(`{"team":"blue"}`)}, want: "no", near: "metadata.labels.team", kube: "NoOpinion"},
		{name: "an update whose stored object is not known", policy: moved, args: "patch -f - --as=alice", others: standin.Answers{"GET /api/v1/namespaces/n/pods/web": errForbidden}, want: "yes-if", kube: "NoOpinion", note: "the stored object is not known: "},
		{name: "no name", policy: allow, args: "update pods --as=alice", want: "yes", kube: "NoOpinion", note: "the request has no name"},
		{name: "a URL", policy: `effect: Allow, subjects: [{kind: User, name: alice}], rules: [{verbs: [get], nonResourceURLs: [/metrics]}]`, args: "get /metrics --as=alice", want: "yes", kube: "NoOpinion"},
		{name: "a selector", policy: allow + `, condition: 'request.labelSelector.requirements.exists(r, r.key == "team" && r.operator == "In" && r.values == ["blue"])'`, args: "list pods --as=alice", want: "no", near: "-l team=blue", kube: "NoOpinion"},

		{name: "an admission policy allows", policy: allow, args: "create -f - --as=alice", others: bound(t, vap(t, `object.metadata.name == "web"`, ""), ""), want: "yes", kube: "NoOpinion", note: "that match the request: 1"},
		{name: "an admission policy refuses", policy: allow, args: "create -f - --as=alice", others: bound(t, vap(t, `object.metadata.labels.team == "blue"`, ""), ""), want: "no", near: "metadata.labels.team", kube: "NoOpinion"},
		{name: "an admission policy about the namespace", policy: allow, args: "create -f - --as=alice", others: bound(t, vap(t, `false`, ""), ", matchResources: {namespaceSelector: {matchLabels: {tier: dev}}}"), want: "yes", kube: "NoOpinion", note: "that match the request: 0"},
		{name: "a barrier", policy: allow, args: "create -f - --as=alice", others: func() standin.Answers {
			p := vap(t, "false", "")
			p.Labels = map[string]string{"app.kubernetes.io/managed-by": "proviso"}
			p.Annotations = map[string]string{"policy.proviso.dev/policy": "q"}
			return bound(t, p, "")
		}(), want: "yes", kube: "NoOpinion", note: "that match the request: 0"},
		{name: "a barrier of a mapping", policy: allow, args: "create -f - --as=alice", others: func() standin.Answers {
			p := vap(t, "false", "")
			p.Labels = map[string]string{"app.kubernetes.io/managed-by": "proviso"}
			return bound(t, p, "")
		}(), want: "no", kube: "NoOpinion", note: "that match the request: 1"},
		{name: "an admission policy that checks permissions", policy: allow, args: "create -f - --as=alice", others: bound(t, vap(t, `authorizer.requestResource.check("get").allowed()`, ""), ""), want: "yes", kube: "NoOpinion", note: `"vap" of the cluster is not evaluated, and can refuse the request: it checks permissions`},
		{name: "an admission policy with a match condition about permissions", policy: allow, args: "create -f - --as=alice", others: bound(t, vap(t, `false`, `matchConditions: [{name: a, expression: 'authorizer.requestResource.check("get").allowed()'}],`), ""), want: "yes", kube: "NoOpinion", note: "it checks permissions"},
		{name: "an admission policy without a binding", policy: allow, args: "create -f - --as=alice", others: func() standin.Answers {
			answers := bound(t, vap(t, `false`, ""), "")
			delete(answers, listBindings)
			return answers
		}(), want: "yes", kube: "NoOpinion", note: "that match the request: 0"},
		{name: "a parameter", policy: allow, args: "create -f - --as=alice", others: func() standin.Answers {
			answers := bound(t, vap(t, `object.metadata.labels.team == params.data.team`, "paramKind: {apiVersion: v1, kind: ConfigMap},"), ", paramRef: {name: c, parameterNotFoundAction: Deny}")
			answers["GET /api/v1/namespaces/n/configmaps/c"] = json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n"},"data":{"team":"blue"}}`)
			return answers
		}(), want: "no", near: "metadata.labels.team", kube: "NoOpinion", note: "that match the request: 1"},
		{name: "parameters by a selector", policy: allow, args: "create -f - --as=alice", others: func() standin.Answers {
			answers := bound(t, vap(t, `object.metadata.labels.team == params.data.team`, "paramKind: {apiVersion: v1, kind: ConfigMap},"), ", paramRef: {selector: {}, parameterNotFoundAction: Deny}")
			answers["GET /api/v1/namespaces/n/configmaps"] = json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMapList","items":[{"metadata":{"name":"c","namespace":"n"},"data":{"team":"red"}}]}`)
			return answers
		}(), want: "yes", kube: "NoOpinion", note: "that match the request: 1"},
		{name: "a parameter that is a Secret", policy: allow, args: "create -f - --as=alice", others: bound(t, vap(t, `object.metadata.labels.team == params.data.team`, "paramKind: {apiVersion: v1, kind: Secret},"), ", paramRef: {name: c, parameterNotFoundAction: Deny}"), want: "yes", kube: "NoOpinion", note: "its parameters are Secrets, whose values are not shown"},
		{name: "a parameter that may not be read", policy: allow, args: "create -f - --as=alice", others: func() standin.Answers {
			answers := bound(t, vap(t, `false`, "paramKind: {apiVersion: v1, kind: ConfigMap},"), ", paramRef: {name: c, parameterNotFoundAction: Deny}")
			answers["GET /api/v1/namespaces/n/configmaps/c"] = errForbidden
			return answers
		}(), want: "yes", kube: "NoOpinion", note: "is not evaluated, and can refuse the request"},
		{name: "admission policies that may not be read", policy: allow, args: "create -f - --as=alice", others: standin.Answers{listVAPs: errForbidden}, want: "yes", kube: "NoOpinion", note: "the ValidatingAdmissionPolicies of the cluster, which can refuse the request, are not known"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			input := ""
			if strings.Contains(tc.args, "-f -") {
				input = pod
			}
			e, errOut, code := runWith(t, cluster(t, tc.policy, tc.others), input, tc.args)
			near := ""
			if e.NearMiss != nil {
				near = e.NearMiss.Field + e.NearMiss.Selectors
			}
			kube := ""
			for _, m := range e.Chain {
				if m.Name == "kube-apiserver" {
					kube = m.Opinion
				}
			}
			if code == 2 || e.Decision != tc.want || near != tc.near || kube != tc.kube || !strings.Contains(strings.Join(e.Notes, "\n"), tc.note) {
				t.Errorf("got %d %s %s, near miss %q, kube-apiserver %s, notes %q; want %s, %q, %s, %q", code, e.Decision, errOut, near, kube, e.Notes, tc.want, tc.near, tc.kube, tc.note)
			}
		})
	}
}

// TestQuestionsWithoutCluster explains requests in arguments with policies in files.
func TestQuestionsWithoutCluster(t *testing.T) {
	t.Parallel()
	moved := policy("p", "Allow", `object.metadata.labels.team == oldObject.metadata.labels.team`)
	blue := strings.Replace(pod, "red", "blue", 1)
	widget := `{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: n}}`
	for _, tc := range []struct {
		name, args             string
		input                  []string
		want, request, warning string
	}{
		{name: "a create", args: "create", input: []string{policy("p", "Allow", `object.metadata.name == "web"`), pod}, want: "yes", request: "create pods in namespace n"},
		{name: "an update without the stored object", args: "update", input: []string{moved, pod}, want: "yes-if", request: "update pods web in namespace n"},
		{name: "an update", args: "update", input: []string{moved, pod, pod}, want: "yes", request: "update pods web in namespace n"},
		{name: "an update that moves", args: "update", input: []string{moved, pod, blue}, want: "no", request: "update pods web in namespace n"},
		{name: "a delete", args: "delete pods/web", input: []string{policy("p", "Allow", `oldObject.metadata.name == "web"`), pod}, want: "yes", request: "delete pods web in namespace n"},
		{name: "no object", args: "delete pods/web", input: []string{policy("p", "Allow", `oldObject.metadata.name == "web"`)}, want: "yes-if", request: "delete pods web in namespace n"},
		{name: "a subresource", args: "create pods/web --subresource=exec", input: []string{policy("p", "Allow", `true`)}, want: "yes", request: "create pods/exec web in namespace n"},
		{name: "a kind of a custom resource", args: "create", input: []string{policy("p", "Allow", `true`), widget}, want: "yes", request: "create widgets.example.com in namespace n", warning: "the resource of the kind Widget is not known without a cluster"},
		{name: "a kind without namespaces", args: "create", input: []string{policy("p", "Allow", `request.namespace == ""`), "{apiVersion: v1, kind: PersistentVolume, metadata: {name: x}}"}, want: "yes", request: "create persistentvolumes"},
		{name: "a Namespace", args: "update", input: []string{policy("p", "Allow", `request.namespace == "x"`), "{apiVersion: v1, kind: Namespace, metadata: {name: x}}"}, want: "yes", request: "update namespaces x in namespace x"},
		{name: "no namespace", args: "create -A", input: []string{policy("p", "Allow", `request.namespace == ""`), "{apiVersion: v1, kind: Namespace, metadata: {name: web}}"}, want: "yes", request: "create namespaces"},
		{name: "a group of resources with several versions", args: "update deployments/web", input: []string{policy("p", "Allow", `request.apiVersion == "v1"`), `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}`}, want: "yes", request: "update deployments.apps web in namespace n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(tc.args), "-f", "-", "--as=alice", "-o", "json", "--kubeconfig=missing")
			if !strings.Contains(tc.args, "-A") {
				args = append(args, "-n", "n")
			}
			out, errOut, _ := run(t, joined(tc.input...), args...)
			e := struct{ Decision, User, Request string }{}
			if err := json.Unmarshal([]byte(out), &e); err != nil || e.Decision != tc.want || e.Request != tc.request || e.User != "alice" || !strings.Contains(errOut, tc.warning) {
				t.Errorf("got %+v %s", e, errOut)
			}
		})
	}
}

// TestQuestionsSelectors names selectors for lists only if the request is allowed with them.
func TestQuestionsSelectors(t *testing.T) {
	t.Parallel()
	const blue = `request.labelSelector.requirements.exists(r, r.key == "team" && r.operator == "In" && r.values == ["blue"])`
	allow := policy("p", "Allow", blue)
	for _, tc := range []struct {
		name, args string
		policies   []string
		want       string
	}{
		{name: "a selector", args: "list pods", policies: []string{allow}, want: "near miss: select with -l team=blue"},
		{name: "in all namespaces", args: "deletecollection pods -A", policies: []string{allow}, want: "near miss: select with -l team=blue"},
		{name: "denied with it", args: "list pods", policies: []string{allow, policy("q", "Deny", blue)}, want: "near miss: the request has no object that could be changed"},
		{name: "a field", args: "watch pods", policies: []string{policy("p", "Allow", `request.fieldSelector.requirements.exists(r, r.key == "metadata.name" && r.operator == "In" && r.values == ["it's"])`)}, want: `near miss: select with --field-selector 'metadata.name=it'\''s'`},
		{name: "a get", args: "get pods/a", policies: []string{allow}, want: "near miss: the request has no object that could be changed"},
	} {
		args := append(strings.Fields(tc.args), "-f", "-", "--as=alice", "--kubeconfig=missing")
		if !strings.Contains(tc.args, "-A") {
			args = append(args, "-n", "n")
		}
		if out, errOut, code := run(t, joined(tc.policies...), args...); code != 1 || !strings.Contains(out, tc.want+"\n") {
			t.Errorf("%s: got %d %s%s", tc.name, code, out, errOut)
		}
	}
}
