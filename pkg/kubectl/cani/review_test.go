/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/test/testutil/standin"
)

// How the warnings begin.
const (
	withoutProviso = "Warning: the server does not serve authorization.proviso.dev: "
	onlyProviso    = "Warning: the server does not serve authorization.k8s.io/v1: "
	nameless       = "Warning: policies compare the name of the object, or name more objects than are asked about: "
	unenforced     = "Warning: policies of Proviso have conditions about this request, but kube-apiserver refuses it "
	denied         = "Warning: kube-apiserver itself allows this request, and Proviso does not. "
)

const conditionTable = "yes, if\nEFFECT   CONDITION   POLICY   DESCRIPTION\nAllow    x is a      p        -\n"

// answers of a row: what is printed, and how the lines of standard error begin.
type printed struct {
	Code   int
	Out    string
	ErrOut []string
}

// check runs the command and compares what it prints.
func (want printed) check(t *testing.T, answers standin.Answers, input string, args ...string) {
	t.Helper()
	out, errOut, code := canI(t.Context(), t, answers, input, args...)
	got := printed{Code: code, Out: out, ErrOut: slices.Collect(strings.Lines(errOut))}
	for i, begin := range want.ErrOut {
		if i < len(got.ErrOut) && strings.HasPrefix(got.ErrOut[i], begin) {
			got.ErrOut[i] = begin
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestBothReviews combines each answer of kube-apiserver's review with each one of Proviso's. The answer is yes, or yes on conditions, only if
// kube-apiserver's review allows, where there is one.
func TestBothReviews(t *testing.T) {
	t.Parallel()
	kube := map[string]any{"none": nil, "yes": kubeSays(true, ""), "no": kubeSays(false, "no role"), "error": errEtcd}
	proviso := map[string]any{
		"none": nil, "yes": provisoSays(allowed), "if": provisoSays(onCondition("Allow", `object.x == "a"`)), "error": errEtcd,
		"no": provisoSays(authorizationv1alpha1.SubjectAccessReviewStatus{Reason: "no \x1b[2J policy", EvaluationError: "it failed"}),
	}
	const failedKube, failedProviso = "error: Internal error occurred: etcd", "error: the review of Proviso: Internal error occurred: etcd"
	noProviso := "no - no \\x1b[2J policy - it failed\n"
	for pair, want := range map[string]printed{
		"none none":  {2, "", []string{"error: the server serves neither authorization.k8s.io/v1 nor authorization.proviso.dev/v1alpha1\n"}},
		"none yes":   {0, "yes\n", []string{onlyProviso}},
		"none no":    {1, noProviso, []string{onlyProviso}},
		"none if":    {3, conditionTable, []string{onlyProviso}},
		"none error": {2, "", []string{failedProviso}},
		"yes none":   {0, "yes\n", []string{withoutProviso}},
		"yes yes":    {0, "yes\n", nil},
		"yes no":     {1, noProviso, []string{denied}},
		"yes if":     {3, conditionTable, nil},
		"yes error":  {2, "", []string{failedProviso}},
		"no none":    {1, "no - no role\n", []string{withoutProviso}},
		"no yes":     {1, "no - no role\n", nil},
		"no no":      {1, "no - no role\n", nil},
		"no if":      {1, "no - no role\n", []string{unenforced}},
		"no error":   {2, "", []string{failedProviso}},
		"error none": {2, "", []string{failedKube}}, "error yes": {2, "", []string{failedKube}}, "error no": {2, "", []string{failedKube}},
		"error if": {2, "", []string{failedKube}}, "error error": {2, "", []string{failedKube}},
	} {
		t.Run(strings.ReplaceAll(pair, " ", "_"), func(t *testing.T) {
			t.Parallel()
			first, second, _ := strings.Cut(pair, " ")
			answers := standin.Answers{reviewOfKube: kube[first], reviewOfProviso: proviso[second]}
			want.check(t, answers, "", "create", "pods")
			if want.Code != 2 { // --quiet prints the warnings alone
				printed{Code: want.Code, ErrOut: want.ErrOut}.check(t, answers, "", "create", "pods", "--quiet")
			}
		})
	}
}

// byName answers the reviews of kube-apiserver and of Proviso by the name in them. Without a name, Proviso warns of names.
func byName(kube map[string]any, proviso map[string]authorizationv1alpha1.SubjectAccessReviewStatus, names authorization.Names) standin.Answers {
	return standin.Answers{
		reviewOfKube: standin.Handler(func(r *http.Request, body []byte) any {
			return standin.To(func(review *authorizationv1.SelfSubjectAccessReview) any {
				answer := kube[review.Spec.ResourceAttributes.Name]
				if handler, ok := answer.(standin.Handler); ok {
					return handler(r, body)
				}
				return answer
			})(r, body)
		}),
		reviewOfProviso: standin.To(func(review *authorizationv1alpha1.SelfSubjectAccessReview) any {
			name := review.Spec.ResourceAttributes.Name
			review.Status = proviso[name]
			if text := names.Warning(); name == "" && text != "" {
				return standin.Warned{Warnings: []string{text}, Answer: review}
			}
			return review
		}),
	}
}

// kubeDenies is the answer of kube-apiserver's review if an authorizer denies.
func kubeDenies() standin.Handler {
	return standin.To(func(review *authorizationv1.SelfSubjectAccessReview) any {
		review.Status.Denied = true
		return review
	})
}

// rulesForName is the answer of kube-apiserver to which rules a user has: one for a name.
func rulesForName(verb, resource, name string) standin.Handler {
	return standin.To(func(review *authorizationv1.SelfSubjectRulesReview) any {
		review.Status.ResourceRules = []authorizationv1.ResourceRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{name}}}
		return review
	})
}

// TestNameless asks about objects of any name. The answer is the one for a name that no rule has, unless that for a name of a rule is another.
func TestNameless(t *testing.T) {
	t.Parallel()
	const anyName = "kubectl-proviso-can-i-any-name"
	type statuses = map[string]authorizationv1alpha1.SubjectAccessReviewStatus
	no, onX := authorizationv1alpha1.SubjectAccessReviewStatus{Reason: "policy=p"}, onCondition("Allow", `object.x == "a"`)
	yes, refused := kubeSays(true, ""), kubeSays(false, "no role")
	a, others := authorization.Names{Names: []string{"a"}}, authorization.Names{IsOpen: true, By: "n/p"}
	const header = "yes, if\nEFFECT   CONDITION"
	for _, tc := range []struct {
		name    string
		kube    map[string]any
		proviso statuses
		names   authorization.Names
		rules   standin.Handler
		args    string
		want    printed
	}{
		{"allowed", map[string]any{anyName: yes}, statuses{anyName: allowed}, authorization.Names{}, nil, "get pods", printed{Out: "yes\n"}},
		{"refused", map[string]any{anyName: refused}, statuses{anyName: no}, authorization.Names{}, nil, "get pods", printed{1, "no - no role\n", nil}},
		{"conditions", map[string]any{anyName: yes}, statuses{anyName: onX}, authorization.Names{}, nil, "patch pods", printed{3, conditionTable, nil}},
		{"a subresource", map[string]any{anyName: yes}, statuses{anyName: onX}, authorization.Names{}, nil, "create pods --subresource=exec", printed{3, conditionTable, nil}},
		{"conditions that nothing evaluates", map[string]any{anyName: refused}, statuses{anyName: onX}, authorization.Names{}, nil, "patch pods", printed{1, "no - no role\n", []string{unenforced}}},
		{"an error", map[string]any{anyName: errEtcd}, statuses{anyName: onX}, authorization.Names{}, nil, "patch pods", printed{2, "", []string{"error: Internal error occurred: etcd\n"}}},
		{"denied for a name", map[string]any{anyName: yes, "a": yes}, statuses{anyName: allowed, "a": no}, a, nil, "get pods",
			printed{3, header + "         POLICY   DESCRIPTION\nDeny     the name is \"a\"   -        policy=p\nAllow    any other name    -        -\n", nil}},
		{"allowed for a name", map[string]any{anyName: refused, "a": yes}, statuses{anyName: no, "a": allowed}, a, nil, "get pods",
			printed{3, header + "         POLICY   DESCRIPTION\nAllow    the name is \"a\"   -        -\n", nil}},
		{"the same for a name", map[string]any{anyName: yes, "a": yes}, statuses{anyName: allowed, "a": allowed}, a, nil, "get pods", printed{Out: "yes\n"}},
		{"the same conditions for a name", map[string]any{anyName: yes, "a": yes}, statuses{anyName: onX, "a": onX}, a, nil, "patch pods", printed{3, conditionTable, nil}},
		{"conditions for a name", map[string]any{anyName: refused, "a": yes}, statuses{anyName: no, "a": onX}, a, nil, "patch pods",
			printed{3, header + "                                                      POLICY   DESCRIPTION\nAllow    the name is \"a\", and its conditions hold: ask with this name   -        -\n", nil}},
		{"an error for a name", map[string]any{anyName: yes, "a": errEtcd}, statuses{anyName: allowed}, a, nil, "get pods", printed{2, "", []string{"error: Internal error occurred: etcd\n"}}},
		{"a role for a name", map[string]any{anyName: refused, "b": yes}, statuses{"b": allowed}, authorization.Names{}, rulesForName("get", "pods", "b"), "get pods",
			printed{3, header + "         POLICY   DESCRIPTION\nAllow    the name is \"b\"   -        -\n", nil}},
		{"a role for a name and another verb", map[string]any{anyName: refused, "b": yes}, statuses{"b": allowed}, authorization.Names{}, rulesForName("update", "pods", "b"), "get pods", printed{1, "no - no role\n", nil}},
		{"a role for a name and a subresource", map[string]any{anyName: refused, "b": yes}, statuses{"b": allowed}, authorization.Names{}, rulesForName("get", "pods/log", "b"), "get pods", printed{1, "no - no role\n", nil}},
		{"names that are not known", map[string]any{anyName: yes}, statuses{anyName: allowed}, others, nil, "get pods",
			printed{3, header + "                   POLICY   DESCRIPTION\nDeny     policies compare the name   n/p      -\nAllow    any other name              -        -\n", []string{nameless}}},
		{"names that are not known, and no", map[string]any{anyName: refused}, statuses{anyName: no}, others, nil, "get pods",
			printed{3, header + "                   POLICY   DESCRIPTION\nAllow    policies compare the name   n/p      -\n", []string{nameless}}},
		{"names that are not known, and conditions", map[string]any{anyName: yes}, statuses{anyName: onX}, others, nil, "patch pods", printed{3, conditionTable, []string{nameless}}},
		{"a Proviso that warns of no names, and a Deny for some", map[string]any{anyName: yes, "": kubeDenies()}, statuses{anyName: allowed}, authorization.Names{}, nil, "get pods",
			printed{3, header + "                   POLICY   DESCRIPTION\nDeny     policies compare the name   -        -\nAllow    any other name              -        -\n", []string{nameless}}},
		{"a role in a namespace, for the Namespace", map[string]any{anyName: refused, "demo": yes}, statuses{"demo": allowed}, authorization.Names{}, nil, "get namespaces -n demo",
			printed{3, header + "            POLICY   DESCRIPTION\nAllow    the name is \"demo\"   -        -\n", []string{"Warning: resource 'namespaces' is not namespace scoped\n"}}},
		{"one object", map[string]any{"a": refused}, statuses{"a": onX}, others, nil, "patch pods/a", printed{1, "no - no role\n", []string{unenforced}}},
		{"a verb without a name", map[string]any{"": yes}, statuses{"": allowed}, others, nil, "list pods", printed{Out: "yes\n"}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			answers := byName(tc.kube, tc.proviso, tc.names)
			if answers[reviewOfRules] = rulesForName("get", "nodes", "a"); tc.rules != nil {
				answers[reviewOfRules] = tc.rules
			}
			tc.want.check(t, answers, "", strings.Fields(tc.args)...)
		})
	}
	t.Run("many names", func(t *testing.T) {
		t.Parallel()
		many := authorization.Names{}
		for i := range 30 {
			many.Names = append(many.Names, fmt.Sprintf("n%d", i))
		}
		answers := byName(map[string]any{anyName: yes}, statuses{anyName: allowed}, many)
		answers[reviewOfKube] = yes
		answers[reviewOfRules] = rulesForName("get", "nodes", "a")
		out, errOut, code := canI(t.Context(), t, answers, "", "get", "pods")
		if code != 3 || !strings.HasPrefix(errOut, nameless) || strings.Count(out, "the name is") > 16 {
			t.Errorf("got %d %s%s", code, out, errOut)
		}
	})
}

