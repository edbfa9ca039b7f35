/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrierlaw

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// Generator makes random policies and writes.
type Generator struct {
	*rand.Rand

	// isExtreme says that the policy reads extreme data, which some writes have.
	isExtreme bool
}

// NewGenerator returns the generator with a seed and a number.
func NewGenerator(seed, number uint64) *Generator {
	return &Generator{Rand: rand.New(rand.NewPCG(seed, number))} //nolint:gosec // a test must be repeatable
}

func (g *Generator) pick(texts ...string) string { return texts[g.IntN(len(texts))] }

func (g *Generator) some(texts ...string) []string {
	var picked []string
	for _, text := range texts {
		if g.IntN(3) == 0 {
			picked = append(picked, text)
		}
	}
	if len(picked) == 0 {
		return []string{g.pick(texts...)}
	}
	return picked
}

var users = []user.Info{
	&user.DefaultInfo{Name: "alice", Groups: []string{"devs", "system:authenticated"}},
	&user.DefaultInfo{Name: "bob", UID: "7", Groups: []string{"ops"}, Extra: map[string][]string{"scopes": {"a", "b"}, "empty": {}}},
	&user.DefaultInfo{Name: "system:serviceaccount:demo:robot", UID: "robot", Groups: []string{"system:serviceaccounts"}},
	&user.DefaultInfo{Name: "' || 'a' == 'a", Groups: []string{`"`, "\\", "\n"}},
	&user.DefaultInfo{Name: "carol"},
	&user.DefaultInfo{},
}

func (g *Generator) subjects() []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for range g.IntN(2) * g.IntN(5) {
		switch g.IntN(3) {
		case 0:
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, Name: g.pick("alice", "bob", "' || 'a' == 'a", "carol")})
		case 1:
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: g.pick("devs", "ops", `"`, "\\", "\n")})
		default:
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "demo", Name: "robot"})
		}
	}
	return subjects
}

// Policy returns a Deny policy.
func (g *Generator) Policy() (engine.Key, *policyv1alpha1.AuthorizationPolicySpec) {
	key := engine.Key{Name: "p"}
	if g.IntN(4) == 0 {
		key.Namespace = "demo"
	}
	spec := &policyv1alpha1.AuthorizationPolicySpec{Effect: policyv1alpha1.PolicyEffectDeny, Subjects: g.subjects(), Description: g.pick("", "no", "line\nbreak policy=x")}
	for range 1 + g.IntN(2)*g.IntN(3) {
		rule := policyv1alpha1.PolicyRule{
			Verbs:     g.some("create", "update", "patch", "update", "patch", "delete", "deletecollection", "get"),
			APIGroups: g.some("", "apps", "example.com"), Resources: g.some("pods", "secrets", "widgets", "pods/exec", "pods/status", "namespaces", "serviceaccounts/token", "*/scale"),
		}
		switch g.IntN(6) {
		case 0:
			rule.Verbs = []string{"*"}
		case 1, 2:
			rule.Verbs = []string{"create", "update", "patch", "delete", "deletecollection", "get"}
		}
		if g.IntN(5) == 0 {
			rule.APIGroups = []string{"*"}
		}
		if g.IntN(6) == 0 {
			rule.Resources = append(rule.Resources, "*")
		}
		if g.IntN(4) == 0 {
			rule.ResourceNames = g.some("a", "b", "'")
		}
		if g.IntN(3) == 0 {
			rule.APIVersions = g.some("v1", "v1beta1")
		}
		spec.Rules = append(spec.Rules, rule)
	}
	if g.isExtreme = g.IntN(extremePolicies) == 0; g.isExtreme {
		spec.Subjects, spec.Rules, spec.Condition = nil, []policyv1alpha1.PolicyRule{extremeRule}, isExtreme+" && ("+g.condition(1)+")"
		return key, spec
	}
	if g.IntN(12) != 0 {
		if g.IntN(3) == 0 {
			spec.Variables = []policyv1alpha1.Variable{{Name: "x", Expression: g.condition(1)}, {Name: "y", Expression: "variables.x || " + g.condition(0)}}
		}
		spec.Condition = g.condition(2)
		if len(spec.Variables) > 0 && g.IntN(2) == 0 {
			spec.Condition += " && !variables.y"
		}
	}
	return key, spec
}

func (g *Generator) condition(depth int) string {
	if depth == 0 || g.IntN(4) == 0 {
		return g.atom()
	}
	a, b := g.condition(depth-1), g.condition(depth-1)
	switch g.IntN(6) {
	case 0, 1:
		return "(" + a + ") && (" + b + ")"
	case 2, 3:
		return "(" + a + ") || (" + b + ")"
	case 4:
		return "!(" + a + ")"
	default:
		return "(" + g.atom() + ") ? (" + a + " && true) : (" + b + " || false)"
	}
}

