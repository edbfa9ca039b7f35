/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/transport"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// A canary is a dry-run request with which a replica of Proviso finds out whether a kube-apiserver calls the inner door. Proviso
// sends it as a user of its own, whom the front door allows it and the inner door refuses it. The user has an extra with a
// nonce, which kube-apiserver sends to both doors.
const (
	// CanaryUser is the name of the user.
	CanaryUser = "system:proviso:canary"
	// CanaryExtra is the key of the extra. The front door denies impersonating it.
	CanaryExtra = "authorization.proviso.dev/canary"
	// CanaryName is the name of the ConfigMap that canaries are about. It must exist, so that updates and deletions reach
	// admission.
	CanaryName = "proviso-inner-door-canary"

	// canaryCause is the type of the cause in the status of a refusal.
	canaryCause = metav1.CauseType("authorization.proviso.dev/canary")
	nonceBytes  = 16
)

// NewNonce returns a nonce that no other replica has.
func NewNonce() string {
	var nonce [nonceBytes]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	return hex.EncodeToString(nonce[:])
}

// CanaryNonceOf returns the nonce of a user who is the canary. It returns false for all other users.
func CanaryNonceOf(name string, extra map[string][]string) (nonce string, ok bool) {
	values := extra[CanaryExtra]
	//guard:inner-door-canary-another-user
	if name != CanaryUser || len(values) != 1 {
		return "", false
	}
	decoded, err := hex.DecodeString(values[0])
	return values[0], err == nil && len(decoded) == nonceBytes
}

// CanaryOf returns the nonce of attributes that are a canary's: of the canary, on its ConfigMap in a namespace, or to create a
// ConfigMap there. It returns false for all other attributes.
func CanaryOf(a authorizer.Attributes, namespace string) (nonce string, ok bool) {
	who := a.GetUser()
	//guard:inner-door-canary-another-namespace
	if who == nil || !a.IsResourceRequest() || a.GetAPIGroup() != "" || a.GetAPIVersion() != "v1" || a.GetResource() != "configmaps" || a.GetSubresource() != "" ||
		namespace == "" || a.GetNamespace() != namespace {
		return "", false
	}
	switch a.GetVerb() {
	case "create":
		if a.GetName() != "" {
			return "", false
		}
	case "update", "delete":
		//guard:inner-door-canary-another-object
		if a.GetName() != CanaryName {
			return "", false
		}
	case "deletecollection":
		//guard:inner-door-canary-collections
		if !selectsCanary(a) {
			return "", false
		}
	default:
		return "", false
	}
	return CanaryNonceOf(who.GetName(), who.GetExtra())
}

// selectsCanary reports whether a field selector selects the ConfigMap alone.
func selectsCanary(a authorizer.Attributes) bool {
	requirements, err := a.GetFieldSelector()
	if err != nil {
		return false
	}
	for _, r := range requirements {
		//guard:inner-door-canary-other-selectors
		if r.Field == "metadata.name" && (r.Operator == "=" || r.Operator == "==") && r.Value == CanaryName {
			return true // further requirements select less
		}
	}
	return false
}

// RefuseCanary returns the refusal of a canary, or nil if a request was not sent by the canary. The refusal has the digest of
// the manifest by which kube-apiserver has called the inner door. The handler of the inner door must call it before it
// decides, whatever the digest is: the digest tells who sent the canary which manifest the kube-apiserver has.
func RefuseCanary(request *admissionv1.AdmissionRequest, digest string) *admissionv1.AdmissionResponse {
	//guard:inner-door-canary-without-nonce
	if request.UserInfo.Username != CanaryUser {
		return nil
	}
	response := refused(request, http.StatusForbidden, metav1.StatusReasonForbidden, "the inner door refuses every request of its canary")
	if nonce, ok := CanaryNonceOf(request.UserInfo.Username, authorization.ExtraOf(request.UserInfo.Extra)); ok {
		response.Result.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: canaryCause, Message: digest, Field: nonce}}}
	}
	return response
}

// CanaryDigestOf returns the digest in the refusal of a canary with a nonce. It returns false if the status is something else.
func CanaryDigestOf(status *metav1.Status, nonce string) (digest string, ok bool) {
	if status == nil || status.Code != http.StatusForbidden || status.Details == nil || nonce == "" {
		return "", false
	}
	for _, cause := range status.Details.Causes {
		//guard:inner-door-canary-refusal-another
		if cause.Type == canaryCause && cause.Field == nonce && cause.Message != "" {
			return cause.Message, true
		}
	}
	return "", false
}

