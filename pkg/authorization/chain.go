/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Decider decides requests in the terms of this package. Authorizers that are made for a Chain
// implement it. DeciderOf and AuthorizerOf convert between it and authorizer.Authorizer, the interface
// of k8s.io/apiserver, whose decisions hold at most MaxConditionsPerSet conditions and no failure modes.
type Decider interface {
	// Decide returns the decision, conditions included. The attributes must not change as long as the
	// decision is used.
	Decide(ctx context.Context, attributes authorizer.Attributes) Decision
}

// Member is an authorizer within a Chain. Its Decider may also be a Pinner, an Expander, a Revisioner or
// a ConditionsAuthor.
type Member struct {
	// Name names the authorizer uniquely within the chain.
	Name string
	// Decider decides. It is required.
	Decider Decider
}

// Pinner is a Decider whose source of decisions changes. A chain pins all members before it calls the
// first one, so that members with the same source decide from the same state.
type Pinner interface {
	// Pin returns a context in which the source does not change. A context that is pinned already is
	// returned as it is.
	Pin(ctx context.Context) context.Context
}

// Expander is a Decider that stands for other members, which may change while the server runs. A chain
// replaces it by them, so that each is called only if the request needs it.
type Expander interface {
	Pinner
	// Members returns the members for a pinned context. Their names must differ from all other names
	// in the chain.
	Members(ctx context.Context) []Member
}

// Revisioner is a Pinner whose state has a revision.
type Revisioner interface {
	// Revision returns the revision to which a context is pinned.
	Revision(ctx context.Context) string
}

func (c *Chain) revision(ctx context.Context) string {
	for _, m := range c.members {
		if r, ok := as[Revisioner](m.Decider); ok {
			return r.Revision(ctx)
		}
	}
	return ""
}

// Chain asks authorizers in order (KEP-5681, "Computing a concrete decision from a
// conditional authorization chain"). It is safe for concurrent use if its members are.
type Chain struct {
	members []Member
}

var _ authorizer.Authorizer = &Chain{}

// NewChain makes a chain. It returns an error if a member has no Decider, if its name is no DNS-1123 subdomain, as
// k8s.io/apiserver requires of a union, or if two have the same name. A chain without members always answers NoOpinion.
func NewChain(members ...Member) (*Chain, error) {
	RegisterMetrics()
	seen := map[string]bool{}
	for i, m := range members {
		switch {
		case m.Name == "":
			return nil, fmt.Errorf("authorizer %d of the chain has no name", i)
		case len(validation.IsDNS1123Subdomain(m.Name)) > 0:
			return nil, fmt.Errorf("authorizer name %q is no DNS-1123 subdomain", m.Name)
		case m.Decider == nil:
			return nil, fmt.Errorf("authorizer %q of the chain is nil", m.Name)
		case seen[m.Name]:
			return nil, fmt.Errorf("authorizer name %q is used twice in the chain", m.Name)
		}
		seen[m.Name] = true
	}
	return &Chain{members: append([]Member(nil), members...)}, nil
}

// WithFirst returns a chain in which another member comes before all members of c.
func (c *Chain) WithFirst(first Member) (*Chain, error) {
	return NewChain(append([]Member{first}, c.members...)...)
}

// Pin returns a context in which no member's source of decisions changes.
func (c *Chain) Pin(ctx context.Context) context.Context {
	for _, m := range c.members {
		ctx = Pin(ctx, m.Decider)
	}
	return ctx
}

// Pin returns a context in which the source of a Decider does not change. It returns ctx if the Decider is
// not a Pinner.
func Pin(ctx context.Context, d Decider) context.Context {
	if pinner, ok := as[Pinner](d); ok {
		return pinner.Pin(ctx)
	}
	return ctx
}

// pinned returns the members of the chain for a pinned context, with each Expander replaced by its
// members.
func (c *Chain) pinned(ctx context.Context) []Member {
	if !slices.ContainsFunc(c.members, Member.expands) {
		return c.members
	}
	var members []Member
	for _, m := range c.members {
		if expander, ok := as[Expander](m.Decider); ok {
			members = append(members, expander.Members(ctx)...)
		} else {
			members = append(members, m)
		}
	}
	return members
}

func (m Member) expands() bool {
	_, ok := as[Expander](m.Decider)
	return ok
}

// Decide calls the members in order, until an answer cannot become NoOpinion, such as Allow
// or Deny. It returns their answers as one decision, without sets that cannot change it. It is
// the eager form, for reviews: they must show every condition that applies. Begin is the lazy
// form, for requests.
func (c *Chain) Decide(ctx context.Context, attributes authorizer.Attributes) Decision {
	ctx = c.Pin(ctx)
	members := c.pinned(ctx)
	sets := make([]Set, 0, len(members))
	for _, m := range members {
		set := m.decide(ctx, attributes)
		sets = append(sets, set)
		if set.Decision.possible()&canNoOpinion == 0 {
			break
		}
	}
	return Decision{kind: kindChain, chain: sets}.simplify()
}

