/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// The conditions of policies, by what they read.
var (
	onRequest = []string{
		`request.verb != "list"`, `request.userInfo.username == "alice"`, `request.userInfo.username == "bob"`, `request.namespace == "shop"`,
		`request.userInfo.extra["x"][0] == "y"`,
	}
	onNamespace = []string{
		`namespaceObject.metadata.labels["team"] == "a"`, `namespaceObject.metadata.labels["team"] == "b"`, `namespaceObject != null && namespaceObject.metadata.name != "x"`,
	}
	onObject = []string{
		`object.metadata.labels["a"] == "b"`, `object != null && object.metadata.name == "a"`, `operation == "UPDATE" && oldObject.metadata.name == "a"`,
		`oldObject != null && oldObject.metadata.labels["a"] == "b"`, `operation != "DELETE" && has(object.metadata.labels)`, `dryRun`, `!dryRun`,
	}
	onUnseen = []string{
		`size(request.fieldSelector.requirements) == 0 && dryRun`, `request.path == "" && object != null`, `size(request.labelSelector.requirements) > 0`,
		`request.path == "/x" || has(object.metadata.labels)`,
	}
	// onOther have no translation for barriers, or another one for each verb.
	onOther = []string{
		`authorizer.group("").resource("pods").namespace("shop").check("get").allowed()`, `request.verb == "patch" && has(object.metadata.labels)`,
		`authorizer.requestResource.check("approve").allowed() || has(object.metadata.labels)`, `request.name == "a" && has(object.metadata.labels)`, `options != null`,
	}
	brokenConditions = []string{`object.`, `1 + 1`}
)

func (g *generator) condition() string {
	switch n := g.IntN(100); {
	case n < 12:
		return ""
	case n < 24:
		return one(g, onRequest...)
	case n < 34:
		return one(g, onNamespace...)
	case n < 76:
		return one(g, onObject...)
	case n < 88:
		return one(g, onUnseen...)
	case n < 98:
		return one(g, onOther...)
	}
	return one(g, brokenConditions...)
}

func (g *generator) policies() {
	n := one(g, 1, 1, 2, 2, 2, 3)
	if g.script.policies != nil {
		n = len(g.script.policies) + one(g, 0, 0, 0, 1)
	}
	for i := range n {
		p := Policy{Name: fmt.Sprintf("p%d", i)}
		if g.chance(30) {
			p.Namespace = one(g, "shop", "shop", "shop", "shop", "bank")
		}
		switch {
		case i < len(g.script.policies):
			p.Namespace, p.Spec = g.planned(&g.script.policies[i])
			if p.Before = g.script.policies[i].before(p.Spec.DeepCopy()); p.Before != nil {
				g.Policies = append(g.Policies, p)
				continue
			}
		case g.script.policies != nil: // it must not hide what the script is about
			g.focus = onAny
			p.Spec = g.spec(p.Namespace != "")
			p.Spec.Subjects = []rbacv1.Subject{subject(rbacv1.UserKind, "bob")}
		default:
			p.Spec = g.spec(p.Namespace != "")
		}
		switch {
		case g.Facts.Barriers == "":
		case !g.script.isHealthy && g.chance(25):
			p.IsLate = true
		case g.chance(15):
			before := p.Spec.DeepCopy()
			before.Condition = one(g, onObject...)
			for i := range before.Rules {
				if len(before.Rules[i].APIVersions) == 0 && len(before.Rules[i].Resources) > 0 {
					before.Rules[i].APIVersions = []string{"*"}
				}
			}
			p.Before = before
		}
		g.Policies = append(g.Policies, p)
	}
}

func (g *generator) effect() policyv1alpha1.PolicyEffect {
	const allow, deny, noOpinion = policyv1alpha1.PolicyEffectAllow, policyv1alpha1.PolicyEffectDeny, policyv1alpha1.PolicyEffectNoOpinion
	if g.focus == onBarriers {
		return one(g, allow, allow, deny, deny, deny, deny, noOpinion)
	}
	return one(g, allow, allow, allow, allow, allow, deny, deny, noOpinion, noOpinion)
}

func (g *generator) spec(isNamespaced bool) policyv1alpha1.AuthorizationPolicySpec {
	spec := policyv1alpha1.AuthorizationPolicySpec{Effect: g.effect(), Condition: g.condition(), Enforcement: policyv1alpha1.PolicyEnforcementEnforce}
	if g.chance(22) {
		spec.Enforcement = policyv1alpha1.PolicyEnforcementAudit
	}
	spec.Subjects = []rbacv1.Subject{one(g,
		subject(rbacv1.UserKind, "alice"), subject(rbacv1.GroupKind, user.AllAuthenticated), subject(rbacv1.GroupKind, user.AllAuthenticated), subject(rbacv1.UserKind, "bob"))}
	if spec.Effect != policyv1alpha1.PolicyEffectAllow && g.chance(50) {
		spec.Subjects = nil
	}
	isOfPaths := g.Request.NonResourceAttributes != nil && g.chance(85) || g.chance(3)
	if isOfPaths && !isNamespaced {
		spec.Rules = []policyv1alpha1.PolicyRule{{Verbs: one(g, []string{"*"}, []string{"get"}), NonResourceURLs: one(g, []string{"*"}, []string{"/metrics", "/version"}, []string{"/livez/*"})}}
		return spec
	}
	for range one(g, 1, 1, 1, 1, 2) {
		spec.Rules = append(spec.Rules, g.rule(spec.Condition))
	}
	return spec
}

func subject(kind, name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func (g *generator) rule(condition string) policyv1alpha1.PolicyRule {
	of := g.target
	if g.chance(10) {
		of = one(g, slices.Concat(atKubeAPIServer, withoutInnerDoor, atProviso, atOthers, atNone)...)
	}
	path := of.Resource.Resource
	if of.Subresource != "" {
		path += "/" + of.Subresource
	}
	writes := []string{"create", "update", "patch", "delete", "deletecollection"}
	rule := policyv1alpha1.PolicyRule{
		Verbs:     one(g, []string{g.verb}, writes, writes, []string{"*"}, []string{"update", "patch"}, []string{"create", "update", "patch"}, []string{"create", "get"}, []string{one(g, of.verbs...)}),
		APIGroups: []string{of.Group}, Resources: []string{path}, APIVersions: []string{of.version},
	}
	if g.verb == "update" || g.verb == "patch" {
		if g.chance(12) {
			rule.Verbs = []string{g.verb}
		}
	}
	switch n := g.IntN(100); {
	case n < 10:
		rule.APIGroups, rule.APIVersions = []string{"*"}, []string{"*"}
	case n < 17:
		rule.Resources = []string{"*"}
	case n < 22 && of.Subresource != "":
		rule.Resources = []string{"*/" + of.Subresource}
	case n < 30 && path != "configmaps":
		rule.Resources = append(rule.Resources, "configmaps")
	}
	switch n := g.IntN(100); {
	case n < 30:
		rule.APIVersions = []string{"*"}
	case n < 36:
		rule.APIVersions = []string{"v2"}
	case n < 42 && of.version != "v2":
		rule.APIVersions = []string{of.version, "v2"}
	case n < 55 && !strings.Contains(strings.ToLower(condition), "object."):
		rule.APIVersions = nil
	}
	if g.chance(12) && !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb == "*" || hasNoName(verb) }) {
		rule.ResourceNames = []string{"a"}
	}
	return rule
}
