/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// rule is what a policy allows dana, on a condition that is stated twice: for the engine, and in Go for what the doors must never do.
type rule struct {
	verbs, group, versions, resources, name string
	condition                               string
	holds                                   func(object, old map[string]any) bool
}

// text returns a field, or "".
func text(object map[string]any, path ...string) string {
	for _, name := range path[:len(path)-1] {
		object, _ = object[name].(map[string]any)
	}
	value, _ := object[path[len(path)-1]].(string)
	return value
}

// isAtMost reports whether a field is a number up to a bound.
func isAtMost(object map[string]any, bound float64, path ...string) bool {
	for _, name := range path[:len(path)-1] {
		object, _ = object[name].(map[string]any)
	}
	switch value := object[path[len(path)-1]].(type) {
	case int64:
		return float64(value) <= bound
	case float64:
		return value <= bound
	}
	return false
}

// rules are the policies with which the reviews in testdata were recorded.
var rules = []rule{
	{"create update patch", "", "v1", "persistentvolumeclaims persistentvolumeclaims/status", "", `object.spec.storageClassName == "dev"`, func(object, _ map[string]any) bool { return text(object, "spec", "storageClassName") == "dev" }},
	{"delete deletecollection", "", "v1", "persistentvolumeclaims configmaps services", "", `oldObject.metadata.?labels["keep"].orValue("") != "true"`, func(_, old map[string]any) bool { return text(old, "metadata", "labels", "keep") != "true" }},
	{"delete deletecollection", "example.com", "v1 v2", "widgets", "", `oldObject.metadata.?labels["keep"].orValue("") != "true"`, func(_, old map[string]any) bool { return text(old, "metadata", "labels", "keep") != "true" }},
	{"create update patch", "", "v1", "configmaps services namespaces", "", `object.metadata.?labels["team"].orValue("") == "blue"`, func(object, _ map[string]any) bool { return text(object, "metadata", "labels", "team") == "blue" }},
	{"update patch", "apps", "v1", "deployments/scale", "", `object.spec.replicas <= 3`, func(object, _ map[string]any) bool { return isAtMost(object, 3, "spec", "replicas") }},
	{"create", "", "v1", "serviceaccounts/token", "ci", `object.spec.audiences == ["vault"]`, func(object, _ map[string]any) bool {
		spec, _ := object["spec"].(map[string]any)
		audiences, _ := spec["audiences"].([]any)
		return len(audiences) == 1 && audiences[0] == "vault"
	}},
	{"create update patch", "example.com", "v1 v2", "widgets widgets/status", "", `object.spec.size <= 2.5`, func(object, _ map[string]any) bool { return isAtMost(object, 2.5, "spec", "size") }},
	{"get list", "", "v1", "persistentvolumeclaims configmaps namespaces services", "", "", nil},
	{"get list", "apps", "v1", "deployments", "", "", nil},
	{"get list", "example.com", "v1 v2", "widgets", "", "", nil},
}

// matches reports whether a rule is about a verb of a resource.
func (r *rule) matches(verb, group, version, resource, subresource, name string) bool {
	if subresource != "" {
		resource += "/" + subresource
	}
	return slices.Contains(strings.Fields(r.verbs), verb) && group == r.group && slices.Contains(strings.Fields(r.versions), version) &&
		slices.Contains(strings.Fields(r.resources), resource) && (r.name == "" || r.name == name)
}

func sourceOfRules(tb testing.TB) *engine.Source {
	tb.Helper()
	compiler := compilers.Policies(tb)
	compiled := map[engine.Key]*engine.Policy{}
	for i, r := range rules {
		key := engine.Key{Name: "p" + string(rune('0'+i))}
		var err error
		if compiled[key], err = engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
			Effect: allow, Condition: r.condition, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "dana"}},
			Rules: []policyv1alpha1.PolicyRule{{
				Verbs: strings.Fields(r.verbs), APIGroups: []string{r.group}, APIVersions: strings.Fields(r.versions),
				Resources: strings.Fields(r.resources), ResourceNames: strings.Fields(r.name),
			}},
		}, compiler); err != nil {
			tb.Fatal(err)
		}
	}
	source := &engine.Source{}
	source.Publish(engine.NewBuilder().Apply(compiled))
	return source
}

