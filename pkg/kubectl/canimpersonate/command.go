/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
	"k8s.io/client-go/rest"
	utilexec "k8s.io/utils/exec"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	authorizationproviso "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/authorizationproviso/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/kubectl/conditiontable"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// The exit codes, beside 0 for yes.
const (
	codeNo    = 1
	codeYesIf = 3
)

// options are the options of the command.
type options struct {
	genericiooptions.IOStreams
	question.Question

	flags *genericclioptions.ConfigFlags
	quiet bool

	uid           string
	groups, extra []string
}

// NewCommand returns the command. The flags are those for clients, which the caller has added to a command above it.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, flags: flags}
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
	fs.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", o.AllNamespaces, "If true, check the specified action in all namespaces.")
	fs.BoolVarP(&o.quiet, "quiet", "q", o.quiet, "If true, suppress output and just return the exit code.")
	fs.StringVar(&o.Subresource, "subresource", o.Subresource, "SubResource such as pod/log or deployment/scale")
	fs.StringArrayVar(&o.groups, "group", nil, "Group to impersonate. Can be repeated.")
	fs.StringVar(&o.uid, "uid", o.uid, "UID to impersonate.")
	fs.StringArrayVar(&o.extra, "extra", nil, "KEY=VALUE of the extra to impersonate. Can be repeated.")
	return cmd
}

// The errors of arguments, flags and answers.
var (
	errArguments = errors.New("you must specify three arguments: user verb resource or user verb resource/resourceName; see 'kubectl proviso can-impersonate --help'")
	errURLSub    = errors.New("--subresource can not be used with NonResourceURL")
	errNoProviso = errors.New("the server does not serve ImpersonationReviews of authorization.proviso.dev: Proviso is not installed")
)

func (o *options) run(ctx context.Context, args []string) error {
	if o.quiet {
		o.Out = io.Discard
	}
	switch {
	case len(args) != 3 || slices.Contains(args, ""):
		return errArguments
	case question.IsURL(args[2]) && o.Subresource != "":
		return errURLSub
	}
	review := &authorizationv1alpha1.ImpersonationReview{}
	review.Spec.Impersonate = authenticationv1.UserInfo{Username: args[0], UID: o.uid, Groups: o.groups}
	for _, pair := range o.extra {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return fmt.Errorf("--extra must be KEY=VALUE, not %q", pair)
		}
		if review.Spec.Impersonate.Extra == nil {
			review.Spec.Impersonate.Extra = map[string]authenticationv1.ExtraValue{}
		}
		review.Spec.Impersonate.Extra[key] = append(review.Spec.Impersonate.Extra[key], value)
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = o
	client, err := authorizationproviso.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := o.read(args[1], args[2]); err != nil {
		return err
	}
	review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes = o.Attributes(o.Resource.Version)
	review.Spec.ConditionalAuthorization = &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: authorizationv1alpha1.ConditionsModeHumanReadable}
	answer, err := client.ImpersonationReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errNoProviso
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: you need the ClusterRole proviso:reviewer", err)
	case err != nil:
		return err
	}
	return o.print(terminal.From(ctx), args[0], &answer.Status)
}

// read reads the arguments that describe the request.
func (o *options) read(verb, target string) (err error) {
	o.Verb = verb
	if question.IsURL(target) {
		o.ReadURL(target, o.warn)
		return nil
	}
	if !o.AllNamespaces {
		if o.Namespace, _, err = o.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return err
		}
	}
	mapper, err := o.flags.ToRESTMapper()
	if err != nil {
		return err
	}
	if err := o.ReadResource(mapper, target, o.warn); err != nil {
		return err
	}
	server, err := o.flags.ToDiscoveryClient()
	if err != nil {
		return err
	}
	o.WarnAboutResource(server, o.warn)
	return nil
}

// print prints the answer, and returns its exit code. Everything but allowed, or conditions without a denial, is no.
func (o *options) print(screen *terminal.Terminal, username string, status *authorizationv1alpha1.ImpersonationReviewStatus) error {
	switch {
	//guard:can-impersonate-allowed-denied
	case status.Allowed && !status.Denied:
		o.warnAboutRequest(username, status.RequestDecision)
		_, err := fmt.Fprintln(o.Out, screen.Answer("yes"))
		return err
	//guard:can-impersonate-conditions-denial
	case !status.Denied && len(status.ConditionsChain) > 0:
		o.warnAboutRequest(username, status.RequestDecision)
		if _, err := fmt.Fprintln(o.Out, screen.Answer("yes, if")); err != nil {
			return err
		}
		if err := conditiontable.Print(o.Out, status.ConditionsChain); err != nil {
			return err
		}
		return utilexec.CodeExitError{Code: codeYesIf}
	}
	line := screen.Answer("no")
	for _, text := range []string{status.Reason, status.EvaluationError} {
		if text != "" {
			line += " - " + printable.Text(text)
		}
	}
	if _, err := fmt.Fprintln(o.Out, line); err != nil {
		return err
	}
	return utilexec.CodeExitError{Code: codeNo}
}

// warnAboutRequest says so if the impersonated user may not make the request, or on conditions only.
func (o *options) warnAboutRequest(username string, decision *authorizationv1alpha1.SubjectAccessReviewStatus) {
	switch {
	case decision != nil && decision.Allowed:
	case decision != nil && len(decision.ConditionsChain) > 0:
		o.warn(fmt.Sprintf("%s may make this request on conditions only. To see them: kubectl proviso can-i, with --as", username))
	default:
		o.warn(username + " may not make this request, so that it will be refused")
	}
}

// warn prints a warning to standard error.
func (o *options) warn(text string) {
	_, _ = fmt.Fprintln(o.ErrOut, "Warning: "+printable.Lines(text))
}

// HandleWarningHeader prints a warning of a server.
func (o *options) HandleWarningHeader(code int, _, text string) {
	if code == 299 && text != "" {
		o.warn(text)
	}
}

var _ rest.WarningHandler = &options{}