func (g *Generator) atom() string {
	if g.isExtreme && g.IntN(6) != 0 {
		return g.extremeAtom()
	}
	return g.pick(
		`request.verb == "create"`, `request.verb in ["update", "patch"]`, `request.verb == "patch"`, `request.verb != "delete"`, `request.verb.startsWith("delete")`,
		`request.apiGroup == ""`, `request.apiVersion == "v1"`, `request.resource == "pods"`, `request.subresource == ""`, `request.subresource == "status"`,
		`request.namespace == "demo"`, `request.namespace == ""`, `request.name == "a"`, `request.name.startsWith("a")`, `request.name == ""`,
		`request.userInfo.username == "alice"`, `request.userInfo.uid == ""`, `request.userInfo.uid != "7"`, `"devs" in request.userInfo.groups`, `request.userInfo.groups.size() == 0`,
		`request.userInfo.groups.exists(g, g.startsWith("o"))`, `"scopes" in request.userInfo.extra`, `request.userInfo.extra["scopes"][0] == "a"`, `has(request.userInfo.extra.empty)`,
		`request.userInfo.extra.scopes.size() == 2`, `has(request.userInfo.uid)`, `has(request.name)`, `request.path == "/x"`, `request.labelSelector.requirements.size() == 0`,
		`operation == "CREATE"`, `operation in ["UPDATE", "DELETE"]`, `operation == "CONNECT"`, `dryRun`, `!dryRun`, `options != null`, `has(options.kind)`, `options == null`, `options.?dryRun.hasValue()`,
		`object == null`, `oldObject == null`, `oldObject != null`, `object.metadata.name == "a"`, `oldObject.metadata.name == "a"`, `has(object.metadata.labels)`,
		`object.metadata.?labels.?tier.orValue("") == "prod"`, `oldObject != null && oldObject.metadata.?labels.?tier.orValue("") == "prod"`, `object != null && object == oldObject`,
		`object.metadata.labels["tier"] == "prod"`, `object.spec.hostNetwork == true`, `true && object.spec.hostNetwork`, `has(object.spec.hostNetwork) && object.spec.hostNetwork`, `object.spec.containers.all(c, c.image.startsWith("registry/"))`,
		`object.spec.replicas > 3`, `object.spec.replicas == 3.0`, `oldObject.spec.replicas < object.spec.replicas`, `object.spec.containers.exists(c, c.?securityContext.?privileged.orValue(false))`,
		`int(object.metadata.labels.number) > 1`, `object.metadata.labels.all(k, v, k != v)`, `object.metadata.labels.exists(k, object.metadata.labels[k] == "prod")`, `object.data.size() > 1`, `type(object) == map`,
		`namespaceObject.metadata.name == "demo"`, `namespaceObject.metadata.?labels.?tier.orValue("") == "prod"`, `has(namespaceObject.metadata.annotations)`, `namespaceObject.metadata.labels.tier == "prod"`,
		`request.?name.orValue("b") == "a"`, `request.userInfo.?uid.orValue("7") == "7"`, `request.userInfo.extra.?scopes[?0].orValue("") == "a"`, `request.userInfo.?extra.hasValue()`,
		`namespaceObject.?metadata.name == optional.of("demo")`, `namespaceObject.metadata.?uid.hasValue()`, `object.?spec.?replicas.orValue(0) > 3`, `oldObject.?metadata.hasValue()`,
		`namespaceObject.metadata.uid == ""`, `namespaceObject == null`,
		`authorizer.group("apps").resource("deployments").namespace(request.namespace).name(request.userInfo.username).check("update").allowed()`,
		`authorizer.requestResource.check("use").allowed()`, `authorizer.requestResource.check("get").allowed()`, `authorizer.serviceAccount("demo", "robot").group("").resource("pods").check("get").allowed()`,
		`impersonatedUser.username == "x"`, `request.userInfo == request.userInfo`, `1 / (request.namespace.size() - 4) == 1`, `true`, `false`, `[1, 2].exists(x, x == object.spec.replicas)`,
	)
}

func (g *Generator) labels() map[string]string {
	switch g.IntN(4) {
	case 0:
		return nil
	case 1:
		return map[string]string{"tier": "prod", "number": "3"}
	case 2:
		return map[string]string{"tier": "dev", "number": "x"}
	}
	return map[string]string{"a": "a"}
}

// object returns an object of a resource, typed if Go has a type for it.
func (g *Generator) object(resource, name, namespace string, kind schema.GroupVersionKind) runtime.Object {
	metadata := metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: g.labels()}
	switch resource {
	case "pods":
		return &corev1.Pod{ObjectMeta: metadata, Spec: corev1.PodSpec{HostNetwork: g.IntN(2) == 0, Containers: []corev1.Container{{Name: "c", Image: g.pick("registry/a", "b")}}}}
	case "secrets":
		return &corev1.Secret{ObjectMeta: metadata, Data: map[string][]byte{"password": []byte("secret")}}
	case "namespaces":
		return &corev1.Namespace{ObjectMeta: metadata}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(g.IntN(6))}}}
	u.SetName(name)
	u.SetNamespace(namespace)
	u.SetLabels(metadata.Labels)
	u.SetGroupVersionKind(kind)
	if g.IntN(3) == 0 {
		delete(u.Object, "spec")
	}
	return u
}

func optionsMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: kind}
}

var resources = []schema.GroupVersionKind{
	{Version: "v1", Kind: "pods"}, {Version: "v1", Kind: "secrets"}, {Version: "v1", Kind: "namespaces"}, {Group: "example.com", Version: "v1", Kind: "widgets"},
	{Group: "example.com", Version: "v1beta1", Kind: "widgets"}, {Group: "apps", Version: "v1", Kind: "widgets"},
}

// Write returns a write, which is mostly for what a policy is about.
func (g *Generator) Write(spec *policyv1alpha1.AuthorizationPolicySpec) *Write {
	w := g.ordinaryWrite(spec)
	if g.isExtreme && w.Resource == "widgets" && g.IntN(extremeWrites) == 0 {
		g.extreme(w)
	}
	return w
}

func (g *Generator) ordinaryWrite(spec *policyv1alpha1.AuthorizationPolicySpec) *Write {
	r := resources[g.IntN(len(resources))]
	// Most requests are for what the policy is about.
	for range 12 {
		rule := spec.Rules[g.IntN(len(spec.Rules))]
		if (slices.Contains(rule.Resources, r.Kind) || slices.Contains(rule.Resources, "*")) && (slices.Contains(rule.APIGroups, r.Group) || slices.Contains(rule.APIGroups, "*")) {
			break
		}
		r = resources[g.IntN(len(resources))]
	}
	w := &Write{AttributesRecord: authorizer.AttributesRecord{
		User: users[g.IntN(len(users))], APIGroup: r.Group, APIVersion: r.Version, Resource: r.Kind, ResourceRequest: true, Namespace: g.pick("demo", "demo", "infra"),
	}, DryRun: g.IntN(3) == 0, NamespaceObjects: map[string]map[string]any{}}
	for _, namespace := range Namespaces {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(namespace)
		if err != nil {
			panic(err)
		}
		w.NamespaceObjects[namespace.Name] = object
	}
	w.Kind = map[string]schema.GroupVersionKind{"pods": {Version: "v1", Kind: "Pod"}, "secrets": {Version: "v1", Kind: "Secret"}, "namespaces": {Version: "v1", Kind: "Namespace"}}[r.Kind]
	if r.Kind == "widgets" {
		w.Kind = schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: "Widget"}
		if g.IntN(6) == 0 {
			w.Namespace = ""
		}
	}
	name := g.pick("a", "b", "'")
	if r.Kind == "namespaces" {
		name = w.Namespace
	}
	if r.Kind == "pods" && g.IntN(4) == 0 {
		return g.ofSubresource(w, name)
	}
	w.Operation = admission.Operation(g.pick("CREATE", "UPDATE", "DELETE"))
	w.ObjectName = name
	newObject, old := g.object(r.Kind, name, w.Namespace, w.Kind), g.object(r.Kind, name, w.Namespace, w.Kind)
	switch w.Operation {
	case admission.Create:
		w.Object, w.Options = newObject, &metav1.CreateOptions{TypeMeta: optionsMeta("CreateOptions")}
		switch w.Verb = g.pick("create", "create", "patch", "update"); {
		case w.Verb != "create":
			w.Name = name
		case r.Kind == "namespaces":
			w.Namespace = "" // the request does not say which
			w.ObjectName = name
		}
	case admission.Update:
		w.Object, w.OldObject, w.Verb, w.Name, w.Options = newObject, old, g.pick("update", "patch"), name, &metav1.UpdateOptions{TypeMeta: optionsMeta("UpdateOptions")}
	default:
		w.OldObject, w.Verb, w.Options = old, g.pick("delete", "delete", "deletecollection"), &metav1.DeleteOptions{TypeMeta: optionsMeta("DeleteOptions")}
		if w.Name = name; w.Verb == "deletecollection" && r.Kind == "namespaces" {
			w.Verb = "delete" // kube-apiserver does not serve the other
		} else if w.Verb == "deletecollection" {
			w.Name, w.ObjectName = "", ""
		}
	}
	return w
}

// ofSubresource makes a write one for a subresource of a pod.
func (g *Generator) ofSubresource(w *Write, name string) *Write {
	w.Name, w.ObjectName = name, name
	if g.IntN(2) == 0 {
		w.Subresource, w.Verb, w.Operation = "exec", g.pick("create", "get"), admission.Connect
		w.Kind = schema.GroupVersionKind{Version: "v1", Kind: "PodExecOptions"}
		w.Object = &corev1.PodExecOptions{Command: []string{"sh"}}
		return w
	}
	w.Subresource, w.Verb, w.Operation = "status", g.pick("update", "patch"), admission.Update
	w.Object, w.OldObject, w.Options = g.object("pods", name, w.Namespace, w.Kind), g.object("pods", name, w.Namespace, w.Kind), &metav1.UpdateOptions{TypeMeta: optionsMeta("UpdateOptions")}
	return w
}
