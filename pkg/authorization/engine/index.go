/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"hash/maphash"
	"maps"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const (
	// shardCount is the number of parts of an index. A change copies the parts that it
	// touches, so that its cost is a fraction of the size of the index.
	shardCount = 256
	// linear is up to how many policies of one subject are looked at one by one. More
	// policies are found by the namespace, verb, group and resource that their rules name.
	linear = 16
	// maxKeys bounds the keys under which a policy is found, for all its subjects together. The lists of a rule multiply: one
	// policy could have seventeen million keys, and each of them takes some 200 bytes. A policy with more than maxKeys keys is
	// found by its namespace alone.
	maxKeys = 256
)

var seed = maphash.MakeSeed()

// index finds policies by subject, and the policies of one subject by namespace, verb, group and
// resource. It is immutable.
type index struct {
	shards    [shardCount]map[subject]*bucket
	everybody *bucket
}

func shardOf(s subject) int {
	return int(maphash.String(seed, s.name) % shardCount)
}

// bucket holds the policies of one subject.
type bucket struct {
	policies []*Policy
	// byRequest is there if the policies are many. A policy is under every key that its
	// rules name, * included, or under the key of its namespace.
	byRequest map[requestKey][]*Policy
}

// requestKey is a key of byRequest. A policy whose keys, for all its subjects together, are more than maxKeys
// has one key instead, with its namespace only.
type requestKey struct {
	namespace, verb, group, resource string
}

// keyCount returns how many keys the rules of a policy name.
func (p *Policy) keyCount() int {
	count := 0
	for i := range p.rules {
		r := &p.rules[i]
		count += len(r.verbs) * (min(len(r.paths), 1) + len(r.apiGroups)*len(r.resources))
	}
	return count
}

// keys returns the keys of byRequest under which a policy is found: one for each verb, group and resource of a rule, in the
// namespace of the policy. A rule for paths has one key for each verb. In it, group and resource are "/", which no resource has.
// If the keys for all subjects of the policy would be more than maxKeys, it has a single key, with its namespace only.
func (p *Policy) keys() []requestKey {
	if p.keyCount()*max(len(p.subjects), 1) > maxKeys {
		return []requestKey{{namespace: p.key.Namespace}}
	}
	var keys []requestKey
	for i := range p.rules {
		r := &p.rules[i]
		for _, verb := range r.verbs {
			if len(r.paths) > 0 {
				keys = append(keys, requestKey{verb: verb, group: "/", resource: "/"})
			}
			for _, group := range r.apiGroups {
				for _, resource := range r.resources {
					keys = append(keys, requestKey{namespace: p.key.Namespace, verb: verb, group: group, resource: resource})
				}
			}
		}
	}
	return keys
}

// copy returns a bucket that its caller may change. The lists in byRequest are not copied: the caller may append to them, and must
// not change or remove their elements. An append does not change the original bucket, because its lists keep their length. Only a
// builder appends, and each builder begins with the result of the last one.
func (b *bucket) copy() *bucket {
	if b == nil {
		return &bucket{}
	}
	return &bucket{policies: slices.Clone(b.policies), byRequest: maps.Clone(b.byRequest)}
}

// replace takes old out of a bucket and puts next into it. Either may be nil.
func (b *bucket) replace(old, next *Policy) {
	if old != nil {
		b.policies = slices.DeleteFunc(b.policies, func(p *Policy) bool { return p == old })
	}
	if next != nil {
		b.policies = append(b.policies, next)
	}
	switch {
	case len(b.policies) <= linear:
		b.byRequest = nil
	case b.byRequest == nil:
		b.byRequest = map[requestKey][]*Policy{}
		for _, p := range b.policies {
			b.add(p)
		}
	default:
		b.remove(old)
		b.add(next)
	}
}

func (b *bucket) remove(p *Policy) {
	if p == nil {
		return
	}
	for _, key := range p.keys() {
		rest := slices.DeleteFunc(slices.Clone(b.byRequest[key]), func(other *Policy) bool { return other == p })
		if len(rest) == 0 {
			delete(b.byRequest, key)
			continue
		}
		b.byRequest[key] = rest
	}
}

func (b *bucket) add(p *Policy) {
	if p == nil {
		return
	}
	for _, key := range p.keys() {
		list := b.byRequest[key]
		if len(list) == 0 || list[len(list)-1] != p { // rules may overlap
			b.byRequest[key] = append(list, p)
		}
	}
}

// builder changes an index. It copies each shard and bucket once.
type builder struct {
	index
	ownShards  [shardCount]bool
	ownBuckets map[*bucket]bool
}

