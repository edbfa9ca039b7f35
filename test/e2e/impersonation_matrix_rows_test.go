/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

const impersonationNamespace = "impersonation"

// impersonationRow is a request of a requester who impersonates the target.
type impersonationRow struct {
	index     int
	requester impersonationRequester
	target    authenticationv1.UserInfo
	request   impersonatedRequest
	grants    []impersonationGrant
	about     string
}

// impersonationRequester impersonates. The zero value is a user without groups.
type impersonationRequester struct {
	groups []string
	extra  map[string]string
	// node is where a pod of the requester, which is a service account then, runs.
	node string
	// account makes it a service account without a pod.
	account bool
}

func (r impersonationRow) name() string {
	if r.requester.node != "" || r.requester.account {
		return fmt.Sprintf("system:serviceaccount:%s:%s", impersonationNamespace, r.short())
	}
	return r.short()
}

func (r impersonationRow) short() string { return fmt.Sprintf("impersonator-%03d", r.index) }

func (r impersonationRow) String() string {
	return fmt.Sprintf("%03d %s, %s %s, %s", r.index, r.target.Username, r.request.Method, r.request.Path, r.about)
}

// impersonatedRequest is a request.
type impersonatedRequest struct{ Method, Path string }

var requestInfos = &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// attributes returns the attributes of a request for a resource, or of another one.
func (r impersonatedRequest) attributes() (*authorizationv1.ResourceAttributes, *authorizationv1.NonResourceAttributes) {
	target, err := url.Parse(r.Path)
	if err != nil {
		panic(err)
	}
	info, err := requestInfos.NewRequestInfo(&http.Request{Method: r.Method, URL: target})
	if err != nil {
		panic(err)
	}
	if !info.IsResourceRequest {
		return nil, &authorizationv1.NonResourceAttributes{Verb: info.Verb, Path: info.Path}
	}
	resource := &authorizationv1.ResourceAttributes{
		Verb: info.Verb, Group: info.APIGroup, Version: info.APIVersion, Namespace: info.Namespace, Resource: info.Resource, Subresource: info.Subresource, Name: info.Name,
	}
	if info.LabelSelector != "" {
		resource.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: info.LabelSelector}
	}
	return resource, nil
}

// impersonationGrant is a permission, in a namespace or everywhere.
type impersonationGrant struct {
	namespace string
	rule      rbacv1.PolicyRule
}

// grantOn grants to impersonate in a mode for a request.
func grantOn(mode string, r impersonatedRequest) impersonationGrant {
	verb := "impersonate-on:" + mode + ":"
	resource, path := r.attributes()
	if path != nil {
		return impersonationGrant{rule: rbacv1.PolicyRule{Verbs: []string{verb + path.Verb}, NonResourceURLs: []string{path.Path}}}
	}
	name := resource.Resource
	if resource.Subresource != "" {
		name += "/" + resource.Subresource
	}
	return grantPart(verb+resource.Verb, resource.Group, name)
}

// grantPart grants to impersonate one thing, or every one without names.
func grantPart(verb, group, resource string, names ...string) impersonationGrant {
	return impersonationGrant{rule: rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}}
}

// grantUser grants to impersonate the user alone.
func grantUser(verb string, u authenticationv1.UserInfo) impersonationGrant {
	group := authenticationv1.GroupName
	if verb == "impersonate" {
		group = ""
	}
	parts := strings.Split(u.Username, ":")
	switch {
	case strings.HasPrefix(u.Username, "system:serviceaccount:"):
		grant := grantPart(verb, group, "serviceaccounts", parts[3])
		grant.namespace = parts[2]
		return grant
	case strings.HasSuffix(verb, ":associated-node"):
		return grantPart(verb, group, "nodes")
	case strings.HasPrefix(u.Username, "system:node:n") && verb != "impersonate":
		return grantPart(verb, group, "nodes", parts[2])
	}
	return grantPart(verb, group, "users", u.Username)
}

// grantRest grants to impersonate everything but the user.
func grantRest(verb string, u authenticationv1.UserInfo) (grants []impersonationGrant) {
	group := authenticationv1.GroupName
	if u.UID != "" {
		grants = append(grants, grantPart(verb, group, "uids", u.UID))
	}
	for _, key := range slices.Sorted(maps.Keys(u.Extra)) {
		grants = append(grants, grantPart(verb, group, "userextras/"+key, u.Extra[key]...))
	}
	if verb == "impersonate" {
		group = ""
	}
	if len(u.Groups) > 0 {
		grants = append(grants, grantPart(verb, group, "groups", u.Groups...))
	}
	return grants
}

// impersonationMode is the constrained mode for a user who is not the requester's node.
func impersonationMode(u authenticationv1.UserInfo) string {
	switch {
	case strings.HasPrefix(u.Username, "system:serviceaccount:"):
		return "serviceaccount"
	case strings.HasPrefix(u.Username, "system:node:n"):
		return "arbitrary-node"
	default:
		return "user-info"
	}
}

