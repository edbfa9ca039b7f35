/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/rows"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

func TestValidatePermission(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		permission, fields string
		wantErr, wantWarn  string
	}{
		{"nodeAssignment", "spec nodeName", "", ""},
		{"labels2", "metadata labels", "", ""},
		{"", "spec nodeName", "must be given", ""},
		{strings.Repeat("a", 63), "spec nodeName", "", ""},
		{strings.Repeat("a", 64), "spec nodeName", "at most 63 bytes", ""},
		{"NodeAssignment", "spec nodeName", "lowerCamelCase", ""},
		{"node-assignment", "spec nodeName", "lowerCamelCase", ""},
		{"node_assignment", "spec nodeName", "lowerCamelCase", ""},
		{"pod.nodeAssignment", "spec nodeName", "lowerCamelCase", ""},
		{"label(x)", "metadata labels", "lowerCamelCase", ""},
		{"nödeAssignment", "spec nodeName", "lowerCamelCase", ""},
		{"specNodeAssignment", "spec nodeName", `must not refer to the field "spec"`, ""},
		{"metadataLabels", "metadata labels", `must not refer to the field "metadata"`, ""},
		{"specification", "spec nodeName", "", ""},
		{"specs", "spec nodeName", "", ""},
		{"nodeName", "spec nodeName", "", "is the name of a field"},
		{"setNode", "spec nodeName", "", `should be a noun, but begins with "set"`},
		{"settlement", "spec nodeName", "", ""},
		{"set", "spec nodeName", "", ""},
		{permission: "nodeAssignment2", fields: ""}, // a path of elements only names no field
		{permission: "Spec", fields: "spec nodeName", wantErr: "lowerCamelCase"},
		{permission: "spec", fields: "spec nodeName"},      // only a part of the path behind it would be its name
		{permission: "nodeNameX", fields: "spec nodeName"}, // the field itself is no ancestor
		{permission: "diskSize", fields: "spec disk size", wantErr: `must not refer to the field "disk"`},
		{permission: "size", fields: "spec disk size", wantWarn: "is the name of a field"},
		{permission: "diskS", fields: "spec disk size", wantErr: `must not refer to the field "disk"`},
		{permission: "disk2", fields: "spec disk size"},
		{permission: "updateSize", fields: "spec disk updateSize", wantWarn: `"updateSize" should be a noun, but begins with "update"`},
		{permission: "a", fields: "spec nodeName"},
	} {
		t.Run(tc.permission+" for "+tc.fields, func(t *testing.T) {
			t.Parallel()
			warnings, err := mapping.ValidatePermission(tc.permission, strings.Fields(tc.fields))
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error: got %v, want %q", err, tc.wantErr)
			}
			if got := strings.Join(warnings, "; "); (got == "") != (tc.wantWarn == "") || !strings.Contains(got, tc.wantWarn) {
				t.Errorf("warnings: got %q, want %q", got, tc.wantWarn)
			}
		})
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	type row struct {
		Fields     []policy.FieldPermission
		Want, Warn string
	}
	check := func(t *testing.T, tc row) {
		t.Helper()
		_, warnings, errs := mapping.Compile("m", things.Spec(tc.Fields...))
		got := ""
		if err := errs.ToAggregate(); err != nil {
			got = err.Error()
		}
		if (got == "") != (tc.Want == "") || !strings.Contains(got, tc.Want) {
			t.Errorf("errors: got %q, want %q", got, tc.Want)
		}
		if warned := strings.Join(warnings, "; "); (warned == "") != (tc.Warn == "") || !strings.Contains(warned, tc.Warn) {
			t.Errorf("warnings: got %q, want %q", warned, tc.Warn)
		}
	}
	rows.Run(t, "testdata/compile.yaml", check)
	computed := policy.FieldPermissionParameter{Treatment: "Expression", Expression: "parameter" + strings.Repeat(" ", 1024)}
	deep := strings.Repeat("[", 17) + strings.Repeat("]", 17) + " == value"
	padded := func(length int) string { return "value == true" + strings.Repeat(" ", length-len("value == true")) }
	boom := func(newValues string) policy.FieldPermission {
		return things.Excluded("spec.boom", "selfDestruction", newValues)
	}
	for _, tc := range []struct {
		name  string
		field policy.FieldPermission
		want  string
	}{
		{name: "a long path", field: things.Field(strings.Repeat("a", 1025), "b"), want: "at most 1024 bytes"},
		{name: "a deep path", field: things.Field("a"+strings.Repeat(".a", 32), "b"), want: "at most 32 steps"},
		{name: "a long expression", field: things.Parameterized("spec.disks[*]", "disk", computed), want: "at most 1024 bytes"},
		{name: "an expression that takes long to compile", field: boom(deep), want: `spec.fields[0].exclusion.newValues: Invalid value: "` + deep +
			`": does not compile: list and map literals are nested more than 16 deep`},
		{name: "an expression as long as may be", field: boom(padded(1024))},
		{name: "an exclusion that is too long", field: boom(padded(1025)), want: "must have at most 1024 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			check(t, row{Fields: []policy.FieldPermission{tc.field}, Want: tc.want})
		})
	}
}