func newBuilder(from index) *builder {
	return &builder{index: from, ownBuckets: map[*bucket]bool{}}
}

func (b *builder) own(shared *bucket) *bucket {
	if shared != nil && b.ownBuckets[shared] {
		return shared
	}
	copied := shared.copy()
	b.ownBuckets[copied] = true
	return copied
}

func (b *builder) replace(old, next *Policy) {
	if ifAny(old) != nil || ifAny(next) != nil {
		b.everybody = b.own(b.everybody)
		b.everybody.replace(ifAny(old), ifAny(next))
	}
	subjects := map[subject]bool{}
	for _, p := range []*Policy{old, next} {
		if p != nil {
			for _, s := range p.subjects {
				subjects[s] = true
			}
		}
	}
	for s := range subjects {
		shard := b.ownShard(shardOf(s))
		changed := b.own(shard[s])
		changed.replace(ifAbout(old, s), ifAbout(next, s))
		shard[s] = changed
		if len(changed.policies) == 0 {
			delete(shard, s)
		}
	}
}

func (b *builder) ownShard(i int) map[subject]*bucket {
	if !b.ownShards[i] {
		b.shards[i] = maps.Clone(b.shards[i])
		if b.shards[i] == nil {
			b.shards[i] = map[subject]*bucket{}
		}
		b.ownShards[i] = true
	}
	return b.shards[i]
}

// ifAny returns the policy if it is about all users.
func ifAny(p *Policy) *Policy {
	if p == nil || len(p.subjects) > 0 {
		return nil
	}
	return p
}

// ifAbout returns the policy if the subject is named in it.
func ifAbout(p *Policy, s subject) *Policy {
	if p == nil || !slices.Contains(p.subjects, s) {
		return nil
	}
	return p
}

// find appends the policies that match a request, each once, ordered by namespace and
// name.
func (x *index) find(a authorizer.Attributes, found []matching) []matching {
	found = x.everybody.find(a, found)
	if u := a.GetUser(); u != nil {
		found = x.findSubject(subject{name: u.GetName()}, a, found)
		for _, group := range u.GetGroups() {
			found = x.findSubject(subject{group: true, name: group}, a, found)
		}
	}
	if len(found) < 2 {
		return found
	}
	slices.SortFunc(found, func(a, b matching) int { return a.policy.key.Compare(b.policy.key) })
	return slices.CompactFunc(found, func(a, b matching) bool { return a.policy == b.policy })
}

// matching is a policy that matches a request, and how.
type matching struct {
	policy *Policy
	match  match
}

func (x *index) findSubject(s subject, a authorizer.Attributes, found []matching) []matching {
	return x.shards[shardOf(s)][s].find(a, found)
}

func (b *bucket) find(a authorizer.Attributes, found []matching) []matching {
	switch {
	case b == nil:
		return found
	case b.byRequest == nil:
		return appendMatching(b.policies, a, found)
	}
	for _, namespace := range distinct("", a.GetNamespace()) {
		//guard:engine-policies-found-their-namespace
		found = appendMatching(b.byRequest[requestKey{namespace: namespace}], a, found)
	}
	if !a.IsResourceRequest() {
		found = appendMatching(b.byRequest[requestKey{verb: a.GetVerb(), group: "/", resource: "/"}], a, found)
		if a.GetVerb() != all {
			found = appendMatching(b.byRequest[requestKey{verb: all, group: "/", resource: "/"}], a, found)
		}
		return found
	}
	resource, of, everything := a.GetResource(), "", all
	if sub := a.GetSubresource(); sub != "" {
		resource, of = resource+"/"+sub, all+"/"+sub
	}
	for _, namespace := range distinct("", a.GetNamespace()) {
		for _, verb := range distinct(a.GetVerb(), all) {
			for _, group := range distinct(a.GetAPIGroup(), all) {
				key := requestKey{namespace: namespace, verb: verb, group: group}
				for _, key.resource = range [3]string{resource, of, everything} {
					if key.resource != "" {
						found = appendMatching(b.byRequest[key], a, found)
					}
				}
			}
		}
	}
	return found
}

// distinct returns both values, or one if they are the same.
func distinct(a, b string) []string {
	if a == b {
		return []string{a}
	}
	return []string{a, b}
}

func appendMatching(policies []*Policy, a authorizer.Attributes, found []matching) []matching {
	for _, p := range policies {
		if m := p.matches(a); m != noMatch {
			found = append(found, matching{policy: p, match: m})
		}
	}
	return found
}