const (
	fuzzedDigest  = "0123456789abcdef0123456789abcdef"
	innerDoorPath = "/webhooks/admit/" + fuzzedDigest
)

// doors is the whole handler of the port, with both doors.
type doors struct {
	handler http.Handler
	state   *tls.ConnectionState
}

func newDoors(tb testing.TB, source *engine.Source) *doors {
	tb.Helper()
	listing := newInnerDoor()
	listing.Listed = func(innerdoor.Resource) bool { return true }
	listing.Known = func(*place.Client) bool { return true }
	decider, err := frontdoor.New(frontdoor.Config{
		Policies: frontdoor.Policies{Chain: chainOf(tb, source), Source: source}, Places: places{enforces: enforcesMachines, inner: listing}.table(), KubeAPIServer: &others{},
	})
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := authorization.NewChain(
		authorization.Member{Name: engine.RestrictingName, Decider: &engine.Authorizer{Source: source, Part: engine.Restricting}},
		authorization.Member{Name: engine.GrantingName, Decider: &engine.Authorizer{Source: source, Part: engine.Granting}},
	)
	if err != nil {
		tb.Fatal(err)
	}
	inner, err := innerdoor.NewHandler(innerdoor.HandlerConfig{Decider: &innerdoor.Decider{Chain: chain}, Digest: fuzzedDigest})
	if err != nil {
		tb.Fatal(err)
	}
	ca := newAuthority(tb, "ca")
	verifier, err := dynamiccertificates.NewDynamicCAContentFromFile("clients", ca.Files().Cert)
	if err != nil {
		tb.Fatal(err)
	}
	clients, err := frontdoor.NewClients(verifier.VerifyOptions, []string{"kube-apiserver"})
	if err != nil {
		tb.Fatal(err)
	}
	pair, err := ca.Client("kube-apiserver", "kube-apiserver")
	if err != nil {
		tb.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		tb.Fatal(err)
	}
	return &doors{
		handler: frontdoor.NewHandler(decider, clients, frontdoor.Route{Pattern: "/webhooks/admit/{" + innerdoor.DigestWildcard + "}", Handler: inner}),
		state:   &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate.Leaf}},
	}
}

// post sends a body to a path, and fails the test after a panic or an internal error.
func (d *doors) post(t *testing.T, path string, body []byte) (int, []byte) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	r.TLS = d.state
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	for _, panicked := range []string{"the front door of Proviso failed", "the write could not be decided"} {
		if w.Code >= http.StatusInternalServerError || strings.Contains(w.Body.String(), panicked) {
			t.Errorf("%s: got %d %s", path, w.Code, w.Body)
		}
	}
	return w.Code, w.Body.Bytes()
}

// reviewsIn returns the recorded reviews of a directory, in the order of their names.
func reviewsIn(tb testing.TB, dir string) (reviews [][]byte) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) < 30 {
		tb.Fatalf("got %d recorded reviews in %s: %v", len(files), dir, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		reviews = append(reviews, content)
	}
	return reviews
}

// replacements are what a mutation puts in the place of a value.
var replacements = []any{
	nil, "", "*", "dana", "nina", "dana\n", "v1", "v2", "create", "update", "patch", "delete", "deletecollection", "CREATE", "UPDATE", "DELETE", "CONNECT", "status", "persistentvolumeclaims", "namespaces",
	"true", "dev", "blue", true, false, int64(0), int64(-1), int64(1) << 62, 2.5, 1e300, []any{}, map[string]any{}, []any{nil, "a", map[string]any{"b": nil}}, strings.Repeat("x", 9000), "\x00\u2028\"'", "system:masters",
}

// mutate changes a review as a script says, of which three bytes are a step: which value, how, and with what.
func mutate(review []byte, script []byte) []byte {
	var root any
	if utiljson.Unmarshal(review, &root) != nil {
		return review
	}
	for range 8 {
		if len(script) < 3 {
			break
		}
		step(root, script[0], script[1], script[2])
		script = script[3:]
	}
	mutated, err := json.Marshal(root)
	if err != nil {
		return review
	}
	return mutated
}

