/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// Namespace is the namespace of Proviso.
const Namespace = "proviso-system"

// The paths at which a kube-apiserver calls Proviso.
const (
	authorizePath = "/webhooks/authorize"
	admitPath     = "/webhooks/admit/"
)

const (
	canaryUser = "system:proviso:canary"
	// CanaryExtra is the key of the extra with the nonce of a canary.
	CanaryExtra = "authorization.proviso.dev/canary"
	// sentinelName and rolloutLabel are of the objects that show which barriers are loaded.
	sentinelName = "rollout.barriers.proviso.dev"
	rolloutLabel = "barriers.proviso.dev/rollout"
	// digestOfOthers is the digest of a manifest that this replica does not have.
	digestOfOthers = "0123456789abcdef0123456789abcdef"
)

// Cluster is a stand-in for the kube-apiservers of a case. It implements http.RoundTripper for clients of kube-apiserver.
type Cluster struct {
	facts *Facts
	store *Store
	// Door has both doors of Proviso, and Digest the digest of the manifest. They are set before kube-apiservers are probed.
	Door   http.Handler
	Digest string

	mu sync.Mutex
	// before has the objects that servers have loaded that are behind. It is nil until then.
	before []runtime.Object
	// asked has the canaries about which a server that reuses answers has asked.
	asked map[string]bool
	blind bool
}

// NewCluster returns the cluster of a case with a store.
func NewCluster(c *Case, store *Store) *Cluster {
	return &Cluster{facts: &c.Facts, store: store, asked: map[string]bool{}}
}

// Address returns the address of a server.
func Address(i int) string { return fmt.Sprintf("https://server-%d.example:6443", i) }

// Addresses returns the addresses of the servers that are listed.
func (c *Cluster) Addresses() []string {
	var addresses []string
	for i, s := range c.facts.Servers {
		if s.IsListed {
			addresses = append(addresses, Address(i))
		}
	}
	return addresses
}

// HoldBack has servers that are behind load nothing that is stored from now on.
func (c *Cluster) HoldBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = append([]runtime.Object{}, c.store.objects()...)
}

// LoseSight has lists of what is stored fail from now on.
func (c *Cluster) LoseSight() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blind = true
}

func (c *Cluster) isBlind() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blind
}

// Move has another server take over what the server of things has.
func (c *Cluster) Move() {
	for i := range c.facts.Services {
		if s := &c.facts.Services[i]; s.By == "things" {
			s.By = "other"
		}
	}
}

var errSilent = errors.New("no answer")

// RoundTrip answers a request to kube-apiserver.
func (c *Cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	for i := range c.facts.Servers {
		if r.URL.Host == strings.TrimPrefix(Address(i), "https://") {
			if c.facts.Servers[i].IsSilent {
				return nil, errSilent
			}
			return answer(r, c.probed(i, r, body)), nil
		}
	}
	return answer(r, c.read(r)), nil
}

func answer(r *http.Request, object any) *http.Response {
	code := http.StatusOK
	if status, ok := object.(*metav1.Status); ok {
		code = int(status.Code)
	}
	content, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(content)), Request: r}
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}

var notFound = failure(http.StatusNotFound, metav1.StatusReasonNotFound, "not found")

// read answers a request for what is stored.
func (c *Cluster) read(r *http.Request) any {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/apiregistration.k8s.io/v1/apiservices"):
		return c.services(parts[4:])
	case r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases":
		return c.leases()
	case strings.HasPrefix(r.URL.Path, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"):
		if (c.facts.Barriers == BarriersUnseen || c.isBlind()) && len(parts) == 4 {
			return failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "not now")
		}
		return c.store.answer(parts[3], parts[4:])
	case len(parts) == 3 && parts[0] == "apis": // discovery
		for _, s := range c.facts.Services {
			if s.Group == parts[1] && s.Version == parts[2] && s.By == "" {
				return &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}}
			}
		}
	}
	return notFound
}

func (c *Cluster) services(names []string) any {
	items := make([]map[string]any, 0, len(c.facts.Services))
	for _, s := range c.facts.Services {
		metadata := map[string]any{"name": s.Version + "." + s.Group}
		if s.IsManaged {
			metadata["labels"] = map[string]any{"kube-aggregator.kubernetes.io/automanaged": "true"}
		}
		spec, available := map[string]any{"group": s.Group, "version": s.Version}, metav1.ConditionFalse
		if s.IsAvailable {
			available = metav1.ConditionTrue
		}
		if s.By != "" {
			spec["service"] = map[string]any{"namespace": s.By, "name": s.By, "port": 443}
		}
		item := map[string]any{
			"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1", "metadata": metadata, "spec": spec,
			"status": map[string]any{"conditions": []map[string]any{{"type": "Available", "status": available}}},
		}
		if len(names) > 0 && names[0] == metadata["name"] {
			return item
		}
		items = append(items, item)
	}
	if len(names) > 0 {
		return notFound
	}
	return map[string]any{"kind": "APIServiceList", "apiVersion": "apiregistration.k8s.io/v1", "items": items}
}

