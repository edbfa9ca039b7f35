/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package manifest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

var (
	claims       = innerdoor.Resource{Resource: "persistentvolumeclaims"}
	claimStatus  = innerdoor.Resource{Resource: "persistentvolumeclaims", Subresource: "status"}
	services     = innerdoor.Resource{Resource: "services"}
	namespaces   = innerdoor.Resource{Resource: "namespaces"}
	tokens       = innerdoor.Resource{Resource: "serviceaccounts", Subresource: "token"}
	widgets      = innerdoor.Resource{Group: "example.com", Resource: "widgets"}
	allResources = []innerdoor.Resource{claims, claimStatus, services, namespaces, tokens, widgets}
)

func config() manifest.Config {
	return manifest.Config{URL: "https://127.0.0.1:8444", CABundle: []byte("ca"), Resources: allResources, Namespace: "proviso-system", AsksOthers: true}
}

// others are authorizers that allow requests, each written as its verb, path, namespace and name.
type others struct {
	t     *testing.T
	allow []string
	err   error
	asked int
}

func (o *others) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	o.asked++
	requirements, err := a.GetLabelSelector()
	if a.GetAPIVersion() != "*" || err != nil || len(requirements) != 1 || requirements[0].Key() != manifest.OtherAuthorizersKey {
		o.t.Errorf("the front door would be asked about %+v", a)
	}
	path := a.GetResource()
	if a.GetSubresource() != "" {
		path += "/" + a.GetSubresource()
	}
	if a.GetAPIGroup() != "" {
		path = a.GetAPIGroup() + "/" + path
	}
	if question := fmt.Sprintf("%s %s %s:%s", a.GetVerb(), path, a.GetNamespace(), a.GetName()); slices.Contains(o.allow, question) {
		return authorizer.DecisionAllow, "", o.err
	}
	return authorizer.DecisionNoOpinion, "", o.err
}

// request is a write at admission.
type request struct {
	operation       admission.Operation
	resource        innerdoor.Resource
	namespace, name string
	object, old     string
	user            string
	groups          []string
}

func (r request) attributes(t *testing.T) *admission.VersionedAttributes {
	t.Helper()
	decode := func(text string) runtime.Object {
		if text == "" {
			return nil
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	version := schema.GroupVersion{Group: r.resource.Group, Version: "v1"}
	who := &user.DefaultInfo{Name: "alice", Groups: r.groups}
	if r.user != "" {
		who.Name = r.user
	}
	object, old := decode(r.object), decode(r.old)
	var options runtime.Object
	switch r.operation {
	case admission.Create:
		options = &metav1.CreateOptions{}
	case admission.Update:
		options = &metav1.UpdateOptions{}
	default:
		options = &metav1.DeleteOptions{}
	}
	record := admission.NewAttributesRecord(object, old, version.WithKind("Kind"), r.namespace, r.name, version.WithResource(r.resource.Resource), r.resource.Subresource, r.operation, options, false, who)
	return &admission.VersionedAttributes{Attributes: record, VersionedKind: version.WithKind("Kind"), VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old)}
}

// calls returns the webhooks of a manifest that kube-apiserver would call.
func calls(t *testing.T, written *admissionregistrationv1.ValidatingWebhookConfiguration, r request, authz authorizer.UnconditionalAuthorizer) []string {
	t.Helper()
	attributes := r.attributes(t)
	compiler := plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	var called []string
	for i := range written.Webhooks {
		hook := &written.Webhooks[i]
		if !slices.ContainsFunc(hook.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
			matcher := rules.Matcher{Rule: rule, Attr: attributes}
			return matcher.Matches()
		}) {
			continue
		}
		result := webhook.NewValidatingWebhookAccessor(hook.Name, written.Name, hook).GetCompiledMatcher(compiler).Match(t.Context(), attributes, nil, authz)
		if result.Error != nil {
			t.Errorf("%s: %v", hook.Name, result.Error)
		}
		if result.Matches {
			called = append(called, strings.TrimSuffix(hook.Name, "."+manifest.ConfigurationName))
		}
	}
	return called
}

