/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/standin"
)

const (
	// machine is the object of the file, and storedMachine the one that the server has.
	machine       = `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"vm","namespace":"n"},"spec":{"image":"new"}}`
	storedMachine = `{"apiVersion":"demo.proviso.dev/v1alpha1","kind":"VirtualMachine","metadata":{"name":"vm","namespace":"n"},"spec":{"image":"old"}}`
)

// decided is a cluster in which both reviews have conditions, and the review of conditions is answered by a function. Other answers come first.
func decided(condition string, answer func(*authorizationv1alpha1.AuthorizationConditionsReview) any, others standin.Answers) standin.Answers {
	answers := standin.Answers{
		reviewOfKube: kubeSays(true, ""), reviewOfProviso: provisoSays(onCondition("Allow", condition)), reviewOfConditions: standin.To(answer),
		reviewOfUser: standin.To(func(review *authenticationv1.SelfSubjectReview) any {
			review.Status.UserInfo = authenticationv1.UserInfo{Username: "alice", Groups: []string{"devs"}}
			return review
		}),
		getNamespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		getMachine:   json.RawMessage(storedMachine),
	}
	for key, other := range others {
		answers[key] = other
	}
	return answers
}

// says is the answer to a review of conditions.
func says(response *authorizationv1alpha1.AuthorizationConditionsResponse) func(*authorizationv1alpha1.AuthorizationConditionsReview) any {
	return func(review *authorizationv1alpha1.AuthorizationConditionsReview) any {
		review.Response = response
		return review
	}
}

var allows = says(&authorizationv1alpha1.AuthorizationConditionsResponse{Allowed: true})

// TestReviewOfConditions checks what the server is told about each request with an object.
func TestReviewOfConditions(t *testing.T) {
	t.Parallel()
	withoutNamespace := strings.Replace(machine, `,"namespace":"n"`, "", 1)
	notFound := apierrors.NewNotFound(corev1.Resource("namespaces"), "n")
	type told struct {
		Operation                      authorizationv1alpha1.Operation
		Name, Namespace, User, Options string
		Object, OldObject              string
		HasNamespaceObject             bool
	}
	created := told{Operation: "CREATE", Namespace: "n", User: "alice", Options: "CreateOptions", Object: machine, HasNamespaceObject: true}
	with := func(base told, change func(*told)) told {
		change(&base)
		return base
	}
	updated := told{Operation: "UPDATE", Name: "vm", Namespace: "n", User: "alice", Options: "UpdateOptions", Object: machine, OldObject: storedMachine, HasNamespaceObject: true}
	for _, tc := range []struct {
		name, args, input, condition string
		others                       standin.Answers
		want                         told
	}{
		{"create", "create -f -", machine, "object.x == 'a'", nil, created},
		{"create of a type", "create virtualmachines -f -", machine, "object.x == 'a'", nil, created},
		{"create with a name in the arguments", "create virtualmachines/vm -f -", strings.Replace(machine, `"name":"vm",`, "", 1), "object.x == 'a'", nil, created},
		{"create in the namespace of the flag", "create -f - -n n", withoutNamespace, "object.x == 'a'", nil, created},
		{"update", "update -f -", machine, "object.x == 'a'", nil, updated},
		{"patch of a type", "patch virtualmachines/vm -f -", machine, "object.x == 'a'", nil, updated},
		{"update without a name in the file", "update virtualmachines/vm -f - -n n", strings.Replace(machine, `"name":"vm",`, "", 1), "object.x == 'a'", nil, updated},
		{
			"update of an object that must not be read", "update -f -", machine, "object.x == 'a'", standin.Answers{getMachine: errNever},
			with(updated, func(w *told) { w.OldObject = machine }), // the condition does not read it
		},
		{"delete", "delete -f -", machine, "oldObject.x == 'a'", standin.Answers{getMachine: errEtcd}, told{Operation: "DELETE", Name: "vm", Namespace: "n", User: "alice", Options: "DeleteOptions", OldObject: machine, HasNamespaceObject: true}},
		{"a server without reviews of the user", "create -f -", machine, "object.x == 'a'", standin.Answers{reviewOfUser: nil}, with(created, func(w *told) { w.User = "" })},
		{"a Namespace that must not be read", "create -f -", machine, "object.x == 'a'", standin.Answers{getNamespace: errNever}, with(created, func(w *told) { w.HasNamespaceObject = false })},
		{"a Namespace that does not exist", "create -f -", machine, "object.x == 'a'", standin.Answers{getNamespace: notFound}, with(created, func(w *told) { w.HasNamespaceObject = false })},
		{
			"an object without a namespace", "create -f - -n n", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"m"}}`, "object.x == 'a'", nil,
			told{Operation: "CREATE", User: "alice", Options: "CreateOptions", Object: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"m"}}`},
		},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			answers := decided(tc.condition, func(review *authorizationv1alpha1.AuthorizationConditionsReview) any {
				r := review.Request
				text := func(raw *runtime.RawExtension) string {
					if raw == nil {
						return ""
					}
					return strings.TrimSpace(string(raw.Raw))
				}
				got := told{Operation: r.Operation, Name: r.Name, Namespace: r.Namespace, Object: text(r.Object), OldObject: text(r.OldObject), HasNamespaceObject: r.NamespaceObject != nil}
				if r.UserInfo != nil {
					got.User = r.UserInfo.Username
				}
				var options metav1.TypeMeta
				if err := json.Unmarshal(r.Options.Raw, &options); err != nil || options.APIVersion != "meta.k8s.io/v1" {
					t.Errorf("got the options %s", r.Options.Raw)
				}
				got.Options = options.Kind
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("the server was told (-want +got):\n%s", diff)
				}
				if len(r.ConditionSets) != 1 || r.Resource == nil || r.Kind == nil || r.Resource.Version != r.Kind.Version {
					t.Errorf("got %+v", r)
				}
				return allows(review)
			}, tc.others)
			want := printed{Out: "yes\n"}
			if tc.want.Namespace == "" {
				want.ErrOut = []string{"Warning: resource 'namespaces' is not namespace scoped\n"}
			}
			want.check(t, answers, tc.input, strings.Fields(tc.args)...)
		})
	}
}

