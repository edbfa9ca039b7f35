/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// Case is one case.
type Case struct {
	Seed   uint64
	Number int
	// Script is the number of the script from which the case was made, or 0.
	Script   int `json:",omitempty"`
	Policies []Policy
	Request  Request
	Facts    Facts
}

// Policy is a stored policy.
type Policy struct {
	// Namespace is empty for a ClusterAuthorizationPolicy.
	Namespace string `json:",omitempty"`
	Name      string
	Spec      policyv1alpha1.AuthorizationPolicySpec
	// Before is the specification that was stored before kube-apiservers that are behind have loaded a barrier for the last time. If nil, it is Spec.
	Before *policyv1alpha1.AuthorizationPolicySpec `json:",omitempty"`
	// IsLate says that the policy was created after that time.
	IsLate bool `json:",omitempty"`
}

// Key returns the namespace and the name.
func (p *Policy) Key() string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// Request is a request about which a kube-apiserver asks, and about which a user asks by a review.
type Request struct {
	authorizationv1.SubjectAccessReviewSpec
	// Server is the index of the kube-apiserver that asks, or -1 for one with a certificate that no listed one has.
	Server int
	// Mode is the mode of the review. Without one it asks for no conditions.
	Mode authorizationv1alpha1.ConditionsMode `json:",omitempty"`
}

// Facts are the facts of a cluster, and the configuration of Proviso.
type Facts struct {
	Gates Gates
	// HasFrontDoor enables the front door.
	HasFrontDoor bool
	// HasPolicies says that policies have been loaded, and HasNamespaces that the front door can read namespaces.
	HasPolicies, HasNamespaces bool
	// InnerDoor is nil if there is none. Then no write passes on conditions.
	InnerDoor *InnerDoor `json:",omitempty"`
	// LeavesConditions says that kube-apiservers that handle conditions get them.
	LeavesConditions bool
	// Barriers says whether barriers are written, and what becomes of them.
	Barriers BarrierWriter `json:",omitempty"`
	// After says what the authorizers after the policies decide.
	After After `json:",omitempty"`
	// Fields says what is known of the permissions on fields.
	Fields Fields `json:",omitempty"`
	// OthersAllow says what the other authorizers of kube-apiserver decide.
	OthersAllow Others

	// Servers are the kube-apiservers.
	Servers []Server
	// HasList and HasLeases say that the kube-apiservers can be listed, and their Leases read. Unlisted is the number of kube-apiservers
	// that run and are not listed.
	HasList, HasLeases bool
	Unlisted           int `json:",omitempty"`
	// IsProbed says that the kube-apiservers have been probed.
	IsProbed bool

	// Services are the APIServices. HasServices says that they have been read, HasOwn that Proviso has looked for its own.
	Services            []Service
	HasServices, HasOwn bool
	// HasMoved says that another server has taken over a group since the server has read what it tells users and authors.
	HasMoved bool `json:",omitempty"`
	// Configurations are EnforcementConfigurations. HasConfigurations says that they have been loaded.
	Configurations    []policyv1alpha1.EnforcementConfiguration `json:",omitempty"`
	HasConfigurations bool
}

// Gates are the features of the server.
type Gates struct {
	Conditional, ConnectWithCreate, Demo bool
}

// InnerDoor is an InnerDoorConfiguration.
type InnerDoor struct {
	Resources []Resource
	// AsksOthers is askOtherAuthorizers.
	AsksOthers bool
	// Users and Groups are left out. Without any, the default ones are.
	Users, Groups []string `json:",omitempty"`
}

// Resource is a resource or a subresource.
type Resource struct {
	Group, Resource string
	Subresource     string `json:",omitempty"`
}

// BarrierWriter says what becomes of barriers.
type BarrierWriter string

// The values of BarrierWriter. Without one, the server writes no barriers.
const (
	// BarriersWritten means that this replica writes them.
	BarriersWritten BarrierWriter = "written"
	// BarriersElsewhere means that another replica writes them, and has not yet.
	BarriersElsewhere BarrierWriter = "elsewhere"
	// BarriersRefused means that kube-apiserver refuses them.
	BarriersRefused BarrierWriter = "refused"
	// BarriersTaken means that other objects have their names.
	BarriersTaken BarrierWriter = "taken"
	// BarriersUnread means that they are written, and that this replica has not received them.
	BarriersUnread BarrierWriter = "unread"
	// BarriersUnmarked means that they are written, but not the sentinel after them.
	BarriersUnmarked BarrierWriter = "unmarked"
	// BarriersUnseen means that they are written, and that what is stored cannot be compared with what this replica has received.
	BarriersUnseen BarrierWriter = "unseen"
	// BarriersLost means that they are written and loaded, and that what is stored cannot be compared any more for some time.
	BarriersLost BarrierWriter = "lost"
)

