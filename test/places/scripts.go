/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// scripted is how many of a hundred cases follow a script.
const scripted = 97

// script makes cases with an answer that is rare among cases by chance. All else is chosen at random.
type script struct {
	// often is how many times more often than others the script is chosen. With -1 it is only for the last cases. The numbers make each
	// class occur in 50 of 5000 cases.
	often int
	// last is how many of the last cases are made from the script, for classes that are still too rare in the cases before.
	last    int
	focus   focus
	targets []target
	verbs   []string
	// isHealthy says that the facts have no fault.
	isHealthy      bool
	facts, request func(*generator)
	policies       []plan
}

// plan is a policy of a script.
type plan struct {
	effect     policyv1alpha1.PolicyEffect
	conditions []string
	// verbs are the verbs of the rule. Without any, the rule has the verb of the request, or all writes.
	verbs []string
	// others says that the rule has the other writes than the request.
	others bool
	// audits is how many of a hundred such policies are in Audit.
	audits int
	// hadBefore is the condition of the policy before. If it is empty, the policy was the same.
	hadBefore string
	// change changes the specification.
	change func(*generator, *policyv1alpha1.AuthorizationPolicySpec)
}

const (
	allow     = policyv1alpha1.PolicyEffectAllow
	deny      = policyv1alpha1.PolicyEffectDeny
	noOpinion = policyv1alpha1.PolicyEffectNoOpinion
)

var (
	allWrites = []string{"create", "update", "patch", "delete", "deletecollection"}
	// certain are conditions on the object that no operation makes known, and translated ones those that barriers have for all writes.
	certain    = []string{`dryRun`, `!dryRun`, `(object != null ? object : oldObject).metadata.name == "a"`}
	translated = []string{`dryRun`, `oldObject != null && oldObject.metadata.name == "a"`, `operation == "DELETE" && oldObject.metadata.name == "b"`}
	listable   = atKubeAPIServer[:6]
)

// before returns the specification that the policy had before, or nil if it was the same.
func (p *plan) before(spec *policyv1alpha1.AuthorizationPolicySpec) *policyv1alpha1.AuthorizationPolicySpec {
	if p.hadBefore == "" {
		return nil
	}
	spec.Condition = p.hadBefore
	return spec
}

func (g *generator) planned(p *plan) (namespace string, spec policyv1alpha1.AuthorizationPolicySpec) {
	verbs := p.verbs
	switch {
	case p.others:
		for _, verb := range allWrites {
			if verb != g.verb {
				verbs = append(verbs, verb)
			}
		}
	case verbs == nil:
		verbs = one(g, []string{g.verb}, allWrites)
		if g.verb == "update" || g.verb == "patch" {
			verbs = one(g, []string{"update", "patch"}, allWrites)
		}
		if g.verb == "get" || g.verb == "list" {
			verbs = []string{g.verb, "create"}
		}
	}
	path := g.target.Resource.Resource
	if g.target.Subresource != "" {
		path += "/" + g.target.Subresource
	}
	spec = policyv1alpha1.AuthorizationPolicySpec{
		Effect: p.effect, Enforcement: policyv1alpha1.PolicyEnforcementEnforce, Subjects: []rbacv1.Subject{subject(rbacv1.GroupKind, user.AllAuthenticated)},
		Rules: []policyv1alpha1.PolicyRule{{Verbs: verbs, APIGroups: []string{g.target.Group}, APIVersions: one(g, []string{g.target.version}, []string{"*"}, []string{"*"}), Resources: []string{path}}},
	}
	if len(p.conditions) > 0 {
		spec.Condition = one(g, p.conditions...)
	}
	if g.chance(p.audits) {
		spec.Enforcement = policyv1alpha1.PolicyEnforcementAudit
	}
	if g.chance(25) && g.Request.ResourceAttributes != nil && g.Request.ResourceAttributes.Namespace == "shop" {
		namespace = "shop"
	}
	if p.change != nil {
		p.change(g, &spec)
	}
	switch {
	case len(spec.Rules[0].NonResourceURLs) > 0:
		namespace = ""
	case spec.Description == ofNamespace:
		namespace = "a"
	}
	return namespace, spec
}

