/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// recorded returns the AdmissionReviews that a kube-apiserver has sent, by name. The test of the control plane records them.
func recorded(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "reviews", "*.json"))
	if err != nil || len(files) < 30 {
		tb.Fatalf("got %d recorded reviews: %v", len(files), err)
	}
	reviews := map[string][]byte{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		reviews[strings.TrimSuffix(filepath.Base(file), ".json")] = content
	}
	return reviews
}

// recordedRules are the policies with which the reviews were recorded: what dana may do, and on what condition.
var recordedRules = []struct{ verbs, group, versions, resources, names, condition string }{
	{"create update patch", "", "v1", "persistentvolumeclaims persistentvolumeclaims/status", "", `object.spec.storageClassName == "dev"`},
	{"delete deletecollection", "", "v1", "persistentvolumeclaims configmaps services", "", `oldObject.metadata.?labels["keep"].orValue("") != "true"`},
	{"delete deletecollection", "example.com", "v1 v2", "widgets", "", `oldObject.metadata.?labels["keep"].orValue("") != "true"`},
	{"create update patch", "", "v1", "configmaps services namespaces", "", `object.metadata.?labels["team"].orValue("") == "blue"`},
	{"update patch", "apps", "v1", "deployments/scale", "", `object.spec.replicas <= 3`},
	{"create", "", "v1", "serviceaccounts/token", "ci", `object.spec.audiences == ["vault"]`},
	{"create update patch", "example.com", "v1 v2", "widgets widgets/status", "", `object.spec.size <= 2.5`},
}

func recordedSource(tb testing.TB) *engine.Source {
	tb.Helper()
	compiler := compilers.Policies(tb)
	compiled := map[engine.Key]*engine.Policy{}
	for i, r := range recordedRules {
		key := engine.Key{Name: "p" + string(rune('0'+i))}
		var err error
		compiled[key], err = engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
			Effect: allow, Condition: r.condition, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "dana"}},
			Rules: []policyv1alpha1.PolicyRule{{
				Verbs: strings.Fields(r.verbs), APIGroups: []string{r.group}, APIVersions: strings.Fields(r.versions),
				Resources: strings.Fields(r.resources), ResourceNames: strings.Fields(r.names),
			}},
		}, compiler)
		if err != nil {
			tb.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	return source
}

// isRefused reports whether a recorded review was refused.
func isRefused(name string) bool {
	for _, refused := range []string{"-refused", "-kept", "-of-others", "secret-post"} {
		if strings.HasSuffix(name, refused) {
			return true
		}
	}
	return false
}

// TestRecordedReviews decides the reviews of every shape that a kube-apiserver has sent. Without policies, for another user, and in another
// version all of them are refused.
func TestRecordedReviews(t *testing.T) {
	t.Parallel()
	source := recordedSource(t)
	withNamespaces := func(source *engine.Source) http.Handler {
		handler, err := innerdoor.NewHandler(innerdoor.HandlerConfig{
			Decider: deciderOf(t, source), Digest: digest,
			Namespace: func(name string) (map[string]any, error) {
				if name != "inner-door" {
					t.Errorf("the namespace %q was looked up, which may not exist yet", name)
				}
				return map[string]any{"metadata": map[string]any{"name": name}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		mux.Handle("/webhooks/admit/{"+innerdoor.DigestWildcard+"}", handler)
		return mux
	}
	handler, closed := withNamespaces(source), withNamespaces(sourceOf(t, nil))
	allowed := 0
	for name, body := range recorded(t) {
		got := responseOf(t, post(handler, strings.NewReader(string(body)), nil))
		if got.Allowed == isRefused(name) {
			t.Errorf("%s: got %+v, want it allowed: %t", name, got.Result, !isRefused(name))
		}
		if got.Allowed {
			allowed++
		}
		if got := responseOf(t, post(closed, strings.NewReader(string(body)), nil)); got.Allowed {
			t.Errorf("%s is allowed without a policy", name)
		}
		for what, change := range map[string]func(*admissionv1.AdmissionRequest){
			"by another user":     func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "nina" },
			"by a similar user":   func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "dana\n" },
			"in another version":  func(r *admissionv1.AdmissionRequest) { r.Resource.Version, r.RequestResource.Version = "v9", "v9" },
			"in another group":    func(r *admissionv1.AdmissionRequest) { r.Resource.Group, r.RequestResource.Group = "x.y", "x.y" },
			"as a connection":     func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Connect },
			"without the objects": func(r *admissionv1.AdmissionRequest) { r.Object.Raw, r.OldObject.Raw = nil, nil },
		} {
			review := &admissionv1.AdmissionReview{}
			if err := json.Unmarshal(body, review); err != nil {
				t.Fatal(err)
			}
			change(review.Request)
			if got := responseOf(t, post(handler, strings.NewReader(reviewOf(t, review.Request)), nil)); got.Allowed {
				t.Errorf("%s is allowed %s", name, what)
			}
		}
	}
	if allowed < 20 {
		t.Errorf("only %d reviews are allowed", allowed)
	}
}
