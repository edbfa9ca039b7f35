/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package granular_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// grants is an authorizer that knows verbs, and counts the calls.
type grants struct {
	verbs []string
	err   error
	asked []string
	user  string
}

func (g *grants) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	g.asked = append(g.asked, a.GetVerb())
	g.user = fmt.Sprintf("%s %s/%s/%s %s/%s", a.GetUser().GetName(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName())
	if slices.Contains(g.verbs, a.GetVerb()) || slices.Contains(g.verbs, "*") {
		return authorizer.DecisionAllow, "", g.err
	}
	if slices.Contains(g.verbs, "!"+a.GetVerb()) {
		return authorizer.DecisionDeny, "", g.err
	}
	return authorizer.DecisionNoOpinion, "", g.err
}

var updateByBob = authorizer.AttributesRecord{
	User: &user.DefaultInfo{Name: "bob"}, Verb: "update", APIGroup: "example.com", APIVersion: "v1", Resource: "machines", Subresource: "status",
	Namespace: "ns", Name: "one", ResourceRequest: true,
}

type checkCase struct {
	name          string
	mappings      []*policy.FieldPermissionMapping
	before, after string
	verbs         string
	untyped       bool
	err           error
	asked         string // in order
	want          string // the reason of the refusal; "" if it is allowed
}

