/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"fmt"
	"math/rand/v2"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// Generate returns the case with a number. It depends on the seed and the number alone.
func Generate(seed uint64, number int) *Case {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(number)))} //nolint:gosec // a number of a case, and no secret
	g.Seed, g.Number = seed, number
	g.chooseScript()
	g.chooseTarget()
	g.facts()
	if g.script.facts != nil {
		g.script.facts(g)
	}
	g.request()
	if g.script.request != nil {
		g.script.request(g)
	}
	g.policies()
	return &g.Case
}

// generator makes one case. Its choices depend on each other: most are about one resource, and on who evaluates conditions about it.
type generator struct {
	*rand.Rand
	Case

	script script
	focus  focus
	target target
	verb   string
}

// focus is the place that most choices of a case are about.
type focus int

const (
	onAny focus = iota
	onInnerDoor
	onBarriers
	onHandling
	onServer
	onOthers
	onAnything
)

// chance returns true in p of a hundred cases.
func (g *generator) chance(p int) bool { return g.IntN(100) < p }

// one returns one of some values. Values that are given twice are twice as likely.
func one[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// target is a resource in a version, and the verbs of requests for it.
type target struct {
	Resource
	version string
	verbs   []string
}

var (
	everyVerb   = []string{"create", "create", "update", "update", "patch", "patch", "delete", "delete", "deletecollection", "get", "list"}
	updateVerbs = []string{"update", "patch", "patch", "get"}

	atKubeAPIServer = []target{
		{Resource{"", "pods", ""}, "v1", everyVerb},
		{Resource{"", "pods", ""}, "v1", everyVerb},
		{Resource{"apps", "deployments", ""}, "v1", everyVerb},
		{Resource{"apps", "deployments", ""}, "v1", everyVerb},
		{Resource{"", "configmaps", ""}, "v1", everyVerb},
		{Resource{"", "configmaps", ""}, "v1", everyVerb},
		{Resource{"", "services", ""}, "v1", everyVerb},
		{Resource{"", "namespaces", ""}, "v1", everyVerb},
		{Resource{"rbac.authorization.k8s.io", "roles", ""}, "v1", everyVerb},
		{Resource{"", "pods", "status"}, "v1", updateVerbs},
		{Resource{"apps", "deployments", "scale"}, "v1", updateVerbs},
		{Resource{"", "pods", "ephemeralcontainers"}, "v1", updateVerbs},
	}
	withoutInnerDoor = []target{
		{Resource{"", "pods", "exec"}, "v1", []string{"create", "get"}},
		{Resource{"", "nodes", "status"}, "v1", updateVerbs},
		{Resource{"admissionregistration.k8s.io", "validatingadmissionpolicies", ""}, "v1", everyVerb},
		{Resource{"authorization.k8s.io", "subjectaccessreviews", ""}, "v1", []string{"create"}},
	}
	atProviso = []target{
		{Resource{"demo.proviso.dev", "virtualmachines", ""}, "v1alpha1", everyVerb},
		{Resource{"demo.proviso.dev", "virtualmachines", ""}, "v1alpha1", everyVerb},
		{Resource{"demo.proviso.dev", "virtualmachines", "status"}, "v1alpha1", updateVerbs},
		{Resource{"demo.proviso.dev", "virtualmachines", "console"}, "v1alpha1", []string{"create", "get", "get"}},
		{Resource{"authorization.k8s.io", "subjectaccessreviews", ""}, "v1alpha1", []string{"create"}},
		{Resource{"authorization.proviso.dev", "localsubjectaccessreviews", ""}, "v1alpha1", []string{"create"}},
		{Resource{"authorization.k8s.io", "authorizationconditionsreviews", ""}, "v1alpha1", []string{"create"}},
		{Resource{"policy.proviso.dev", "clusterauthorizationpolicies", ""}, "v1alpha1", everyVerb},
		{Resource{"policy.proviso.dev", "clusterauthorizationpolicies", ""}, "v1alpha1", everyVerb},
	}
	atOthers = []target{
		{Resource{"things.example.com", "things", ""}, "v1", everyVerb},
		{Resource{"things.example.com", "things", ""}, "v1", everyVerb},
		{Resource{"things.example.com", "things", ""}, "v2", everyVerb},
		{Resource{"things.example.com", "things", "status"}, "v1", updateVerbs},
	}
	atNone = []target{
		{Resource{"none.example.com", "widgets", ""}, "v1", everyVerb},
	}
)

func (g *generator) chooseTarget() {
	g.focus = one(g, onInnerDoor, onInnerDoor, onInnerDoor, onInnerDoor, onInnerDoor, onBarriers, onBarriers, onBarriers, onBarriers, onHandling, onHandling, onServer, onServer, onOthers, onOthers, onAnything)
	if g.script.focus != onAny {
		g.focus = g.script.focus
	}
	if g.script.targets != nil {
		g.target = one(g, g.script.targets...)
		g.verb = one(g, g.target.verbs...)
		if g.script.verbs != nil {
			g.verb = one(g, g.script.verbs...)
		}
		return
	}
	switch g.focus {
	case onServer:
		g.target = one(g, atProviso...)
	case onOthers:
		g.target = one(g, atOthers...)
	case onAnything:
		g.target = one(g, slices.Concat(atKubeAPIServer, withoutInnerDoor, atProviso, atOthers, atNone, atNone)...)
	default:
		g.target = one(g, atKubeAPIServer...)
		if g.chance(6) {
			g.target = one(g, withoutInnerDoor...)
		}
	}
	g.verb = one(g, g.target.verbs...)
}

// request makes the request.
func (g *generator) request() {
	r := &g.Request
	r.Mode = one(g, authorizationv1alpha1.ConditionsModeNone, authorizationv1alpha1.ConditionsModeHumanReadable, authorizationv1alpha1.ConditionsModeHumanReadable,
		authorizationv1alpha1.ConditionsModeHumanReadable, authorizationv1alpha1.ConditionsModeOptimized)
	g.user()
	r.Server = g.IntN(len(g.Facts.Servers))
	if !g.script.isHealthy && g.chance(4) {
		r.Server = -1
	}
	if g.script.targets == nil && g.chance(5) {
		path := one(g, "/metrics", "/healthz", "/version", "/livez/etcd")
		r.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: path, Verb: one(g, "get", "post")}
		return
	}
	a := &authorizationv1.ResourceAttributes{
		Group: g.target.Group, Version: g.target.version, Resource: g.target.Resource.Resource, Subresource: g.target.Subresource, Verb: g.verb, Namespace: "shop", Name: "a",
	}
	r.ResourceAttributes = a
	switch {
	case a.Resource == "namespaces" && (a.Verb == "create" || a.Verb == "list" || a.Verb == "deletecollection"):
		a.Namespace = ""
	case a.Resource == "namespaces":
		a.Namespace = "a"
	case a.Resource == "nodes" || a.Resource == "validatingadmissionpolicies" || a.Resource == "clusterauthorizationpolicies" || a.Resource == "subjectaccessreviews":
		a.Namespace = ""
	}
	if hasNoName(a.Verb) && a.Subresource == "" || g.script.targets == nil && g.chance(7) {
		a.Name = ""
	}
	if a.Verb == "list" || a.Verb == "deletecollection" {
		if g.chance(30) {
			a.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"a"}}}}
		}
	}
	if g.script.targets == nil && g.chance(6) {
		switch g.IntN(5) {
		case 0, 1:
			a.Version = one(g, "", "*")
		case 2:
			a.Verb = "*"
		case 3:
			a.Resource = "*"
		case 4:
			a.Subresource = "*"
		}
	}
	if g.script.targets == nil {
		g.special()
	}
}

