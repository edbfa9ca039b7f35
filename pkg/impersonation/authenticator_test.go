/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/impersonation"
)

// frontProxies believes whoever has the header X-Certificate, as if it were a certificate.
func frontProxies(tb testing.TB) authenticator.Request {
	tb.Helper()
	headers, err := headerrequest.New([]string{"X-Remote-User"}, []string{"X-Remote-Uid"}, []string{"X-Remote-Group"}, []string{"X-Remote-Extra-"})
	if err != nil {
		tb.Fatal(err)
	}
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		switch r.Header.Get("X-Certificate") {
		case "proxy":
			return headers.AuthenticateRequest(r)
		case "expired":
			return nil, false, errExpired
		}
		return nil, false, nil
	})
}

var errExpired = errors.New("the certificate has expired")

// tokens authenticates a user who has, by a token, a certificate or nothing, the extra in
// X-Token-Extra; none if that is not there.
var tokens = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
	u := &user.DefaultInfo{Name: "tom", Groups: []string{"toms"}}
	if values, ok := r.Header["X-Token-Extra"]; ok {
		u.Extra = map[string][]string{impersonation.ExtraConditions: values, "k": {"v"}}
	}
	return &authenticator.Response{User: u}, r.Header.Get("Authorization") != "none", nil
})