func (tc checkCase) run(t *testing.T, check func(granular.Checker) func(context.Context, *mapping.Rules, *changes.Changes, authorizer.Attributes) granular.Result) {
	t.Helper()
	differ := changes.Differ{Types: things.Types(t)}
	if tc.untyped {
		differ = changes.Differ{}
	}
	changed, err := differ.Changes(t.Context(), things.Kind, things.Object(things.Parse(t, tc.before)), things.Object(things.Parse(t, tc.after)))
	if err != nil {
		t.Fatal(err)
	}
	g := &grants{verbs: strings.Fields(tc.verbs), err: tc.err}
	result := check(granular.Checker{Authorizer: g})(t.Context(), mapping.NewTable(tc.mappings...).For(things.Machines), changed, updateByBob)
	if result.Allowed != (tc.want == "") || !strings.Contains(result.Reason, tc.want) || result.Allowed && result.Reason != "" {
		t.Errorf("got  allowed %v: %s\nwant %s", result.Allowed, result.Reason, tc.want)
	}
	want := strings.Fields(tc.asked)
	for i := range want {
		want[i] = "granular:" + want[i]
	}
	if diff := cmp.Diff(want, append([]string{}, g.asked...)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(g.asked) > 0 && g.user != "bob example.com/machines/status ns/one" {
		t.Errorf("asked about %q", g.user)
	}
}

// TestInclude is story 1 of the KEP and what is around it.
func TestInclude(t *testing.T) {
	t.Parallel()
	const (
		plain = "metadata: {name: a}\n"
		safe  = "granular:label(super.safe.com) granular:annotation(super.safe.com) granular:finalizer(super.safe.com) granular:condition(SuperSafe)"
	)
	disks := func(p policy.FieldPermissionParameter) []*policy.FieldPermissionMapping {
		return []*policy.FieldPermissionMapping{things.Mapping("containers", things.Spec(things.Field("spec.containers", "containers"), things.Parameterized("spec.containers[*]", "container", p)))}
	}
	container := func(name string) string { return plain + "spec: {containers: [{name: " + name + ", image: i}]}" }
	for _, tc := range []checkCase{
		{name: "nothing changes", before: plain, after: plain},
		{name: "a label", before: plain, after: "metadata: {name: a, labels: {super.safe.com/x: z}}", verbs: safe, asked: "metadata labels label(super.safe.com)"},
		{name: "labels, annotations, finalizers and a condition", before: plain,
			after: "metadata: {name: a, labels: {super.safe.com/a: b, super.safe.com/b: b}, annotations: {super.safe.com/a: b}, finalizers: [super.safe.com/a]}\nstatus: {conditions: [{type: SuperSafe, status: 't'}]}",
			verbs: safe, asked: "metadata annotations annotation(super.safe.com) finalizers finalizer(super.safe.com) labels label(super.safe.com) status conditions condition(SuperSafe)"},
		{name: "a removed label", before: "metadata: {name: a, labels: {super.safe.com/x: z}}", after: plain, verbs: safe, asked: "metadata labels label(super.safe.com)"},
		{name: "a label of somebody else", before: plain, after: "metadata: {name: a, labels: {other.com/x: z, super.safe.com/x: z}}", verbs: safe, asked: "metadata labels label(other.com)",
			want: `changing the field metadata.labels["other.com/x"] needs the verb "granular:metadata" or "granular:labels" or "granular:label(other.com)"`},
		{name: "a removed label of somebody else", before: "metadata: {name: a, labels: {other.com/x: z}}", after: plain, verbs: safe, asked: "metadata labels label(other.com)", want: `metadata.labels["other.com/x"]`},
		{name: "a label without slash", before: plain, after: "metadata: {name: a, labels: {app: z}}", verbs: "granular:label(app)", asked: "metadata labels label(app)"},
		{name: "a finalizer of somebody else", before: "metadata: {name: a, finalizers: [other.com/a]}", after: plain, verbs: safe, asked: "metadata finalizers finalizer(other.com)", want: `metadata.finalizers["other.com/a"]`},
		{name: "the order of finalizers", before: "metadata: {name: a, finalizers: [super.safe.com/a, super.safe.com/b]}", after: "metadata: {name: a, finalizers: [super.safe.com/b, super.safe.com/a]}", verbs: safe,
			asked: "metadata finalizers", want: "changing the field metadata.finalizers needs"},
		{name: "a condition of somebody else", before: plain, after: plain + "status: {conditions: [{type: Ready}]}", verbs: safe, asked: "status conditions condition(Ready)", want: `status.conditions[type="Ready"].type`},
		{name: "conditions of no schema are of one piece", untyped: true, before: plain, after: plain + "status: {conditions: [{type: SuperSafe}]}", verbs: safe, asked: "status conditions", want: "changing the field status.conditions needs"},
		{name: "the general permission is enough", before: plain, after: "metadata: {name: b, labels: {a: b, c: d}, annotations: {e: f}}", verbs: "granular:metadata", asked: "metadata"},
		{name: "in the middle", before: plain, after: "metadata: {name: a, labels: {a: b, c: d}}", verbs: "granular:labels", asked: "metadata labels"},
		{name: "the first field that is not covered is the last that is looked at", before: plain, after: "metadata: {name: a, labels: {a: b}}\nspec: {replicas: r}\nstatus: {phase: p}", verbs: "granular:label(a)",
			asked: "metadata labels label(a) specification replicas", want: `changing the field spec.replicas needs the verb "granular:specification" or "granular:replicas"`},
		{name: "an empty map for none", before: plain, after: "metadata: {name: a, labels: {}}", verbs: safe, asked: "metadata labels", want: "changing the field metadata.labels needs"},
		{name: "a field that nothing is about", untyped: true, before: plain, after: plain + "data: {a: b}", verbs: "*", want: "changing the field data.a needs permission on the whole object"},
		{name: "a Deny of the general is none of the specific", before: plain, after: "metadata: {name: a, labels: {a: b}}", verbs: "!granular:metadata granular:labels", asked: "metadata labels"},
		{name: "an error is no answer", before: plain, after: "metadata: {name: a, labels: {a: b}}", verbs: "granular:metadata", err: errors.New("secret"), asked: "metadata",
			want: `field metadata.labels.a: the authorizers failed to answer about the verb "granular:metadata"`},
		{name: "a parameter cannot pretend to be another verb", before: plain, after: "metadata: {name: a, finalizers: ['a)(b', '*']}", verbs: "granular:finalizer(a)", asked: "metadata finalizers finalizer(*)",
			want: `"granular:finalizer(*)"`},
		{name: "an empty parameter", before: plain, after: "metadata: {name: a, finalizers: [/x]}", verbs: "granular:finalizer() granular:finalizer", asked: "metadata finalizers",
			want: `needs the verb "granular:metadata" or "granular:finalizers" (permission "finalizer" of the built-in mapping: the parameter would be empty)`},
		{name: "a parameter that does not print", before: plain, after: `metadata: {name: a, finalizers: ["a\nb"]}`, verbs: safe, asked: "metadata finalizers", want: "must be printable"},
		{name: "a long parameter", before: plain, after: "metadata: {name: a, finalizers: [" + strings.Repeat("a", 318) + "]}", verbs: safe, asked: "metadata finalizers", want: "at most 317 bytes"},

		{name: "an element by its key", mappings: disks(policy.FieldPermissionParameter{}), before: plain, after: container("web"), verbs: "granular:container(web)", asked: "specification containers container(web)"},
		{name: "an element by a key that is named", mappings: disks(policy.FieldPermissionParameter{Key: "name"}), before: plain, after: container("web"), verbs: "granular:container(web)", asked: "specification containers container(web)"},
		{name: "a key that it does not have", mappings: disks(policy.FieldPermissionParameter{Key: "image"}), before: plain, after: container("web"), verbs: "granular:container(i)", asked: "specification containers", want: "has no key that could be the parameter"},
		{name: "an expression", mappings: disks(policy.FieldPermissionParameter{Treatment: "Expression", Expression: "parameter.split('-')[0]"}), before: plain, after: container("web-1"), verbs: "granular:container(web)", asked: "specification containers container(web)"},
		{name: "an expression that errs", mappings: disks(policy.FieldPermissionParameter{Treatment: "Expression", Expression: "parameter.split('-')[1]"}), before: plain, after: container("web"), verbs: safe, asked: "specification containers",
			want: `permission "container" of FieldPermissionMapping "containers": the expression failed: parameter.split('-')[1]`},
		{name: "an expression that takes too long", mappings: disks(policy.FieldPermissionParameter{Treatment: "Expression",
			Expression: "[1,2,3,4,5,6,7,8,9,0].map(a, [1,2,3,4,5,6,7,8,9,0].map(b, [1,2,3,4,5,6,7,8,9,0].map(c, [1,2,3,4,5,6,7,8,9,0].map(d, [1,2,3,4,5,6,7,8,9,0].map(e, parameter.size())))).size()).size() > 0 ? 'web' : 'b'"}),
			before: plain, after: container("web"), verbs: "granular:container(web)", asked: "specification containers", want: "the expression failed"},
		{name: "several keys", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Parameterized("spec.containers[*].ports[*]", "port", policy.FieldPermissionParameter{})))},
			before: plain + "spec: {containers: [{name: web}]}", after: plain + "spec: {containers: [{name: web, ports: [{port: p}]}]}", verbs: "granular:port(p)", asked: "specification", want: "does not say which is the parameter"},
		{name: "one of several keys", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Parameterized("spec.containers[*].ports[*]", "port", policy.FieldPermissionParameter{Key: "port"})))},
			before: plain + "spec: {containers: [{name: web}]}", after: plain + "spec: {containers: [{name: web, ports: [{port: p}]}]}", verbs: "granular:port(p)", asked: "specification port(p)"},
		{name: "one key of a map", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field(`metadata.labels["a.com/tier"]`, "tier")))},
			before: plain, after: "metadata: {name: a, labels: {a.com/tier: x}}", verbs: "granular:tier", asked: "metadata labels label(a.com) tier"},
		{name: "one element by its key", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field(`status.conditions[type="Ready"].status`, "readiness")))},
			before: plain + "status: {conditions: [{type: Ready}, {type: Other}]}", after: plain + "status: {conditions: [{type: Ready, status: x}, {type: Other}]}", verbs: "granular:readiness", asked: "status conditions condition(Ready) readiness"},
		{name: "another element than that", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field(`status.conditions[type="Ready"].status`, "readiness")))},
			before: plain + "status: {conditions: [{type: Other}]}", after: plain + "status: {conditions: [{type: Other, status: x}]}", verbs: "granular:readiness", asked: "status conditions condition(Other)", want: `[type="Other"].status`},
		{name: "one element of a set", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field(`spec.tags["prod"]`, "production")))},
			before: plain, after: plain + "spec: {tags: [prod]}", verbs: "granular:production", asked: "specification production"},
		{name: "another version", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("spec.tags", "words")), "v2")},
			before: plain, after: plain + "spec: {tags: [prod]}", verbs: "granular:words", asked: "specification", want: "spec.tags"},
		{name: "an exclusion in another version covers nothing", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Excluded("spec.bang", "selfDestruction", "")), "v2")},
			before: plain, after: plain + "spec: {tags: [prod]}", verbs: "granular:selfDestruction", asked: "specification", want: "spec.tags"},
		{name: "mappings that agree", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("spec.tags", "words"))), things.Mapping("n", things.Spec(things.Field("spec.tags", "words")))},
			before: plain, after: plain + "spec: {tags: [prod]}", verbs: "granular:words", asked: "specification words"},
		{name: "mappings that contradict each other", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("spec.tags", "words"))), things.Mapping("n", things.Spec(things.Field("spec.tags", "terms")))},
			before: plain, after: plain + "spec: {tags: [prod]}", verbs: "granular:words granular:terms", asked: "specification",
			want: `spec.tags has permission "terms" by FieldPermissionMapping "n" and "words" by FieldPermissionMapping "m"`},
		{name: "a mapping that is not valid", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("spec.tags", "words"), things.Field("spec..", "a")))},
			before: plain, after: plain + "spec: {tags: [prod]}", verbs: "granular:words", asked: "specification", want: "spec.tags"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(t, func(c granular.Checker) func(context.Context, *mapping.Rules, *changes.Changes, authorizer.Attributes) granular.Result {
				return c.Include
			})
		})
	}
}

