/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
)

// admitted is what admission sees of a request for one object, and what had to be
// authorized for it.
type admitted struct {
	checks      []check
	subresource string
	operation   string // "" if admission sees nothing
	name        string // of the object

	object, oldObject, options map[string]any
	dryRun                     bool
}

// check is an authorization check: the verb, and the name of the object.
type check struct{ verb, name string }

// admittedOf returns what admission will see of the request of a row: one object, but for
// collections. The final object is that of a rehearsal by admin.
func (x *table) admittedOf(t *testing.T, c *tableCase) []admitted {
	t.Helper()
	name := c.object()
	o := admitted{name: name, subresource: c.Sub, dryRun: c.DryRun, checks: []check{{c.Do, name}}}
	verb := map[string]string{"client-apply": "create", "update": "update"}[c.Do]
	switch c.Do {
	case "get":
		return []admitted{o}
	case "list", "watch":
		o.checks[0].name = ""
		return []admitted{o}
	case "console", "open":
		o.subresource, o.operation, o.object = "console", "CONNECT", c.connectOptions()
		o.checks = []check{{"get", name}, {"create", name}}
		if c.Do == "open" {
			o.checks = o.checks[1:]
		}
		return []admitted{o}
	case "delete":
		o.operation, o.oldObject, o.options = "DELETE", c.stored[0], c.deleteOptions(c.DryRun)
		return []admitted{o}
	case "deletecollection":
		var each []admitted
		for _, stored := range c.stored {
			each = append(each, admitted{
				checks: []check{{c.Do, ""}}, operation: "DELETE", oldObject: stored, options: c.deleteOptions(c.DryRun), dryRun: c.DryRun,
				name: stored["metadata"].(map[string]any)["name"].(string),
			})
		}
		return each
	case "create":
		o.operation, o.checks = "CREATE", []check{{"create", ""}}
	case "client-apply":
		o.operation, o.checks = "CREATE", []check{{"create", ""}}
		if c.Old != nil {
			o.operation, o.checks = "", []check{{"patch", name}}
		}
	case "update":
		o.checks = []check{{verb, name}}
	default:
		o.checks = []check{{"patch", name}}
	}
	if o.operation == "" {
		o.operation = "UPDATE"
		if len(c.stored) > 0 {
			o.oldObject = c.stored[0]
		} else {
			o.operation = "CREATE"
			o.checks = append(o.checks, check{"create", name})
		}
	}
	o.options = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": map[string]string{"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}[o.operation]}
	if c.Options.FieldManager != "" {
		o.options["fieldManager"] = c.Options.FieldManager
	} else if c.Do == "apply" {
		o.options["fieldManager"] = applyManager
	}
	o.object = x.rehearse(t, c)
	return []admitted{o}
}

// rehearse returns the object that the request would write.
func (x *table) rehearse(t *testing.T, c *tableCase) map[string]any {
	t.Helper()
	object, err := c.request(true).send(t.Context(), x.adminOf(c))
	switch {
	case apierrors.IsAlreadyExists(err): // which is found out after admission
		return c.machine(c.object(), c.Body)
	case err != nil:
		t.Fatalf("the request cannot even be rehearsed: %v", err)
	}
	return object
}

func (c *tableCase) connectOptions() map[string]any {
	options := map[string]any{"apiVersion": demov1alpha1.SchemeGroupVersion.String(), "kind": "VirtualMachineConsoleOptions"}
	query := c.connectQuery()
	if command := query["command"]; len(command) > 0 {
		var list []any
		for _, word := range command {
			list = append(list, word)
		}
		options["command"] = list
	}
	if query.Get("stdin") == "true" {
		options["stdin"] = true
	}
	return options
}

// review decides a row by reviews instead of a request: what may the user do, and what do
// the conditions say of the objects? The user asks in a form for people, and admin, who may
// read the policies, in the form for programs. It returns why they were refused.
func (x *table) review(t *testing.T, c *tableCase, data []admitted, as string) (refusals []string) {
	t.Helper()
	want := c.Want == outcomeAllowed
	for _, asked := range []struct {
		who  string
		mode authorizationv1alpha1.ConditionsMode
		ask  func(*testing.T, *tableCase, *authorizationv1.ResourceAttributes, *authorizationv1alpha1.ConditionalAuthorizationConfiguration) authorizationv1alpha1.SubjectAccessReviewStatus
		by   versioned.Interface
	}{
		{"the user", authorizationv1alpha1.ConditionsModeHumanReadable, x.askSelf(as), x.clients["bob-direct"]},
		{"admin", authorizationv1alpha1.ConditionsModeOptimized, x.askAdmin, x.proviso},
	} {
		allowed, why := true, ""
		for _, o := range data {
			for _, q := range o.checks {
				status := asked.ask(t, c, c.attributes(o, q), modeFor(o, asked.mode))
				var ok bool
				if ok, why = x.evaluate(t, c, o, status, asked.by); !ok {
					allowed = false
					refusals = append(refusals, why)
				}
			}
		}
		if allowed != want {
			t.Errorf("reviewed by %s: allowed is %t (%s), want %s", asked.who, allowed, why, c.Want)
		}
	}
	return refusals
}

