/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package impersonation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// Authenticator removes the reserved extra from the users that front proxies authenticate, and adds the residual
// conditions in it to their requests. It refuses users of other authenticators who have the extra:
// otherwise a token could inject conditions that no front proxy set.
type Authenticator struct {
	// Delegate authenticates.
	Delegate authenticator.Request
	// FrontProxy is the authenticator in Delegate that authenticates by the headers of front proxies. It is nil if
	// there is none.
	FrontProxy authenticator.Request
	// Compiler compiles the conditions in the extra.
	Compiler *cel.Compiler
	// EnforceResidual adds residual conditions to a request. They can only deny, and must be evaluated before everything
	// that decides the request. An error refuses the request.
	EnforceResidual func(ctx context.Context, sets ...authorization.Set) error
}

var _ authenticator.Request = &Authenticator{}

var errNotFrontProxy = errors.New("only front proxies may send residual conditions of an impersonation")

// AuthenticateRequest authenticates a request. If the user has the reserved extra, and a front proxy has sent it, the
// returned user does not have it, and its conditions are added to the request; if the extra cannot be read, a denial is
// added. If no front proxy has sent the extra, it returns an error.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	proxied := a.proxied(r) // Authenticators delete the headers that they have used.
	response, ok, err := a.Delegate.AuthenticateRequest(r)
	if err != nil || !ok || response.User == nil {
		return response, ok, err
	}
	values, found := response.User.GetExtra()[ExtraConditions]
	if !found {
		return response, ok, nil
	}
	if !a.isFrontProxy(proxied) {
		return nil, false, errNotFrontProxy
	}
	sets, err := DecodeExtra(a.Compiler, values)
	if err != nil {
		klog.FromContext(r.Context()).Info("Residual conditions of an impersonation cannot be read, so the request is denied", "err", err)
		sets = []authorization.Set{{Decision: authorization.Deny(fmt.Sprintf("the residual conditions of the impersonation cannot be read: %v", err), nil)}}
	}
	if err := a.EnforceResidual(r.Context(), sets...); err != nil {
		return nil, false, fmt.Errorf("the residual conditions of the impersonation are not enforced: %w", err)
	}
	accepted := *response
	accepted.User = withoutExtra(response.User)
	return &accepted, true, nil
}

// proxied returns a copy of a request that may have the reserved extra in its headers. It returns nil if no header can
// have the extra, or if there are no front proxies.
func (a *Authenticator) proxied(r *http.Request) *http.Request {
	_, name, _ := strings.Cut(ExtraConditions, "/")
	for header := range r.Header {
		if strings.Contains(strings.ToLower(header), name) && a.FrontProxy != nil {
			return r.Clone(r.Context())
		}
	}
	return nil
}

func (a *Authenticator) isFrontProxy(proxied *http.Request) bool {
	if proxied == nil {
		return false
	}
	response, ok, err := a.FrontProxy.AuthenticateRequest(proxied)
	return err == nil && ok && response.User != nil
}

func withoutExtra(u user.Info) user.Info {
	extra := maps.Clone(u.GetExtra())
	delete(extra, ExtraConditions)
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}
}
