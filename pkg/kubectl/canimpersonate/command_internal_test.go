/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package canimpersonate

import (
	"errors"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	utilexec "k8s.io/utils/exec"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
)

// TestPrint prints each kind of answer. An answer that is neither allowed nor conditional is no.
func TestPrint(t *testing.T) {
	t.Parallel()
	type status = authorizationv1alpha1.ImpersonationReviewStatus
	request := &authorizationv1alpha1.SubjectAccessReviewStatus{Allowed: true}
	chain := []authorizationv1alpha1.SubjectAccessReviewConditionSet{{Conditions: []authorizationv1alpha1.SubjectAccessReviewCondition{
		{ID: "cluster.policy.proviso.dev/a\x1b", Effect: "Deny", Type: authorization.ConditionTypeCEL, Condition: `object.spec.x == "a"`},
	}}}
	for _, tc := range []struct {
		name      string
		status    status
		out, errs string
		code      int
	}{
		{name: "zero value", out: "no\n", code: 1},
		{name: "allowed", status: status{Allowed: true, RequestDecision: request}, out: "yes\n"},
		{name: "allowed and denied", status: status{Allowed: true, Denied: true, RequestDecision: request}, out: "no\n", code: 1},
		{name: "denied with conditions", status: status{Denied: true, ConditionsChain: chain}, out: "no\n", code: 1},
		{name: "reason", status: status{Denied: true, Reason: "a\x1b[2J", EvaluationError: "b"}, out: "no - a\\x1b[2J - b\n", code: 1},
		{name: "the user may not", status: status{Allowed: true, RequestDecision: &authorizationv1alpha1.SubjectAccessReviewStatus{}}, out: "yes\n", errs: "Warning: bob may not make this request, so that it will be refused\n"},
		{name: "no decision on the request", status: status{Allowed: true}, out: "yes\n", errs: "Warning: bob may not make this request, so that it will be refused\n"},
		{name: "the user may on conditions", status: status{Allowed: true, RequestDecision: &authorizationv1alpha1.SubjectAccessReviewStatus{ConditionsChain: chain}}, out: "yes\n",
			errs: "Warning: bob may make this request on conditions only. To see them: kubectl proviso can-i, with --as\n"},
		{name: "conditions", status: status{ConditionsChain: chain, RequestDecision: request}, code: 3,
			out: "yes, if\nEFFECT   CONDITION     POLICY   DESCRIPTION\nDeny     spec.x is a   a\\x1b    -\n"},
	} {
		streams, _, out, errs := genericiooptions.NewTestIOStreams()
		err := (&options{Options: command.Options{IOStreams: streams}}).print(nil, "bob", &tc.status)
		code := 0
		if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
			code = exit.Code
		} else if err != nil {
			t.Error(err)
		}
		if code != tc.code || out.String() != tc.out || errs.String() != tc.errs {
			t.Errorf("%s: got %d %q %q, want %d %q %q", tc.name, code, out, errs, tc.code, tc.out, tc.errs)
		}
	}
}

// TestArguments has mistakes that no server is needed for.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"alice", "get"}, {"alice", "", "pods"}, {"alice", "get", "/a", "--subresource=b"}, {"alice", "get", "pods", "--extra=a"}, {"alice", "get", "pods", "--extra==a"}} {
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		cmd := NewCommand(genericclioptions.NewConfigFlags(true), streams)
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		if _, isAnswer := errors.AsType[utilexec.CodeExitError](err); err == nil || isAnswer || out.String() != "" {
			t.Errorf("%q: got %v %s", args, err, out)
		}
	}
}