// simple makes the facts have what one place needs, and no other place.
func simple(changes ...func(*generator)) func(*generator) {
	return func(g *generator) {
		f := &g.Facts
		f.InnerDoor, f.Barriers, f.After, f.Fields, f.LeavesConditions = nil, "", "", "", false
		for _, change := range changes {
			change(g)
		}
	}
}

// withDoor adds an inner door that has the resource of the request.
func withDoor(g *generator) {
	g.Facts.InnerDoor = &InnerDoor{Resources: []Resource{g.target.Resource}, AsksOthers: g.chance(50)}
	if g.chance(50) {
		g.Facts.InnerDoor.Users, g.Facts.InnerDoor.Groups = []string{"backup"}, []string{user.NodesGroup}
	}
}

func withBarriers(g *generator) { g.Facts.Barriers = BarriersWritten }

func withHandling(g *generator) {
	g.Facts.LeavesConditions = true
	for i := range g.Facts.Servers {
		g.Facts.Servers[i].Conditions = Handles
	}
}

func withReads(answers ...Answer) func(*generator) {
	return func(g *generator) { g.Facts.OthersAllow.Reads = one(g, answers...) }
}

func withAfter(answers ...After) func(*generator) {
	return func(g *generator) { g.Facts.After = one(g, answers...) }
}

func withFields(g *generator) {
	g.Facts.Fields, g.Facts.OthersAllow.Fields = one(g, FieldsNone, FieldsNone, FieldsExcluded), one(g, AnswerAllow, AnswerAllow, AnswerNo, AnswerError)
}

// withFault adds a fault to all servers.
func withFault(change func(*generator, *Server)) func(*generator) {
	return func(g *generator) {
		for i := range g.Facts.Servers {
			change(g, &g.Facts.Servers[i])
		}
	}
}

var noCalls = withFault(func(g *generator, s *Server) {
	s.InnerDoor = one(g, DoorNotCalled, DoorOtherManifest, DoorRefusedBefore, DoorOtherReplica, DoorCached, DoorSeveral)
})

// withoutServers makes the kube-apiservers unknown in one way.
func withoutServers(g *generator) {
	f := &g.Facts
	switch g.IntN(7) {
	case 0, 1:
		f.HasList = false
	case 2:
		f.HasLeases = false
	case 3:
		f.Unlisted = 1
	case 4:
		f.IsProbed = false
	case 5:
		f.HasServices = false
	case 6:
		withFault(func(_ *generator, s *Server) { s.IsSilent = true })(g)
	}
}

func withServiceByAnother(g *generator) {
	for i := range g.Facts.Services {
		if s := &g.Facts.Services[i]; s.Group == g.target.Group && s.Version == g.target.version {
			s.By, s.IsManaged = "other", false
		}
	}
}

func asLeftOut(g *generator) {
	withMode(g)
	g.Request.User, g.Request.Groups = "system:node:n1", []string{user.NodesGroup, user.AllAuthenticated}
}

func withMode(g *generator) { g.Request.Mode = authorizationv1alpha1.ConditionsModeHumanReadable }

func anyAllow(_ *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
	spec.Rules[0].Verbs = []string{"*"}
}

// firstOfLast is the number of the first of the last cases.
const firstOfLast = 4600

// chooseScript chooses a script: by chance, and for the last cases by their number.
func (g *generator) chooseScript() {
	if at := g.Number%defaultCases - firstOfLast; at >= 0 {
		for i := range scripts {
			if at -= scripts[i].last; at < 0 {
				g.script, g.Script = scripts[i], i+1
				return
			}
		}
	}
	if !g.chance(scripted) {
		return
	}
	all := 0
	for i := range scripts {
		all += 1 + scripts[i].often
	}
	at := g.IntN(all)
	for i := range scripts {
		if at -= 1 + scripts[i].often; at < 0 {
			g.script, g.Script = scripts[i], i+1
			return
		}
	}
}