// entry is a field of an object, or an entry of a list.
type entry struct {
	object map[string]any
	key    string
	list   []any
	index  int
}

func (p entry) get() any {
	if p.object != nil {
		return p.object[p.key]
	}
	return p.list[p.index]
}

func (p entry) set(value any) {
	if p.object != nil {
		p.object[p.key] = value
		return
	}
	p.list[p.index] = value
}

// placesIn returns all fields and entries in a value, in a fixed order.
func placesIn(value any) (places []entry) {
	switch value := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(value))
		for key := range value {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			places = append(append(places, entry{object: value, key: key}), placesIn(value[key])...)
		}
	case []any:
		for i := range value {
			places = append(append(places, entry{list: value, index: i}), placesIn(value[i])...)
		}
	}
	return places
}

// setCopy sets a copy of a value, so that no value contains itself.
func setCopy(at entry, value any) {
	text, err := json.Marshal(value)
	var copied any
	if err == nil && len(text) < 1<<16 && utiljson.Unmarshal(text, &copied) == nil {
		at.set(copied)
	}
}

func step(root any, where, how, with byte) {
	places := placesIn(root)
	if len(places) == 0 {
		return
	}
	at := places[int(where)*7%len(places)]
	switch other := places[int(with)*5%len(places)]; how % 6 {
	case 0:
		if at.object != nil {
			delete(at.object, at.key)
		}
	case 1, 2:
		setCopy(at, replacements[int(with)%len(replacements)])
	case 3:
		setCopy(at, other.get())
	case 4:
		if at.object != nil {
			at.object[strings.ToUpper(at.key)] = at.object[at.key]
		}
	case 5:
		if text, ok := at.get().(string); ok {
			at.set(text + string(rune(with)))
		}
	}
}

// recordedReviews returns the recorded reviews by the path of their door.
func recordedReviews(tb testing.TB) map[string][][]byte {
	tb.Helper()
	return map[string][][]byte{
		frontdoor.AuthorizePath: reviewsIn(tb, filepath.Join("testdata", "reviews")),
		innerDoorPath:           reviewsIn(tb, filepath.Join("..", "innerdoor", "testdata", "reviews")),
	}
}

// testBody sends a body to a door with the rules and to one without policies. It reports whether the former allowed it.
func testBody(t *testing.T, open, closed *doors, path string, body []byte) (wasAllowed bool) {
	t.Helper()
	mayAllow := allowedAtFrontDoor
	if path == innerDoorPath {
		mayAllow = allowedAtInnerDoor
	}
	for _, d := range []*doors{open, closed} {
		code, answer := d.post(t, path, body)
		if code != http.StatusOK {
			continue
		}
		var review struct {
			Status   struct{ Allowed bool }
			Response struct{ Allowed bool }
		}
		if err := json.Unmarshal(answer, &review); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		isAllowed := review.Status.Allowed || review.Response.Allowed
		if isAllowed && (d == closed && !isCanary(body) || !mayAllow(body)) {
			t.Errorf("%s is allowed: %.2000s", path, body)
		}
		wasAllowed = wasAllowed || isAllowed
	}
	return wasAllowed
}

// FuzzBothDoors sends arbitrary bytes, and recorded reviews that have been changed, to both doors of the whole handler: no internal error, no
// panic, no Allow without policies, and none but for what the policies allow.
func FuzzBothDoors(f *testing.F) {
	recorded := recordedReviews(f)
	for path, reviews := range recorded {
		for i, body := range reviews {
			f.Add(path == innerDoorPath, uint8(i), []byte{}, body)
			f.Add(path == innerDoorPath, uint8(i), []byte{byte(i), 1, byte(i), byte(3 * i), 3, byte(i)}, []byte{})
		}
	}
	open, closed := newDoors(f, sourceOfRules(f)), newDoors(f, publish(f, nil))
	f.Fuzz(func(t *testing.T, isInner bool, which uint8, script, body []byte) {
		path := frontdoor.AuthorizePath
		if isInner {
			path = innerDoorPath
		}
		if len(body) == 0 {
			body = mutate(recorded[path][int(which)%len(recorded[path])], script)
		}
		testBody(t, open, closed, path, body)
	})
}