// TestAnswersAboutObjects checks how answers to the review of conditions are shown, and that no error is an answer.
func TestAnswersAboutObjects(t *testing.T) {
	t.Parallel()
	const create, update = "create -f -", "update -f -"
	response := func(r authorizationv1alpha1.AuthorizationConditionsResponse) func(*authorizationv1alpha1.AuthorizationConditionsReview) any {
		return says(&r)
	}
	fails := func(err error) func(*authorizationv1alpha1.AuthorizationConditionsReview) any {
		return func(*authorizationv1alpha1.AuthorizationConditionsReview) any { return err }
	}
	for _, tc := range []struct {
		name, args, condition string
		answer                func(*authorizationv1alpha1.AuthorizationConditionsReview) any
		others                standin.Answers
		want                  printed
	}{
		{"allowed", create, "object.x == 'a'", allows, nil, printed{Out: "yes\n"}},
		{"not allowed", create, "object.x == 'a'", response(authorizationv1alpha1.AuthorizationConditionsResponse{Reason: "no \x1b[2J"}), nil, printed{Code: 1, Out: "no - no \\x1b[2J\n"}},
		{"a condition that fails", create, "object.x == 'a'", response(authorizationv1alpha1.AuthorizationConditionsResponse{EvaluationError: "no such key"}), nil, printed{Code: 1, Out: "no - no such key\n"}},
		{"an empty response", create, "object.x == 'a'", response(authorizationv1alpha1.AuthorizationConditionsResponse{}), nil, printed{Code: 1, Out: "no\n"}},
		{"no response", create, "object.x == 'a'", says(nil), nil, printed{2, "", []string{"error: the server did not answer the AuthorizationConditionsReview\n"}}},
		{"a review that is forbidden, and an object that is allowed", create, "object.spec.image == 'new'", fails(errNever), nil, printed{Out: "yes\n"}},
		{"a review that is forbidden, and an object that is not allowed", create, "object.spec.image == 'old'", fails(errNever), nil, printed{Code: 1, Out: "no - policy=p reason=NotMet: its condition does not hold\n"}},
		{"a review that is forbidden, and a stored object", update, "oldObject.spec.image == 'old'", fails(errNever), nil, printed{Out: "yes\n"}},
		{"a review that is forbidden, and the verb", "delete -f -", "operation == 'DELETE' && options.kind == 'DeleteOptions' && object == null && oldObject.spec.image == 'new'", fails(errNever), nil, printed{Out: "yes\n"}},
		{"a review that is forbidden, and a namespace", create, "namespaceObject.metadata.name == 'n'", fails(errNever), nil, printed{Out: "yes\n"}},
		{"a review that is forbidden, and a namespace that must not be read", create, "namespaceObject.metadata.name == 'n'", fails(errNever), standin.Answers{getNamespace: errNever}, printed{2, "", []string{
			"error: the condition policy=p cannot be evaluated here: it reads the namespace, which is not known: to have the server evaluate it, you need the ClusterRole proviso:reviewer\n"}}},
		{"a review that is forbidden, and a check", create, "authorizer.group('').resource('pods').check('get').allowed()", fails(errNever), nil, printed{2, "", []string{
			"error: the condition policy=p cannot be evaluated here: it checks permissions: to have the server evaluate it, you need the ClusterRole proviso:reviewer\n"}}},
		{"a review that fails", create, "object.x == 'a'", fails(errEtcd), nil, printed{2, "", []string{"error: Internal error occurred: etcd\n"}}},
		{"a user that cannot be read", create, "object.x == 'a'", allows, standin.Answers{reviewOfUser: errEtcd}, printed{2, "", []string{"error: Internal error occurred: etcd\n"}}},
		{"a Namespace that cannot be read", create, "object.x == 'a'", allows, standin.Answers{getNamespace: errEtcd}, printed{2, "", []string{"error: Internal error occurred: etcd\n"}}},
		{"a stored object that must not be read", update, "oldObject.x == 'a'", allows, standin.Answers{getMachine: errNever}, printed{2, "", []string{"error: the conditions read the stored object: x.authorization.k8s.io is forbidden: never\n"}}},
		{"a stored object that cannot be read", update, "object.x == 'a'", allows, standin.Answers{getMachine: errEtcd}, printed{2, "", []string{"error: the conditions read the stored object: Internal error occurred: etcd\n"}}},
		{"a stored object that does not exist", update, "object.x == 'a'", allows, standin.Answers{getMachine: nil}, printed{2, "", []string{"error: the conditions read the stored object: the server could not find the requested resource\n"}}},
		{"a decision without conditions", create, "object.x == 'a'", fails(errEtcd), standin.Answers{reviewOfProviso: provisoSays(allowed)}, printed{Out: "yes\n"}},
		{"kube-apiserver denies", create, "object.x == 'a'", allows, standin.Answers{reviewOfKube: kubeSays(false, "no role")}, printed{1, "no - no role\n", []string{unenforced}}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			tc.want.check(t, decided(tc.condition, tc.answer, tc.others), machine, strings.Fields(tc.args)...)
		})
	}
}

