/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/suggestion"
)

// builtInGroups are the groups that kube-apiserver gives users, apart from the groups of the service accounts of one namespace.
var builtInGroups = []string{
	user.AllAuthenticated, user.AllUnauthenticated, user.SystemPrivilegedGroup, user.NodesGroup, user.MonitoringGroup,
	serviceaccount.AllServiceAccountsGroup, "system:bootstrappers",
}

func subjectPath(i int) *field.Path { return field.NewPath("spec", "subjects").Index(i) }

func subjectMistakes(subjects []rbacv1.Subject) (warnings []policyv1alpha1.ExpressionWarning) {
	for i, s := range subjects {
		if text := subjectMistake(s); text != "" {
			warnings = append(warnings, warningAt(subjectPath(i).Child("name"), "%s", text))
		}
	}
	return warnings
}

// subjectMistake says why no user is expected to match a subject, or returns "".
func subjectMistake(s rbacv1.Subject) string {
	name := shortQuote(s.Name)
	_, _, notAccount := serviceaccount.SplitUsername(s.Name)
	namespace, ofNamespace := strings.CutPrefix(s.Name, serviceaccount.ServiceAccountGroupPrefix)
	isGroup := ofNamespace || slices.Contains(builtInGroups, s.Name)
	isAccount := strings.HasPrefix(s.Name, serviceaccount.ServiceAccountUsernamePrefix)
	switch {
	case strings.Contains(s.Name, "*"):
		return fmt.Sprintf("%s is compared literally: subjects have no wildcards; the group %q has all users who are authenticated", name, user.AllAuthenticated)
	case s.Kind == rbacv1.UserKind && ofNamespace && strings.Contains(namespace, ":"):
		return fmt.Sprintf("no user has the name %s: a service account is system:serviceaccount:NAMESPACE:NAME; write kind: ServiceAccount, with its namespace and its name", name)
	case s.Kind == rbacv1.UserKind && isGroup:
		return fmt.Sprintf("%s is a group, and no user has this name: write kind: Group", name)
	case s.Kind == rbacv1.UserKind && isAccount && notAccount != nil:
		return fmt.Sprintf("no service account has the user name %s, which is system:serviceaccount:NAMESPACE:NAME: write kind: ServiceAccount, with its namespace and its name", name)
	case s.Kind == rbacv1.GroupKind && isAccount && notAccount == nil:
		return fmt.Sprintf("%s is the name of a user, and no group: write kind: ServiceAccount, with its namespace and its name", name)
	case s.Kind == rbacv1.GroupKind && (isAccount || ofNamespace && (namespace == "" || strings.Contains(namespace, ":"))):
		return fmt.Sprintf("no group of kube-apiserver is %s: the service accounts of a namespace are the group %sNAMESPACE", name, serviceaccount.ServiceAccountGroupPrefix)
	case s.Kind == rbacv1.GroupKind && strings.HasPrefix(s.Name, "system:") && !isGroup:
		if meant := suggestion.DidYouMean(s.Name, builtInGroups); meant != "" {
			return fmt.Sprintf("no group of kube-apiserver is %s%s", name, meant)
		}
	}
	return ""
}

// leftOutMistakes returns a warning for each subject whose requests to kube-apiserver are decided without Proviso.
func leftOutMistakes(server enforcementstatus.Server, spec *policyv1alpha1.AuthorizationPolicySpec) (warnings []policyv1alpha1.ExpressionWarning) {
	consequence := "the policy does not restrict them: take the permission away in RBAC, or write a ValidatingAdmissionPolicy"
	if spec.Effect == policyv1alpha1.PolicyEffectAllow {
		consequence = "the policy allows none of them: write a role of RBAC"
	}
	for _, i := range server.LeftOut(spec) {
		warnings = append(warnings, warningAt(subjectPath(i), "kube-apiserver decides the requests of %s %s without Proviso, so that the cluster goes on while Proviso is down, and %s", spec.Subjects[i].Kind, shortQuote(spec.Subjects[i].Name), consequence))
	}
	return warnings
}

// denialOfEverything returns a warning for a rule by which a policy denies all requests of all users.
func denialOfEverything(namespace string, spec *policyv1alpha1.AuthorizationPolicySpec) []policyv1alpha1.ExpressionWarning {
	isAll := func(entries []string) bool { return slices.Contains(entries, "*") }
	isEverybody := func(s rbacv1.Subject) bool { return s.Kind == rbacv1.GroupKind && s.Name == user.AllAuthenticated }
	if spec.Effect != policyv1alpha1.PolicyEffectDeny || spec.Enforcement == policyv1alpha1.PolicyEnforcementAudit || spec.Condition != "" ||
		len(spec.Subjects) > 0 && !slices.ContainsFunc(spec.Subjects, isEverybody) {
		return nil
	}
	i := slices.IndexFunc(spec.Rules, func(rule policyv1alpha1.PolicyRule) bool {
		return isAll(rule.Verbs) && isAll(rule.APIGroups) && isAll(rule.Resources) && len(rule.ResourceNames) == 0
	})
	if i < 0 {
		return nil
	}
	where := "in the cluster"
	if namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	return []policyv1alpha1.ExpressionWarning{warningAt(field.NewPath("spec", "rules").Index(i), "the policy denies everything to everybody %s: name subjects or resources, add a condition, or see first what it would deny, by enforcement: Audit", where)}
}