// TestPodsOnly have a built-in permission for their node.
func TestPodsOnly(t *testing.T) {
	t.Parallel()
	spec := things.Spec(policy.FieldPermission{Path: "spec.nodeName", Permission: "placement"})
	if _, _, errs := mapping.Compile("m", spec); len(errs) > 0 {
		t.Errorf("machines: got %v, want no error", errs)
	}
	spec.Resources = append(spec.Resources, policy.FieldPermissionResource{Resource: "pods"})
	if _, _, errs := mapping.Compile("m", spec); len(errs) != 1 {
		t.Errorf("pods: got %v, want an error", errs)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	with := func(name, permission string) *policy.FieldPermissionMapping {
		return things.Mapping(name, things.Spec(things.Field("spec.x", permission)))
	}
	one, other := mapping.NewTable(with("a", "x1"), with("b", "x2")), mapping.NewTable(with("b", "x2"), with("a", "x1"))
	if diff := cmp.Diff(one.Digest(), other.Digest()); diff != "" {
		t.Errorf("the order of mappings changes the digest:\n%s", diff)
	}
	if one.Digest() == mapping.NewTable(with("a", "x1"), with("b", "x3")).Digest() || one.Digest() == mapping.NewTable(with("a", "x1")).Digest() {
		t.Error("different mappings have the same digest")
	}
}

// TestDigestTellsRulesApart changes one thing of a mapping at a time. Conditions of a review carry the digest: if two tables
// shared it, conditions that were decided by one could be evaluated by the other.
func TestDigestTellsRulesApart(t *testing.T) {
	t.Parallel()
	base := func() *policy.FieldPermissionMapping {
		return things.Mapping("m", things.Spec(policy.FieldPermission{
			Path: "spec.ports[*].names[*]", Permission: "name",
			Parameter: &policy.FieldPermissionParameter{Key: "k", Treatment: policy.ParameterTreatmentExpression, Expression: "parameter"},
			Exclusion: &policy.FieldExclusion{NewValues: "value == 1"},
		}), "v1")
	}
	longKey := strings.Repeat("k", 900) // one path has room for it
	digests := map[string]string{mapping.NewTable().Digest(): "no mapping", mapping.NewTable(base()).Digest(): "the base"}
	check := func(name string, m *policy.FieldPermissionMapping) {
		digest := mapping.NewTable(m).Digest()
		if other, ok := digests[digest]; ok {
			t.Errorf("%s: the digest is the same as with %s", name, other)
		}
		digests[digest] = name
	}
	named := base()
	named.Name = "n"
	check("the name", named)
	type resource = policy.FieldPermissionResource
	for name, resources := range map[string][]resource{
		"the group":                     {{Resource: "machines", APIVersions: []string{"v1"}}},
		"the resource":                  {{APIGroup: "example.com", Resource: "others", APIVersions: []string{"v1"}}},
		"the version":                   {{APIGroup: "example.com", Resource: "machines", APIVersions: []string{"v2"}}},
		"all versions":                  {{APIGroup: "example.com", Resource: "machines"}},
		"a version more":                {{APIGroup: "example.com", Resource: "machines", APIVersions: []string{"v1", "v2"}}},
		"two versions that read as one": {{APIGroup: "example.com", Resource: "machines", APIVersions: []string{`v1" "v2`}}},
		"a resource more":               {{APIGroup: "example.com", Resource: "machines", APIVersions: []string{"v1"}}, {Resource: "pods"}},
		"no resource":                   nil,
	} {
		m := base()
		m.Spec.Resources = resources
		check(name, m)
	}
	type field = policy.FieldPermission
	for name, change := range map[string]func(f *field){
		"the path":           func(f *field) { f.Path = "spec.ports[*].name[*]" },
		"a key for any":      func(f *field) { f.Path = `spec.ports["a"].names[*]` },
		"a list key for any": func(f *field) { f.Path = `spec.ports[a="a"].names[*]` },
		"another list key":   func(f *field) { f.Path = `spec.ports[b="a"].names[*]` },
		"a field below":      func(f *field) { f.Path += ".x" },
		"a long key":         func(f *field) { f.Path = `spec.ports["` + longKey + `a"].names[*]` },
		"another long key":   func(f *field) { f.Path = `spec.ports["` + longKey + `b"].names[*]` },
		"the permission":     func(f *field) { f.Permission = "nickname" },
		"no parameter":       func(f *field) { f.Parameter = nil },
		"the key":            func(f *field) { f.Parameter.Key = "l" },
		"the only key":       func(f *field) { f.Parameter.Key = "" },
		"the expression":     func(f *field) { f.Parameter.Expression = "parameter + ''" },
		"verbatim":           func(f *field) { f.Parameter.Treatment, f.Parameter.Expression = "", "" },
		"the prefix": func(f *field) {
			f.Parameter.Treatment, f.Parameter.Expression = policy.ParameterTreatmentSlashDelimitedPrefix, ""
		},
		"no exclusion":         func(f *field) { f.Exclusion = nil },
		"every change":         func(f *field) { f.Exclusion.NewValues = "" },
		"the new values":       func(f *field) { f.Exclusion.NewValues = "value == 2" },
		"an invalid exclusion": func(f *field) { f.Exclusion.NewValues = "value ==" },
		"another invalid one":  func(f *field) { f.Exclusion.NewValues = "1" },
	} {
		m := base()
		change(&m.Spec.Fields[0])
		check(name, m)
	}
}

// TestLongKeysAreWhole has keys that differ in their last letter only. Each has its own permission.
func TestLongKeysAreWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 900)
	spec := things.Spec(things.Field(`spec.things["`+long+`a"]`, "first"), things.Field(`spec.things["`+long+`b"]`, "second"))
	if _, _, errs := mapping.Compile("m", spec); len(errs) > 0 {
		t.Errorf("got %v, want no error", errs)
	}
	for key, want := range map[string]string{"a": "granular:first", "b": "granular:second"} {
		var got []string
		for rule := range mapping.NewTable(things.Mapping("m", spec)).For(things.Machines).All() {
			if at := path(name(long + key)); rule.Includes(at) && strings.Contains(rule.String(), "things") {
				verb, err := rule.Verb(t.Context(), at, free)
				got = append(got, verb, fmt.Sprint(err))
			}
		}
		if diff := cmp.Diff([]string{want, "<nil>"}, got); diff != "" {
			t.Errorf("key %s (-want +got):\n%s", key, diff)
		}
	}
}