func hasNoName(verb string) bool {
	return verb == "create" || verb == "list" || verb == "deletecollection"
}

// special makes a few requests that the front door answers before it asks policies.
func (g *generator) special() {
	r := &g.Request
	switch n := g.IntN(1000); {
	case n < 16: // a canary of the inner door, or of conditions
		r.User, r.Groups = canaryUser, []string{user.AllAuthenticated}
		r.Extra = map[string]authorizationv1.ExtraValue{CanaryExtra: {fmt.Sprintf("%032x", g.Number)}}
		r.ResourceAttributes = &authorizationv1.ResourceAttributes{Version: "v1", Resource: "configmaps", Namespace: Namespace, Verb: "create"}
		switch g.IntN(3) {
		case 0:
			r.ResourceAttributes.Namespace, r.ResourceAttributes.Verb, r.ResourceAttributes.Name = metav1.NamespaceDefault, "update", "proviso-conditions-canary"
		case 1:
			r.ResourceAttributes.Group, r.ResourceAttributes.Resource = "coordination.k8s.io", "leases"
		}
	case n < 30: // a check for impersonating what is reserved
		r.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Group: "authentication.k8s.io", Version: "v1", Resource: "userextras", Verb: "impersonate", Subresource: one(g, DelegationMarker, CanaryExtra, "example.com/other"), Name: "x",
		}
	}
}