// TestWhatIsAsked checks which request both reviews are about.
func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	resource := func(verb, group, version, resource, subresource, namespace, name string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Version: version, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name}
	}
	for _, tc := range []struct {
		args   string
		want   *authorizationv1.ResourceAttributes
		url    string
		errOut []string
	}{
		{"create pods", resource("create", "", "v1", "pods", "", "default", ""), "", nil},
		{"create pods -n n", resource("create", "", "v1", "pods", "", "n", ""), "", nil},
		{"create pods -A", resource("create", "", "v1", "pods", "", "", ""), "", nil},
		{"get pods/a --subresource=log", resource("get", "", "v1", "pods", "log", "default", "a"), "", nil},
		{"create virtualmachines.demo.proviso.dev -n n", resource("create", "demo.proviso.dev", "v1alpha1", "virtualmachines", "", "n", ""), "", nil},
		{"get pods/a", resource("get", "", "v1", "pods", "", "default", "a"), "", nil},
		{"get pods/log", resource("get", "", "v1", "pods", "", "default", "log"), "", []string{"Warning: the question is about an object with the name 'log': did you mean --subresource=log\n"}},
		{"get pods/log --subresource=log", resource("get", "", "v1", "pods", "log", "default", "log"), "", nil},
		{"get pods/log -A", resource("get", "", "v1", "pods", "", "", "log"), "", []string{"Warning: the question is about an object with the name 'log': did you mean --subresource=log\n"}},
		{"create namespaces", resource("create", "", "v1", "namespaces", "", "default", ""), "", []string{"Warning: resource 'namespaces' is not namespace scoped\n"}},
		{"tickle unicorns.example.com", resource("tickle", "", "", "unicorns.example.com", "", "default", ""), "", []string{"Warning: the server doesn't have a resource type 'unicorns' in group 'example.com'\n", "Warning: verb 'tickle' is not a known verb\n"}},
		{"* *", resource("*", "", "", "*", "", "default", ""), "", nil},
		{"get /healthz", nil, "/healthz", nil},
		{"tickle /healthz", nil, "/healthz", []string{"Warning: verb 'tickle' is not a known verb\n"}},
	} {
		t.Run(strings.NewReplacer(" ", "_", "/", "-").Replace(tc.args), func(t *testing.T) {
			t.Parallel()
			check := func(got *authorizationv1.ResourceAttributes, url *authorizationv1.NonResourceAttributes) {
				if diff := cmp.Diff(tc.want, got); diff != "" || tc.url != "" && (url == nil || url.Path != tc.url || url.Verb != strings.Fields(tc.args)[0]) {
					t.Errorf("asked about %+v, -want +got:\n%s", url, diff)
				}
			}
			printed{Out: "yes\n", ErrOut: tc.errOut}.check(t, standin.Answers{
				reviewOfKube: standin.To(func(review *authorizationv1.SelfSubjectAccessReview) any {
					check(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
					review.Status.Allowed = true
					return review
				}),
				reviewOfProviso: standin.To(func(review *authorizationv1alpha1.SelfSubjectAccessReview) any {
					check(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
					if review.Spec.ConditionalAuthorization == nil || review.Spec.ConditionalAuthorization.Mode != authorizationv1alpha1.ConditionsModeHumanReadable {
						t.Errorf("got %+v, want a question about conditions", review.Spec)
					}
					review.Status.Allowed = true
					return review
				}),
			}, "", strings.Fields(tc.args)...)
		})
	}
}

// TestWarningsOfServers prints a warning of a server once, without what could control a terminal.
func TestWarningsOfServers(t *testing.T) {
	t.Parallel()
	warned := func(answer standin.Handler) standin.Handler {
		return func(r *http.Request, body []byte) any {
			return standin.Warned{Warnings: []string{"old \u202e API", "", "also this"}, Answer: answer(r, body)}
		}
	}
	answers := standin.Answers{reviewOfKube: warned(kubeSays(true, "")), reviewOfProviso: warned(provisoSays(allowed))}
	printed{Out: "yes\n", ErrOut: []string{"Warning: old \\u202e API\n", "Warning: also this\n"}}.check(t, answers, "", "create", "pods")
}

// TestNoAnswer checks that a server that does not answer in time, or at all, is an error, and no answer.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	hanging := standin.Handler(func(r *http.Request, _ []byte) any {
		<-r.Context().Done()
		return nil
	})
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupting := standin.Handler(func(r *http.Request, body []byte) any {
		interrupt()
		return hanging(r, body)
	})
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		answers standin.Answers
		args    []string
		want    string
	}{
		{"a timeout of kube-apiserver", t.Context(), standin.Answers{reviewOfKube: hanging, reviewOfProviso: provisoSays(allowed)}, []string{"--request-timeout=100ms"}, "error: "},
		{"a timeout of Proviso", t.Context(), standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: hanging}, []string{"--request-timeout=100ms"}, "error: "},
		{"interrupted", interrupted, standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: interrupting}, nil, "error: the review of Proviso: "},
		{"forbidden", t.Context(), standin.Answers{reviewOfKube: errNever}, nil, "is forbidden: never"},
		{"another object", t.Context(), standin.Answers{reviewOfKube: []string{"a"}, reviewOfProviso: provisoSays(allowed)}, nil, "error: "},
		{"a server that does not listen", t.Context(), nil, []string{"--server=https://127.0.0.1:1"}, "error: "},
		{"a certificate that cannot be read", t.Context(), nil, []string{"--certificate-authority=/does/not/exist"}, "/does/not/exist"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			out, errOut, code := canI(tc.ctx, t, tc.answers, "", append([]string{"create", "pods"}, tc.args...)...)
			if code != 2 || out != "" || !strings.Contains(errOut, tc.want) {
				t.Errorf("got %d %q %q, want 2 and %s", code, out, errOut, tc.want)
			}
		})
	}
}