var scripts = []script{
	// The inner door, and what stands against it.
	{often: 4, focus: onInnerDoor, targets: listable, verbs: []string{"create", "update", "patch"}, isHealthy: true, facts: simple(withDoor, withReads(AnswerAllow)), policies: []plan{
		{effect: allow, conditions: certain, verbs: []string{"create", "update", "patch"}}, {effect: deny, others: true, change: func(g *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
			spec.Condition = one(g, "", "dryRun")
			if g.verb != "create" { // a Deny of one of update and patch denies both
				spec.Rules[0].Verbs, spec.Condition = allWrites, strings.TrimSuffix(fmt.Sprintf("request.verb != %q && %s", g.verb, spec.Condition), " && ")
			}
		}},
	}},
	{focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor, withReads(AnswerAllow)), policies: []plan{
		{effect: allow, conditions: certain, verbs: []string{"create", "update", "patch"}}, {effect: deny, verbs: []string{"patch"}, conditions: certain},
	}},
	{last: 70, focus: onInnerDoor, targets: listable, verbs: []string{"update", "patch", "delete", "deletecollection"}, isHealthy: true, facts: simple(withDoor, withReads(AnswerNo, AnswerError)), policies: []plan{{effect: allow, conditions: certain}}},
	{often: 6, focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor), policies: []plan{{effect: allow, conditions: onUnseen}, {effect: noOpinion, conditions: onUnseen, audits: 10, verbs: []string{"update", "patch"}}}},
	{often: 5, focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor), request: asLeftOut, policies: []plan{{effect: allow, conditions: certain}}},
	{often: 4, focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor, withServiceByAnother), request: withMode, policies: []plan{{effect: allow, conditions: certain, audits: 10}}},
	{often: 2, focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor, noCalls), request: withMode, policies: []plan{{effect: allow, conditions: certain}}},
	{often: 8, focus: onInnerDoor, targets: listable, verbs: allWrites, facts: simple(withDoor, withoutServers), policies: []plan{{effect: allow, conditions: certain}}},
	{often: 5, focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor, withAfter(AfterNoOpinion, AfterAllowOnConditions), func(g *generator) { g.Facts.InnerDoor.AsksOthers = true }), policies: []plan{{effect: allow, conditions: certain}}},
	{focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor, withReads(AnswerAllow)), request: withMode, policies: []plan{{effect: allow, conditions: certain}, {effect: noOpinion, conditions: certain, audits: 50}}},
	{often: 13, focus: onInnerDoor, targets: listable, verbs: []string{"create", "update", "patch"}, isHealthy: true, facts: simple(withDoor, withFields, withReads(AnswerAllow), func(g *generator) {
		g.Facts.OthersAllow.Fields = one(g, AnswerAllow, AnswerNo, AnswerError)
	}), policies: []plan{{effect: noOpinion, conditions: onRequest}}},
	{often: 5, focus: onInnerDoor, targets: listable, verbs: []string{"update", "patch"}, isHealthy: true, facts: simple(withDoor, withFields, func(g *generator) { g.Facts.OthersAllow.Fields = AnswerAllow }, withReads(AnswerNo, AnswerError)), policies: []plan{{effect: noOpinion, conditions: onRequest}}},
	{often: 4, focus: onInnerDoor, targets: listable, verbs: []string{"update", "patch", "delete"}, isHealthy: true, facts: simple(withDoor), request: func(g *generator) { g.Request.ResourceAttributes.Name = "" }, policies: []plan{{effect: allow, conditions: certain}}},
	// kube-apiservers that handle conditions.
	{focus: onHandling, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withHandling, withReads(AnswerAllow)), request: withMode, policies: []plan{{effect: allow, conditions: certain}, {effect: deny, conditions: certain, audits: 30}}},
	{often: 5, focus: onHandling, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withHandling, withReads(AnswerAllow)), policies: []plan{{effect: allow, conditions: certain}, {effect: noOpinion, conditions: certain, audits: 60}}},
	{often: 20, focus: onHandling, targets: listable, verbs: allWrites, facts: simple(withHandling, withBarriers, withoutServers), policies: []plan{{effect: allow, conditions: certain}, {effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 8, last: 22, focus: onHandling, targets: listable, verbs: allWrites, facts: simple(withHandling, withBarriers, withoutServers), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: noOpinion, conditions: certain}}},
	{often: 2, last: 33, focus: onHandling, targets: listable, verbs: allWrites, facts: simple(withHandling, withBarriers, withoutServers), policies: []plan{{effect: allow, conditions: certain, audits: 30}, {effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 4, last: 4, focus: onHandling, targets: listable[:4], verbs: allWrites, isHealthy: true, facts: simple(withHandling, func(g *generator) { g.Facts.Fields = FieldsExcluded }), policies: []plan{{effect: allow, conditions: certain}}},
	{often: 4, focus: onHandling, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withHandling, withServiceByAnother), policies: []plan{{effect: allow, conditions: certain, change: func(g *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
		spec.Rules[0].APIVersions = one(g, []string{g.target.version}, []string{g.target.version, "v2"})
	}}}},
	{often: 4, focus: onHandling, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withHandling, func(g *generator) { g.Facts.HasServices = false }), policies: []plan{{effect: allow, conditions: certain}, {effect: allow, conditions: certain, audits: 20}}},
	// Barriers.
	{focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 1, focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: allow, change: anyAllow}}},
	{often: 3, focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers, withDoor, withReads(AnswerAllow)), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: allow, conditions: certain}}},
	{often: 4, focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites, audits: 100}}},
	{focus: onBarriers, targets: listable, verbs: allWrites, facts: simple(withBarriers, withoutServers), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites, audits: 10}}},
	{focus: onBarriers, targets: listable, verbs: allWrites, facts: simple(withBarriers, withoutServers), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 1, focus: onBarriers, targets: listable, verbs: allWrites, facts: simple(withBarriers, withFault(func(g *generator, s *Server) {
		s.Barriers = one(g, LoadedBefore, LoadedBefore, LoadedNone, LoadedRefused, LoadedUncertified)
	})), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: deny, conditions: translated, verbs: allWrites}}},
	{focus: onBarriers, targets: listable, verbs: allWrites, facts: simple(withBarriers, withFault(func(g *generator, s *Server) {
		s.Barriers = one(g, LoadedBefore, LoadedNone, LoadedRefused, LoadedUncertified, LoadedUncertified)
	})), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 12, last: 33, focus: onBarriers, targets: listable, verbs: allWrites, facts: simple(func(g *generator) {
		g.Facts.Barriers = one(g, BarriersElsewhere, BarriersRefused, BarriersTaken, BarriersUnread, BarriersUnseen, BarriersUnmarked)
	}), isHealthy: true, policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 1, last: 12, focus: onBarriers, targets: listable, verbs: allWrites, facts: simple(func(g *generator) {
		g.Facts.Barriers = one(g, BarriersElsewhere, BarriersRefused, BarriersTaken, BarriersUnread, BarriersUnseen, BarriersUnmarked)
	}), isHealthy: true, policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 2, focus: onBarriers, targets: listable, verbs: allWrites, facts: simple(func(g *generator) {
		g.Facts.Barriers = one(g, BarriersElsewhere, BarriersRefused, BarriersTaken, BarriersUnread, BarriersUnseen, BarriersUnmarked)
	}), isHealthy: true, policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: allow, change: anyAllow}}},
	{often: 8, focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers, withFault(func(_ *generator, s *Server) { s.Barriers = LoadedBefore })), policies: []plan{{effect: deny, conditions: translated[:1], hadBefore: "!dryRun", verbs: allWrites}}},
	{focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers, withoutServers), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 6, focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers, withFault(func(g *generator, s *Server) {
		s.Barriers = one(g, LoadedNone, LoadedRefused, LoadedUncertified)
	})), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}}},
	{often: 9, focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(func(g *generator) {
		g.Facts.HasFrontDoor = false
		g.Facts.Barriers = one(g, BarriersWritten, BarriersElsewhere, BarriersRefused, BarriersRefused, BarriersTaken, BarriersTaken, BarriersUnread, BarriersUnseen, BarriersUnmarked)
	}, withFault(func(g *generator, s *Server) { s.Barriers = one(g, LoadedAll, LoadedBefore, LoadedNone) })), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: deny, conditions: onUnseen, verbs: allWrites, audits: 50}}},
	{often: 2, focus: onBarriers, targets: listable, isHealthy: true, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: []string{`dryRun`}, change: otherVersion("update")}, {effect: deny, conditions: creating, change: ofVersion("create", "update", "patch")}}},
	{often: 4, focus: onBarriers, targets: listable, isHealthy: true, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: []string{"dryRun"}, change: otherVersion("create")}, {effect: deny, conditions: creating, change: ofVersion("update", "patch")}}},
	{often: 2, focus: onBarriers, targets: listable, isHealthy: true, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: []string{`request.verb == "patch" && dryRun`}, verbs: allWrites}, {effect: deny, conditions: creating[1:], verbs: []string{"update", "patch"}}}},
	{focus: onBarriers, targets: withoutInnerDoor[:1], facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: certain, verbs: []string{"create"}}, {effect: deny, conditions: certain, verbs: []string{"get"}}}},
	{often: 3, focus: onBarriers, targets: listable, isHealthy: true, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: certain, change: ofPaths}, {effect: deny, conditions: onUnseen}}},
	{often: 15, focus: onBarriers, targets: slices.Concat(listable, withoutInnerDoor), facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: untranslatable, change: oddRule}, {effect: deny, conditions: untranslatable, change: oddRule}}},
	{often: 6, focus: onBarriers, targets: namespacesOnly, isHealthy: true, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: certain, change: inNamespace}, {effect: deny, conditions: certain, change: func(g *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
		inNamespace(g, spec)
		spec.Rules[0].Resources = one(g, []string{"*"}, []string{"namespaces", "pods"})
	}}}},
	{often: 7, last: 16, focus: onBarriers, targets: namespacesOnly, facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: slices.Concat(onNamespace, translated)}, {effect: deny, conditions: []string{`namespaceObject != null && dryRun`, `dryRun`}, verbs: []string{"create"}}}},
	{often: 2, last: 30, focus: onBarriers, targets: withoutInnerDoor[2:], facts: simple(withBarriers), policies: []plan{{effect: deny, conditions: certain, verbs: allWrites}, {effect: deny, conditions: certain, verbs: allWrites}}},
	{often: 5, focus: onBarriers, targets: atProviso, isHealthy: true, facts: simple(withBarriers, withServiceByAnother), policies: []plan{{effect: deny, conditions: certain}}},
	{often: 3, focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers, withFault(func(_ *generator, s *Server) { s.Barriers = LoadedUncertified })), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: allow}}},
	{focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withBarriers, withServiceByAnother), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: deny, conditions: slices.Concat(translated, onUnseen)}}},
	// This server.
	{often: 4, focus: onServer, targets: atProviso[3:4], verbs: []string{"get"}, isHealthy: true, facts: simple(func(g *generator) { g.Facts.Gates.ConnectWithCreate = true }), policies: []plan{{effect: allow, change: func(g *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
		spec.Rules[0].Verbs = []string{"create", "get"}
		spec.Condition = one(g, "", "dryRun", "object != null")
	}}}},
	{often: 3, last: 16, focus: onServer, targets: atProviso[:2], verbs: allWrites, isHealthy: true, facts: simple(), policies: []plan{{effect: deny, conditions: certain, audits: 20}, {effect: noOpinion, conditions: certain, verbs: []string{"get", "list", "create"}}}},
	{focus: onServer, targets: slices.Concat(atProviso[:3], atProviso[7:]), verbs: []string{"update", "patch"}, isHealthy: true, facts: simple(withFields), policies: []plan{{effect: noOpinion, conditions: onRequest}}},
	{often: 4, last: 7, focus: onServer, targets: atProviso, isHealthy: true, facts: simple(), request: func(g *generator) {
		withMode(g)
		g.Request.ResourceAttributes.Version = one(g, "", "*")
	}, policies: []plan{{effect: allow, conditions: certain}}},
	// Another server.
	{often: 5, last: 2, focus: onOthers, targets: atOthers[:2], verbs: allWrites, isHealthy: true, facts: simple(withThings), policies: []plan{{effect: allow, conditions: certain, audits: 20}}},
	{often: 2, focus: onOthers, targets: atOthers[:2], verbs: allWrites, isHealthy: true, facts: simple(withThings), policies: []plan{{effect: deny, conditions: certain, audits: 30}}},
	{often: 4, focus: onOthers, targets: atOthers[:2], verbs: allWrites, isHealthy: true, facts: simple(withThings, func(g *generator) {
		g.Facts.Configurations[0].Spec.Service.Name = "others"
	}), request: withMode, policies: []plan{{effect: allow, conditions: certain}}},
	{often: 4, focus: onOthers, targets: atOthers[:1], verbs: allWrites, isHealthy: true, facts: simple(withThings, func(g *generator) { g.Facts.HasMoved = true }), request: withMode, policies: []plan{{effect: allow, conditions: certain}}},
	{often: 2, focus: onServer, targets: slices.Concat(atProviso, listable), isHealthy: true, facts: simple(withAfter(AfterAllow)), policies: []plan{{effect: noOpinion, conditions: onRequest}}},
	{focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(func(g *generator) { g.Facts.Barriers = BarriersUnmarked }), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}}},
	// Audit, and requests that are no single request.
	{often: 4, focus: onInnerDoor, targets: listable, isHealthy: true, facts: simple(), request: withMode, policies: []plan{{effect: deny, conditions: slices.Concat(onRequest, []string{""}), audits: 100}, {effect: allow}}},
	{often: 4, focus: onInnerDoor, targets: listable, isHealthy: true, facts: simple(), policies: []plan{{effect: deny, conditions: onRequest[4:], audits: 100}, {effect: allow, conditions: onRequest[4:], audits: 100}}},
	{often: 1, focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor), policies: []plan{{effect: allow, conditions: certain, audits: 100}}},
	{often: 2, focus: onOthers, targets: atOthers[:2], verbs: allWrites, isHealthy: true, facts: simple(withThings), policies: []plan{{effect: noOpinion, conditions: certain, audits: 100}, {effect: allow, conditions: certain, audits: 100}}},
	{often: 6, focus: onInnerDoor, targets: listable, isHealthy: true, facts: simple(), request: func(g *generator) {
		withMode(g)
		switch a := g.Request.ResourceAttributes; g.IntN(3) {
		case 0:
			a.Version = one(g, "", "*")
		case 1:
			a.Verb = "*"
		case 2:
			a.Subresource = "*"
		}
	}, policies: []plan{{effect: allow, conditions: certain, change: anyAllow}}},
	// Reserved extras, and canaries.
	{often: 4, focus: onInnerDoor, targets: listable, isHealthy: true, facts: simple(), request: func(g *generator) {
		g.Request.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Group: "authentication.k8s.io", Version: "v1", Resource: "userextras", Verb: "impersonate", Subresource: one(g, DelegationMarker, CanaryExtra), Name: "x",
		}
	}, policies: []plan{{effect: allow, change: anyAllow}}},
	{often: 4, focus: onHandling, targets: listable, isHealthy: true, facts: simple(withHandling), request: asConditionsCanary, policies: []plan{{effect: allow}}},
	{often: 4, focus: onHandling, targets: listable, isHealthy: true, facts: simple(withHandling, withFault(func(_ *generator, s *Server) { s.Conditions = HandlesNot })), request: asConditionsCanary, policies: []plan{{effect: allow}}},
	{often: 4, focus: onInnerDoor, targets: listable, isHealthy: true, facts: simple(withDoor, withBarriers), request: asCanary, policies: []plan{{effect: deny}}},
	// Classes that are rare without a script, and have none before.
	{often: -1, last: 50, focus: onServer, targets: slices.Concat(atProviso, listable), isHealthy: true, facts: simple(withAfter(AfterDeny, AfterDenyOnConditions)), policies: []plan{{effect: noOpinion, conditions: onRequest}}},
	{often: -1, last: 45, focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor, func(g *generator) { g.Facts.InnerDoor.Resources[0] = Resource{"", "secrets", ""} }), policies: []plan{{effect: allow, conditions: certain}}},
	{often: -1, last: 30, focus: onHandling, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withHandling, withBarriers, func(g *generator) { g.Facts.HasLeases = false }), policies: []plan{{effect: allow, conditions: certain}, {effect: deny, conditions: translated, verbs: allWrites}}},
	{often: -1, last: 20, focus: onInnerDoor, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(withDoor), policies: []plan{{effect: deny, conditions: certain, audits: 100}}},
	{often: -1, last: 20, focus: onBarriers, targets: listable, verbs: allWrites, isHealthy: true, facts: simple(func(g *generator) { g.Facts.Barriers = BarriersLost }), policies: []plan{{effect: deny, conditions: translated, verbs: allWrites}, {effect: allow, change: anyAllow}}},
}