// DelegationMarker is the key of the extra of checks that Proviso sends.
const DelegationMarker = "authorization.proviso.dev/delegated"

func (g *generator) user() {
	r := &g.Request
	r.User, r.Groups = "alice", []string{"developers", user.AllAuthenticated}
	switch n := g.IntN(100); {
	case g.script.targets != nil:
	case n < 5:
		r.User, r.Groups = "system:node:n1", []string{user.NodesGroup, user.AllAuthenticated}
	case n < 9:
		r.User = "backup"
	case n < 11:
		r.Groups = []string{user.SystemPrivilegedGroup, user.AllAuthenticated}
	case n < 15:
		r.Extra = map[string]authorizationv1.ExtraValue{DelegationMarker: {"true"}}
	}
}

// facts makes the facts, most of them so that the place in focus can evaluate conditions. Some faults are added.
func (g *generator) facts() {
	f := &g.Facts
	f.Gates = Gates{Conditional: true, ConnectWithCreate: g.chance(60), Demo: !g.chance(10)}
	f.HasFrontDoor, f.HasPolicies, f.HasNamespaces = !g.chance(11), !g.chance(6), g.chance(80)
	f.HasList, f.HasLeases, f.IsProbed, f.HasServices, f.HasOwn, f.HasConfigurations = true, true, true, true, true, true
	f.OthersAllow = Others{Reads: one(g, AnswerAllow, AnswerAllow, AnswerAllow, AnswerNo, AnswerError), Fields: one(g, AnswerAllow, AnswerAllow, AnswerNo, AnswerError)}
	f.Fields = one(g, "", "", "", FieldsNone, FieldsNone, FieldsNone, FieldsExcluded, FieldsUnread)
	f.After = one(g, "", "", "", "", AfterNoOpinion, AfterAllow, AfterDeny, AfterAllowOnConditions, AfterAllowOnConditions, AfterDenyOnConditions)
	g.servers()
	f.Services = g.services()
	if g.focus == onInnerDoor || g.chance(30) {
		f.InnerDoor = g.innerDoor()
	}
	if g.focus == onBarriers || g.chance(20) {
		f.Barriers = one(g, BarriersWritten, BarriersWritten, BarriersWritten, BarriersWritten, BarriersWritten, BarriersWritten, BarriersElsewhere, BarriersRefused, BarriersTaken, BarriersUnread, BarriersUnseen)
	}
	f.LeavesConditions = g.focus == onHandling || g.chance(8)
	if g.focus == onOthers || g.chance(15) {
		f.Configurations = g.configurations()
	}
	for range one(g, 0, 0, 1, 1, 2) {
		if !g.script.isHealthy {
			g.fault()
		}
	}
	if g.script.isHealthy {
		f.HasFrontDoor, f.HasPolicies, f.Gates.Demo = true, true, true
	}
	if !f.LeavesConditions && f.Fields == "" && g.chance(5) && !g.script.isHealthy {
		f.Gates.Conditional = false
	}
}

func (g *generator) servers() {
	f, share := &g.Facts, g.chance(30)
	for i := range one(g, 1, 2, 2, 3) {
		s := Server{IsListed: true, Certificate: i, InnerDoor: DoorCalled, Conditions: HandlesNot, Barriers: LoadedAll}
		if g.focus == onHandling {
			s.Conditions = Handles
		}
		if share {
			s.Certificate = 0
		}
		f.Servers = append(f.Servers, s)
	}
}

