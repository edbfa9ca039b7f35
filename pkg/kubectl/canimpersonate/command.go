/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package canimpersonate is the command kubectl proviso can-impersonate. It answers by an ImpersonationReview whether a request may be made as
// another user, in the manner of can-i.
//
// Invariants:
//
//   - The answer is about the impersonation. If the impersonated user may not make the request, a warning says so.
//   - An error is never an answer: its exit code is 2.
//
// The package must not import the server, pkg/apiserver.
package canimpersonate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// options are the options of the command.
type options struct {
	command.Options
	question.Question

	quiet bool

	uid           string
	groups, extra []string
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Options: command.Options{IOStreams: streams, Flags: flags}}
	cmd := &cobra.Command{
		Use:                   "can-impersonate USER VERB [TYPE | TYPE/NAME | NONRESOURCEURL]",
		DisableFlagsInUseLine: true,
		Short:                 "Check whether a request may be made as another user",
		Long: `Check whether a request may be made as another user, and on what conditions.

 USER is the name of the user to impersonate. The name of a service account is
 system:serviceaccount:NAMESPACE:NAME. VERB, TYPE, NAME and NONRESOURCEURL are as for
 can-i, and describe the request that is made as the user.

 The answer is 'yes', 'no', or 'yes, if' with a table of conditions on the object. It is
 about the impersonation alone: a warning says so if the user itself may not make the
 request. Proviso answers, by an ImpersonationReview, for which you need the ClusterRole
 proviso:reviewer.

 Exit status: 0 for yes, 1 for no, 2 on an error, 3 for 'yes, if'.`,
		Example: `  # May I list machines in the namespace demo as alice?
  kubectl proviso can-impersonate alice list virtualmachines.demo.proviso.dev -n demo

  # May bob do so? You must be allowed to use impersonation for the global option "--as"
  kubectl proviso can-impersonate alice list virtualmachines.demo.proviso.dev -n demo --as=bob

  # May I read secrets as a service account?
  kubectl proviso can-impersonate system:serviceaccount:demo:node-agent get secrets -n demo

  # May I read nodes as alice in the group operators, with a value of extra?
  kubectl proviso can-impersonate alice get nodes --group=operators --extra=reason=incident`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	fs := cmd.Flags()
	o.AddFlags(fs, "If true, check the specified action in all namespaces.")
	o.AddSelectorFlags(fs)
	fs.BoolVarP(&o.quiet, "quiet", "q", o.quiet, "If true, suppress output and just return the exit code.")
	fs.StringArrayVar(&o.groups, "group", nil, "Group to impersonate. Can be repeated.")
	fs.StringVar(&o.uid, "uid", o.uid, "UID to impersonate.")
	fs.StringArrayVar(&o.extra, "extra", nil, "KEY=VALUE of the extra to impersonate. Can be repeated.")
	return cmd
}

// The errors of arguments, flags and answers.
var (
	errArguments = errors.New("you must specify three arguments: user verb resource or user verb resource/resourceName; see 'kubectl proviso can-impersonate --help'")
	errNoProviso = errors.New("the server does not serve ImpersonationReviews of authorization.proviso.dev: Proviso is not installed")
)

func (o *options) run(ctx context.Context, args []string) error {
	if o.quiet {
		o.Out = io.Discard
	}
	if len(args) != 3 || slices.Contains(args, "") {
		return errArguments
	}
	if err := o.Check(args[1:], false); err != nil {
		return err
	}
	review := &authorizationv1alpha1.ImpersonationReview{}
	review.Spec.Impersonate = authenticationv1.UserInfo{Username: args[0], UID: o.uid, Groups: o.groups, Extra: map[string]authenticationv1.ExtraValue{}}
	for _, pair := range o.extra {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return fmt.Errorf("--extra must be KEY=VALUE, not %q", pair)
		}
		review.Spec.Impersonate.Extra[key] = append(review.Spec.Impersonate.Extra[key], value)
	}
	clients, err := o.Clients()
	if err != nil {
		return err
	}
	o.Verb = args[1]
	if err := o.Read(&o.Options, args[2], nil); err != nil {
		return err
	}
	review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes = o.Attributes(o.Resource.Version)
	review.Spec.ConditionalAuthorization = &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable}
	review, err = clients.Proviso.AuthorizationProvisoV1alpha1().ImpersonationReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errNoProviso
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: you need the ClusterRole proviso:reviewer", err)
	case err != nil:
		return err
	}
	return o.print(terminal.From(ctx), args[0], &review.Status)
}

// print prints the answer, and returns its exit code. Everything but allowed, or conditions without a denial, is no.
func (o *options) print(screen *terminal.Terminal, username string, status *authorizationv1alpha1.ImpersonationReviewStatus) error {
	a := answer.Of(false, status.Reason, status.EvaluationError)
	switch {
	//guard:can-impersonate-allowed-denied
	case status.Allowed && !status.Denied:
		a = answer.Of(true, "", "")
		o.warnAboutRequest(username, status.RequestDecision)
	//guard:can-impersonate-conditions-denial
	case !status.Denied && len(status.ConditionsChain) > 0:
		a = answer.If(status.ConditionsChain)
		o.warnAboutRequest(username, status.RequestDecision)
	}
	return a.Print(o.Out, screen)
}

// warnAboutRequest says so if the impersonated user may not make the request, or on conditions only.
func (o *options) warnAboutRequest(username string, decision *authorizationv1alpha1.SubjectAccessReviewStatus) {
	switch {
	case decision != nil && decision.Allowed:
	case decision != nil && len(decision.ConditionsChain) > 0:
		o.Warn(username + " may make this request on conditions only. To see them: kubectl proviso can-i, with --as")
	default:
		o.Warn(username + " may not make this request, so that it will be refused")
	}
}