// CanaryRequest is a dry-run request that a canary sends about a ConfigMap.
type CanaryRequest struct {
	Method string
	// Namespace is the namespace of the ConfigMap.
	Namespace string
	// Name is the name of the ConfigMap in the URL. It is empty in requests about all ConfigMaps in Namespace.
	Name string
	// Query is the query of the URL, beside the dry run.
	Query url.Values
	// Object is the name of the ConfigMap in the body. If it is empty, the request has no body.
	Object string
}

// For returns the request to a server at https://host:port, with a nonce by which the servers can tell it from other requests.
func (c CanaryRequest) For(ctx context.Context, server, nonce string) (*http.Request, error) {
	body := ""
	if c.Object != "" {
		body = fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q, "namespace": %q}}`, c.Object, c.Namespace)
	}
	request, err := NewDryRun(ctx, c.Method, server, path.Join("api/v1/namespaces", c.Namespace, "configmaps", c.Name), c.Query, body)
	if err == nil {
		AsCanary(request, nonce)
	}
	return request, err
}

// NewDryRun returns a dry-run request to a server at https://host:port, with a body in JSON, or without one if body is empty.
func NewDryRun(ctx context.Context, method, server, path string, parameters url.Values, body string) (*http.Request, error) {
	target, err := url.JoinPath(server, path)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	//guard:probe-dry-runs
	query := url.Values{"dryRun": {metav1.DryRunAll}}
	maps.Copy(query, parameters)
	request.URL.RawQuery = query.Encode()
	request.Header.Set("Accept", "application/json")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// AsCanary has a request made as the canary with a nonce, by impersonation.
func AsCanary(request *http.Request, nonce string) {
	request.Header.Set(transport.ImpersonateUserHeader, CanaryUser)
	request.Header.Set(transport.ImpersonateUserExtraHeaderPrefix+url.PathEscape(CanaryExtra), nonce)
}

// CanaryIdentity returns the canary with a nonce.
func CanaryIdentity(nonce string) user.Info {
	return &user.DefaultInfo{Name: CanaryUser, Groups: []string{user.AllAuthenticated}, Extra: map[string][]string{CanaryExtra: {nonce}}}
}

// A canary of conditions is a request with which a replica of Proviso finds out whether a kube-apiserver handles conditional decisions.
// The front door denies it, with a reason that says whether the review had the options for conditions. kube-apiserver shows the reason
// in its answer, whichever replica has given it.
const (
	// ConditionsCanaryNamespace and ConditionsCanaryName name the ConfigMap that these canaries would update. It need not exist.
	ConditionsCanaryNamespace = metav1.NamespaceDefault
	ConditionsCanaryName      = "proviso-conditions-canary"
)

// ConditionsCanaryOf returns the nonce of attributes that are a canary of conditions. It returns false for all other attributes.
func ConditionsCanaryOf(a authorizer.Attributes) (nonce string, ok bool) {
	who := a.GetUser()
	if who == nil || !a.IsResourceRequest() || a.GetVerb() != "update" || a.GetAPIGroup() != "" || a.GetAPIVersion() != "v1" || a.GetResource() != "configmaps" ||
		a.GetSubresource() != "" || a.GetNamespace() != ConditionsCanaryNamespace || a.GetName() != ConditionsCanaryName {
		return "", false
	}
	return CanaryNonceOf(who.GetName(), who.GetExtra())
}

// ConditionsCanaryReason returns the reason for which the front door denies a canary of conditions. handles says whether the client of
// the review handles conditional decisions.
func ConditionsCanaryReason(nonce string, handles bool) string {
	if handles {
		return "the front door denies every canary of conditions, and kube-apiserver handles conditions: " + nonce
	}
	return "the front door denies every canary of conditions, and kube-apiserver does not handle conditions: " + nonce
}

// ConditionsCanaryAnswer returns whether the answer to a canary of conditions with a nonce shows that kube-apiserver handles conditional
// decisions. isAnswer is false if the answer does not come from the front door.
func ConditionsCanaryAnswer(status *metav1.Status, nonce string) (handles, isAnswer bool) {
	if status == nil || status.Code != http.StatusForbidden || nonce == "" {
		return false, false
	}
	// kube-apiserver writes its own text before the reason.
	if strings.HasSuffix(status.Message, ConditionsCanaryReason(nonce, true)) {
		return true, true
	}
	return false, strings.HasSuffix(status.Message, ConditionsCanaryReason(nonce, false))
}