// TestMutatedReviews sends recorded reviews that have been changed at random to both doors: REVIEW_CASES, from REVIEW_SEED on. It is much faster
// than a fuzz target, because it does not look for new paths through the code.
func TestMutatedReviews(t *testing.T) {
	t.Parallel()
	number := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	recorded, open, closed := recordedReviews(t), newDoors(t, sourceOfRules(t)), newDoors(t, publish(t, nil))
	seed, cases := number("REVIEW_SEED", 1), number("REVIEW_CASES", 300)
	sent, allowed := map[string]int{}, map[string]int{}
	for i := range cases {
		random := rand.New(rand.NewPCG(seed, i))
		path := []string{frontdoor.AuthorizePath, innerDoorPath}[random.IntN(2)]
		body := bytes.Clone(recorded[path][random.IntN(len(recorded[path]))])
		if i%8 == 0 { // bytes of the text
			for range random.IntN(9) {
				body[random.IntN(len(body))] = byte(random.IntN(256))
			}
		} else {
			script := make([]byte, 3*random.IntN(5))
			for j := range script {
				script[j] = byte(random.IntN(256))
			}
			body = mutate(body, script)
		}
		sent[path]++
		if testBody(t, open, closed, path, body) {
			allowed[path]++
		}
		if t.Failed() {
			t.Fatalf("REVIEW_SEED=%d, case %d", seed, i)
		}
	}
	for path := range recorded {
		t.Logf("%s: %d reviews, %d allowed", path, sent[path], allowed[path])
		if allowed[path] < sent[path]/10 || allowed[path] > sent[path]*9/10 {
			t.Errorf("%s: %d of %d reviews are allowed, so that the test shows little", path, allowed[path], sent[path])
		}
	}
}

// asked is what the front door reads of a review if no policy reads selectors.
type asked struct {
	Spec struct {
		User               string                                `json:"user"`
		Extra              map[string]authorizationv1.ExtraValue `json:"extra"`
		ResourceAttributes *struct {
			Verb        string `json:"verb"`
			Group       string `json:"group"`
			Version     string `json:"version"`
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
			Name        string `json:"name"`
		} `json:"resourceAttributes"`
	} `json:"spec"`
}

// isCanary reports whether a review at the front door is about the canary, which it allows without policies.
func isCanary(body []byte) bool {
	review := &asked{}
	return utiljson.Unmarshal(body, review) == nil && review.Spec.User == innerdoor.CanaryUser && len(review.Spec.Extra[innerdoor.CanaryExtra]) == 1
}

// allowedAtFrontDoor reports whether the rules could allow what a review asks for.
func allowedAtFrontDoor(body []byte) bool {
	review := &asked{}
	if utiljson.Unmarshal(body, review) != nil {
		return false
	}
	a := review.Spec.ResourceAttributes
	return isCanary(body) || review.Spec.User == "dana" && a != nil && slices.ContainsFunc(rules, func(r rule) bool {
		return r.matches(a.Verb, a.Group, a.Version, a.Resource, a.Subresource, a.Name)
	})
}

// allowedAtInnerDoor reports whether the rules allow one of the verbs of the operation for the objects.
func allowedAtInnerDoor(body []byte) bool {
	review := &admissionv1.AdmissionReview{}
	if utiljson.Unmarshal(body, review) != nil || review.Request == nil || review.Request.UserInfo.Username != "dana" {
		return false
	}
	request := review.Request
	var object, old map[string]any
	if utiljson.Unmarshal(request.Object.Raw, &object) != nil && len(request.Object.Raw) > 0 || utiljson.Unmarshal(request.OldObject.Raw, &old) != nil && len(request.OldObject.Raw) > 0 {
		return false
	}
	verbs := map[admissionv1.Operation][]string{admissionv1.Create: {"create"}, admissionv1.Update: {"update", "patch"}, admissionv1.Delete: {"delete", "deletecollection"}}[request.Operation]
	return slices.ContainsFunc(rules, func(r rule) bool {
		return r.holds != nil && r.holds(object, old) && slices.ContainsFunc(verbs, func(verb string) bool {
			return r.matches(verb, request.Resource.Group, request.Resource.Version, request.Resource.Resource, request.SubResource, request.Name)
		})
	})
}