// TestExclude is story 2 of the KEP, and labels with a meaning of their own.
func TestExclude(t *testing.T) {
	t.Parallel()
	const (
		plain    = "metadata: {name: a}\n"
		security = "pod-security.kubernetes.io/enforce"
	)
	boom := []*policy.FieldPermissionMapping{things.Mapping("boom", things.Spec(things.Excluded("spec.boom", "selfDestruction", "value == true")))}
	label := []*policy.FieldPermissionMapping{things.Mapping("security", things.Spec(things.Excluded(`metadata.labels["`+security+`"]`, "podSecurity", "")))}
	renamed := []*policy.FieldPermissionMapping{things.Mapping("v1", things.Spec(things.Excluded("spec.boom", "selfDestruction", "")), "v1"), things.Mapping("v2", things.Spec(things.Excluded("spec.bang", "selfDestruction", "")), "v2")}
	deep := []*policy.FieldPermissionMapping{things.Mapping("deep", things.Spec(things.Excluded("spec.a.b", "depth", "")))}
	for _, tc := range []checkCase{
		{name: "nothing is excluded", before: plain, after: "metadata: {name: a, labels: {a: b}}"},
		{name: "another field", mappings: label, before: plain, after: "metadata: {name: a, labels: {a: b}}"},
		{name: "the field, by who has everything", mappings: label, before: plain, after: "metadata: {name: a, labels: {" + security + ": x}}", verbs: "*", asked: "podSecurity"},
		{name: "the field, by who has more general permission", mappings: label, before: plain, after: "metadata: {name: a, labels: {" + security + ": x}}",
			verbs: "granular:metadata granular:labels granular:label(pod-security.kubernetes.io) update", asked: "podSecurity",
			want: `the field metadata.labels["pod-security.kubernetes.io/enforce"] is excluded from general permission: changing it also needs the verb "granular:podSecurity"`},
		{name: "the field is removed with all others", mappings: label, before: "metadata: {name: a, labels: {" + security + ": x}}", after: plain, asked: "podSecurity", want: security},
		{name: "an empty map for none", mappings: label, before: plain, after: "metadata: {name: a, labels: {}}"},
		{name: "an empty map for none, where every key is excluded", before: plain, after: "metadata: {name: a, labels: {}}",
			mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(policy.FieldPermission{Path: "metadata.labels[*]", Permission: "label", Parameter: &policy.FieldPermissionParameter{Treatment: "SlashDelimitedPrefix"}, Exclusion: &policy.FieldExclusion{}}))}},
		{name: "values that cannot be told apart", before: plain + "status: {conditions: [{type: A, status: x}, {type: A, status: z}]}", after: plain + "status: {conditions: [{type: A, status: x}, {type: A, status: w}]}",
			mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(policy.FieldPermission{Path: "status.conditions[*]", Permission: "condition", Parameter: &policy.FieldPermissionParameter{Key: "type"}, Exclusion: &policy.FieldExclusion{NewValues: "false"}}))},
			asked:    "condition(A)", want: "status.conditions"},
		{name: "an error is no answer", mappings: label, before: "metadata: {name: a, labels: {" + security + ": x}}", after: plain, verbs: "*", err: errors.New("x"), asked: "podSecurity", want: "failed to answer"},

		{name: "the excluded value", mappings: boom, untyped: true, before: plain, after: plain + "spec: {boom: true}", asked: "selfDestruction", want: "field spec.boom is excluded"},
		{name: "another value", mappings: boom, untyped: true, before: plain + "spec: {boom: true}", after: plain + "spec: {boom: false}"},
		{name: "no value", mappings: boom, untyped: true, before: plain + "spec: {boom: true}", after: plain},
		{name: "the value stays", mappings: boom, untyped: true, before: plain + "spec: {boom: true}", after: "metadata: {name: b}\nspec: {boom: true}"},
		{name: "a value that the expression fails for", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", "value > 3")))}, untyped: true, before: plain, after: plain + "spec: {boom: x}", asked: "selfDestruction", want: "spec.boom"},
		{name: "a create with the value", mappings: boom, untyped: true, after: plain + "spec: {boom: true}", asked: "selfDestruction", want: "spec.boom"},

		{name: "a field within", mappings: deep, untyped: true, before: plain, after: plain + "spec: {a: {b: {c: 1}}}", asked: "depth", want: "spec.a.b.c"},
		{name: "a field around becomes a text", mappings: deep, untyped: true, before: plain + "spec: {a: {b: 1}}", after: plain + "spec: {a: x}", asked: "depth", want: "spec.a "},
		{name: "a text becomes a field around", mappings: deep, untyped: true, before: plain + "spec: {a: x}", after: plain + "spec: {a: {b: 1}}", asked: "depth", want: "spec.a "},
		{name: "a text becomes a field around without it", mappings: deep, untyped: true, before: plain + "spec: {a: x}", after: plain + "spec: {a: {c: 1}}", asked: "depth", want: "spec.a "},
		{name: "a field around becomes empty", mappings: deep, untyped: true, before: plain, after: plain + "spec: {a: {}}"},
		{name: "something else in an atomic map", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Excluded("spec.selector.zone", "placement", "")))}, before: plain + "spec: {selector: {zone: a}}", after: plain + "spec: {selector: {zone: a, b: c}}"},
		{name: "the field in an atomic map", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Excluded("spec.selector.zone", "placement", "")))}, before: plain + "spec: {selector: {zone: a}}", after: plain + "spec: {selector: {zone: b}}", asked: "placement", want: "spec.selector is"},
		{name: "elements of a list of one piece", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Excluded(`status.conditions[type="Ready"]`, "readiness", "")))}, untyped: true,
			before: plain, after: plain + "status: {conditions: [{type: Other}]}", asked: "readiness", want: "status.conditions"},
		{name: "elements of a list with keys", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Excluded(`status.conditions[type="Ready"]`, "readiness", "")))},
			before: plain, after: plain + "status: {conditions: [{type: Other}]}"},
		{name: "a parameter", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(policy.FieldPermission{Path: "spec.tags[*]", Permission: "tag", Parameter: &policy.FieldPermissionParameter{}, Exclusion: &policy.FieldExclusion{NewValues: "value != 'free'"}}))},
			before: plain, after: plain + "spec: {tags: [free, prod]}", verbs: "granular:tag(free)", asked: "tag(prod)", want: `"granular:tag(prod)"`},

		{name: "the same under another name in another version", mappings: renamed, untyped: true, before: plain, after: plain + "spec: {boom: 1}", asked: "selfDestruction", want: "spec.boom"},
		{name: "the other version's name here", mappings: renamed, untyped: true, before: plain, after: plain + "spec: {bang: 1}"},
		{name: "a version of which no mapping says the name", mappings: renamed[1:], untyped: true, before: plain, after: plain + "spec: {boom: 1}", asked: "selfDestruction", want: "that its object does not show"},
		{name: "a version of which no mapping says the name, without a change", mappings: renamed[1:], untyped: true, before: plain, after: plain, asked: "selfDestruction", want: "that its object does not show"},
		{name: "a version of which no mapping says the name, by who may", mappings: renamed[1:], untyped: true, before: plain, after: plain + "spec: {boom: 1}", verbs: "granular:selfDestruction", asked: "selfDestruction"},
		{name: "a parameter in another version", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(policy.FieldPermission{Path: "spec.tags[*]", Permission: "tag", Parameter: &policy.FieldPermissionParameter{}, Exclusion: &policy.FieldExclusion{}}), "v2")},
			before: plain, after: "metadata: {name: b}", verbs: "*", want: `FieldPermissionMapping "m" excludes a field, but has no path for it in version v1`},
		{name: "a mapping that is not valid and excludes", mappings: []*policy.FieldPermissionMapping{things.Mapping("m", things.Spec(things.Field("spec..", "a"), things.Excluded("spec.boom", "selfDestruction", "")))}, before: plain, after: "metadata: {name: b}", verbs: "*",
			want: `FieldPermissionMapping "m" is not valid: spec.fields[0].path`},
		{name: "a contradiction is not a way around", mappings: append(boom, things.Mapping("other", things.Spec(things.Field("spec.boom", "noise")))), untyped: true, before: plain, after: plain + "spec: {boom: true}", verbs: "*", want: `and "`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(t, func(c granular.Checker) func(context.Context, *mapping.Rules, *changes.Changes, authorizer.Attributes) granular.Result {
				return c.Exclude
			})
		})
	}
}

