/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/builder3"
	openapiutil "k8s.io/kube-openapi/pkg/util"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

// ledger is a kube-apiserver that writes down what it is asked. It allows everything to
// admin, and to the others what they need to ask reviews, and has no opinion on the rest.
type ledger struct {
	mu    sync.Mutex
	asked []string
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review := authorizationv1.SubjectAccessReview{}
	if _, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	check := review.Spec.User + " "
	allowed := review.Spec.User == "admin"
	if a := review.Spec.ResourceAttributes; a != nil {
		check += a.Verb + " " + strings.Trim(a.Resource+"/"+a.Subresource, "/")
		if a.Name != "" {
			check += " " + a.Name
		}
		allowed = allowed || a.Group == "authorization.k8s.io" || a.Resource == "secrets" || a.Verb == "granular" || a.Verb == "granular:label(l)" ||
			strings.HasPrefix(a.Verb, "impersonate") || review.Spec.User == "reader" && strings.HasSuffix(a.Resource, "policies")
	} else {
		check += review.Spec.NonResourceAttributes.Verb + " " + review.Spec.NonResourceAttributes.Path
	}
	l.mu.Lock()
	l.asked = append(l.asked, check)
	l.mu.Unlock()
	review.Status.Allowed = allowed
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&review)
}

// take returns what has been asked since the last time.
func (l *ledger) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	l.asked = nil
	return asked
}

// counted are Allow policies, named for the one verb that each is about, with their conditions.
var counted = map[string]string{
	"create":           `object.spec.storageClassName == "dev"`,
	"update":           `authorizer.group("").resource("secrets").namespace("n").check("get").allowed()`,
	"delete":           `authorizer.path("/healthz").check("get").allowed()`,
	"deletecollection": "",
}

// byText is an authorizer that is neither kube-apiserver nor made from policies. It allows the user
// text on a condition that the server compiles from its text.
type byText struct{}

func (byText) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

func (byText) ConditionsAwareAuthorize(_ context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if a.GetUser().GetName() != "text" || a.GetResource() != "virtualmachines" {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	return authorization.ToUpstream(authorization.Conditions(authorization.Condition{
		ID: "example.com/healthz", Effect: authorization.EffectAllow, Type: authorization.ConditionTypeCEL, Text: counted["delete"],
	}))
}

func (byText) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

func countedPolicies(t *testing.T) map[engine.Key]*engine.Policy {
	t.Helper()
	compiler := compilers.Policies(t)
	policies := map[engine.Key]*engine.Policy{}
	for verb, condition := range counted {
		key := engine.Key{Name: verb}
		var err error
		policies[key], err = engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
			Effect: policyv1alpha1.PolicyEffectAllow, Condition: condition, Subjects: []rbacv1.Subject{{Kind: "User", Name: "bob"}},
			Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{"demo.proviso.dev"}, Resources: []string{"virtualmachines"}}},
		}, compiler)
		if err != nil {
			t.Fatal(err)
		}
	}
	return policies
}

// machineTypes are the schemas by which the fields of machines are compared.
func machineTypes(t *testing.T) changes.Types {
	t.Helper()
	config := genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(apiserver.Scheme))
	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(config, openapiutil.GetCanonicalTypeName(&demov1alpha1.VirtualMachine{}))
	if err != nil {
		t.Fatal(err)
	}
	types, err := changes.NewTypes(schemas)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// countedServer is a whole server with the chains that options make, and the kube-apiserver