func (m Member) decide(ctx context.Context, attributes authorizer.Attributes) Set {
	start := time.Now()
	ctx, span := startSpan(ctx, m.Name)
	decision := m.Decider.Decide(ctx, attributes)
	span.end(decision, func() Decision { return decision })
	m.measure(start, decision)
	return memberSet(m.Name, decision).withAuthorOf(m.Decider)
}

var _ Decider = &Chain{}

// withAuthorOf returns a set that the Decider d returned, with d as the author of its conditions and of
// the conditions nested in it, unless they have an author. If d evaluates no conditions, it returns the
// set unchanged.
func (s Set) withAuthorOf(d Decider) Set {
	author, ok := as[ConditionsAuthor](d)
	if !ok {
		return s
	}
	if s.Decision.kind != kindChain {
		return s.withAuthor(author)
	}
	return s.eachWithAuthor(author)
}

// WithAuthor returns a set whose conditions, nested ones included, are evaluated by an author, unless they have one. A
// Decider uses it for sets that have another author than the Decider itself.
func (s Set) WithAuthor(author ConditionsAuthor) Set { return s.withAuthor(author) }

// withAuthor sets the author of the conditions in a set that a member returned. Conditions from a nested chain
// are returned to the member inside an equally nested decision, because the member routes by the names
// of its top-level authorizers only.
func (s Set) withAuthor(author ConditionsAuthor) Set {
	switch s.Decision.kind {
	case kindConditions:
		//guard:withauthor-another-author
		if s.Author == nil {
			s.Author = author
		}
	case kindChain:
		return s.eachWithAuthor(&nestedAuthor{name: s.AuthorizerName, author: author})
	case kindAllow, kindDeny, kindNoOpinion:
	}
	return s
}

func (s Set) eachWithAuthor(author ConditionsAuthor) Set {
	sets := make([]Set, 0, len(s.Decision.chain))
	for _, n := range s.Decision.chain {
		sets = append(sets, n.withAuthor(author))
	}
	s.Decision.chain = sets
	return s
}

// nestedAuthor is the author of sets within a nested chain.
type nestedAuthor struct {
	name   string
	author ConditionsAuthor
}

func (n *nestedAuthor) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	nested := Chained(Set{AuthorizerName: n.name, Decision: FromUpstream("", decision)})
	return n.author.EvaluateConditions(ctx, ToUpstream(nested), data)
}

// WithAuthors returns sets that the chain made and that went over the wire, with their authors: the author
// of a set is the member with the name of the set. A set with another name is returned unchanged.
func (c *Chain) WithAuthors(sets ...Set) []Set {
	members := c.pinned(c.Pin(context.Background()))
	authored := make([]Set, 0, len(sets))
	for _, s := range sets {
		for _, m := range members {
			if m.Name == s.AuthorizerName {
				s = s.withAuthorOf(m.Decider)
			}
		}
		authored = append(authored, s)
	}
	return authored
}

// memberSet makes a member's answer a set of the chain. If the answer is a chain of one set
// that has the name of the member and is not a chain itself, memberSet returns that set. All
// other chains are nested in a new set.
func memberSet(name string, d Decision) Set {
	if d.kind == kindChain && len(d.chain) == 1 && d.chain[0].AuthorizerName == name && d.chain[0].Decision.kind != kindChain {
		return d.chain[0]
	}
	return Set{AuthorizerName: name, Decision: d}
}

// Authorize decides for a caller that does not support conditions: the decision is
// folded.
func (c *Chain) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	return c.Decide(ctx, attributes).Fold().Concrete()
}

// ConditionsAwareAuthorize decides, conditions included.
func (c *Chain) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return ToUpstream(c.Decide(ctx, attributes))
}

// EvaluateConditions evaluates a decision that the chain made. A set with conditions that
// cannot be evaluated in this process is evaluated by the member that made it. All members
// decide from the same state of their sources.
func (c *Chain) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	ctx = c.Pin(ctx)
	d := FromUpstream("", decision)
	d.chain = c.WithAuthors(d.chain...)
	return d.Evaluate(ctx, EvaluatorFor(data, nil)).Concrete()
}

// Unconditional returns the decision that an authorizer without conditions made, in the form in which
// callers of k8s.io/apiserver get it. An unknown value denies.
func Unconditional(decision authorizer.Decision, reason string, err error) Decision {
	switch decision {
	case authorizer.DecisionAllow:
		return Allow(reason, err)
	case authorizer.DecisionNoOpinion:
		return NoOpinion(reason, err)
	default:
		return Deny(reason, err)
	}
}

var errNotConcrete = errors.New("the decision still depends on conditions")

// Concrete returns an unconditional decision as the three values that callers of k8s.io/apiserver
// expect. For a conditional decision it returns Deny and an error.
func (d Decision) Concrete() (authorizer.Decision, string, error) {
	switch d.kind {
	case kindAllow:
		return authorizer.DecisionAllow, d.reason, d.err
	case kindNoOpinion:
		return authorizer.DecisionNoOpinion, d.Reason(), d.err
	case kindDeny:
		return authorizer.DecisionDeny, d.reason, d.err
	default:
		return authorizer.DecisionDeny, "failed closed", errNotConcrete
	}
}