// TestChecksAreBounded changes 5000 labels.
func TestChecksAreBounded(t *testing.T) {
	t.Parallel()
	labels, own := map[string]any{}, map[string]any{}
	var all []string
	for i := range 5000 {
		labels[fmt.Sprintf("d%d.example.com/x", i)] = "z"
		own[fmt.Sprintf("example.com/x%d", i)] = "z"
		all = append(all, fmt.Sprintf("granular:label(d%d.example.com)", i))
	}
	for _, tc := range []struct {
		name   string
		labels map[string]any
		verbs  []string
		checks int
		want   string
	}{
		{"nothing covers the first", labels, nil, 3, `metadata.labels["d0.example.com/x"] needs the verb`},
		{"each has a permission of its own", labels, all, granular.MaxChecks, "more than the 64 authorization checks"},
		{"one permission covers all", own, []string{"granular:label(example.com)"}, 3, ""},
		{"a general permission", labels, []string{"granular:labels"}, 2, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			changed, err := changes.Differ{}.Changes(t.Context(), things.Kind, things.Object(map[string]any{}), things.Object(map[string]any{"metadata": map[string]any{"labels": tc.labels}}))
			if err != nil {
				t.Fatal(err)
			}
			g := &grants{verbs: tc.verbs}
			result := granular.Checker{Authorizer: g}.Include(t.Context(), mapping.NewTable().For(things.Machines), changed, updateByBob)
			if len(g.asked) != tc.checks || len(result.Verbs) != tc.checks || result.Allowed != (tc.want == "") || !strings.Contains(result.Reason, tc.want) {
				t.Errorf("%d checks, allowed %v: %s\nwant %d checks and %q", len(g.asked), result.Allowed, result.Reason, tc.checks, tc.want)
			}
		})
	}
	if result := (granular.Checker{}).Include(t.Context(), mapping.NewTable().For(things.Machines), mustChange(t), updateByBob); result.Allowed || result.Err == nil {
		t.Errorf("without authorizer: got %+v, want an error", result)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result := (granular.Checker{Authorizer: &grants{verbs: []string{"*"}}}).Include(ctx, mapping.NewTable().For(things.Machines), mustChange(t), updateByBob); result.Allowed || !errors.Is(result.Err, context.Canceled) {
		t.Errorf("with an ended context: got %+v, want an error", result)
	}
}