func (c *Cluster) leases() any {
	if !c.facts.HasLeases {
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "not allowed")
	}
	list := &coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}}
	now := metav1.NowMicro()
	for i := range len(c.facts.Servers) + c.facts.Unlisted {
		list.Items = append(list.Items, coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprintf("apiserver-%d", i)}, Spec: coordinationv1.LeaseSpec{RenewTime: &now},
		})
	}
	return list
}

// probed answers a probe of a server.
func (c *Cluster) probed(i int, r *http.Request, body []byte) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.facts.Servers[i]
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	a := &authorizationv1.ResourceAttributes{Version: "v1", Verb: map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodDelete: "delete"}[r.Method]}
	if parts[0] == "apis" {
		a.Group, parts = parts[1], parts[1:]
	}
	a.Namespace, a.Resource = parts[3], parts[4]
	switch {
	case len(parts) > 5:
		a.Name = parts[5]
	case a.Verb == "delete":
		a.Verb = "deletecollection"
		_, name, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
		a.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{name}}}}
	}
	nonce := r.Header.Get("Impersonate-Extra-" + url.PathEscape(CanaryExtra))
	switch {
	case a.Resource == "leases":
		return c.lease(s, a, nonce, body)
	case a.Namespace == metav1.NamespaceDefault:
		return c.conditions(s, a, nonce)
	}
	return c.configMap(s, a, nonce)
}

// created is the answer to a request that was not refused.
var created = map[string]any{}

// ask asks the front door about a canary. It returns nil if the front door allows it.
func (c *Cluster) ask(s *Server, a *authorizationv1.ResourceAttributes, nonce string) *metav1.Status {
	if c.Door == nil {
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "not allowed")
	}
	spec := &authorizationv1.SubjectAccessReviewSpec{
		User: canaryUser, Groups: []string{user.AllAuthenticated}, Extra: map[string]authorizationv1.ExtraValue{CanaryExtra: {nonce}}, ResourceAttributes: a,
	}
	_, answered := Ask(c.Door, s.Certificate, spec, s.Conditions == Handles)
	review := &authorizationv1.SubjectAccessReview{}
	if err := json.Unmarshal(answered, review); err == nil && review.Status.Allowed {
		return nil
	}
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%s is forbidden: User %q cannot %s it: %s", a.Resource, canaryUser, a.Verb, review.Status.Reason))
}

func (c *Cluster) conditions(s *Server, a *authorizationv1.ResourceAttributes, nonce string) any {
	if s.Conditions == HandlesNoAsk {
		return created
	}
	if refusal := c.ask(s, a, nonce); refusal != nil {
		return refusal
	}
	return created
}

func (c *Cluster) configMap(s *Server, a *authorizationv1.ResourceAttributes, nonce string) any {
	key := nonce + a.Verb
	if s.InnerDoor != DoorOtherReplica && (s.InnerDoor != DoorCached || !c.asked[key]) {
		if refusal := c.ask(s, a, nonce); refusal != nil {
			return refusal
		}
	}
	if s.InnerDoor == DoorSeveral {
		other := *s
		other.Certificate = Strange
		if refusal := c.ask(&other, a, nonce); refusal != nil {
			return refusal
		}
	}
	c.asked[key] = true
	switch s.InnerDoor {
	case DoorNotCalled:
		return created
	case DoorRefusedBefore:
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "quota")
	case DoorOtherManifest:
		return c.admit(s, a, nonce, digestOfOthers)
	default:
		return c.admit(s, a, nonce, c.Digest)
	}
}

// admit calls the inner door.
func (c *Cluster) admit(s *Server, a *authorizationv1.ResourceAttributes, nonce, digest string) any {
	operation := map[string]admissionv1.Operation{"create": admissionv1.Create, "update": admissionv1.Update, "delete": admissionv1.Delete, "deletecollection": admissionv1.Delete}[a.Verb]
	review := &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: a.Resource},
			Namespace: a.Namespace, Name: a.Name, Operation: operation,
			UserInfo: authenticationv1.UserInfo{Username: canaryUser, Groups: []string{user.AllAuthenticated}, Extra: map[string]authenticationv1.ExtraValue{CanaryExtra: {nonce}}},
		},
	}
	_, answered := send(c.Door, s.Certificate, admitPath+digest, review)
	if err := json.Unmarshal(answered, review); err != nil || review.Response == nil || review.Response.Result == nil {
		return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "the inner door did not answer")
	}
	status := review.Response.Result
	status.TypeMeta, status.Status = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, metav1.StatusFailure
	return status
}