// TestOfAnotherUser asks about the user of --as, as the caller: no request is made as that user.
func TestOfAnotherUser(t *testing.T) {
	t.Parallel()
	const ofKube, ofProviso = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews", "POST /apis/authorization.proviso.dev/v1alpha1/subjectaccessreviews"
	type asked struct {
		User, UID string
		Groups    []string
		Extra     map[string]authorizationv1.ExtraValue
	}
	alice := asked{User: "alice", Groups: []string{"system:authenticated"}}
	for _, tc := range []struct {
		name, args, flags string
		others            standin.Answers
		user              asked
		want              printed
	}{
		{"a user", "create -f -", "--as=alice", nil, alice, printed{Out: "yes\n"}},
		{"a stored object", "update -f -", "--as=alice", nil, alice, printed{Out: "yes\n"}},
		{"groups", "create -f -", "--as=alice --as-group=devs --as-uid=1 --as-user-extra=k=v", nil, asked{User: "alice", UID: "1", Groups: []string{"devs", "system:authenticated"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}}}, printed{Out: "yes\n"}},
		{"extras that differ in case", "create -f -", "--as=alice --as-group=devs --as-uid=1 --as-user-extra=k=v --as-user-extra=K=w", nil, asked{User: "alice", UID: "1", Groups: []string{"devs", "system:authenticated"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"w", "v"}}}, printed{Out: "yes\n"}},
		{"a service account", "create -f -", "--as=system:serviceaccount:n:robot", nil, asked{User: "system:serviceaccount:n:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"}}, printed{Out: "yes\n"}},
		{"a service account with groups", "create -f -", "--as=system:serviceaccount:n:robot --as-group=devs", nil, asked{User: "system:serviceaccount:n:robot", Groups: []string{"devs", "system:authenticated"}}, printed{Out: "yes\n"}},
		{"anonymous", "create -f -", "--as=system:anonymous", nil, asked{User: "system:anonymous", Groups: []string{"system:unauthenticated"}}, printed{Out: "yes\n"}},
		{"a user who is not authenticated", "create -f -", "--as=alice --as-group=system:unauthenticated", nil, asked{User: "alice", Groups: []string{"system:unauthenticated"}}, printed{Out: "yes\n"}},
		{"a caller who may not review", "create -f -", "--as=alice", standin.Answers{ofKube: errNever}, alice, printed{2, "", []string{"error: x.authorization.k8s.io is forbidden: never: to ask about another user, you need the ClusterRole proviso:reviewer\n"}}},
		{"a caller who may not have Proviso review", "create -f -", "--as=alice", standin.Answers{ofProviso: errNever}, alice, printed{2, "", []string{"error: the review of Proviso: x.authorization.k8s.io is forbidden: never: to ask about another user"}}},
		{"a caller who may not have conditions evaluated", "create -f -", "--as=alice", standin.Answers{reviewOfConditions: errNever}, alice, printed{2, "", []string{"error: x.authorization.k8s.io is forbidden: never: to decide for another user, you need the ClusterRole proviso:reviewer\n"}}},
		{"a review that fails", "create -f -", "--as=alice", standin.Answers{ofProviso: errEtcd}, alice, printed{2, "", []string{"error: the review of Proviso: Internal error occurred: etcd\n"}}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			check := func(got asked) {
				if diff := cmp.Diff(tc.user, got); diff != "" {
					t.Errorf("asked about another user (-want +got):\n%s", diff)
				}
			}
			answers := decided("object.x == 'a'", func(review *authorizationv1alpha1.AuthorizationConditionsReview) any {
				got := asked{User: review.Request.UserInfo.Username, UID: review.Request.UserInfo.UID, Groups: review.Request.UserInfo.Groups}
				for key, values := range review.Request.UserInfo.Extra {
					got.Extra = map[string]authorizationv1.ExtraValue{key: authorizationv1.ExtraValue(values)}
				}
				check(got)
				return allows(review)
			}, standin.Answers{reviewOfKube: errNever, reviewOfProviso: errNever, reviewOfUser: errNever})
			answers[ofKube] = standin.To(func(review *authorizationv1.SubjectAccessReview) any {
				check(asked{review.Spec.User, review.Spec.UID, review.Spec.Groups, review.Spec.Extra})
				review.Status.Allowed = true
				return review
			})
			answers[ofProviso] = standin.To(func(review *authorizationv1alpha1.SubjectAccessReview) any {
				check(asked{review.Spec.User, review.Spec.UID, review.Spec.Groups, review.Spec.Extra})
				review.Status = onCondition("Allow", "object.x == 'a'")
				return review
			})
			maps.Copy(answers, discovered())
			maps.Copy(answers, tc.others)
			for key, answer := range answers {
				answers[key] = standin.Handler(func(r *http.Request, body []byte) any {
					for header := range r.Header {
						if strings.HasPrefix(header, "Impersonate-") {
							t.Errorf("%s is sent as another user", key)
						}
					}
					if handler, ok := answer.(standin.Handler); ok {
						return handler(r, body)
					}
					return answer
				})
			}
			tc.want.check(t, answers, machine, append(strings.Fields(tc.args), strings.Fields(tc.flags)...)...)
		})
	}
}

