/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	api "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/impersonation/internal/upstreamfilter"
)

// pass runs upstream's filter for some of its modes. It does not write an answer to the client: run returns the result.
type pass struct {
	filter http.Handler
}

// newPass returns a pass that does not try the modes whose verbs are masked. The serializer encodes refusals.
func newPass(a authorizer.UnconditionalAuthorizer, masked func(verb string) bool, serializer runtime.NegotiatedSerializer, record recordFunc) (*pass, error) {
	passed := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		attemptFrom(r.Context()).User, _ = genericapirequest.UserFrom(r.Context())
	})
	filter, err := upstreamfilter.New(passed, passAuthorizer{authorizer: a, masked: masked, record: record}, serializer, func(ctx context.Context, mode, _ string, _ time.Duration) {
		a := attemptFrom(ctx)
		a.Mode = api.ImpersonationMode(mode)
		if mode != "" && a.Mode != api.ImpersonationModeLegacy {
			a.Constraint = verbImpersonate + mode
		}
	})
	return &pass{filter: filter}, err
}

// run runs the filter on a clone of the request. The clone has its own headers, because the filter deletes the headers that
// it has parsed, and no audit event, because the result may not be used. If wanted is not nil, its headers replace the
// impersonation headers of the clone: two headers for one key of extra have no defined order, and all modes must decide
// about the same user. The authorizer is called with ctx. The result has the impersonated user, or the response with which
// the filter refuses the request.
func (p *pass) run(ctx context.Context, r *http.Request, wanted *user.DefaultInfo) result {
	a := &attempt{ctx: ctx, wanted: wanted, extras: map[string]error{}}
	clone := r.WithContext(context.WithValue(withoutValues(r.Context()), attemptKey{}, a))
	clone.Header = maps.Clone(r.Header)
	if wanted != nil {
		TakeHeaders(clone.Header)
		maps.Copy(clone.Header, headersOf(wanted))
	}
	p.filter.ServeHTTP(&a.response, clone)
	return a.result
}

// withoutValues returns a context that ends when ctx ends, and that has only the user and the request info of ctx: the
// filter finds neither the audit event nor the log line of the request in it.
func withoutValues(ctx context.Context) context.Context {
	var stripped context.Context = valueless{ctx}
	if requester, ok := genericapirequest.UserFrom(ctx); ok {
		stripped = genericapirequest.WithUser(stripped, requester)
	}
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		stripped = genericapirequest.WithRequestInfo(stripped, info)
	}
	return stripped
}

type valueless struct {
	context.Context //nolint:containedctx // it is one
}

func (valueless) Value(any) any { return nil }

// attempt is the state of one run of a pass. It is in the context of the filter.
type attempt struct {
	result
	//nolint:containedctx // it lives as long as the request
	ctx    context.Context // for the authorizer
	wanted *user.DefaultInfo
	// extras has, by verb, the error of the checks on all extra of the user, which is nil if they passed.
	extras map[string]error
}

type attemptKey struct{}

func attemptFrom(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// passAuthorizer makes the checks of upstream's filter, and adds them to the attempt in the context.
type passAuthorizer struct {
	authorizer authorizer.UnconditionalAuthorizer
	// masked reports whether Authorize returns NoOpinion for a verb without a check.
	masked func(verb string) bool
	record recordFunc
}

var _ authorizer.UnconditionalAuthorizer = passAuthorizer{}

// Authorize makes a check, unless its verb is masked.
//
// The filter checks extra in the order of a map until one check fails. At the first such check, all extra is checked in
// the order of its keys until one check fails, and the result is the answer to each of these checks: all of them
// must pass, and the same request must have the same answer.
func (p passAuthorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if p.masked(attributes.GetVerb()) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	a, record := attemptFrom(ctx), recordOf(attributes)
	if !isOneOfExtra(record) {
		check := p.check(a, record)
		return check.Decision, check.Reason, check.Err
	}
	err, known := a.extras[record.Verb]
	if !known {
		err = p.checkExtra(a, record)
		a.extras[record.Verb] = err
	}
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	return authorizer.DecisionAllow, "", nil
}

// isOneOfExtra reports whether a check is about one value of extra. Constrained modes
// may check all values at once, as "*", which is no valid key in them.
func isOneOfExtra(record authorizer.AttributesRecord) bool {
	if record.APIGroup != authenticationv1.GroupName || record.Resource != "userextras" {
		return false
	}
	isVerb := record.Verb == verbLegacy || strings.HasPrefix(record.Verb, verbImpersonate)
	isAll := record.Verb != verbLegacy && record.Subresource == "*" && record.Name == "*"
	return isVerb && !isAll
}

func (p passAuthorizer) checkExtra(a *attempt, record authorizer.AttributesRecord) error {
	for _, key := range slices.Sorted(maps.Keys(a.wanted.Extra)) {
		for _, value := range a.wanted.Extra[key] {
			record.Subresource, record.Name = key, value
			if check := p.check(a, record); !check.passes() {
				return check.forbidden()
			}
		}
	}
	return nil
}

func (p passAuthorizer) check(a *attempt, record authorizer.AttributesRecord) Check {
	check, start := Check{Mode: modeOf(record.Verb), Attributes: record}, time.Now()
	check.Decision, check.Reason, check.Err = p.authorizer.Authorize(a.ctx, record)
	p.record.record(check, time.Since(start))
	a.Checks = append(a.Checks, check)
	return check
}

// response is the response of upstream's filter, if it refuses.
type response struct {
	header http.Header
	code   int
	body   []byte
}

var _ http.ResponseWriter = &response{}

func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *response) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

func (w *response) Write(content []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, content...)
	return len(content), nil
}

// copyTo writes the response to a client.
func (w *response) copyTo(to http.ResponseWriter) {
	maps.Copy(to.Header(), w.Header())
	to.WriteHeader(w.code)
	_, _ = to.Write(w.body) // the client is gone if this fails
}

var errNoAnswer = errors.New("the impersonation filter gave no answer")

// reason returns the message of the refusal. It returns an error if the response is no Status with code 403.
func (w *response) reason() (string, error) {
	var status metav1.Status
	if err := json.Unmarshal(w.body, &status); err != nil {
		return "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if w.code != http.StatusForbidden || status.Status != metav1.StatusFailure {
		return "", fmt.Errorf("%w: %s", errNoAnswer, strings.TrimSpace(status.Message))
	}
	return status.Message, nil
}