// TestArguments checks arguments and flags that exclude each other. No server is asked.
func TestArguments(t *testing.T) {
	t.Parallel()
	const two = "you must specify two arguments"
	for args, want := range map[string]string{
		"": two, "create": two, "create pods a": two, "create pods a -f -": two, "-f -": two,
		"--list pods": "list option must be specified with no arguments", "--list -q": "list option can't be", "--list -A": "list option can't be",
		"--list --subresource=x": "list option can't be", "--list -f -": "list option can't be",
		"get pods --no-headers": "--no-headers cannot be set without --list specified", "get /a --subresource=x": "--subresource can not be used with NonResourceURL",
		"get /a -f -": "--filename can not be used with NonResourceURL", "create -f - -A": "--filename can not be used with --all-namespaces",
		"get -f -": `--filename can not be used with the verb "get"`, "list pods -f -": `--filename can not be used with the verb "list"`,
		"create pods -f - --subresource=status": "--filename can be used with --subresource only for the verbs update and patch", "delete -f - --subresource=x": "--filename can be used with --subresource only",
		"create pods -o table": "--output must be json or yaml", "--list -o table": "--output must be json or yaml",
		"get ''": "the verb and the resource must not be empty", "'' pods": "the verb and the resource must not be empty",
	} {
		fields := strings.Fields(args)
		for i := range fields {
			fields[i] = strings.Trim(fields[i], "'")
		}
		out, errOut, code := canI(t.Context(), t, standin.Answers{}, "", fields...)
		if code != 2 || out != "" || !strings.HasPrefix(errOut, "error: "+want) {
			t.Errorf("%q: got %d %q %q, want 2 and %s", args, code, out, errOut, want)
		}
	}
}