// that they ask.
func countedServer(t *testing.T) (*server.Server, *ledger) {
	t.Helper()
	l := &ledger{}
	o := NewAuthorizationOptions()
	o.RemoteKubeConfigFile = http2Server(t, 0, l.ServeHTTP)
	policies := &engine.Source{}
	policies.Publish(engine.NewBuilder().Apply(countedPolicies(t)))
	mappings := &mapping.Source{}
	mappings.Publish()
	chains, err := o.Chains(apiserver.AuthorizerConfig{
		Policies: policies, Fields: &granular.Config{Types: machineTypes(t), Mappings: mappings}, Node: authorization.DeciderOf(byText{}),
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "co") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return server.New(t, server.Config{
		Authorizer: chains.Requests, EtcdDir: dir,
		Enforcement: func(c *enforcement.Config) { c.Checks = chains.Checks },
		Extra:       func(c *apiserver.ExtraConfig) { c.Chains = *chains },
	}), l
}

func send(s *server.Server, user, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set(server.UserHeader, user)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	s.Handler.ServeHTTP(w, r)
	return w
}

const (
	machines   = "/apis/demo.proviso.dev/v1alpha1/namespaces/n/virtualmachines"
	reviewsAPI = "/apis/authorization.k8s.io/v1alpha1/"
)

func reviewOf(kind, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":%q,"metadata":{"namespace":"n"},"spec":{%s}}`, kind, spec)
}

func asksAbout(verb, mode string) string {
	spec := fmt.Sprintf(`"resourceAttributes":{"verb":%q,"group":"demo.proviso.dev","version":"v1alpha1","resource":"virtualmachines","namespace":"n"}`, verb)
	if mode != "" {
		spec += fmt.Sprintf(`,"conditionalAuthorization":{"mode":%q}`, mode)
	}
	return spec
}

func machineOf(name, labels string) string {
	return fmt.Sprintf(`{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":%q,"labels":{%s}},"spec":{"image":"i","storageClassName":"dev","disks":[{"name":"root","sizeGiB":1}]}}`, name, labels)
}

// TestChecks counts what each kind of review and request asks kube-apiserver, twice: the
// second time the answers that may be reused are known.
func TestChecks(t *testing.T) {
	t.Parallel()
	const sar, self, local = "SubjectAccessReview", "SelfSubjectAccessReview", "LocalSubjectAccessReview"
	const optimized, readable = "Optimized", "HumanReadable"
	about := func(verb, mode string) string { return asksAbout(verb, mode) + `,"user":"bob"` }
	conditionsReview := func(condition string) string {
		return fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{"operation":"CREATE","object":{"spec":{"storageClassName":"dev"}},
			"userInfo":{"username":"bob"},"conditionSets":[{"authorizerName":"p","conditions":[{"id":"example.com/x","effect":"Allow","type":"k8s.io/authorization-cel","condition":%q}]}]}}`, condition)
	}
	for _, tc := range []struct {
		name, user, method, path string
		body                     string
		prepare                  string // a machine that there is before
		wantCode                 int
		want, wantAgain          []string
	}{
		{name: "SubjectAccessReview, unconditional", user: "alice", path: reviewsAPI + "subjectaccessreviews", body: reviewOf(sar, about("deletecollection", "")),
			want: []string{"alice create subjectaccessreviews", "bob deletecollection virtualmachines"}, wantAgain: []string{"bob deletecollection virtualmachines"}},
		{name: "SubjectAccessReview without a mode", user: "alice", path: reviewsAPI + "subjectaccessreviews", body: reviewOf(sar, about("create", "")),
			want: []string{"alice create subjectaccessreviews", "bob create virtualmachines", "bob granular virtualmachines"}, wantAgain: []string{"bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "SubjectAccessReview, readable", user: "alice", path: reviewsAPI + "subjectaccessreviews", body: reviewOf(sar, about("create", readable)),
			want: []string{"alice create subjectaccessreviews", "bob create virtualmachines", "bob granular virtualmachines"}, wantAgain: []string{"bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "SubjectAccessReview, optimized", user: "alice", path: reviewsAPI + "subjectaccessreviews", body: reviewOf(sar, about("create", optimized)),
			want:      []string{"alice create subjectaccessreviews", "bob create virtualmachines", "alice get clusterauthorizationpolicies create", "bob granular virtualmachines"},
			wantAgain: []string{"bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "SubjectAccessReview, optimized, by who may read policies", user: "reader", path: reviewsAPI + "subjectaccessreviews", body: reviewOf(sar, about("create", optimized)),
			want:      []string{"reader create subjectaccessreviews", "bob create virtualmachines", "reader get clusterauthorizationpolicies create", "bob granular virtualmachines"},
			wantAgain: []string{"bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "SubjectAccessReview about a condition that makes a check", user: "alice", path: reviewsAPI + "subjectaccessreviews", body: reviewOf(sar, about("delete", readable)),
			want: []string{"alice create subjectaccessreviews", "bob delete virtualmachines"}, wantAgain: []string{"bob delete virtualmachines"}},
		{name: "SelfSubjectAccessReview, unconditional", user: "bob", path: reviewsAPI + "selfsubjectaccessreviews", body: reviewOf(self, asksAbout("deletecollection", "")),
			want: []string{"bob create selfsubjectaccessreviews", "bob deletecollection virtualmachines"}, wantAgain: []string{"bob deletecollection virtualmachines"}},
		{name: "SelfSubjectAccessReview, readable", user: "bob", path: reviewsAPI + "selfsubjectaccessreviews", body: reviewOf(self, asksAbout("create", readable)),
			want: []string{"bob create selfsubjectaccessreviews", "bob create virtualmachines", "bob granular virtualmachines"}, wantAgain: []string{"bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "SelfSubjectAccessReview, optimized", user: "bob", path: reviewsAPI + "selfsubjectaccessreviews", body: reviewOf(self, asksAbout("create", optimized)),
			want:      []string{"bob create selfsubjectaccessreviews", "bob create virtualmachines", "bob get clusterauthorizationpolicies create", "bob granular virtualmachines"},
			wantAgain: []string{"bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "LocalSubjectAccessReview, unconditional", user: "alice", path: reviewsAPI + "namespaces/n/localsubjectaccessreviews", body: reviewOf(local, about("deletecollection", "")),
			want: []string{"alice create localsubjectaccessreviews", "bob deletecollection virtualmachines"}, wantAgain: []string{"bob deletecollection virtualmachines"}},
		{name: "LocalSubjectAccessReview, readable", user: "alice", path: reviewsAPI + "namespaces/n/localsubjectaccessreviews", body: reviewOf(local, about("create", readable)),
			want: []string{"alice create localsubjectaccessreviews", "bob create virtualmachines", "bob granular virtualmachines"}, wantAgain: []string{"bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "LocalSubjectAccessReview, optimized", user: "alice", path: reviewsAPI + "namespaces/n/localsubjectaccessreviews", body: reviewOf(local, about("create", optimized)),
			want:      []string{"alice create localsubjectaccessreviews", "bob create virtualmachines", "alice get clusterauthorizationpolicies create", "bob granular virtualmachines"},
			wantAgain: []string{"bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "AuthorizationConditionsReview", user: "alice", path: reviewsAPI + "authorizationconditionsreviews", body: conditionsReview(`object.spec.storageClassName == "dev"`),
			want: []string{"alice create authorizationconditionsreviews"}, wantAgain: nil},
		{name: "AuthorizationConditionsReview with a check", user: "alice", path: reviewsAPI + "authorizationconditionsreviews", body: conditionsReview(counted["update"]),
			want:      []string{"alice create authorizationconditionsreviews", "alice create subjectaccessreviews", "bob get secrets"},
			wantAgain: []string{"alice create subjectaccessreviews", "bob get secrets"}},
		{name: "ImpersonationReview", user: "alice", path: reviewsAPI + "impersonationreviews", body: reviewOf("ImpersonationReview", `"impersonate":{"username":"bob"},`+asksAbout("create", readable)),
			want: []string{"alice create impersonationreviews", "alice impersonate-on:user-info:create virtualmachines", "alice impersonate:user-info users bob",
				"bob create virtualmachines", "bob granular virtualmachines"},
			wantAgain: []string{"alice impersonate-on:user-info:create virtualmachines", "alice impersonate:user-info users bob", "bob create virtualmachines", "bob granular virtualmachines"}},
		{name: "ImpersonationReview of another requester", user: "carol", path: reviewsAPI + "impersonationreviews", body: reviewOf("ImpersonationReview", `"user":"alice","impersonate":{"username":"bob"},`+asksAbout("deletecollection", "")),
			want: []string{"carol create impersonationreviews", "carol create subjectaccessreviews", "alice impersonate-on:user-info:deletecollection virtualmachines", "alice impersonate:user-info users bob",
				"bob deletecollection virtualmachines"},
			wantAgain: []string{"carol create subjectaccessreviews", "alice impersonate-on:user-info:deletecollection virtualmachines", "alice impersonate:user-info users bob", "bob deletecollection virtualmachines"}},

		{name: "request, refused", user: "bob", method: http.MethodGet, path: machines + "/one", wantCode: http.StatusForbidden,
			want: []string{"bob get virtualmachines one"}, wantAgain: nil},
		{name: "request, unconditional", user: "bob", method: http.MethodDelete, path: machines, wantCode: http.StatusOK,
			want: []string{"bob deletecollection virtualmachines"}, wantAgain: nil},
		{name: "request on a condition", user: "bob", path: machines + "?dryRun=All", body: machineOf("one", ""), wantCode: http.StatusCreated,
			want: []string{"bob create virtualmachines"}, wantAgain: nil},
		{name: "request on a condition that makes a check", user: "bob", method: http.MethodPut, path: machines + "/one?dryRun=All", prepare: machineOf("one", ""), body: machineOf("one", `"l":"v"`), wantCode: http.StatusOK,
			want: []string{"bob update virtualmachines one", "bob get secrets"}, wantAgain: nil},
		{name: "request on a condition about a path of the server", user: "bob", method: http.MethodDelete, path: machines + "/one?dryRun=All", prepare: machineOf("one", ""), wantCode: http.StatusForbidden,
			want: []string{"bob delete virtualmachines one", "bob get /healthz", "bob get virtualmachines one"}, wantAgain: nil},
		{name: "request on a condition of another authorizer", user: "text", method: http.MethodDelete, path: machines + "/one?dryRun=All", prepare: machineOf("one", ""), wantCode: http.StatusForbidden,
			want: []string{"text delete virtualmachines one", "text get /healthz", "text get virtualmachines one"}, wantAgain: nil},
		{name: "request on fields", user: "bob", method: http.MethodPatch, path: machines + "/one?dryRun=All", prepare: machineOf("one", ""), body: `{"metadata":{"labels":{"l":"v"}}}`, wantCode: http.StatusOK,
			want: []string{"bob patch virtualmachines one", "bob granular virtualmachines one",
				"bob granular:metadata virtualmachines one", "bob granular:labels virtualmachines one", "bob granular:label(l) virtualmachines one"}, wantAgain: nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, l := countedServer(t)
			if tc.prepare != "" {
				if got := send(s, "admin", http.MethodPost, machines, tc.prepare); got.Code != http.StatusCreated {
					t.Fatalf("got %d %s", got.Code, got.Body)
				}
				l.take()
			}
			if tc.method == "" {
				tc.method = http.MethodPost
			}
			if tc.wantCode == 0 {
				tc.wantCode = http.StatusCreated
			}
			for _, round := range []struct {
				when string
				want []string
			}{{"first", tc.want}, {"again", tc.wantAgain}} {
				got := send(s, tc.user, tc.method, tc.path, tc.body)
				if got.Code != tc.wantCode {
					t.Errorf("%s: got %d %s, want %d", round.when, got.Code, got.Body, tc.wantCode)
				}
				if diff := cmp.Diff(round.want, l.take()); diff != "" {
					t.Errorf("%s: asked (-want +got):\n%s", round.when, diff)
				}
			}
		})
	}
}