func mustChange(t *testing.T) *changes.Changes {
	t.Helper()
	changed, err := changes.Differ{}.Changes(t.Context(), things.Kind, nil, things.Object(things.Parse(t, "metadata: {name: a}")))
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// naiveVerbs are the verbs that cover a field, as the KEP has them.
func naiveVerbs(path string) []string {
	parts := func(prefix, general, particular string, treat func(string) string) []string {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			return nil
		}
		verbs := []string{"granular:" + general}
		if rest = strings.Trim(rest, `.[]"`); rest != "" && treat(rest) != "" {
			verbs = append(verbs, "granular:"+particular+"("+treat(rest)+")")
		}
		return verbs
	}
	prefix := func(key string) string { before, _, _ := strings.Cut(key, "/"); return before }
	conditionType := func(key string) string {
		key = strings.TrimPrefix(key, `type="`)
		before, _, _ := strings.Cut(key, `"`)
		return before
	}
	top, _, _ := strings.Cut(path, ".")
	verbs := []string{"granular:" + map[string]string{"metadata": "metadata", "spec": "specification", "status": "status"}[top]}
	verbs = append(verbs, parts("metadata.labels", "labels", "label", prefix)...)
	verbs = append(verbs, parts("metadata.annotations", "annotations", "annotation", prefix)...)
	verbs = append(verbs, parts("metadata.finalizers", "finalizers", "finalizer", prefix)...)
	verbs = append(verbs, parts("status.conditions", "conditions", "condition", conditionType)...)
	if strings.HasPrefix(path, "metadata.ownerReferences") {
		verbs = append(verbs, "granular:ownerReferences")
	}
	if path == "spec.replicas" {
		verbs = append(verbs, "granular:replicas")
	}
	return verbs
}

