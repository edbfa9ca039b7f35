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

// Authenticator takes the reserved extra out of what front proxies say about users, and
// narrows their requests by it. From everybody else the extra is refused: a token could
// otherwise be made to narrow what a server in front has not.
type Authenticator struct {
	// Delegate authenticates.
	Delegate authenticator.Request
	// FrontProxy is that of its authenticators which believes front proxies. Nil if it
	// believes none.
	FrontProxy authenticator.Request
	// Compiler compiles the conditions in the extra.
	Compiler *cel.Compiler
	// Narrow adds conditions to a request. An error refuses it.
	Narrow func(ctx context.Context, sets ...authorization.Set) error
}

var _ authenticator.Request = &Authenticator{}

var errNotFrontProxy = errors.New("only front proxies may say what remains of an impersonation")

// AuthenticateRequest authenticates a request. An extra that cannot be read denies whatever
// the request is about, once somebody knows what it is.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	proxied := a.proxied(r) // authenticators take away the headers that they believe
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
		klog.FromContext(r.Context()).Info("What remains of an impersonation cannot be read, so the request is denied", "err", err)
		sets = []authorization.Set{{Decision: authorization.Deny(fmt.Sprintf("what remains of the impersonation cannot be read: %v", err), nil)}}
	}
	if err := a.Narrow(r.Context(), sets...); err != nil {
		return nil, false, fmt.Errorf("what remains of the impersonation is not in force: %w", err)
	}
	narrowed := *response
	narrowed.User = withoutExtra(response.User)
	return &narrowed, true, nil
}

// proxied returns a copy of a request that may have the reserved extra in its headers, nil
// if that is not to be seen.
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