func impersonationRows(t *testing.T) []impersonationRow {
	t.Helper()
	var rows []impersonationRow
	add := func(row impersonationRow) {
		row.index = len(rows)
		rows = append(rows, row)
	}
	addTestPlan(add)
	addProduct(t, add)
	addNodeRows(add)
	addRequesters(add)
	return rows
}

// pods is the path of the pods of requests.
const pods = "/api/v1/namespaces/" + impersonationNamespace + "/pods"

// addTestPlan adds the rows of KEP-5284, "Integration tests".
func addTestPlan(add func(impersonationRow)) {
	listPods, getPod, updatePod := impersonatedRequest{"GET", pods}, impersonatedRequest{"GET", pods + "/x"}, impersonatedRequest{"PUT", pods + "/x"}
	exec, logs := impersonatedRequest{"GET", pods + "/x/exec"}, impersonatedRequest{"GET", pods + "/x/log"}
	bob, alice := authenticationv1.UserInfo{Username: "bob"}, authenticationv1.UserInfo{Username: "alice"}
	impersonator := []impersonationGrant{
		grantUser("impersonate:user-info", bob), grantOn("user-info", listPods), grantOn("user-info", getPod), grantOn("user-info", exec),
	}
	for _, request := range []impersonatedRequest{listPods, getPod, updatePod, exec, logs} {
		for _, target := range []authenticationv1.UserInfo{bob, alice} {
			add(impersonationRow{target: target, request: request, grants: impersonator, about: "test plan, users"})
		}
	}
	associated := []impersonationGrant{grantPart("impersonate:associated-node", authenticationv1.GroupName, "nodes"), grantOn("associated-node", listPods)}
	for _, request := range []impersonatedRequest{listPods, updatePod} {
		for _, target := range []string{"system:node:n1", "system:node:n2", "bob"} {
			add(impersonationRow{requester: impersonationRequester{node: "n1"}, target: authenticationv1.UserInfo{Username: target}, request: request, grants: associated, about: "test plan, associated node"})
		}
	}
	for _, target := range []string{"system:serviceaccount:" + impersonationNamespace + ":robot", "system:node:n1"} {
		for _, request := range []impersonatedRequest{listPods, updatePod} {
			user := authenticationv1.UserInfo{Username: target}
			grants := []impersonationGrant{grantUser("impersonate:"+impersonationMode(user), user), grantOn(impersonationMode(user), listPods)}
			add(impersonationRow{target: user, request: request, grants: grants, about: "test plan, service accounts and nodes"})
		}
	}
}

// addProduct adds every target with every kind of grants, on requests that take turns.
func addProduct(t *testing.T, add func(impersonationRow)) {
	t.Helper()
	var table struct {
		Targets  []authenticationv1.UserInfo
		Requests []struct{ Method, Path string }
	}
	readYAML(t, "testdata/impersonation-matrix.yaml", &table)
	turn := 0
	for _, target := range table.Targets {
		for _, variant := range grantVariants(target) {
			request := impersonatedRequest(table.Requests[turn%len(table.Requests)])
			turn++
			add(impersonationRow{target: target, request: request, grants: variant.grants(request), about: variant.name})
		}
	}
}

type grantVariant struct {
	name   string
	grants func(impersonatedRequest) []impersonationGrant
}

func grantVariants(u authenticationv1.UserInfo) []grantVariant {
	type grants = []impersonationGrant
	mode := impersonationMode(u)
	verb := "impersonate:" + mode
	other := map[string]string{"user-info": "serviceaccount", "serviceaccount": "user-info", "arbitrary-node": "user-info"}[mode]
	everybody := []string{"users", "groups", "uids", "userextras/*", "serviceaccounts", "nodes"}
	all := func(verb string) (result grants) {
		for _, resource := range everybody {
			for _, group := range []string{"", authenticationv1.GroupName} {
				result = append(result, grantPart(verb, group, resource))
			}
		}
		return result
	}
	fixed := func(g ...impersonationGrant) func(impersonatedRequest) grants {
		return func(impersonatedRequest) grants { return g }
	}
	with := func(g ...impersonationGrant) func(impersonatedRequest) grants {
		return func(r impersonatedRequest) grants { return append(grants{grantOn(mode, r)}, g...) }
	}
	whole := append(grants{grantUser(verb, u)}, grantRest(verb, u)...)
	legacy := append(grants{grantUser("impersonate", u)}, grantRest("impersonate", u)...)
	return []grantVariant{
		{"nothing", fixed()},
		{"the request only", with()},
		{"the user only", fixed(grantUser(verb, u))},
		{"the request and the user's name", with(grantUser(verb, u))},
		{"the request and all of the user", with(whole...)},
		{"the request and everybody", with(all(verb)...)},
		{"another request and all of the user", func(r impersonatedRequest) grants {
			on := grantOn(mode, r)
			on.rule.Verbs = []string{"impersonate-on:" + mode + ":imagine"}
			return append(grants{on}, whole...)
		}},
		{"the request in its namespace and all of the user", func(r impersonatedRequest) grants {
			on := grantOn(mode, r)
			if len(on.rule.NonResourceURLs) == 0 {
				on.namespace = impersonationNamespace
			}
			return append(grants{on}, whole...)
		}},
		{"all of it in another mode", func(r impersonatedRequest) grants {
			return append(all("impersonate:"+other), grantOn(other, r))
		}},
		{"the user's name by the legacy verb", fixed(grantUser("impersonate", u))},
		{"all of the user by the legacy verb", fixed(legacy...)},
		{"everybody by the legacy verb", fixed(all("impersonate")...)},
		{"half of a mode, and the legacy verb", with(legacy...)},
		{"both the mode and the legacy verb", with(append(slices.Clone(whole), legacy...)...)},
	}
}