func TestAuthenticator(t *testing.T) {
	t.Parallel()
	value, err := impersonation.EncodeExtra([]authorization.Set{denial("a", "object.x == 1")})
	if err != nil {
		t.Fatal(err)
	}
	const (
		reserved = "X-Remote-Extra-Authorization.proviso.dev%2fimpersonation-Conditions"
		wantSet  = "0.impersonation.proviso.dev Deny example.com/d: object.x == 1"
		unread   = "denied: the residual conditions of the impersonation cannot be read"
	)
	proxied := func(pairs ...string) http.Header {
		return headers(append([]string{"X-Certificate", "proxy", "X-Remote-User", "bob", "X-Remote-Group", "g", "X-Remote-Extra-K", "v"}, pairs...)...)
	}
	bob := &user.DefaultInfo{Name: "bob", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	tom := &user.DefaultInfo{Name: "tom", Groups: []string{"toms"}}
	for _, tc := range []struct {
		name    string
		headers http.Header
		adjust  func(*impersonation.Authenticator)
		want    *user.DefaultInfo // nil means that nobody is authenticated
		// wantErr is why not; empty if that is nobody's fault.
		wantErr string
		// wantResidual are the texts of the residual conditions.
		wantResidual []string
	}{
		{name: "a front proxy without it", headers: proxied(), want: bob},
		{name: "a front proxy", headers: proxied(reserved, value), want: bob, wantResidual: []string{wantSet}},
		{name: "a front proxy twice", headers: proxied(reserved, value, reserved, value), want: bob, wantResidual: []string{wantSet, "1" + wantSet[1:]}},
		{name: "a front proxy in other cases", headers: proxied(strings.ReplaceAll(strings.ToUpper(reserved), "X-REMOTE-EXTRA-", "X-Remote-Extra-"), value), want: bob, wantResidual: []string{wantSet}},
		{name: "a front proxy that also sends a token", headers: proxied(reserved, value, "Authorization", "x"), want: bob, wantResidual: []string{wantSet}},
		{name: "an upper-case key is another", headers: proxied("X-Remote-Extra-%41uthorization.proviso.dev%2fimpersonation-Conditions", value),
			want: &user.DefaultInfo{Name: "bob", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}, "Authorization.proviso.dev/impersonation-conditions": {value}}}},

		// What cannot be read denies, and does not authenticate anybody less.
		{name: "not to be read", headers: proxied(reserved, "x"), want: bob, wantResidual: []string{unread}},
		{name: "empty", headers: proxied(reserved, ""), want: bob, wantResidual: []string{unread}},
		{name: "an empty list", headers: proxied(reserved, "[]"), want: bob, wantResidual: []string{unread}},
		{name: "more than denies", headers: proxied(reserved, strings.Replace(value, `"Deny"`, `"Allow"`, 1)), want: bob, wantResidual: []string{unread}},
		{name: "one good, one bad", headers: proxied(reserved, value, reserved, "x"), want: bob, wantResidual: []string{unread}},
		{name: "residual not enforced", headers: proxied(reserved, value), adjust: func(a *impersonation.Authenticator) {
			a.EnforceResidual = func(context.Context, ...authorization.Set) error { return errResidual }
		}, wantErr: "are not enforced: made by the test"},

		// Nobody else is believed.
		{name: "a token", headers: headers("X-Token-Extra", value), wantErr: "only front proxies"},
		{name: "a token with an extra that cannot be read", headers: headers("X-Token-Extra", "x"), wantErr: "only front proxies"},
		{name: "a token without it", headers: headers("Authorization", "x"), want: tom},
		{name: "nobody", headers: headers("Authorization", "none", "X-Token-Extra", value)},
		{name: "a token, and the headers of a front proxy", headers: headers("X-Token-Extra", value, "X-Remote-User", "bob", reserved, value), wantErr: "only front proxies"},
		{name: "a token, and the headers of a front proxy without a name", headers: headers("X-Token-Extra", value, "X-Certificate", "proxy", reserved, value), wantErr: "only front proxies"},
		{name: "a token, and an expired front proxy", headers: headers("X-Token-Extra", value, "X-Certificate", "expired", "X-Remote-User", "bob", reserved, value), wantErr: "expired"},
		{name: "headers without a certificate are those of nobody", headers: headers("X-Remote-User", "bob", reserved, value), want: tom},
		{name: "an encoding that hides it", headers: proxied("X-Remote-Extra-Authorization.proviso.dev%2fimpersonation%2dconditions", value), wantErr: "only front proxies"},
		{name: "escaped whole", headers: proxied("X-Remote-Extra-"+escaped(impersonation.ExtraConditions), value), wantErr: "only front proxies"},
		{name: "no front proxy is believed", headers: headers("X-Token-Extra", value, "X-Certificate", "proxy", "X-Remote-User", "bob", reserved, value), adjust: func(a *impersonation.Authenticator) {
			a.Delegate, a.FrontProxy = tokens, nil
		}, wantErr: "only front proxies"},
		{name: "the delegate fails", headers: proxied(reserved, value), adjust: func(a *impersonation.Authenticator) {
			a.Delegate = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, errExpired })
		}, wantErr: "expired"},
		{name: "an answer without a user", headers: proxied(reserved, value), adjust: func(a *impersonation.Authenticator) {
			a.Delegate = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{}, false, nil
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			front := frontProxies(t)
			var residual []string
			a := &impersonation.Authenticator{
				Delegate: union.NewFailOnError(front, tokens), FrontProxy: front, Compiler: compilerOf(t),
				EnforceResidual: func(_ context.Context, sets ...authorization.Set) error {
					for _, set := range sets {
						if set.Decision.IsDeny() {
							reason, _, _ := strings.Cut(set.Decision.Reason(), ":")
							residual = append(residual, "denied: "+reason)
						}
					}
					residual = append(residual, textsOf(sets)...)
					return nil
				},
			}
			if tc.adjust != nil {
				tc.adjust(a)
			}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			request.Header = tc.headers
			response, ok, err := a.AuthenticateRequest(request)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got error %v, want %q", err, tc.wantErr)
			}
			if ok != (tc.want != nil) || tc.wantErr != "" && response != nil {
				t.Fatalf("got %+v, %v; want %+v", response, ok, tc.want)
			}
			if tc.want != nil {
				if diff := cmp.Diff(tc.want, copyOf(response.User)); diff != "" {
					t.Errorf("user (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(tc.wantResidual, residual); diff != "" {
				t.Errorf("residual (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAuthenticatorChangesNobody: the authenticator behind may remember its answers.
func TestAuthenticatorChangesNobody(t *testing.T) {
	t.Parallel()
	value, err := impersonation.EncodeExtra([]authorization.Set{denial("a", "dryRun")})
	if err != nil {
		t.Fatal(err)
	}
	remembered := &authenticator.Response{User: &user.DefaultInfo{Name: "bob", Extra: map[string][]string{impersonation.ExtraConditions: {value}, "k": {"v"}}}, Audiences: authenticator.Audiences{"x"}}
	always := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return remembered, true, nil })
	enforced := 0
	a := &impersonation.Authenticator{Delegate: always, FrontProxy: always, Compiler: compilerOf(t), EnforceResidual: func(context.Context, ...authorization.Set) error {
		enforced++
		return nil
	}}
	for i := range 3 {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		request.Header.Set("X-Remote-Extra-"+impersonation.ExtraConditions, value)
		got, ok, err := a.AuthenticateRequest(request)
		if err != nil || !ok || enforced != i+1 {
			t.Fatalf("time %d: got %v, %v, enforced %d times", i, ok, err, enforced)
		}
		if len(got.User.GetExtra()) != 1 || len(got.Audiences) != 1 {
			t.Errorf("got %+v", got)
		}
	}
}