// TestErrorsOfExpressionsAreShort shows the message of the compiler on one line of bounded length, whatever the author has written.
func TestErrorsOfExpressionsAreShort(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, expression string
		wantCut          bool
	}{
		{name: "one mistake", expression: "x"},
		{name: "a mistake behind line breaks", expression: "true\n\n\n\t|| x"},
		{name: "a long name", expression: strings.Repeat("x", 1000), wantCut: true},
	} {
		_, _, errs := mapping.Compile("m", things.Spec(things.Excluded("spec.boom", "selfDestruction", tc.expression)))
		if len(errs) != 1 {
			t.Errorf("%s: got %d errors, want 1", tc.name, len(errs))
			continue
		}
		message := errs[0].Detail
		cut := strings.HasSuffix(message, "…")
		switch length := len(message); {
		case cut != tc.wantCut || length > 512 || cut && length < 510:
			t.Errorf("%s: the message has %d bytes, cut: %v", tc.name, length, cut)
		case strings.ContainsAny(message, "\n\t") || strings.Contains(message, "  ") || !utf8.ValidString(message):
			t.Errorf("%s: the message %q is not one line of text", tc.name, message)
		case !strings.HasPrefix(message, "does not compile: ERROR: <input>:"):
			t.Errorf("%s: the message %q does not say where the mistake is", tc.name, message)
		}
	}
}

// TestExpressionsOfOneMappingAreBounded compiles as many expressions as a mapping may have: short ones fit, long ones and ones
// with large macros do not, and what they allocate is bounded.
func TestExpressionsOfOneMappingAreBounded(t *testing.T) {
	// Not parallel, because it measures allocations.
	long := strings.TrimSuffix(strings.Repeat("value.a.b.c==1||", 62), "||")
	for name, tc := range map[string]struct{ parameter, newValues, want string }{
		"short":           {`parameter + "%d"`, `value != %d && oldValue == null`, ""},
		"long newValues":  {"parameter", "%d==1||" + long, "take too long to compile together"},
		"long parameters": {strings.Repeat("parameter+", 100) + `"%d"`, "value == 1", "take too long to compile together"},
		"macros":          {"parameter", "%d==1||" + strings.Repeat("[value].all(a, ", 40) + "true" + strings.Repeat(")", 40), "take too long to compile together"},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []policy.FieldPermission
			number := func(text string, i int) string { return strings.Replace(text, "%d", strconv.Itoa(i), 1) }
			for i := range policy.MaxMappedFields {
				fields = append(fields, policy.FieldPermission{
					Path: fmt.Sprintf("spec.f%d[*]", i), Permission: fmt.Sprintf("tuning%d", i),
					Parameter: &policy.FieldPermissionParameter{Treatment: policy.ParameterTreatmentExpression, Expression: number(tc.parameter, i)},
					Exclusion: &policy.FieldExclusion{NewValues: number(tc.newValues, i)},
				})
			}
			spec := things.Spec(fields...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, errs := mapping.Compile("m", spec)
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 256 {
				t.Errorf("compiling allocated %d MiB, want less than 256", allocated)
			} else {
				t.Logf("compiling allocated %d MiB", allocated)
			}
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) == 0 || !strings.Contains(errs[len(errs)-1].Error(), tc.want)) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
		})
	}
}