// After says what the authorizers after the policies decide.
type After string

// The values of After. Without one, there are none.
const (
	AfterNoOpinion         After = "no opinion"
	AfterAllow             After = "allow"
	AfterDeny              After = "deny"
	AfterAllowOnConditions After = "allow on conditions"
	AfterDenyOnConditions  After = "deny on conditions"
)

// Fields says what is known of the permissions on fields.
type Fields string

// The values of Fields. Without one, the gate is off.
const (
	FieldsUnread   Fields = "unread"
	FieldsNone     Fields = "none"
	FieldsExcluded Fields = "excluded"
)

// ExcludedResources are the resources with fields that are excluded, with FieldsExcluded.
var ExcludedResources = []Resource{{Resource: "pods"}, {Group: "apps", Resource: "deployments"}}

// Others says what the other authorizers of kube-apiserver decide about checks: whether a user may read, and may change some fields.
type Others struct {
	Reads, Fields Answer
}

// Answer is an answer of other authorizers.
type Answer string

// The answers.
const (
	AnswerAllow Answer = "allow"
	AnswerNo    Answer = "no"
	AnswerError Answer = "error"
)

// Service is an APIService.
type Service struct {
	Group, Version string
	// By is the server: empty for kube-apiserver, "proviso", or another one.
	By string `json:",omitempty"`
	// IsAvailable is the condition Available.
	IsAvailable bool `json:",omitempty"`
	// IsManaged says that kube-apiserver manages the object.
	IsManaged bool `json:",omitempty"`
}

// Server is a kube-apiserver, and what it does.
type Server struct {
	// IsListed says that its address is known.
	IsListed bool
	// IsSilent says that it does not answer.
	IsSilent bool `json:",omitempty"`
	// Certificate is the number of its client certificate.
	Certificate int
	InnerDoor   DoorCalls
	Conditions  Handling
	Barriers    Loading
}

// DoorCalls says whether a kube-apiserver calls the inner door.
type DoorCalls string

// The values of DoorCalls.
const (
	DoorCalled        DoorCalls = "called"
	DoorNotCalled     DoorCalls = "not called"
	DoorOtherManifest DoorCalls = "other manifest"
	DoorRefusedBefore DoorCalls = "refused before"
	DoorOtherReplica  DoorCalls = "other replica"
	DoorCached        DoorCalls = "cached"
	DoorSeveral       DoorCalls = "several certificates"
)

// Handling says whether a kube-apiserver handles conditions.
type Handling string

// The values of Handling.
const (
	Handles      Handling = "handles"
	HandlesNot   Handling = "does not"
	HandlesNoAsk Handling = "does not ask"
)

// Loading says which barriers a kube-apiserver has loaded.
type Loading string

// The values of Loading.
const (
	LoadedAll     Loading = "all"
	LoadedBefore  Loading = "those before"
	LoadedNone    Loading = "none"
	LoadedRefused Loading = "refused before"
	// LoadedUncertified means all, by a server whose canaries do not arrive.
	LoadedUncertified Loading = "all, uncertified"
)

// NamesOneOfUpdateAndPatch reports whether a Deny policy names update or patch without the other one, in a rule about resources.
func (c *Case) NamesOneOfUpdateAndPatch() bool {
	of := func(spec *policyv1alpha1.AuthorizationPolicySpec) bool {
		return spec != nil && spec.Effect == policyv1alpha1.PolicyEffectDeny && slices.ContainsFunc(spec.Rules, func(r policyv1alpha1.PolicyRule) bool {
			return len(r.Resources) > 0 && !slices.Contains(r.Verbs, "*") && slices.Contains(r.Verbs, "update") != slices.Contains(r.Verbs, "patch")
		})
	}
	return slices.ContainsFunc(c.Policies, func(p Policy) bool { return of(&p.Spec) || of(p.Before) })
}