var grantable = []string{
	"metadata", "labels", "label(a)", "label(b)", "label(example.com)", "annotations", "annotation(super.safe.com)", "finalizers", "finalizer(a)", "ownerReferences",
	"specification", "replicas", "status", "conditions", "condition(a)", "condition(super.safe.com/b)",
}

// FuzzInclude makes random writes with random permissions. One is accepted exactly if each
// field that the independent diff finds is covered.
func FuzzInclude(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	differ := changes.Differ{Types: things.Types(f)}
	rules := mapping.NewTable().For(things.Machines)
	f.Fuzz(func(t *testing.T, seed uint64) {
		before, after := things.RandomPair(seed)
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test must be repeatable
		var verbs []string
		for _, verb := range grantable {
			if r.IntN(3) > 0 {
				verbs = append(verbs, "granular:"+verb)
			}
		}
		want := true
		distinct := map[string]bool{}
		for _, path := range things.Changes(before, after) {
			covering := naiveVerbs(path)
			for _, verb := range covering {
				distinct[verb] = true
			}
			want = want && slices.ContainsFunc(covering, func(verb string) bool { return slices.Contains(verbs, verb) })
		}
		changed, err := differ.Changes(t.Context(), things.Kind, things.Object(before), things.Object(after))
		if err != nil {
			t.Fatal(err)
		}
		g := &grants{verbs: verbs}
		result := granular.Checker{Authorizer: g}.Include(t.Context(), rules, changed, updateByBob)
		if result.Allowed != want {
			t.Errorf("seed %d: got allowed %v (%s), want %v with %q\nbefore %v\nafter %v", seed, result.Allowed, result.Reason, want, verbs, before, after)
		}
		if len(g.asked) > len(distinct) {
			t.Errorf("seed %d: %d checks for %d permissions: %q", seed, len(g.asked), len(distinct), g.asked)
		}
	})
}