// TestMistakesInFiles checks that a file that does not fit the question is an error that quotes nothing of it, and that no server is asked.
func TestMistakesInFiles(t *testing.T) {
	t.Parallel()
	const secret = "c2VjcmV0"
	for _, tc := range []struct{ name, args, input, want string }{
		{"no file", "create -f missing.yaml", "", `the path "missing.yaml" does not exist`},
		{"no object", "create -f -", "", "- has 0 objects: want one"},
		{"two objects", "create -f -", machine + "\n---\n" + machine, "- has 2 objects: want one"},
		{"no kind", "create -f -", "password: " + secret, "standard input, document 1: is not one object with apiVersion and kind"},
		{"a text", "create -f -", secret, "standard input, document 1: is not one object with apiVersion and kind"},
		{"no YAML", "create -f -", "{" + secret, "standard input"},
		{"a kind that no server has", "create -f -", `{"apiVersion":"example.com/v1","kind":"Unicorn","metadata":{"name":"a"}}`, `standard input, document 1: no matches for kind "Unicorn" in version "example.com/v1"`},
		{"another resource", "create pods -f -", machine, "standard input, document 1: the object is of the resource virtualmachines.demo.proviso.dev, and not of pods"},
		{"another name", "update virtualmachines/other -f -", machine, `standard input, document 1: the name of the object is "vm", and not "other"`},
		{"another namespace", "create -f - -n other", machine, `standard input, document 1: the namespace of the object is "n", and not "other"`},
		{"no name", "update -f -", strings.Replace(machine, `"name":"vm",`, "", 1), "standard input, document 1: the object has no name"},
		{"no name to delete", "delete virtualmachines -f -", strings.Replace(machine, `"name":"vm",`, "", 1), "standard input, document 1: the object has no name"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			out, errOut, code := canI(t.Context(), t, standin.Answers{}, tc.input, strings.Fields(tc.args)...)
			if code != 2 || out != "" || !strings.HasPrefix(errOut, "error: "+tc.want) || strings.Contains(errOut, secret) {
				t.Errorf("got %d %q %q, want 2 and %s", code, out, errOut, tc.want)
			}
		})
	}
}

// TestNamespaceOfKubeconfig checks that an object may be in another namespace than the one of the kubeconfig, which is no choice for this object.
func TestNamespaceOfKubeconfig(t *testing.T) {
	t.Parallel()
	var got string
	answers := decided("object.x == 'a'", func(review *authorizationv1alpha1.AuthorizationConditionsReview) any {
		got = review.Request.Namespace
		return allows(review)
	}, nil)
	printed{Out: "yes\n"}.check(t, answers, machine, "create", "-f", "-") // the namespace would be default
	if got != "n" {
		t.Errorf("got the namespace %q", got)
	}
}