// TestManifestCalls has the writes that other authorizers allow, completely or in part, in kube-apiserver's own evaluation of
// the manifest.
func TestManifestCalls(t *testing.T) {
	t.Parallel()
	written, err := manifest.New(config())
	if err != nil {
		t.Fatal(err)
	}
	const owned, free = `{"metadata": {"name": "c", "ownerReferences": [{"uid": "1"}]}}`, `{"metadata": {"name": "c"}}`
	create := request{operation: admission.Create, resource: claims, namespace: "demo", name: "c", object: free}
	update := request{operation: admission.Update, resource: claims, namespace: "demo", name: "c", object: owned, old: free}
	remove := request{operation: admission.Delete, resource: claims, namespace: "demo", name: "c", old: free}
	of := func(r request, change func(*request)) request {
		change(&r)
		return r
	}
	by := func(resource innerdoor.Resource) func(*request) { return func(r *request) { r.resource = resource } }
	collection := of(remove, func(r *request) { r.name = "" })
	createService := of(create, by(services))
	createNamespace := of(create, func(r *request) { r.resource, r.namespace, r.name = namespaces, "blue", "blue" })
	updateNamespace := of(update, func(r *request) { r.resource, r.namespace, r.name = namespaces, "", "blue" })
	createToken := of(create, func(r *request) { r.resource, r.name = tokens, "ci" })
	updateStatus := of(update, by(claimStatus))
	generated := of(create, func(r *request) { r.name = "" })
	canary := func(r request) request {
		r.user, r.resource, r.namespace = innerdoor.CanaryUser, innerdoor.Resource{Resource: "configmaps"}, "proviso-system"
		return r
	}
	for _, tc := range []struct {
		name    string
		request request
		allow   []string
		want    []string
	}{
		{name: "create: nobody", request: create, want: []string{"create"}},
		{name: "create: POST", request: create, allow: []string{"create persistentvolumeclaims demo:"}},
		{name: "create: a generated name", request: generated, allow: []string{"create persistentvolumeclaims demo:"}},
		{name: "create: a generated name, nobody", request: generated, want: []string{"create"}},
		{name: "create: by name", request: create, allow: []string{"create persistentvolumeclaims demo:c"}, want: []string{"create"}},
		{name: "create: patch alone", request: create, allow: []string{"patch persistentvolumeclaims demo:c"}, want: []string{"create"}},
		{name: "create: PATCH that creates", request: create, allow: []string{"create persistentvolumeclaims demo:c", "patch persistentvolumeclaims demo:c"}},
		{name: "create: PATCH of another object", request: create, allow: []string{"create persistentvolumeclaims demo:c", "patch persistentvolumeclaims demo:d"}, want: []string{"create"}},
		{name: "create: PUT does not create", request: create, allow: []string{"create persistentvolumeclaims demo:c", "update persistentvolumeclaims demo:c"}, want: []string{"create"}},
		{name: "create: in another namespace", request: create, allow: []string{"create persistentvolumeclaims other:"}, want: []string{"create"}},
		{name: "create: another resource", request: create, allow: []string{"create services demo:"}, want: []string{"create"}},
		{name: "create: a subresource", request: create, allow: []string{"create persistentvolumeclaims/status demo:"}, want: []string{"create"}},
		{name: "create: another group", request: of(create, by(widgets)), allow: []string{"create widgets demo:"}, want: []string{"create"}},
		{name: "create: a custom resource", request: of(create, by(widgets)), allow: []string{"create example.com/widgets demo:"}},
		{name: "create: a cluster-scoped custom resource", request: of(create, func(r *request) { r.resource, r.namespace = widgets, "" }), allow: []string{"create example.com/widgets :"}},

		{name: "service: PUT that creates", request: createService, allow: []string{"create services demo:c", "update services demo:c"}},
		{name: "service: PATCH that creates", request: createService, allow: []string{"create services demo:c", "patch services demo:c"}},
		{name: "service: update alone", request: createService, allow: []string{"update services demo:c"}, want: []string{"create-or-put"}},
		{name: "service: update and patch", request: createService, allow: []string{"update services demo:c", "patch services demo:c"}, want: []string{"create-or-put"}},
		{name: "service: POST", request: createService, allow: []string{"create services demo:"}},

		{name: "namespace: POST", request: createNamespace, allow: []string{"create namespaces :"}},
		{name: "namespace: POST, allowed in it", request: createNamespace, allow: []string{"create namespaces blue:"}, want: []string{"create"}},
		{name: "namespace: PATCH that creates", request: createNamespace, allow: []string{"create namespaces blue:blue", "patch namespaces blue:blue"}},
		{name: "namespace: update", request: updateNamespace, allow: []string{"update namespaces blue:blue"}},
		{name: "namespace: update, nobody", request: updateNamespace, allow: []string{"update namespaces :"}, want: []string{"update"}},

		{name: "token: by name", request: createToken, allow: []string{"create serviceaccounts/token demo:ci"}},
		{name: "token: without a name", request: createToken, allow: []string{"create serviceaccounts/token demo:"}, want: []string{"create-named"}},
		{name: "token: the account", request: createToken, allow: []string{"create serviceaccounts demo:ci", "patch serviceaccounts demo:ci"}, want: []string{"create-named"}},

		{name: "canary: create", request: canary(create), want: []string{"canary"}},
		{name: "canary: without a name", request: canary(generated), want: []string{"canary"}},
		{name: "canary: update", request: canary(update), want: []string{"canary"}},
		{name: "canary: delete", request: canary(remove), want: []string{"canary"}},
		{name: "canary: collection", request: canary(collection), want: []string{"canary"}},
		{name: "canary: that others allow", request: canary(create), allow: []string{"create configmaps proviso-system:"}, want: []string{"canary"}},
		{name: "canary: another namespace", request: of(canary(create), func(r *request) { r.namespace = "demo" })},
		{name: "canary: another resource", request: of(canary(create), by(widgets)), want: []string{"create"}},
		{name: "canary: another user", request: of(canary(create), func(r *request) { r.user = "alice" })},

		{name: "update: nobody", request: update, want: []string{"update"}},
		{name: "update: PUT", request: update, allow: []string{"update persistentvolumeclaims demo:c"}},
		{name: "update: PATCH", request: update, allow: []string{"patch persistentvolumeclaims demo:c"}},
		{name: "update: another object", request: update, allow: []string{"update persistentvolumeclaims demo:d", "patch persistentvolumeclaims demo:"}, want: []string{"update"}},
		{name: "update: create", request: update, allow: []string{"create persistentvolumeclaims demo:", "create persistentvolumeclaims demo:c"}, want: []string{"update"}},
		{name: "status: of it", request: updateStatus, allow: []string{"patch persistentvolumeclaims/status demo:c"}},
		{name: "status: of the object", request: updateStatus, allow: []string{"update persistentvolumeclaims demo:c", "patch persistentvolumeclaims demo:c"}, want: []string{"update"}},

		{name: "delete: nobody", request: remove, want: []string{"delete"}},
		{name: "delete: it", request: remove, allow: []string{"delete persistentvolumeclaims demo:c"}},
		{name: "delete: a collection", request: remove, allow: []string{"deletecollection persistentvolumeclaims demo:"}, want: []string{"delete"}},
		{name: "collection: it", request: collection, allow: []string{"deletecollection persistentvolumeclaims demo:"}},
		{name: "collection: delete", request: collection, allow: []string{"delete persistentvolumeclaims demo:", "delete persistentvolumeclaims demo:c"}, want: []string{"delete"}},

		{name: "a node", request: of(create, func(r *request) { r.groups = []string{"system:nodes"} })},
		{name: "an administrator", request: of(create, func(r *request) { r.groups = []string{"a", "system:masters"} })},
		{name: "the scheduler", request: of(update, func(r *request) { r.user = "system:kube-scheduler" })},
		{name: "Proviso", request: of(update, func(r *request) { r.user = "system:serviceaccount:proviso-system:proviso-apiserver" })},
		{name: "groups of others", request: of(create, func(r *request) { r.groups = []string{"system:authenticated"} }), want: []string{"create"}},
		{name: "a quote in the name", request: of(create, func(r *request) { r.user = `"] + ["alice` }), want: []string{"create"}},
		{name: "a resource that is not listed", request: of(create, by(innerdoor.Resource{Resource: "pods"}))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			authz := &others{t: t, allow: tc.allow}
			if diff := cmp.Diff(tc.want, calls(t, written, tc.request, authz)); diff != "" {
				t.Errorf("called webhooks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFailingAuthorizersDoNotAllow has authorizers that return an error: the inner door decides.
func TestFailingAuthorizersDoNotAllow(t *testing.T) {
	t.Parallel()
	written, err := manifest.New(config())
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
		r := request{operation: operation, resource: claims, namespace: "demo", name: "c", object: `{"metadata": {}}`, old: `{"metadata": {}}`}
		if got := calls(t, written, r, &others{t: t, err: context.DeadlineExceeded}); len(got) != 1 {
			t.Errorf("%s: got calls of %q, want one", operation, got)
		}
	}
}

// TestNobodyElseIsAsked has a manifest for clusters with other webhooks: it calls the inner door for everybody.
func TestNobodyElseIsAsked(t *testing.T) {
	t.Parallel()
	c := config()
	c.AsksOthers = false
	written, err := manifest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	authz := &others{t: t, allow: []string{"create persistentvolumeclaims demo:"}}
	r := request{operation: admission.Create, resource: claims, namespace: "demo", object: `{"metadata": {}}`}
	if got := calls(t, written, r, authz); !slices.Equal(got, []string{"create"}) || authz.asked != 0 {
		t.Errorf("got calls of %q after %d questions, want the inner door and none", got, authz.asked)
	}
}

// TestOwners has the admission plugin OwnerReferencesPermissionEnforcement: another owner needs delete, too.
func TestOwners(t *testing.T) {
	t.Parallel()
	c := config()
	c.OwnerReferences = true
	written, err := manifest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	const (
		one   = `{"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}`
		two   = `{"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2"}]}}`
		none  = `{"metadata": {}}`
		empty = `{"metadata": {"ownerReferences": []}}`
	)
	update, patch, remove := "update persistentvolumeclaims demo:c", "patch persistentvolumeclaims demo:c", "delete persistentvolumeclaims demo:c"
	for _, tc := range []struct {
		name     string
		old, new string
		allow    []string
		called   bool
	}{
		{name: "nothing changes", old: one, new: one, allow: []string{update}},
		{name: "none before and after", old: none, new: empty, allow: []string{patch}},
		{name: "an owner is added", old: one, new: two, allow: []string{update, patch}, called: true},
		{name: "an owner is added, with delete", old: one, new: two, allow: []string{update, remove}},
		{name: "an owner is added, with patch and delete", old: one, new: two, allow: []string{patch, remove}},
		{name: "the first owner", old: none, new: one, allow: []string{patch}, called: true},
		{name: "the last owner goes", old: one, new: none, allow: []string{update}, called: true},
		{name: "delete alone", old: one, new: two, allow: []string{remove}, called: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := request{operation: admission.Update, resource: claims, namespace: "demo", name: "c", object: tc.new, old: tc.old}
			if got := calls(t, written, r, &others{t: t, allow: tc.allow}); (len(got) == 1) != tc.called {
				t.Errorf("got calls of %q, want one: %t", got, tc.called)
			}
		})
	}
}

// TestFailsClosed has what makes the inner door safe: it fails closed, sees every version as it was requested, and its
// URL has the digest of the whole.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	written, err := manifest.New(config())
	if err != nil {
		t.Fatal(err)
	}
	again, err := manifest.New(config())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, again); diff != "" {
		t.Errorf("two manifests of one configuration differ:\n%s", diff)
	}
	for _, hook := range written.Webhooks {
		if *hook.FailurePolicy != admissionregistrationv1.Fail || *hook.MatchPolicy != admissionregistrationv1.Exact || hook.ClientConfig.Service != nil || hook.ObjectSelector != nil || hook.NamespaceSelector != nil {
			t.Errorf("%s does not fail closed, or leaves something out: %+v", hook.Name, hook)
		}
		for _, rule := range hook.Rules {
			if !slices.Equal(rule.APIVersions, []string{"*"}) {
				t.Errorf("%s has the versions %q, want all", hook.Name, rule.APIVersions)
			}
		}
		if url := *hook.ClientConfig.URL; url != *written.Webhooks[0].ClientConfig.URL || !strings.HasPrefix(url, "https://127.0.0.1:8444/webhooks/admit/") || len(url) != len("https://127.0.0.1:8444/webhooks/admit/")+32 {
			t.Errorf("%s has the URL %s", hook.Name, url)
		}
	}
	for name, change := range map[string]func(*manifest.Config){
		"a resource less":  func(c *manifest.Config) { c.Resources = c.Resources[1:] },
		"another order":    func(c *manifest.Config) { c.Resources = []innerdoor.Resource{services, claims} },
		"an identity":      func(c *manifest.Config) { c.Identities.Users = []string{"backup"} },
		"others not asked": func(c *manifest.Config) { c.AsksOthers = false },
		"owners":           func(c *manifest.Config) { c.OwnerReferences = true },
	} {
		c := config()
		change(&c)
		other, err := manifest.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if *other.Webhooks[0].ClientConfig.URL == *written.Webhooks[0].ClientConfig.URL {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	// A CA is replaced without a restart of Proviso, which knows the digest only.
	c := config()
	c.CABundle = []byte("other")
	other, err := manifest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := other.Webhooks[0].ClientConfig; *got.URL != *written.Webhooks[0].ClientConfig.URL || string(got.CABundle) != "other" {
		t.Errorf("another CA: got the URL %s and the CA %s", *got.URL, got.CABundle)
	}
}

// TestRefuses has configurations that would not be safe, or that kube-apiserver would refuse.
func TestRefuses(t *testing.T) {
	t.Parallel()
	listed := func(resources ...innerdoor.Resource) func(*manifest.Config) {
		return func(c *manifest.Config) { c.Resources = resources }
	}
	many := make([]innerdoor.Resource, innerdoor.MaxResources+1)
	for i := range many {
		many[i] = innerdoor.Resource{Group: "example.com", Resource: fmt.Sprintf("r%d", i)}
	}
	for _, tc := range []struct {
		name   string
		change func(*manifest.Config)
		want   string
	}{
		{name: "no resources", change: listed(), want: "resources: Required value"},
		{name: "too many", change: listed(many...), want: "resources: Too many"},
		{name: "twice", change: listed(claims, claims), want: "resources[1]: Duplicate value"},
		{name: "every resource", change: listed(innerdoor.Resource{Resource: "*"}), want: "Wildcards cannot be listed"},
		{name: "every subresource", change: listed(innerdoor.Resource{Resource: "pods", Subresource: "*"}), want: "resources[0].subresource: Unsupported value"},
		{name: "every group", change: listed(innerdoor.Resource{Group: "*", Resource: "pods"}), want: "resources[0].group: Invalid value"},
		{name: "no name", change: listed(innerdoor.Resource{}), want: "resources[0].resource: Invalid value"},
		{name: "a slash in the resource", change: listed(innerdoor.Resource{Resource: "pods/exec"}), want: "resources[0].resource: Invalid value"},
		{name: "exec", change: listed(innerdoor.Resource{Resource: "pods", Subresource: "exec"}), want: "resources[0].subresource: Unsupported value"},
		{name: "proxy", change: listed(innerdoor.Resource{Resource: "services", Subresource: "proxy"}), want: "resources[0].subresource: Unsupported value"},
		{name: "evictions", change: listed(innerdoor.Resource{Resource: "pods", Subresource: "eviction"}), want: "resources[0].subresource: Unsupported value"},
		{name: "nodes/status", change: listed(innerdoor.Resource{Resource: "nodes", Subresource: "status"}), want: "resources[0]: Forbidden: nodes/status cannot be listed: kubelets"},
		{name: "bindings", change: listed(innerdoor.Resource{Resource: "bindings"}), want: "resources[0]: Forbidden: bindings cannot be listed"},
		{name: "reviews", change: listed(innerdoor.Resource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}), want: "resources[0]: Forbidden"},
		{name: "tokens", change: listed(innerdoor.Resource{Group: "authentication.k8s.io", Resource: "tokenreviews"}), want: "resources[0]: Forbidden"},
		{name: "admission policies", change: listed(innerdoor.Resource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}), want: "resources[0]: Forbidden"},
		{name: "policies", change: listed(innerdoor.Resource{Group: "policy.proviso.dev", Resource: "authorizationpolicies"}), want: "Proviso serves it"},
		{name: "http", change: func(c *manifest.Config) { c.URL = "http://127.0.0.1:8444" }, want: "url: Invalid value"},
		{name: "no host", change: func(c *manifest.Config) { c.URL = "https://:8444" }, want: "url: Invalid value"},
		{name: "a host with a semicolon", change: func(c *manifest.Config) { c.URL = "https://a;b:8444" }, want: "url: Invalid value"},
		{name: "a port that is missing", change: func(c *manifest.Config) { c.URL = "https://a:" }, want: "url: Invalid value"},
		{name: "a path", change: func(c *manifest.Config) { c.URL = "https://127.0.0.1:8444/a" }, want: "url: Invalid value"},
		{name: "a query", change: func(c *manifest.Config) { c.URL = "https://127.0.0.1:8444?a=b" }, want: "url: Invalid value"},
		{name: "a user", change: func(c *manifest.Config) { c.URL = "https://a:b@127.0.0.1:8444" }, want: "url: Invalid value"},
		{name: "not a URL", change: func(c *manifest.Config) { c.URL = "https://[" }, want: "url: Invalid value"},
		{name: "no certificates", change: func(c *manifest.Config) { c.CABundle = nil }, want: "caBundle: Required value"},
		{name: "no namespace", change: func(c *manifest.Config) { c.Namespace = "" }, want: "namespace: Invalid value"},
		{name: "a namespace with a quote", change: func(c *manifest.Config) { c.Namespace = `a" || "` }, want: "namespace: Invalid value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := config()
			tc.change(&c)
			written, err := manifest.New(c)
			if err == nil || written != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v and the error %v, want %q", written, err, tc.want)
			}
		})
	}
}

// TestCanaryIsLast: a manifest that has been cut off must not call the inner door for canaries.
func TestCanaryIsLast(t *testing.T) {
	t.Parallel()
	written, err := manifest.New(config())
	if err != nil {
		t.Fatal(err)
	}
	for i, hook := range written.Webhooks {
		if isCanary := strings.HasPrefix(hook.Name, "canary."); isCanary != (i == len(written.Webhooks)-1) {
			t.Errorf("webhook %d of %d is %s", i+1, len(written.Webhooks), hook.Name)
		}
	}
}