func withThings(g *generator) {
	g.Facts.Configurations = g.configurations()
	g.Facts.Configurations[0].Spec.Service.Name = "things"
}

func (g *generator) asCanaryUser() {
	g.Request.User, g.Request.Groups = canaryUser, []string{user.AllAuthenticated}
	g.Request.Extra = map[string]authorizationv1.ExtraValue{CanaryExtra: {fmt.Sprintf("%032x", g.Number)}}
}

func asConditionsCanary(g *generator) {
	g.asCanaryUser()
	g.Request.ResourceAttributes = &authorizationv1.ResourceAttributes{Version: "v1", Resource: "configmaps", Namespace: metav1.NamespaceDefault, Name: "proviso-conditions-canary", Verb: "update"}
}

func asCanary(g *generator) {
	g.asCanaryUser()
	g.Request.ResourceAttributes = &authorizationv1.ResourceAttributes{Version: "v1", Resource: "configmaps", Namespace: Namespace, Verb: "create"}
	if g.chance(50) {
		g.Request.ResourceAttributes.Group, g.Request.ResourceAttributes.Resource = "coordination.k8s.io", "leases"
	}
}

// untranslatable are conditions that barriers cannot have, at least not for some rules.
var untranslatable = []string{
	`dryRun`, `object != null && object.metadata.name == "a"`, `request.verb == "patch" && has(object.metadata.labels)`, `size(request.labelSelector.requirements) > 0 && dryRun`,
	`operation != "DELETE" && has(object.metadata.labels)`, `namespaceObject.metadata.name == "x" && dryRun`,
}

