/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/place"
)

// others are the other authorizers of kube-apiserver, which allow what is listed: a verb, a resource, and a name.
type others struct {
	allow []string
	err   error
	asked []string
}

func (o *others) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return authorizer.DecisionDeny, "", errors.New("the check is not bounded")
	}
	check := a.GetVerb() + " " + a.GetResource() + "/" + a.GetSubresource() + " " + a.GetNamespace() + ":" + a.GetName()
	o.asked = append(o.asked, check)
	if slices.Contains(o.allow, check) {
		return authorizer.DecisionAllow, "", o.err
	}
	return authorizer.DecisionNoOpinion, "", o.err
}

var (
	goodClient = place.Client{Name: "kube-apiserver", Certificate: "good"}
	listed     = []innerdoor.Resource{
		{Resource: "persistentvolumeclaims"}, {Resource: "persistentvolumeclaims", Subresource: "status"}, {Resource: "services"}, {Resource: "namespaces"},
		{Resource: "serviceaccounts", Subresource: "token"}, {Group: "example.com", Resource: "widgets"}, {Group: "demo.proviso.dev", Resource: "virtualmachines"},
	}
)

// newInnerDoor lists some resources. It leaves out nodes, and is known to be called by one client.
func newInnerDoor() *place.InnerDoor {
	return &place.InnerDoor{
		Listed:    func(r innerdoor.Resource) bool { return slices.Contains(listed, r) },
		LeavesOut: func(u user.Info) bool { return slices.Contains(u.GetGroups(), user.NodesGroup) },
		IsLocal:   func(version schema.GroupVersion) bool { return version.Version == "v1" },
		Known:     func(client *place.Client) bool { return *client == goodClient },
		Canary:    isInnerDoorCanary,
	}
}

func newInnerDoorDecider(tb testing.TB, source *engine.Source, rbac authorizer.UnconditionalAuthorizer) *frontdoor.Decider {
	tb.Helper()
	door, err := frontdoor.New(frontdoor.Config{
		Policies: frontdoor.Policies{Chain: chainOf(tb, source), Source: source}, Places: places{enforces: enforcesMachines, inner: newInnerDoor()}.table(), ReviewsShowConditions: true, KubeAPIServer: rbac,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return door
}

// claim is a write of alice to the claim c.
func claim(verb string, changes ...func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}},
		Verb: verb, APIVersion: "v1", Resource: "persistentvolumeclaims", Namespace: "demo", Name: "c", ResourceRequest: true,
	}
	if verb == "create" || verb == "deletecollection" {
		a.Name = ""
	}
	for _, change := range changes {
		change(&a)
	}
	return a
}

func named(name string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) { a.Name = name }
}

func of(resource string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) {
		a.Resource, a.Subresource, _ = strings.Cut(resource, "/")
	}
}

// onVerbs is a policy about some verbs, for which alice is its subject.
func onVerbs(effect policyv1alpha1.PolicyEffect, condition string, verbs ...string) policy {
	return policy{effect: effect, condition: condition, rule: policyv1alpha1.PolicyRule{Verbs: verbs, APIGroups: []string{"*"}, Resources: []string{"*"}}}
}

func policyOn(p policy, names ...string) policy {
	p.rule.ResourceNames = names
	return p
}