// addNodeRows adds service accounts that run on nodes, and one that does not.
func addNodeRows(add func(impersonationRow)) {
	get, path := impersonatedRequest{"GET", pods + "/x"}, impersonatedRequest{"GET", "/imaginary"}
	n1 := authenticationv1.UserInfo{Username: "system:node:n1"}
	associated, arbitrary := grantUser("impersonate:associated-node", n1), grantUser("impersonate:arbitrary-node", n1)
	one := grantPart("impersonate:associated-node", authenticationv1.GroupName, "nodes", "n1")
	star := grantPart("impersonate:associated-node", authenticationv1.GroupName, "nodes", "*")
	for _, requester := range []impersonationRequester{{node: "n1"}, {node: "n2"}, {account: true}} {
		for _, request := range []impersonatedRequest{get, path, {"POST", pods + "/x/exec"}} {
			onAssociated, onArbitrary := grantOn("associated-node", request), grantOn("arbitrary-node", request)
			for _, variant := range []struct {
				name   string
				grants []impersonationGrant
			}{
				{"nothing", nil},
				{"associated", []impersonationGrant{onAssociated, associated}},
				{"associated, but not on the request", []impersonationGrant{associated}},
				{"associated, for the one node, which is not enough", []impersonationGrant{onAssociated, one}},
				{"associated, by an asterisk", []impersonationGrant{onAssociated, star}},
				{"arbitrary", []impersonationGrant{onArbitrary, arbitrary}},
				{"both", []impersonationGrant{onAssociated, associated, onArbitrary, arbitrary}},
				{"the halves of each", []impersonationGrant{onAssociated, arbitrary}},
				{"associated in half, and legacy", []impersonationGrant{onAssociated, grantUser("impersonate", n1)}},
			} {
				add(impersonationRow{requester: requester, target: n1, request: request, grants: variant.grants, about: fmt.Sprintf("%s, from %+v", variant.name, requester)})
			}
		}
	}
	for _, target := range []authenticationv1.UserInfo{{Username: "system:node:n1", UID: "1"}, {Username: "system:node:N1_"}, {Username: "bob"}} {
		add(impersonationRow{requester: impersonationRequester{node: "n1"}, target: target, request: get, grants: []impersonationGrant{grantOn("associated-node", get), associated}, about: "associated with a node, but wants another"})
	}
}

// addRequesters adds requesters who are special.
func addRequesters(add func(impersonationRow)) {
	get := impersonatedRequest{"GET", pods + "/x"}
	for _, requester := range []impersonationRequester{
		{groups: []string{"system:masters"}},
		{groups: []string{"system:nodes"}},
		{groups: []string{"g1", "system:authenticated"}},
		{extra: map[string]string{"authentication.kubernetes.io/node-name": "n1"}},
		{extra: map[string]string{"authorization.proviso.dev/delegated": "forged"}},
	} {
		for _, target := range []authenticationv1.UserInfo{
			{Username: "bob"}, {Username: "system:node:n1"}, {Username: "bob", Groups: []string{"system:masters"}}, {Username: "system:serviceaccount:" + impersonationNamespace + ":robot"},
		} {
			grants := []impersonationGrant{grantOn("associated-node", get), grantUser("impersonate:associated-node", target), grantOn(impersonationMode(target), get), grantUser("impersonate:"+impersonationMode(target), target)}
			add(impersonationRow{requester: requester, target: target, request: get, grants: grants, about: fmt.Sprintf("a requester with %+v", requester)})
			add(impersonationRow{requester: requester, target: target, request: get, about: fmt.Sprintf("a requester with %+v and no grants", requester)})
		}
	}
}