// TestExcludeDoesNotLookForever changes more elements than a check looks at: the values of
// the rest are not known, so that they count as excluded.
func TestExcludeDoesNotLookForever(t *testing.T) {
	t.Parallel()
	upToSlash := &policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentSlashDelimitedPrefix}
	isB := &policy.FieldExclusion{NewValues: "value == 'b'"}
	finalizers := policy.FieldPermission{Path: "metadata.finalizers[*]", Permission: "finalizer", Parameter: upToSlash, Exclusion: isB}
	labels := policy.FieldPermission{Path: "metadata.labels[*]", Permission: "label", Parameter: upToSlash, Exclusion: isB}
	tags := policy.FieldPermission{Path: "spec.tags[*]", Permission: "tag", Exclusion: &policy.FieldExclusion{}, Parameter: &policy.FieldPermissionParameter{Treatment: "Expression", Expression: "'one'"}}
	for _, tc := range []struct {
		name     string
		excluded policy.FieldPermission
		n        int
		want     string
	}{
		{"a thousand elements of a list", finalizers, 1000, ""},
		{"nine thousand elements of a list", finalizers, 9000, "too much to look at all values"},
		{"as many expressions as there may be", labels, 9_999, ""},
		{"more expressions than there may be", labels, 10_001, "too much to look at all values"},
		{"as many expressions of parameters as there may be", tags, 10_000, ""},
		{"more expressions of parameters than there may be", tags, 10_001, "more than the 10000 evaluations"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			list, keys := []any{}, map[string]any{}
			for i := range tc.n {
				key := fmt.Sprintf("a/%05d", i)
				list, keys[key] = append(list, key), "x"
			}
			after := map[string]map[string]any{
				finalizers.Path: {"metadata": map[string]any{"finalizers": list}}, labels.Path: {"metadata": map[string]any{"labels": keys}}, tags.Path: {"spec": map[string]any{"tags": list}},
			}[tc.excluded.Path]
			changed, err := changes.Differ{Types: things.Types(t)}.Changes(t.Context(), things.Kind, things.Object(map[string]any{}), things.Object(after))
			if err != nil {
				t.Fatal(err)
			}
			rules := mapping.NewTable(things.Mapping("m", things.Spec(tc.excluded))).For(things.Machines)
			result := granular.Checker{Authorizer: &grants{verbs: []string{"granular:tag(one)"}}}.Exclude(t.Context(), rules, changed, updateByBob)
			if result.Allowed != (tc.want == "") || !strings.Contains(result.Reason, tc.want) {
				t.Errorf("got allowed %t: %s, want %q", result.Allowed, result.Reason, tc.want)
			}
		})
	}
}