// TestFrontDoorInnerDoor has each clause of the rule by which writes pass on conditions.
func TestFrontDoorInnerDoor(t *testing.T) {
	t.Parallel()
	const writes = "create update patch delete deletecollection"
	some := func(verbs string, more map[string]policy) map[string]policy {
		policies := map[string]policy{"p": onVerbs(allow, "dryRun", strings.Fields(verbs)...)}
		maps.Copy(policies, more)
		return policies
	}
	all := some(writes, nil)
	reads := &others{allow: []string{"get persistentvolumeclaims/ demo:c", "list persistentvolumeclaims/ demo:", "get services/ demo:c", "get namespaces/ blue:blue", "get widgets/ demo:c"}}
	blue := func(a *authorizer.AttributesRecord) {
		a.Resource, a.Namespace, a.Name = "namespaces", "blue", "blue"
	}
	group := func(group string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "alice", Groups: []string{group}}
		}
	}
	selecting := func(selector string) func(*authorizer.AttributesRecord) {
		return func(a *authorizer.AttributesRecord) {
			a.LabelSelectorRequirements, _ = labels.ParseToRequirements(selector)
		}
	}
	const (
		isUpdate   = `request.verb == "update"`
		onLabels   = `request.labelSelector.requirements.exists(r, r.key == "a")`
		notKnown   = "policy=p reason=Error: its condition cannot be evaluated for this request: this kube-apiserver is not known to call the inner door"
		restricted = "policy=p reason=Error: its condition cannot be evaluated for this request: a policy denies, or could deny, another request that looks the same at admission"
		unreadable = "policy=p reason=Error: its condition cannot be evaluated for this request: the answer may show objects, which the user may not read"
		leftOut    = "policy=p reason=Error: its condition cannot be evaluated for this request: the inner door does not decide for this user"
		notLocal   = "policy=p reason=Error: its condition cannot be evaluated for this request: kube-apiserver is not known to serve this version itself"
		nameless   = "policy=p reason=Error: its condition cannot be evaluated for this request: the review has no name, and only a request about one object passes on conditions"
		passes     = "allowed if the conditions hold, which Proviso evaluates at admission: policy=p"
		wide       = "the answer depends on conditions, and the review does not name one verb, group, version and resource: allowed on conditions: policy=p; " + authorization.HowToSeeConditions
		folded     = "policy=p reason=Error: its condition cannot be evaluated for this request"
	)
	for _, tc := range []struct {
		name       string
		policies   map[string]policy
		request    authorizer.AttributesRecord
		rbac       *others
		client     *place.Client
		want       string
		wantReason string
		wantAsked  int
	}{
		// What passes.
		{name: "create", policies: all, request: claim("create"), want: "Allow", wantReason: passes},
		{name: "update", policies: all, request: claim("update"), want: "Allow", wantReason: passes, wantAsked: 1},
		{name: "patch", policies: all, request: claim("patch"), want: "Allow", wantReason: passes, wantAsked: 1},
		{name: "delete", policies: all, request: claim("delete"), want: "Allow", wantReason: passes, wantAsked: 1},
		{name: "deletecollection", policies: all, request: claim("deletecollection"), want: "Allow", wantReason: passes, wantAsked: 1},
		{name: "create by name", policies: all, request: claim("create", named("c")), want: "Allow"},
		{name: "status", policies: all, request: claim("patch", of("persistentvolumeclaims/status")), want: "Allow", wantAsked: 1},
		{name: "token", policies: all, request: claim("create", of("serviceaccounts/token"), named("c")), want: "Allow"},
		{name: "namespace", policies: all, request: claim("create", blue, func(a *authorizer.AttributesRecord) { a.Namespace, a.Name = "", "" }), want: "Allow"},
		{name: "update of a namespace", policies: all, request: claim("update", blue), want: "Allow", wantAsked: 1},
		{name: "custom resource", policies: all, request: claim("update", of("widgets"), func(a *authorizer.AttributesRecord) { a.APIGroup = "example.com" }), want: "Allow", wantAsked: 1},
		{name: "one verb", policies: some("patch", nil), request: claim("patch"), want: "Allow", wantAsked: 1},
		{name: "NoOpinion on conditions", policies: some(writes, map[string]policy{"n": onVerbs(noOpinion, "dryRun", "update"), "g": onVerbs(allow, "", "get")}), request: claim("update"), want: "Allow"},
		{name: "a policy of the namespace", policies: map[string]policy{"demo/p": onVerbs(allow, "dryRun", "create")}, request: claim("create"), want: "Allow"},

		// What is not conditional.
		{name: "no policy", request: claim("create"), want: "NoOpinion"},
		{name: "Allow", policies: map[string]policy{"p": {effect: allow}}, request: claim("update"), want: "Allow", wantReason: "policy=p reason=Allowed: it allows the request"},
		{name: "Allow where the inner door is not known", policies: map[string]policy{"p": {effect: allow}}, request: claim("update"), client: &place.Client{}, want: "Allow"},
		{name: "Deny", policies: some(writes, map[string]policy{"d": onVerbs(deny, "", "update")}), request: claim("update"), want: "Deny"},

		// The kind of request.
		{name: "all versions", policies: all, request: claim("create", func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }), want: "NoOpinion", wantReason: wide},
		{name: "no version", policies: all, request: claim("create", func(a *authorizer.AttributesRecord) { a.APIVersion = "" }), want: "NoOpinion"},
		{name: "all verbs", policies: some("*", nil), request: claim("*"), want: "NoOpinion"},
		{name: "get", policies: some("get", nil), request: claim("get"), want: "NoOpinion", wantReason: folded},
		{name: "list", policies: some("list", nil), request: claim("list"), want: "NoOpinion", wantReason: folded},
		{name: "watch", policies: some("watch", nil), request: claim("watch"), want: "NoOpinion", wantReason: folded},
		{name: "another verb", policies: some("approve", nil), request: claim("approve"), want: "NoOpinion", wantReason: folded},
		{name: "deletecollection by name", policies: all, request: claim("deletecollection", named("c")), want: "NoOpinion", wantReason: folded},
		{name: "delete without a name", policies: all, request: claim("delete", named("")), want: "NoOpinion", wantReason: nameless},
		{name: "update without a name", policies: all, request: claim("update", named("")), want: "NoOpinion", wantReason: nameless},
		{name: "patch of a status without a name", policies: all, request: claim("patch", of("persistentvolumeclaims/status"), named("")), want: "NoOpinion", wantReason: nameless},
		{name: "update without a name, with a Deny on conditions", policies: some(writes, map[string]policy{"p": onVerbs(deny, "dryRun", "update")}), request: claim("update", named("")), want: "Deny", wantReason: nameless},
		{name: "update without a name of what is not listed", policies: all, request: claim("update", of("pods"), named("")), want: "NoOpinion", wantReason: folded},
		{name: "not listed", policies: all, request: claim("create", of("pods")), want: "NoOpinion", wantReason: folded},
		{name: "the same name in another group", policies: all, request: claim("create", func(a *authorizer.AttributesRecord) { a.APIGroup = "example.com" }), want: "NoOpinion", wantReason: folded},
		{name: "all groups", policies: all, request: claim("create", func(a *authorizer.AttributesRecord) { a.APIGroup = "*" }), want: "NoOpinion"},
		{name: "a subresource that is not listed", policies: all, request: claim("update", of("persistentvolumeclaims/scale")), want: "NoOpinion", wantReason: folded},
		{name: "all subresources", policies: all, request: claim("update", of("persistentvolumeclaims/*")), want: "NoOpinion"},
		{name: "the account of tokens", policies: all, request: claim("create", of("serviceaccounts")), want: "NoOpinion", wantReason: folded},
		{name: "token without a name", policies: all, request: claim("create", of("serviceaccounts/token")), want: "NoOpinion", wantReason: nameless},
		{name: "update of a token", policies: all, request: claim("update", of("serviceaccounts/token")), want: "NoOpinion", wantReason: folded},
		{name: "create of a status", policies: all, request: claim("create", of("persistentvolumeclaims/status"), named("c")), want: "NoOpinion", wantReason: folded},
		{name: "delete of a status", policies: all, request: claim("delete", of("persistentvolumeclaims/status")), want: "NoOpinion", wantReason: folded},
		{name: "a path", policies: map[string]policy{"p": {effect: allow, condition: "dryRun", rule: policyv1alpha1.PolicyRule{Verbs: []string{"create"}, NonResourceURLs: []string{"*"}}}},
			request: authorizer.AttributesRecord{User: claim("create").User, Verb: "create", Path: "/x"}, want: "NoOpinion", wantReason: folded},
		{name: "what this server enforces", policies: all, request: asAlice(nil), client: &place.Client{}, want: "Allow"},
		{name: "what this server enforces, on Deny", policies: unlessIt, request: asAlice(nil), want: "NoOpinion"},

		// Who, and where.
		{name: "left out", policies: all, request: claim("create", group(user.NodesGroup)), want: "NoOpinion", wantReason: leftOut},
		{name: "another version", policies: map[string]policy{"p": {effect: allow, condition: "dryRun"}}, request: claim("create", func(a *authorizer.AttributesRecord) { a.APIVersion = "v2" }), want: "NoOpinion", wantReason: notLocal},
		{name: "another kube-apiserver", policies: all, request: claim("create"), client: &place.Client{Name: "kube-apiserver", Certificate: "other"}, want: "NoOpinion", wantReason: notKnown},
		{name: "no certificate", policies: all, request: claim("create"), client: &place.Client{}, want: "NoOpinion", wantReason: notKnown},

		// Deny on conditions.
		{name: "Deny on conditions", policies: some(writes, map[string]policy{"d": onVerbs(deny, "dryRun", "create")}), request: claim("create"), want: "Deny", wantReason: strings.ReplaceAll(folded, "=p", "=d")},
		{name: "Deny on conditions alone", policies: map[string]policy{"d": onVerbs(deny, "dryRun", "create")}, request: claim("create"), want: "Deny"},
		{name: "Deny that fails", policies: some(writes, map[string]policy{"d": onVerbs(deny, `request.userInfo.extra["none"][0] == ""`, "create")}), request: claim("create"), want: "Deny"},
		{name: "Deny of an author of the namespace", policies: some(writes, map[string]policy{"demo/d": onVerbs(deny, "dryRun", "delete")}), request: claim("delete"), want: "Deny"},

		// Other ways to send the same write.
		{name: "update, patch denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, `request.verb == "patch"`, "update", "patch")}), request: claim("update"), want: "NoOpinion", wantReason: restricted},
		{name: "update, denied by a Deny of patch", policies: some(writes, map[string]policy{"d": onVerbs(deny, "", "patch")}), request: claim("update"), want: "Deny"},
		{name: "patch, update denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, isUpdate, "update", "patch")}), request: claim("patch"), want: "NoOpinion", wantReason: restricted},
		{name: "patch, update could be denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, isUpdate+" && dryRun", "update", "patch")}), request: claim("patch"), want: "NoOpinion", wantReason: restricted},
		{name: "patch, update denied to others", policies: some(writes, map[string]policy{"d": onVerbs(deny, isUpdate+` && request.userInfo.username == "bob"`, "update", "patch")}), request: claim("patch"), want: "Allow", wantAsked: 1},
		{name: "patch, update of another object denied", policies: some(writes, map[string]policy{"d": policyOn(onVerbs(deny, isUpdate, "update", "patch"), "x")}), request: claim("patch"), want: "Allow", wantAsked: 1},
		{name: "patch, update denied in a namespace", policies: some(writes, map[string]policy{"demo/d": onVerbs(deny, isUpdate, "update", "patch")}), request: claim("patch"), want: "NoOpinion", wantReason: restricted},
		{name: "patch, update held back", policies: some(writes, map[string]policy{"n": onVerbs(noOpinion, "", "update")}), request: claim("patch"), want: "Allow", wantAsked: 1},
		{name: "patch, create denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, "", "create")}), request: claim("patch"), want: "Allow", wantAsked: 1},
		{name: "patch, create could be denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, "dryRun", "create")}), request: claim("patch"), want: "NoOpinion", wantReason: restricted},
		{name: "patch, create without a name denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, `request.name == ""`, "create")}), request: claim("patch"), want: "NoOpinion", wantReason: restricted},
		{name: "status, update of the object denied", policies: some(writes, map[string]policy{"d": {effect: deny, rule: policyv1alpha1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}}}}),
			request: claim("patch", of("persistentvolumeclaims/status")), want: "Allow", wantAsked: 1},
		{name: "status, update denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, isUpdate, "update", "patch")}), request: claim("patch", of("persistentvolumeclaims/status")), want: "NoOpinion", wantReason: restricted},
		{name: "create, patch denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, "", "patch")}), request: claim("create"), want: "NoOpinion", wantReason: restricted},
		{name: "create, patch of one name denied", policies: some(writes, map[string]policy{"d": policyOn(onVerbs(deny, "", "patch"), "x")}), request: claim("create"), want: "NoOpinion", wantReason: restricted},
		{name: "create, patch of some names denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, `request.name.startsWith("x")`, "patch")}), request: claim("create"), want: "NoOpinion", wantReason: restricted},
		{name: "create, create of some names denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, `request.name.startsWith("x")`, "create")}), request: claim("create"), want: "NoOpinion", wantReason: restricted},
		{name: "create, update denied, where PUT creates nothing", policies: some(writes, map[string]policy{"d": onVerbs(deny, isUpdate, "update", "patch")}), request: claim("create"), want: "Allow"},
		{name: "create, update denied, where PUT creates", policies: some(writes, map[string]policy{"d": onVerbs(deny, isUpdate, "update", "patch")}), request: claim("create", of("services")), want: "NoOpinion", wantReason: restricted},
		{name: "create, delete denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, "", "delete")}), request: claim("create"), want: "Allow"},
		{name: "create of a namespace, patch denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, "", "patch")}), request: claim("create", blue, func(a *authorizer.AttributesRecord) { a.Namespace, a.Name = "", "" }), want: "NoOpinion", wantReason: restricted},
		{name: "patch of a namespace, POST denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, `request.namespace == ""`, "create")}), request: claim("patch", blue), want: "NoOpinion", wantReason: restricted},
		{name: "delete, deletecollection denied", policies: some(writes, map[string]policy{"d": onVerbs(deny, "", "deletecollection")}), request: claim("delete"), want: "Allow", wantAsked: 1},

		// What answers show.
		{name: "update without get", policies: all, request: claim("update"), rbac: &others{}, want: "NoOpinion", wantReason: unreadable, wantAsked: 1},
		{name: "patch without get", policies: all, request: claim("patch"), rbac: &others{}, want: "NoOpinion", wantReason: unreadable, wantAsked: 1},
		{name: "delete without get", policies: all, request: claim("delete"), rbac: &others{}, want: "NoOpinion", wantReason: unreadable, wantAsked: 1},
		{name: "deletecollection without list", policies: all, request: claim("deletecollection"), rbac: &others{allow: []string{"get persistentvolumeclaims/ demo:c", "get persistentvolumeclaims/ demo:"}}, want: "NoOpinion", wantReason: unreadable, wantAsked: 1},
		{name: "status with get of the status only", policies: all, request: claim("patch", of("persistentvolumeclaims/status")), rbac: &others{allow: []string{"get persistentvolumeclaims/status demo:c"}}, want: "NoOpinion", wantReason: unreadable, wantAsked: 1},
		{name: "create without get", policies: all, request: claim("create"), rbac: &others{}, want: "Allow"},
		{name: "an error that says Allow", policies: all, request: claim("update"), rbac: &others{allow: reads.allow, err: errors.New("x")}, want: "NoOpinion", wantReason: unreadable, wantAsked: 1},
		{name: "get by policies", policies: some(writes, map[string]policy{"g": onVerbs(allow, "", "get")}), request: claim("update"), rbac: &others{}, want: "Allow"},
		{name: "list by policies", policies: some(writes, map[string]policy{"g": onVerbs(allow, "", "list")}), request: claim("deletecollection"), rbac: &others{}, want: "Allow"},
		{name: "list by policies, of what is deleted", policies: some(writes, map[string]policy{"g": onVerbs(allow, onLabels, "list")}), request: claim("deletecollection", selecting("a=b")), rbac: &others{}, want: "Allow"},
		{name: "list by policies, of something else", policies: some(writes, map[string]policy{"g": onVerbs(allow, onLabels, "list")}), request: claim("deletecollection", selecting("b=a")), rbac: &others{}, want: "NoOpinion", wantReason: unreadable, wantAsked: 1},
		{name: "get on conditions", policies: some(writes, map[string]policy{"g": onVerbs(allow, "dryRun", "get")}), request: claim("update"), rbac: &others{}, want: "NoOpinion", wantReason: unreadable, wantAsked: 1},
		{name: "get on conditions, and by RBAC", policies: some(writes, map[string]policy{"g": onVerbs(allow, "dryRun", "get")}), request: claim("update"), want: "Allow", wantAsked: 1},
		{name: "get denied", policies: some(writes, map[string]policy{"g": onVerbs(deny, "", "get")}), request: claim("update"), want: "NoOpinion", wantReason: unreadable},
		{name: "get could be denied", policies: some(writes, map[string]policy{"g": onVerbs(deny, "dryRun", "get")}), request: claim("update"), want: "NoOpinion", wantReason: unreadable},

		// Path and selectors.
		{name: "Allow by selector", policies: map[string]policy{"p": onVerbs(allow, onLabels+" && dryRun", "deletecollection")}, request: claim("deletecollection", selecting("a=b")), want: "NoOpinion",
			wantReason: "policy=p reason=Error: its condition reads the path or a selector of the request, which is not seen at admission"},
		{name: "unconditional Allow by selector", policies: map[string]policy{"p": onVerbs(allow, onLabels, "deletecollection")}, request: claim("deletecollection", selecting("a=b")), want: "NoOpinion"},
		{name: "Allow without a selector", policies: map[string]policy{"p": onVerbs(allow, "!"+onLabels+" && dryRun", "deletecollection")}, request: claim("deletecollection"), want: "NoOpinion"},
		{name: "Allow by path", policies: map[string]policy{"p": onVerbs(allow, `request.path == "" && dryRun`, "create")}, request: claim("create"), want: "NoOpinion"},
		{name: "Allow by selector, and another", policies: map[string]policy{"p": onVerbs(allow, "dryRun", "deletecollection"), "q": onVerbs(allow, onLabels, "deletecollection")}, request: claim("deletecollection", selecting("a=b")), want: "Allow", wantReason: passes, wantAsked: 1},
		{name: "NoOpinion by selector", policies: map[string]policy{"p": onVerbs(allow, "dryRun", "deletecollection"), "n": onVerbs(noOpinion, onLabels+" && dryRun", "deletecollection")}, request: claim("deletecollection", selecting("a=b")), want: "NoOpinion"},
		{name: "Deny by selector", policies: map[string]policy{"p": onVerbs(allow, "dryRun", "deletecollection"), "d": onVerbs(deny, onLabels, "deletecollection")}, request: claim("deletecollection", selecting("a=b")), want: "Deny"},
		{name: "Deny by another selector", policies: map[string]policy{"p": onVerbs(allow, "dryRun", "deletecollection"), "d": onVerbs(deny, onLabels, "deletecollection")}, request: claim("deletecollection", selecting("b=a")), want: "Allow", wantAsked: 1},
		{name: "Allow by selector, not listed", policies: map[string]policy{"p": onVerbs(allow, onLabels, "deletecollection")}, request: claim("deletecollection", of("pods"), selecting("a=b")), want: "Allow"},

		// The delegation marker: Proviso decides itself, and asks what other authorizers say.
		{name: "marked", policies: all, request: claim("create", marked(authorization.DelegationMarker)), want: "NoOpinion"},
		{name: "marked, Allow", policies: map[string]policy{"p": {effect: allow}}, request: claim("update", marked(authorization.DelegationMarker)), want: "NoOpinion"},
		{name: "marked, Deny", policies: map[string]policy{"p": {effect: deny}}, request: claim("update", marked(authorization.DelegationMarker)), want: "Deny"},
		{name: "marked, Deny on conditions", policies: some(writes, map[string]policy{"d": {effect: deny, condition: "dryRun"}}), request: claim("update", marked(authorization.DelegationMarker)), want: "NoOpinion"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rbac, client := &others{allow: reads.allow}, goodClient
			if tc.rbac != nil {
				rbac = &others{allow: tc.rbac.allow, err: tc.rbac.err}
			}
			if tc.client != nil {
				client = *tc.client
			}
			door := newInnerDoorDecider(t, publish(t, tc.policies), rbac)
			decision, err := door.Decide(frontdoor.WithClient(t.Context(), client), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(decision); got != tc.want || tc.wantReason != "" && decision.Reason() != tc.wantReason {
				t.Errorf("got %s with the reason %q, want %s with %q", got, decision.Reason(), tc.want, tc.wantReason)
			}
			if len(rbac.asked) != tc.wantAsked {
				t.Errorf("kube-apiserver was asked %q, want %d checks", rbac.asked, tc.wantAsked)
			}
		})
	}
}

// TestInnerDoorWithoutOne has the front door as it is without an inner door.
func TestInnerDoorWithoutOne(t *testing.T) {
	t.Parallel()
	door := newDoor(t, publish(t, map[string]policy{"p": {effect: allow, condition: "dryRun"}}), enforcesMachines)
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
		decision, err := door.Decide(frontdoor.WithClient(t.Context(), goodClient), claim(verb))
		if err != nil || !decision.IsNoOpinion() {
			t.Errorf("%s: got %s, %v", verb, show(decision), err)
		}
	}
}

// TestCanary has canaries, which pass whatever policies say, and requests that are none.
func TestCanary(t *testing.T) {
	t.Parallel()
	denying := newInnerDoorDecider(t, publish(t, map[string]policy{"d": {everyone: true, effect: deny}}), &others{})
	loading := newInnerDoorDecider(t, &engine.Source{}, &others{})
	canary := func(changes ...func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		return claim("update", append([]func(*authorizer.AttributesRecord){of("configmaps"), named(innerdoor.CanaryName), func(a *authorizer.AttributesRecord) {
			a.Namespace, a.User = "proviso-system", innerdoor.CanaryIdentity(innerdoor.NewNonce())
		}}, changes...)...)
	}
	for _, door := range []*frontdoor.Decider{denying, loading} {
		if decision, err := door.Decide(t.Context(), canary()); err != nil || !decision.IsAllow() {
			t.Errorf("got %s, %v, want Allow", show(decision), err)
		}
	}
	withMarker := func(a *authorizer.AttributesRecord) {
		extra := maps.Clone(a.User.GetExtra())
		extra[authorization.DelegationMarker] = []string{"true"}
		a.User = &user.DefaultInfo{Name: a.User.GetName(), Groups: a.User.GetGroups(), Extra: extra}
	}
	for name, request := range map[string]authorizer.AttributesRecord{
		"marked": canary(withMarker), "another namespace": canary(func(a *authorizer.AttributesRecord) { a.Namespace = "demo" }), "another object": canary(named("x")),
		"a path": canary(func(a *authorizer.AttributesRecord) { a.ResourceRequest = false }),
	} {
		if decision, err := denying.Decide(t.Context(), request); err != nil || decision.IsAllow() {
			t.Errorf("%s: got %s, %v, want no Allow", name, show(decision), err)
		}
	}
	impersonation := authorizer.AttributesRecord{User: canary().User, Verb: "impersonate", APIGroup: "authentication.k8s.io", APIVersion: "v1", Resource: "userextras", Subresource: strings.ToUpper(innerdoor.CanaryExtra), ResourceRequest: true}
	if decision, err := newInnerDoorDecider(t, publish(t, map[string]policy{"p": {everyone: true, effect: allow}}), &others{}).Decide(t.Context(), impersonation); err != nil || !decision.IsDeny() {
		t.Errorf("impersonating a canary: got %s, %v, want Deny", show(decision), err)
	}
}

// TestInnerDoorIsComplete refuses an inner door that lacks a function.
func TestInnerDoorIsComplete(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*place.InnerDoor){
		"Listed": func(i *place.InnerDoor) { i.Listed = nil }, "LeavesOut": func(i *place.InnerDoor) { i.LeavesOut = nil },
		"IsLocal": func(i *place.InnerDoor) { i.IsLocal = nil }, "Known": func(i *place.InnerDoor) { i.Known = nil },
	} {
		door := newInnerDoor()
		remove(door)
		if _, err := place.NewTable(nil, door); err == nil {
			t.Errorf("without %s: no error", name)
		}
	}
}

// naivePolicy is a policy as the naive rule sees it.
type naivePolicy struct {
	effect              policyv1alpha1.PolicyEffect
	verb, name          string // the name is empty for all names
	condition           string
	namespace, resource string
}

// The conditions of naive policies.
const (
	isTrue     = ""
	isResidual = "dryRun"
	isNamedX   = `request.name == "x"`
	isNotNamed = `request.name == ""`
	isSelected = `request.labelSelector.requirements.exists(r, r.key == "a")`
	selectedIf = isSelected + " && dryRun"
	fails      = `request.userInfo.extra["none"][0] == ""`
)

var naiveConditions = []string{isTrue, isResidual, isResidual, isResidual, isNamedX, isNotNamed, isSelected, selectedIf, fails}

type truth uint8

const (
	no truth = iota
	yes
	maybe
	failed
)

// value is the condition for a request. An unknown name makes a condition on it fail.
func (p naivePolicy) value(a authorizer.AttributesRecord, anyName bool) truth {
	is := func(value bool, then truth) truth {
		if value {
			return then
		}
		return no
	}
	selected := len(a.LabelSelectorRequirements) > 0 && a.LabelSelectorRequirements[0].Key() == "a"
	switch p.condition {
	case isTrue:
		return yes
	case isResidual:
		return maybe
	case isNamedX, isNotNamed:
		if anyName {
			return failed
		}
		return is(p.condition == isNamedX && a.Name == "x" || p.condition == isNotNamed && a.Name == "", yes)
	case isSelected:
		return is(selected, yes)
	case selectedIf:
		return is(selected, maybe)
	default:
		return failed
	}
}

func (p naivePolicy) matches(a authorizer.AttributesRecord, anyName bool) bool {
	return (p.verb == a.Verb || p.effect == deny && isUpdate(p.verb) && isUpdate(a.Verb)) && p.resource == a.Resource+"/"+a.Subresource && (p.namespace == "" || p.namespace == a.Namespace) && (p.name == "" || anyName || p.name == a.Name)
}

// naive decides by a list of policies, as ADR 31 describes it.
type naive struct {
	policies []naivePolicy
	rbac     []string
	known    bool
}

// mayDeny reports whether a request is denied, or could be.
func (n naive) mayDeny(a authorizer.AttributesRecord, anyName bool) bool {
	return slices.ContainsFunc(n.policies, func(p naivePolicy) bool {
		return p.effect == deny && p.matches(a, anyName) && p.value(a, anyName) != no
	})
}

func (n naive) with(a authorizer.AttributesRecord, verb, name string) authorizer.AttributesRecord {
	a.Verb, a.Name = verb, name
	return a
}

// siblings reports whether policies keep the request from passing by what they say about other verbs.
func (n naive) siblingsMayBeDenied(a authorizer.AttributesRecord) bool {
	by := func(verb, name string) bool { return n.mayDeny(n.with(a, verb, name), false) }
	byAnyName := func(verb string) bool { return n.mayDeny(n.with(a, verb, ""), true) }
	putCreates := a.Resource == "services"
	isMain := a.Subresource == ""
	switch a.Verb {
	case "update":
		if by("patch", a.Name) {
			return true
		}
		return isMain && putCreates && !by("create", a.Name) && by("create", "")
	case "patch":
		if by("update", a.Name) {
			return true
		}
		return isMain && !by("create", a.Name) && by("create", "")
	case "create":
		switch {
		case !isMain:
			return false
		case a.Name == "":
			return byAnyName("create") || byAnyName("patch") || putCreates && byAnyName("update")
		case !by("patch", a.Name) && (by("create", "") || putCreates && by("update", a.Name)):
			return true
		case putCreates && !by("update", a.Name) && (by("create", "") || by("patch", a.Name)):
			return true
		}
	}
	return false
}

func (n naive) mayRead(a authorizer.AttributesRecord) bool {
	verb := map[string]string{"update": "get", "patch": "get", "delete": "get", "deletecollection": "list"}[a.Verb]
	if verb == "" {
		return true
	}
	read := n.with(a, verb, a.Name)
	read.Subresource = ""
	if n.mayDeny(read, false) {
		return false
	}
	var allowed, held bool
	for _, p := range n.policies {
		if p.matches(read, false) {
			value := p.value(read, false)
			allowed = allowed || p.effect == allow && value == yes
			held = held || p.effect == noOpinion && value != no
		}
	}
	return allowed && !held || slices.Contains(n.rbac, verb)
}

// decide returns Allow, Deny or NoOpinion.
func (n naive) decide(a authorizer.AttributesRecord) string {
	if n.mayDeny(a, false) {
		return "Deny" // what can become Deny is Deny
	}
	var allowed, perhaps, held, holds bool
	for _, p := range n.policies {
		if !p.matches(a, false) {
			continue
		}
		readsSelector := p.condition == isSelected || p.condition == selectedIf
		switch value := p.value(a, false); {
		case p.effect == allow && !readsSelector:
			allowed, perhaps = allowed || value == yes, perhaps || value == maybe
		case p.effect == noOpinion:
			held = held || value == yes || value == failed || value == maybe && readsSelector
			holds = holds || value == maybe
		}
	}
	switch {
	case held || !allowed && !perhaps:
		return "NoOpinion"
	case allowed && !holds:
		return "Allow" // without conditions
	case !n.known || n.siblingsMayBeDenied(a) || !n.mayRead(a):
		return "NoOpinion"
	}
	return "Allow"
}

// TestInnerDoorAgreesWithTheRule decides random requests by random policies, and compares with the rule written out.
func TestInnerDoorAgreesWithTheRule(t *testing.T) {
	t.Parallel()
	conditions, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	passed, kept := 0, 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 16))
		n := naive{known: r.IntN(8) > 0}
		for _, verb := range []string{"get", "list"} {
			if r.IntN(3) > 0 {
				n.rbac = append(n.rbac, verb)
			}
		}
		changes := map[engine.Key]*engine.Policy{}
		for i := range 1 + r.IntN(12) {
			p := randomNaivePolicy(r)
			n.policies = append(n.policies, p)
			key := engine.Key{Namespace: p.namespace, Name: fmt.Sprint("p", i)}
			rule := policyv1alpha1.PolicyRule{Verbs: []string{p.verb}, APIGroups: []string{""}, Resources: []string{strings.TrimSuffix(p.resource, "/")}}
			if p.name != "" {
				rule.ResourceNames = []string{p.name}
			}
			changes[key], err = engine.New(key, &policyv1alpha1.AuthorizationPolicySpec{
				Effect: p.effect, Condition: p.condition, Rules: []policyv1alpha1.PolicyRule{rule}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "alice"}},
			}, compiler)
			if err != nil {
				t.Fatal(err)
			}
		}
		source := &engine.Source{}
		source.Publish(engine.NewBuilder().Apply(changes))
		rbac := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if slices.Contains(n.rbac, a.GetVerb()) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})
		door := newInnerDoorDecider(t, source, rbac)
		ctx := t.Context()
		if n.known {
			ctx = frontdoor.WithClient(ctx, goodClient)
		}
		for range 60 {
			a := randomWrite(r)
			decision, err := door.Decide(ctx, a)
			if err != nil {
				t.Fatal(err)
			}
			want := n.decide(a)
			if got := show(decision); got != want {
				t.Fatalf("seed %d: %s %s/%s %q selecting %v: got %s (%s), want %s of\n%+v", seed, a.Verb, a.Resource, a.Subresource, a.Name, a.LabelSelectorRequirements, got, decision.Reason(), want, n)
			}
			if isOnConditions := strings.HasPrefix(decision.Reason(), "allowed if"); isOnConditions {
				passed++
			} else if want == "NoOpinion" && slices.ContainsFunc(n.policies, func(p naivePolicy) bool { return p.effect == allow && p.matches(a, false) }) {
				kept++
			}
		}
	}
	if passed < 200 || kept < 200 {
		t.Errorf("%d requests passed on conditions, and %d did not: too few for a test", passed, kept)
	}
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func randomNaivePolicy(r *rand.Rand) naivePolicy {
	return naivePolicy{
		effect: pick(r, allow, allow, allow, allow, deny, noOpinion), verb: pick(r, "get", "list", "create", "create", "update", "update", "patch", "patch", "delete", "deletecollection"),
		name: pick(r, "", "", "", "x"), condition: pick(r, naiveConditions...), namespace: pick(r, "", "", "demo"),
		resource: pick(r, "persistentvolumeclaims/", "persistentvolumeclaims/", "persistentvolumeclaims/status", "services/"),
	}
}

func randomWrite(r *rand.Rand) authorizer.AttributesRecord {
	a := claim(pick(r, "create", "create", "update", "patch", "delete", "deletecollection"), of(pick(r, "persistentvolumeclaims", "persistentvolumeclaims", "services")))
	if a.Verb == "update" || a.Verb == "patch" {
		of(pick(r, "persistentvolumeclaims", "persistentvolumeclaims/status", "services"))(&a)
	}
	if a.Name != "" || a.Verb == "create" && r.IntN(2) == 0 {
		a.Name = pick(r, "x", "y")
	}
	if a.Verb == "deletecollection" && r.IntN(2) == 0 {
		a.LabelSelectorRequirements, _ = labels.ParseToRequirements(pick(r, "a=b", "b=a"))
	}
	return a
}

// TestInnerDoorIsKnownByCertificate has two kube-apiservers with certificates of the same name: requests pass on conditions for
// the one that is known.
func TestInnerDoorIsKnownByCertificate(t *testing.T) {
	t.Parallel()
	source := publish(t, map[string]policy{"p": {effect: allow, condition: "dryRun"}})
	var known atomic.Pointer[place.Client]
	inner := newInnerDoor()
	inner.Listed = func(innerdoor.Resource) bool { return true }
	inner.IsLocal = func(schema.GroupVersion) bool { return true }
	var seen sync.Map
	inner.Known = func(client *place.Client) bool {
		seen.Store(*client, true)
		return known.Load() != nil && *known.Load() == *client
	}
	door, err := frontdoor.New(frontdoor.Config{Policies: frontdoor.Policies{Chain: chainOf(t, source), Source: source}, KubeAPIServer: &others{}, Places: places{enforces: func(authorizer.Attributes) bool { return false }, inner: inner}.table()})
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(t, door)
	one := l.client(t, l.clientPair(t, "kube-apiserver"))
	other := l.client(t, l.clientPair(t, "kube-apiserver"))
	ask := func(client *http.Client) bool {
		response, err := client.Post("https://"+l.address+frontdoor.AuthorizePath, "application/json", strings.NewReader(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
			"spec": {"user": "alice", "resourceAttributes": {"verb": "create", "version": "v1", "resource": "persistentvolumeclaims", "namespace": "demo"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(response.Body).Decode(&review); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("got %d, %v", response.StatusCode, err)
		}
		return review.Status.Allowed
	}
	if ask(one) || ask(other) {
		t.Error("allowed for a kube-apiserver that is not known")
	}
	certificates := map[string]bool{}
	seen.Range(func(client, _ any) bool {
		c := client.(place.Client)
		certificates[c.Certificate] = true
		if c.Name != "kube-apiserver" || len(c.Certificate) != 64 {
			t.Errorf("got the client %+v", c)
		}
		return true
	})
	if len(certificates) != 2 {
		t.Fatalf("got the certificates %v of two clients", certificates)
	}
	allowed := 0
	for certificate := range certificates {
		known.Store(&place.Client{Name: "kube-apiserver", Certificate: certificate})
		for _, client := range []*http.Client{one, other} {
			if ask(client) {
				allowed++
			}
		}
	}
	if allowed != 2 {
		t.Errorf("allowed %d times, want once for each certificate", allowed)
	}
}

// TestInnerDoorWithoutSlots has decisions about a request, or about another way to send it, that find no slot: none makes the rule
// less strict.
func TestInnerDoorWithoutSlots(t *testing.T) {
	t.Parallel()
	source := publish(t, map[string]policy{"p": onVerbs(allow, "dryRun", "patch"), "d": onVerbs(deny, `request.name == ""`, "create")})
	door := newInnerDoorDecider(t, source, &others{allow: []string{"get persistentvolumeclaims/ demo:c"}})
	ctx := frontdoor.WithClient(t.Context(), goodClient)
	for at := range 6 {
		if got, err := door.DecideWithoutSlot(ctx, claim("patch"), at); got.IsAllow() {
			t.Errorf("decision %d finds no slot: got Allow (%s: %v)", at, got.Reason(), err)
		}
	}
}