// creating are conditions that differ between a creation and an update.
var creating = []string{`operation == "UPDATE" && dryRun`, `operation == "UPDATE" && oldObject.metadata.name == "a"`, `dryRun && has(object.metadata.labels)`}

var namespacesOnly = []target{{Resource{"", "namespaces", ""}, "v1", everyVerb}}

// otherVersion adds a rule for another version.
func otherVersion(verbs ...string) func(*generator, *policyv1alpha1.AuthorizationPolicySpec) {
	return func(_ *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
		other := spec.Rules[0]
		spec.Rules[0].APIVersions, spec.Rules[0].Verbs = []string{"v2"}, []string{"create", "update", "patch"}
		other.APIVersions, other.Verbs = []string{"v3"}, verbs
		spec.Rules = append(spec.Rules, other)
	}
}

func ofVersion(verbs ...string) func(*generator, *policyv1alpha1.AuthorizationPolicySpec) {
	return func(_ *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
		spec.Rules[0].APIVersions, spec.Rules[0].Verbs = []string{"v2"}, verbs
	}
}

func ofPaths(_ *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
	spec.Rules = []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}
}

// inNamespace is for policies that are in a namespace.
func inNamespace(_ *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
	spec.Description = ofNamespace
}

// ofNamespace is the description of policies that are in a namespace.
const ofNamespace = "in a namespace"

