/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/innerdoor"
)

// TestCanaryOf has canaries, and requests that the front door must not take for one.
func TestCanaryOf(t *testing.T) {
	t.Parallel()
	nonce := innerdoor.NewNonce()
	selecting := func(selector string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) {
			parsed, err := fields.ParseSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			a.Verb, a.Name, a.FieldSelectorRequirements = "deletecollection", "", parsed.Requirements()
		}
	}
	extra := func(key string, values ...string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: innerdoor.CanaryUser, Extra: map[string][]string{key: values}}
		}
	}
	for _, tc := range []struct {
		name      string
		change    func(*authorizer.AttributesRecord)
		namespace string
		want      bool
	}{
		{name: "update", want: true},
		{name: "delete", change: func(a *authorizer.AttributesRecord) { a.Verb = "delete" }, want: true},
		{name: "create", change: func(a *authorizer.AttributesRecord) { a.Verb, a.Name = "create", "" }, want: true},
		{name: "deletecollection", change: selecting("metadata.name=" + innerdoor.CanaryName), want: true},
		{name: "deletecollection of less", change: selecting("metadata.namespace=x,metadata.name=" + innerdoor.CanaryName), want: true},

		{name: "deletecollection of all", change: selecting("")},
		{name: "deletecollection of the others", change: selecting("metadata.name!=" + innerdoor.CanaryName)},
		{name: "deletecollection of another", change: selecting("metadata.name=x")},
		{name: "deletecollection by another field", change: selecting("metadata.namespace=" + innerdoor.CanaryName)},
		{name: "create by name", change: func(a *authorizer.AttributesRecord) { a.Verb = "create" }},
		{name: "patch", change: func(a *authorizer.AttributesRecord) { a.Verb = "patch" }},
		{name: "get", change: func(a *authorizer.AttributesRecord) { a.Verb = "get" }},
		{name: "another object", change: func(a *authorizer.AttributesRecord) { a.Name = "x" }},
		{name: "no object", change: func(a *authorizer.AttributesRecord) { a.Name = "" }},
		{name: "another namespace", change: func(a *authorizer.AttributesRecord) { a.Namespace = "demo" }},
		{name: "no namespace", change: func(a *authorizer.AttributesRecord) { a.Namespace = "" }, namespace: "-"},
		{name: "another group", change: func(a *authorizer.AttributesRecord) { a.APIGroup = "apps" }},
		{name: "another version", change: func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }},
		{name: "another resource", change: func(a *authorizer.AttributesRecord) { a.Resource = "secrets" }},
		{name: "a subresource", change: func(a *authorizer.AttributesRecord) { a.Subresource = "status" }},
		{name: "a path", change: func(a *authorizer.AttributesRecord) { a.ResourceRequest = false }},
		{name: "another user", change: func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "alice", Extra: map[string][]string{innerdoor.CanaryExtra: {nonce}}}
		}},
		{name: "no user", change: func(a *authorizer.AttributesRecord) { a.User = nil }},
		{name: "no nonce", change: extra("x", nonce)},
		{name: "two nonces", change: extra(innerdoor.CanaryExtra, nonce, nonce)},
		{name: "a short nonce", change: extra(innerdoor.CanaryExtra, nonce[2:])},
		{name: "no hexadecimal digits", change: extra(innerdoor.CanaryExtra, strings.Repeat("x", len(nonce)))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := authorizer.AttributesRecord{
				User: innerdoor.CanaryIdentity(nonce), Verb: "update", APIVersion: "v1", Resource: "configmaps", Namespace: "proviso-system", Name: innerdoor.CanaryName, ResourceRequest: true,
			}
			if tc.change != nil {
				tc.change(&a)
			}
			namespace := "proviso-system"
			if tc.namespace == "-" {
				namespace = ""
			}
			if got, ok := innerdoor.CanaryOf(a, namespace); ok != tc.want || ok && got != nonce {
				t.Errorf("got %q, %t, want %t", got, ok, tc.want)
			}
		})
	}
}

// TestRefuseCanary has the refusal of a canary, which only its own sender takes for one.
func TestRefuseCanary(t *testing.T) {
	t.Parallel()
	nonce := innerdoor.NewNonce()
	request := &admissionv1.AdmissionRequest{UID: "1", UserInfo: authenticationv1.UserInfo{
		Username: innerdoor.CanaryUser, Extra: map[string]authenticationv1.ExtraValue{innerdoor.CanaryExtra: {nonce}},
	}}
	refusal := innerdoor.RefuseCanary(request, "abc")
	if refusal == nil || refusal.Allowed || refusal.UID != "1" {
		t.Fatalf("got %+v, want a refusal", refusal)
	}
	if digest, ok := innerdoor.CanaryDigestOf(refusal.Result, nonce); !ok || digest != "abc" {
		t.Errorf("got the digest %q, %t", digest, ok)
	}
	if digest, ok := innerdoor.CanaryDigestOf(refusal.Result, innerdoor.NewNonce()); ok {
		t.Errorf("got the digest %q by another nonce", digest)
	}
	for name, change := range map[string]func(*metav1.Status){
		"another code": func(s *metav1.Status) { s.Code = 400 }, "no details": func(s *metav1.Status) { s.Details = nil }, "no causes": func(s *metav1.Status) { s.Details.Causes = nil },
		"another cause": func(s *metav1.Status) { s.Details.Causes[0].Type = "x" }, "no digest": func(s *metav1.Status) { s.Details.Causes[0].Message = "" },
	} {
		status := refusal.Result.DeepCopy()
		change(status)
		if digest, ok := innerdoor.CanaryDigestOf(status, nonce); ok {
			t.Errorf("%s: got the digest %q", name, digest)
		}
	}
	if _, ok := innerdoor.CanaryDigestOf(nil, nonce); ok {
		t.Error("no status has a digest")
	}

	// Without a valid nonce the canary is refused all the same, and without a digest.
	request.UserInfo.Extra = nil
	if refusal := innerdoor.RefuseCanary(request, "abc"); refusal == nil || refusal.Allowed || refusal.Result.Details != nil && len(refusal.Result.Details.Causes) > 0 {
		t.Errorf("got %+v, want a refusal without a digest", refusal)
	}
	request.UserInfo = authenticationv1.UserInfo{Username: "alice", Extra: map[string]authenticationv1.ExtraValue{innerdoor.CanaryExtra: {nonce}}}
	if refusal := innerdoor.RefuseCanary(request, "abc"); refusal != nil {
		t.Errorf("got %+v for another user", refusal)
	}
}

// TestNonces differ.
func TestNonces(t *testing.T) {
	t.Parallel()
	if one, other := innerdoor.NewNonce(), innerdoor.NewNonce(); one == other || len(one) != 32 {
		t.Errorf("got %s and %s", one, other)
	}
}