// lease answers a probe of the sentinel, which may be sent as the canary.
func (c *Cluster) lease(s *Server, a *authorizationv1.ResourceAttributes, nonce string, body []byte) any {
	if nonce != "" && s.Barriers != LoadedUncertified {
		if refusal := c.ask(s, a, nonce); refusal != nil {
			return refusal
		}
	}
	if nonce != "" && s.Barriers == LoadedUncertified || s.Barriers == LoadedRefused {
		return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "quota")
	}
	loaded := c.store.objects()
	if s.Barriers == LoadedBefore && c.before != nil {
		loaded = c.before
	}
	if s.Barriers == LoadedNone {
		loaded = nil
	}
	lease := &coordinationv1.Lease{}
	if err := json.Unmarshal(body, lease); err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	message := ""
	isBound := false
	for _, object := range loaded {
		switch o := object.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			if o.Name == sentinelName {
				message = o.Spec.Validations[0].Message
			}
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			isBound = isBound || o.Name == sentinelName && o.Spec.MatchResources.ObjectSelector.MatchLabels[rolloutLabel] == lease.Labels[rolloutLabel]
		}
	}
	if !isBound || message == "" {
		return created
	}
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden,
		fmt.Sprintf("leases.coordination.k8s.io %q is forbidden: ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", lease.Name, sentinelName, sentinelName, message))
}

// Ask sends a review to the front door with the certificate of a number. It returns the status code and the body of the answer.
func Ask(door http.Handler, certificate int, spec *authorizationv1.SubjectAccessReviewSpec, handlesConditions bool) (int, []byte) {
	content := map[string]any{}
	encoded, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(encoded, &content)
	}
	if err != nil {
		panic(err)
	}
	if handlesConditions {
		content["authorizationOptions"] = map[string]any{"handledDecisionTypes": []string{"ConditionsMap", "Union"}}
	}
	return send(door, certificate, authorizePath, map[string]any{"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": content})
}

func send(door http.Handler, certificate int, path string, object any) (int, []byte) {
	content, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(content))
	request.Header.Set("Content-Type", "application/json")
	request.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificates().clients[certificate]}}
	recorder := httptest.NewRecorder()
	door.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.Bytes()
}

// Strange is the number of a client certificate that no server has alone.
const Strange = 3

type authority struct {
	pool    *x509.CertPool
	clients [Strange + 1]*x509.Certificate
}

// certificates are made once, before the bubbles, in which time begins in 2000.
var certificates = sync.OnceValue(func() *authority {
	made := &authority{pool: x509.NewCertPool()}
	issue := func(number int64, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			NotBefore: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		}
		if parent == nil {
			template.IsCA, template.BasicConstraintsValid, parent, signer = true, true, template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			panic(err)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			panic(err)
		}
		return certificate, key
	}
	ca, key := issue(1, nil, nil)
	made.pool.AddCert(ca)
	for i := range made.clients {
		made.clients[i], _ = issue(int64(i)+2, ca, key)
	}
	return made
})

// ClientCA has the CA of the certificates with which kube-apiservers ask. It implements the CAContentProvider of a listener.
type ClientCA struct{}

// Name implements dynamiccertificates.CAContentProvider.
func (ClientCA) Name() string { return "places" }

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (ClientCA) CurrentCABundleContent() []byte { return nil }

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (ClientCA) VerifyOptions() (x509.VerifyOptions, bool) {
	return x509.VerifyOptions{Roots: certificates().pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// certificateOf returns the number of the certificate of a server, or Strange for -1.
func (f *Facts) certificateOf(server int) int {
	if server < 0 {
		return Strange
	}
	return f.Servers[server].Certificate
}

// AskRequest asks the front door about the request of the case.
func (c *Case) AskRequest(door http.Handler) (int, []byte) {
	handles := c.Request.Server >= 0 && c.Facts.Servers[c.Request.Server].Conditions == Handles
	return Ask(door, c.Facts.certificateOf(c.Request.Server), &c.Request.SubjectAccessReviewSpec, handles)
}

// AddListener implements dynamiccertificates.CAContentProvider.
func (ClientCA) AddListener(dynamiccertificates.Listener) {}

// newUID returns a UID for a name.
func newUID(name string) types.UID { return types.UID("uid-" + name) }

// sortedNames returns names in order.
func sortedNames[T any](objects map[string]T) []string {
	names := make([]string, 0, len(objects))
	for name := range objects {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