// fault changes one fact so that a place cannot evaluate conditions, or is not known to.
func (g *generator) fault() {
	f := &g.Facts
	s := &f.Servers[g.IntN(len(f.Servers))]
	switch g.IntN(13) {
	case 0:
		f.HasList = false
	case 1:
		f.HasLeases = false
	case 2:
		f.Unlisted = 1
	case 3:
		f.IsProbed = false
	case 4:
		f.HasServices = g.chance(20)
	case 5:
		f.HasOwn = false
	case 6:
		f.HasConfigurations = false
	case 7:
		s.IsSilent = true
	case 8:
		s.IsListed = len(f.Servers) == 1
	case 9:
		s.InnerDoor = one(g, DoorNotCalled, DoorOtherManifest, DoorRefusedBefore, DoorOtherReplica, DoorCached, DoorSeveral)
	case 10:
		s.Conditions = one(g, Handles, HandlesNot, HandlesNoAsk)
	case 11:
		s.Barriers = one(g, LoadedBefore, LoadedBefore, LoadedNone, LoadedRefused, LoadedUncertified, LoadedUncertified)
	case 12:
		f.Services = g.faultyServices()
	}
}

// services are the APIServices of a cluster in order.
func (g *generator) services() []Service {
	var services []Service
	for _, group := range []string{"", "apps", "rbac.authorization.k8s.io", "coordination.k8s.io", "admissionregistration.k8s.io", "authorization.k8s.io"} {
		services = append(services, Service{Group: group, Version: "v1", IsAvailable: true, IsManaged: true})
	}
	for _, group := range []string{"policy.proviso.dev", "authorization.k8s.io", "authorization.proviso.dev", "demo.proviso.dev"} {
		services = append(services, Service{Group: group, Version: "v1alpha1", By: "proviso", IsAvailable: true})
	}
	for _, version := range []string{"v1", "v2"} {
		services = append(services, Service{Group: "things.example.com", Version: version, By: "things", IsAvailable: true})
	}
	return services
}

// faultyServices are APIServices. Some belong to other servers than they should, or are missing.
func (g *generator) faultyServices() []Service {
	services := g.services()
	change := func(s *Service) {
		switch g.IntN(5) {
		case 0:
			s.By, s.IsManaged = "other", false
		case 1:
			s.By, s.IsManaged = "", true
		case 2:
			s.IsAvailable = false
		case 3:
			s.Version = "v7"
		case 4:
			s.By, s.IsManaged, s.IsAvailable = "other", false, false
		}
	}
	for i := range services {
		if services[i].Group == g.target.Group && services[i].Version == g.target.version || g.chance(8) {
			change(&services[i])
		}
	}
	if g.chance(30) { // another server has a version of a group of kube-apiserver, or kube-apiserver has one of another server
		services = append(services, one(g, Service{Group: "apps", Version: "v2", By: "other"}, Service{Group: "things.example.com", Version: "v3", IsManaged: true}))
	}
	return services
}

func (g *generator) innerDoor() *InnerDoor {
	door := &InnerDoor{AsksOthers: g.chance(45), Resources: []Resource{{"", "secrets", ""}}}
	isListable := slices.ContainsFunc(slices.Concat(atKubeAPIServer, atOthers), func(t target) bool { return t.Resource == g.target.Resource })
	if isListable && !g.chance(15) {
		door.Resources = append(door.Resources, g.target.Resource)
	}
	for _, other := range []Resource{{"", "pods", ""}, {"apps", "deployments", ""}, {"apps", "deployments", "scale"}, {"things.example.com", "things", ""}} {
		if other != g.target.Resource && g.chance(35) {
			door.Resources = append(door.Resources, other)
		}
	}
	if g.chance(50) {
		door.Users, door.Groups = []string{"backup"}, []string{user.NodesGroup}
	}
	return door
}

func (g *generator) configurations() []policyv1alpha1.EnforcementConfiguration {
	c := policyv1alpha1.EnforcementConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "things"}, Spec: policyv1alpha1.EnforcementConfigurationSpec{
		APIGroup: "things.example.com", APIVersions: one(g, []string{"v1"}, []string{"v1"}, []string{"v1", "v2"}), Resources: one(g, []string{"things"}, []string{"things", "things/status"}),
		Service: policyv1alpha1.EnforcementService{Namespace: "things", Name: one(g, "things", "things", "things", "others"), Port: 443},
	}}
	return []policyv1alpha1.EnforcementConfiguration{c}
}