// modeFor asks for no conditions where nobody would enforce them.
func modeFor(o admitted, mode authorizationv1alpha1.ConditionsMode) *authorizationv1alpha1.ConditionalAuthorizationConfiguration {
	if o.operation == "" {
		return nil
	}
	return &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: mode}
}

func (c *tableCase) attributes(o admitted, q check) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Verb: q.verb, Group: c.about().Group, Version: c.about().Version, Resource: c.about().Resource, Subresource: o.subresource,
		Namespace: c.set.namespace(), Name: q.name,
	}
}

func (x *table) askSelf(as string) func(*testing.T, *tableCase, *authorizationv1.ResourceAttributes, *authorizationv1alpha1.ConditionalAuthorizationConfiguration) authorizationv1alpha1.SubjectAccessReviewStatus {
	return func(t *testing.T, _ *tableCase, attributes *authorizationv1.ResourceAttributes, mode *authorizationv1alpha1.ConditionalAuthorizationConfiguration) authorizationv1alpha1.SubjectAccessReviewStatus {
		t.Helper()
		answer, err := x.clients[as].AuthorizationV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SelfSubjectAccessReview{
			Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes, ConditionalAuthorization: mode},
		}, metav1.CreateOptions{})
		must(t, err)
		return answer.Status
	}
}

func (x *table) askAdmin(t *testing.T, c *tableCase, attributes *authorizationv1.ResourceAttributes, mode *authorizationv1alpha1.ConditionalAuthorizationConfiguration) authorizationv1alpha1.SubjectAccessReviewStatus {
	t.Helper()
	answer, err := x.proviso.AuthorizationV1alpha1().SubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SubjectAccessReview{
		Spec: authorizationv1alpha1.SubjectAccessReviewSpec{
			User: c.As, Groups: []string{"system:authenticated"}, ResourceAttributes: attributes, ConditionalAuthorization: mode,
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return answer.Status
}

// namespaceOf returns the namespace of a row, which no row changes.
func (x *table) namespaceOf(t *testing.T, c *tableCase) *corev1.Namespace {
	t.Helper()
	if known, ok := x.namespaces.Load(c.set.namespace()); ok {
		return known.(*corev1.Namespace)
	}
	namespace, err := x.kube.CoreV1().Namespaces().Get(t.Context(), c.set.namespace(), metav1.GetOptions{})
	must(t, err)
	namespace.APIVersion, namespace.Kind = "v1", "Namespace"
	x.namespaces.Store(c.set.namespace(), namespace)
	return namespace
}

// evaluate says what an answer comes to for an object.
func (x *table) evaluate(t *testing.T, c *tableCase, o admitted, status authorizationv1alpha1.SubjectAccessReviewStatus, by versioned.Interface) (allowed bool, why string) {
	t.Helper()
	if len(status.ConditionsChain) == 0 {
		return status.Allowed, status.Reason
	}
	namespace := x.namespaceOf(t, c)
	group, version, resource, kind := c.about().Group, c.about().Version, c.about().Resource, c.about().kind
	if o.operation == "CONNECT" {
		kind = "VirtualMachineConsoleOptions"
	}
	answer, err := by.AuthorizationV1alpha1().AuthorizationConditionsReviews().Create(t.Context(), &authorizationv1alpha1.AuthorizationConditionsReview{
		Request: &authorizationv1alpha1.AuthorizationConditionsRequest{
			ConditionSets: status.ConditionsChain, Operation: authorizationv1alpha1.Operation(o.operation),
			Kind:        &metav1.GroupVersionKind{Group: group, Version: version, Kind: kind},
			Resource:    &metav1.GroupVersionResource{Group: group, Version: version, Resource: resource},
			SubResource: o.subresource, Name: o.name, Namespace: c.set.namespace(), NamespaceObject: &runtime.RawExtension{Raw: mustJSON(namespace)},
			UserInfo: &authenticationv1.UserInfo{Username: c.As, Groups: []string{"system:authenticated"}},
			Object:   extension(o.object), OldObject: extension(o.oldObject), Options: extension(o.options), DryRun: o.dryRun,
		},
	}, metav1.CreateOptions{})
	must(t, err)
	if answer.Response == nil || len(answer.Response.ConditionSets) > 0 {
		t.Fatalf("the conditions have not been evaluated: %+v", answer.Response)
	}
	return answer.Response.Allowed, answer.Response.Reason
}

func extension(object map[string]any) *runtime.RawExtension {
	if object == nil {
		return nil
	}
	return &runtime.RawExtension{Raw: mustJSON(object)}
}