// oddRule gives a policy rules that barriers do not enforce as a whole.
func oddRule(g *generator, spec *policyv1alpha1.AuthorizationPolicySpec) {
	rule := &spec.Rules[0]
	switch g.IntN(9) {
	case 0:
		rule.Verbs = []string{one(g, "update", "patch"), "delete"}
	case 1:
		rule.Verbs, rule.ResourceNames = []string{"update", "patch", "delete"}, []string{"a"}
	case 2:
		rule.APIVersions, rule.Verbs = []string{"v2"}, []string{"update", "patch"}
	case 3:
		other := *rule
		rule.APIVersions, rule.Verbs = []string{"v2"}, []string{"update", "patch"}
		other.APIVersions, other.Verbs = []string{"v3"}, []string{"create"}
		spec.Rules = append(spec.Rules, other)
	case 4:
		other := *rule
		rule.APIVersions, rule.Verbs = []string{"v2"}, []string{"create", "update", "patch"}
		other.APIVersions, other.Verbs = []string{"v3"}, []string{"update"}
		spec.Rules = append(spec.Rules, other)
	case 5:
		rule.Verbs = []string{"update", "patch"}
	case 6:
		rule.Resources, rule.Verbs = []string{"pods/exec"}, []string{one(g, "create", "get")}
		rule.APIGroups = []string{""}
	case 7:
		rule.Resources, rule.APIGroups, rule.Verbs = []string{"*"}, []string{one(g, "", "*")}, []string{"*"}
	case 8:
		rule.Verbs = []string{"*"}
	}
}
