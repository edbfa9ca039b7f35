/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	upstream "k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func TestTakeHeaders(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                string
		headers             http.Header
		wantLeft, wantTaken []string
	}{
		{name: "none"},
		{name: "others", headers: http.Header{"Impersonate": {"x"}, "Impersonate-": {"x"}, "Impersonate-Users": {"x"}, "X-Impersonate-User": {"x"}}, wantLeft: []string{"Impersonate", "Impersonate-", "Impersonate-Users", "X-Impersonate-User"}},
		{name: "all", headers: http.Header{"Impersonate-User": {"x"}, "Impersonate-Uid": {"x"}, "Impersonate-Group": {"x"}, "Impersonate-Extra-": {"x"}, "Impersonate-Extra-K%2f": {"x"}}, wantTaken: []string{"Impersonate-Extra-", "Impersonate-Extra-K%2f", "Impersonate-Group", "Impersonate-Uid", "Impersonate-User"}},
		{name: "without values", headers: http.Header{"Impersonate-User": nil, "Accept": {"x"}}, wantLeft: []string{"Accept"}, wantTaken: []string{"Impersonate-User"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			taken := TakeHeaders(tc.headers)
			if got := slices.Sorted(maps.Keys(tc.headers)); !slices.Equal(got, tc.wantLeft) {
				t.Errorf("left %q, want %q", got, tc.wantLeft)
			}
			if got := slices.Sorted(maps.Keys(taken)); !slices.Equal(got, tc.wantTaken) || (taken == nil) != (tc.wantTaken == nil) {
				t.Errorf("took %q, want %q", got, tc.wantTaken)
			}
		})
	}
}

// kubernetesReads returns whom the filter of Kubernetes would impersonate if everything
// were allowed, and the code of its refusal otherwise.
func kubernetesReads(t *testing.T, headers http.Header) (*user.DefaultInfo, int) {
	t.Helper()
	var got *user.DefaultInfo
	filter := upstream.WithConstrainedImpersonation(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		u, _ := genericapirequest.UserFrom(r.Context())
		got = &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	}), legacyOnly{}, codecs)
	ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "requester"})
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{Verb: "get", Path: "/"})
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	request.Header = headers.Clone()
	recorder := httptest.NewRecorder()
	filter.ServeHTTP(recorder, request)
	return got, recorder.Code
}

// legacyOnly allows everything in legacy mode.
type legacyOnly struct{}

func (legacyOnly) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if isConstrained(a.GetVerb()) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// FuzzWantedFrom: headers are read as the filter of Kubernetes reads them, and headers that
// are made of what was read are read as the same.
func FuzzWantedFrom(f *testing.F) {
	for _, seed := range []string{
		"", "Impersonate-User: bob", "impersonate-user: bob\nimpersonate-user: carol", "Impersonate-User: ", "Impersonate-Uid: 7", "Impersonate-User: bob\nImpersonate-Uid: 7\nImpersonate-Uid: 8",
		"Impersonate-User: bob\nImpersonate-Group: g\nimpersonate-group: h\nImpersonate-Group:", "Impersonate-User: bob\nImpersonate-Extra-K: v\nImpersonate-Extra-%4b: w\nImpersonate-Extra-%6b: x",
		"Impersonate-User: bob\nImpersonate-Extra-Example.com%2fK: v\nImpersonate-Extra-: x\nImpersonate-Extra-%zz: y\nImpersonate-Extra-%: z", "Impersonate-User: bob\nImpersonate-Extra-%e2%84%aa: v\nImpersonate-Extra-%ff: v\nImpersonate-Extra-%25%34%31: v",
		"Impersonate-User: system:serviceaccount:a:b\nImpersonate-Group: g", "Impersonate-User: system:anonymous",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		headers := http.Header{}
		for line := range strings.SplitSeq(text, "\n") {
			name, value, ok := strings.Cut(line, ":")
			if name = textproto.CanonicalMIMEHeaderKey(name); ok {
				headers[name] = append(headers[name], strings.TrimSpace(value))
			}
		}
		want, code := kubernetesReads(t, headers)
		before := headers.Clone()
		got := wantedFrom(headers)
		if diff := cmp.Diff(before, headers); diff != "" {
			t.Errorf("reading changed the headers:\n%s", diff)
		}
		if got == nil {
			if code != http.StatusBadRequest && (want == nil || want.Name != "requester") {
				t.Fatalf("%q: got nobody, the filter of Kubernetes %v, %d", text, want, code)
			}
			return
		}
		sortExtra := cmpopts.SortSlices(func(a, b string) bool { return a < b }) // keys that two headers name have no order
		impersonated, _, _ := identify(got)
		if strings.HasPrefix(got.Name, nodeUsernamePrefix) {
			impersonated.Groups = withImplicitGroup(got.Name, slices.Clone(got.Groups)) // the legacy mode knows nothing of nodes
		}
		if diff := cmp.Diff(want, impersonated, sortExtra, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q (-filter of Kubernetes +ours):\n%s", text, diff)
		}
		if diff := cmp.Diff(got, wantedFrom(headersOf(got)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q (-read +written and read):\n%s", text, diff)
		}
	})
}
