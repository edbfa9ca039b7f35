/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package lint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
)

var errNotServed = errors.New("the cluster does not serve policy.proviso.dev/v1alpha1")

// warningsOf returns what the server warns of if a policy is created, by a dry run. It also warns if the policy exists. An error says that the server refuses the policy, and
// obstacle that the server has not checked it.
func (l *linter) warningsOf(ctx context.Context, p *policyfile.Policy) (warnings []string, obstacle, err error) {
	ctx = command.WithWarnings(ctx, func(text string) bool {
		warnings = append(warnings, text)
		return true
	})
	options, meta := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ObjectMeta{Name: p.Key.Name, Namespace: p.Key.Namespace}
	client := l.clients.Proviso.PolicyV1alpha1()
	if p.Key.Namespace == "" {
		_, err = client.ClusterAuthorizationPolicies().Create(ctx, &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: meta, Spec: *p.Spec}, options)
	} else {
		_, err = client.AuthorizationPolicies(p.Key.Namespace).Create(ctx, &policyv1alpha1.AuthorizationPolicy{ObjectMeta: meta, Spec: *p.Spec}, options)
	}
	switch {
	case apierrors.IsInvalid(err):
		return nil, nil, fmt.Errorf("%v: %v: the server refuses the policy: %w", p.Source, p.Key, err)
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, errNotServed, nil
	case err != nil && !apierrors.IsAlreadyExists(err):
		return nil, err, nil
	}
	return warnings, nil, nil
}

// says reports whether a warning of the server, which may be cut, has a text.
func says(warning, text string) bool {
	begin, isCut := strings.CutSuffix(warning, "…")
	text = strings.Join(strings.Fields(text), " ")
	begin = strings.Join(strings.Fields(begin), " ")
	return begin == text || isCut && strings.HasPrefix(text, begin)
}