// TestKeysThatAreNumbers writes one number in two ways, which are stored as one.
func TestKeysThatAreNumbers(t *testing.T) {
	t.Parallel()
	excluded := things.Excluded(`metadata.ownerReferences[uid="80"]`, "owner", "")
	for _, tc := range []struct {
		uid     any
		allowed bool
	}{{int64(80), false}, {80.0, false}, {"80", false}, {80.5, true}, {int64(81), true}, {1e300, true}} {
		changed, err := changes.Differ{}.Changes(t.Context(), things.Kind, things.Object(map[string]any{}),
			things.Object(map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"uid": tc.uid}}}}))
		if err != nil {
			t.Fatal(err)
		}
		rules := mapping.NewTable(things.Mapping("m", things.Spec(excluded))).For(things.Machines)
		if got := (granular.Checker{Authorizer: &grants{}}).Exclude(t.Context(), rules, changed, updateByBob); got.Allowed != tc.allowed {
			t.Errorf("the key %T %v: got allowed %t: %s, want %t", tc.uid, tc.uid, got.Allowed, got.Reason, tc.allowed)
		}
	}
}

// TestNewValuesThatAreNumbers looks at numbers as typed objects have them, and as they are
// decoded: requests and reviews must come to the same.
func TestNewValuesThatAreNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		expression string
		value      any
		allowed    bool
	}{
		{"value * 2 > 10", int64(3), true}, {"value * 2 > 10", 3.0, true}, {"value * 2 > 10", 6.0, false},
		{"value[0].a * 2 > 10", []any{map[string]any{"a": 3.0}}, true},
		{"value == 0.5", 0.5, false}, {"value > 0.4", 0.3, true}, {"value < 1e20", 1e300, true}, {"value == null", []any{nil}, true}, {"value == [null]", []any{nil}, false},
	} {
		changed, err := changes.Differ{}.Changes(t.Context(), things.Kind, things.Object(map[string]any{}), things.Object(map[string]any{"spec": map[string]any{"a": tc.value}}))
		if err != nil {
			t.Fatal(err)
		}
		rules := mapping.NewTable(things.Mapping("m", things.Spec(things.Excluded("spec.a", "beauty", tc.expression)))).For(things.Machines)
		if got := (granular.Checker{Authorizer: &grants{}}).Exclude(t.Context(), rules, changed, updateByBob); got.Allowed != tc.allowed {
			t.Errorf("%s of %T %v: got allowed %t: %s, want %t", tc.expression, tc.value, tc.value, got.Allowed, got.Reason, tc.allowed)
		}
	}
}