// TestUsersLeftOut has users whose requests kube-apiserver decides without Proviso: its answer counts, also about an object.
func TestUsersLeftOut(t *testing.T) {
	t.Parallel()
	proviso := func(status authorizationv1alpha1.SubjectAccessReviewStatus) standin.Handler {
		return standin.To(func(review *authorizationv1alpha1.SelfSubjectAccessReview) any {
			review.Status = status
			return standin.Warned{Warnings: []string{authorization.WarningLeftOut}, Answer: review}
		})
	}
	const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}}`
	warning := []string{"Warning: " + authorization.WarningLeftOut + "\n"}
	for name, status := range map[string]authorizationv1alpha1.SubjectAccessReviewStatus{
		"denied": {Denied: true, Reason: "a policy"}, "no opinion": {}, "conditions": onCondition("Deny", "true"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: proviso(status), reviewOfRules: rulesForName("get", "secrets", "a")}
			printed{0, "yes\n", warning}.check(t, answers, "", "delete", "pods/p")
			printed{0, "yes\n", warning}.check(t, answers, "", "delete", "pods")
			printed{0, "yes\n", warning}.check(t, answers, pod, "delete", "-f", "-")
			answers[reviewOfKube] = kubeSays(false, "no role")
			printed{1, "no - no role\n", warning}.check(t, answers, "", "delete", "pods/p")
			answers[reviewOfKube] = nil // Proviso's own port, where policies decide about all
			if name == "denied" {
				printed{1, "no - a policy\n", []string{onlyProviso}}.check(t, answers, "", "delete", "pods/p")
			}
		})
	}
}
