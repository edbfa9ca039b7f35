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
	node := policy.FieldPermission{Path: "spec.nodeName", Permission: "nodeAssignment"}
	field := func(path, permission string) policy.FieldPermission {
		return policy.FieldPermission{Path: path, Permission: permission}
	}
	parameter := func(path string, p policy.FieldPermissionParameter) policy.FieldPermission {
		return policy.FieldPermission{Path: path, Permission: "disk", Parameter: &p}
	}
	excluded := func(newValues string) policy.FieldPermission {
		return policy.FieldPermission{Path: "spec.boom", Permission: "selfDestruction", Exclusion: &policy.FieldExclusion{NewValues: newValues}}
	}
	for _, tc := range []struct {
		name   string
		fields []policy.FieldPermission
		want   string // the errors; "" for none
		warn   string
	}{
		{"fields of every form", []policy.FieldPermission{
			node, field("spec.disks", "storage"), field(`metadata.labels["example.com/x"]`, "tier"), field(`status.conditions[type="Ready"].status`, "readiness"),
			parameter("spec.disks[*]", policy.FieldPermissionParameter{Key: "name"}), field("$schema", "dialect"), field("spec.a-b", "ab"),
		}, "", ""},
		{"no path", []policy.FieldPermission{field("", "a")}, "spec.fields[0].path: Invalid value: \"\": must begin with a field", ""},
		{"a leading dot", []policy.FieldPermission{field(".spec", "a")}, "must be fields with dots", ""},
		{"a trailing dot", []policy.FieldPermission{field("spec.", "a")}, "must be fields with dots", ""},
		{"an index", []policy.FieldPermission{field("spec.disks[0]", "a")}, "must be fields with dots", ""},
		{"an open bracket", []policy.FieldPermission{field(`spec.disks["a"`, "a")}, "must be fields with dots", ""},
		{"another quote", []policy.FieldPermission{field("spec.disks[`a`]", "a")}, "must be fields with dots", ""},
		{"an element first", []policy.FieldPermission{field("[*]", "a")}, "must be fields with dots", ""},
		{"a long path", []policy.FieldPermission{field(strings.Repeat("a", 1025), "b")}, "at most 1024 bytes", ""},
		{"a deep path", []policy.FieldPermission{field("a"+strings.Repeat(".a", 32), "b")}, "at most 32 steps", ""},
		{"a bad permission", []policy.FieldPermission{field("spec.nodeName", "NodeAssignment")}, "spec.fields[0].permission: Invalid value: \"NodeAssignment\": must be in lowerCamelCase", ""},
		{"a permission that is a field", []policy.FieldPermission{field("spec.nodeName", "nodeName")}, "", "spec.fields[0].permission: permission \"nodeName\" is the name of a field"},
		{"the same path twice", []policy.FieldPermission{node, field(`spec["nodeName"]`, "placement")}, "spec.fields[1].path: Duplicate value", ""},
		{"a permission with two parameters", []policy.FieldPermission{parameter("spec.disks[*]", policy.FieldPermissionParameter{}), field("spec.volume", "disk")}, "spec.fields[1].parameter: Invalid value: \"disk\": the permission has another parameter", ""},
		{"what is built in, differently", []policy.FieldPermission{field("metadata.labels", "tags")}, `spec.fields[0].permission: Forbidden: metadata.labels has the built-in permission labels`, ""},
		{"what is built in, with another parameter", []policy.FieldPermission{{Path: "metadata.labels[*]", Permission: "label", Parameter: &policy.FieldPermissionParameter{}}}, "metadata.labels[*] has the built-in permission label", ""},
		{"what is built in, excluded", []policy.FieldPermission{{Path: "metadata.labels", Permission: "labels", Exclusion: &policy.FieldExclusion{}}}, "", `is the name of a field`},
		{"what the server owns", []policy.FieldPermission{field("metadata.managedFields", "managers")}, "spec.fields[0].path: Forbidden: the server owns metadata.managedFields", ""},
		{"what is within what the server owns", []policy.FieldPermission{field("metadata.managedFields[*].manager", "managers")}, "the server owns metadata.managedFields", ""},

		{"a parameter without place", []policy.FieldPermission{parameter("spec.disks", policy.FieldPermissionParameter{})}, "there is no [*] in the path", ""},
		{"an unknown treatment", []policy.FieldPermission{parameter("spec.disks[*]", policy.FieldPermissionParameter{Treatment: "slash-delimited-prefix"})}, "spec.fields[0].parameter.treatment: Unsupported value", ""},
		{"an expression", []policy.FieldPermission{parameter("spec.disks[*]", policy.FieldPermissionParameter{Treatment: "Expression", Expression: "parameter.split('-')[0]"})}, "", ""},
		{"no expression", []policy.FieldPermission{parameter("spec.disks[*]", policy.FieldPermissionParameter{Treatment: "Expression"})}, "must be given for the treatment Expression", ""},
		{"an expression for another treatment", []policy.FieldPermission{parameter("spec.disks[*]", policy.FieldPermissionParameter{Treatment: "Verbatim", Expression: "parameter"})}, "and for no other", ""},
		{"an expression of another type", []policy.FieldPermission{parameter("spec.disks[*]", policy.FieldPermissionParameter{Treatment: "Expression", Expression: "1"})}, "must yield string, but yields int", ""},
		{"an expression with a mistake", []policy.FieldPermission{parameter("spec.disks[*]", policy.FieldPermissionParameter{Treatment: "Expression", Expression: "object.spec"})}, "does not compile: ERROR: <input>:1:1: undeclared reference", ""},
		{"a long expression", []policy.FieldPermission{parameter("spec.disks[*]", policy.FieldPermissionParameter{Treatment: "Expression", Expression: "parameter" + strings.Repeat(" ", 1024)})}, "at most 1024 bytes", ""},
		{"an expression that takes long to compile", []policy.FieldPermission{excluded(strings.Repeat("[", 17) + strings.Repeat("]", 17) + " == value")}, "spec.fields[0].exclusion.newValues: Invalid value: \"" + strings.Repeat("[", 17) + strings.Repeat("]", 17) + " == value\": does not compile: list and map literals are nested more than 16 deep", ""},
		{"an exclusion", []policy.FieldPermission{excluded("value == true && oldValue != true")}, "", ""},
		{"an exclusion of another type", []policy.FieldPermission{excluded("'true'")}, "spec.fields[0].exclusion.newValues: Invalid value: \"'true'\": does not compile: it must yield bool", ""},
		{name: "a permission with the value of a list key", fields: []policy.FieldPermission{field(`spec.disks[type="fast"].size`, "fastCapacity")}},
		{
			name:   "a permission with a key of a map",
			fields: []policy.FieldPermission{field(`spec.disks["fast"].size`, "fastCapacity")},
			want:   `spec.fields[0].permission: Invalid value: "fastCapacity": must not refer to the field "fast"`,
		},
		{name: "one permission for two fields", fields: []policy.FieldPermission{node, field("spec.hostName", "nodeAssignment")}},
		{
			name: "one permission with the same parameter in two places",
			fields: []policy.FieldPermission{
				parameter("spec.disks[*]", policy.FieldPermissionParameter{Key: "name"}),
				parameter("spec.oldDisks[*]", policy.FieldPermissionParameter{Key: "name"}),
			},
		},
		{
			name: "one permission with another key",
			fields: []policy.FieldPermission{
				parameter("spec.disks[*]", policy.FieldPermissionParameter{Key: "name"}),
				parameter("spec.oldDisks[*]", policy.FieldPermissionParameter{Key: "id"}),
			},
			want: `spec.fields[1].parameter: Invalid value: "disk": the permission has another parameter`,
		},
		{
			name: "one permission with another expression",
			fields: []policy.FieldPermission{
				parameter("spec.disks[*]", policy.FieldPermissionParameter{Treatment: "Expression", Expression: "parameter"}),
				parameter("spec.oldDisks[*]", policy.FieldPermissionParameter{Treatment: "Expression", Expression: "parameter + 'x'"}),
			},
			want: `spec.fields[1].parameter: Invalid value: "disk": the permission has another parameter`,
		},
		{
			name:   "an expression as long as may be",
			fields: []policy.FieldPermission{excluded("value == true" + strings.Repeat(" ", 1024-len("value == true")))},
		},
		{
			name:   "an exclusion that is too long",
			fields: []policy.FieldPermission{excluded("value == true" + strings.Repeat(" ", 1025-len("value == true")))},
			want:   "must have at most 1024 bytes",
		},
		{
			name:   "the variable of the other kind of expression",
			fields: []policy.FieldPermission{excluded("parameter == 'x'")},
			want:   "undeclared reference to 'parameter'",
		},
		{
			name:   "a variable of conditions",
			fields: []policy.FieldPermission{excluded("request.user == 'x'")},
			want:   "undeclared reference to 'request'",
		},
		{
			name: "mistakes in several fields",
			fields: []policy.FieldPermission{
				{Path: "metadata.uid", Permission: "Identity", Parameter: &policy.FieldPermissionParameter{}, Exclusion: &policy.FieldExclusion{NewValues: "1"}},
				field("spec..x", "x"),
			},
			want: `[spec.fields[0].path: Forbidden: the server owns metadata.uid, so that its changes need no permission, ` +
				`spec.fields[0].permission: Invalid value: "Identity": must be in lowerCamelCase: letters and digits only, and first a small letter, ` +
				`spec.fields[0].parameter: Invalid value: "metadata.uid": there is no [*] in the path that could be the parameter, ` +
				`spec.fields[0].exclusion.newValues: Invalid value: "1": does not compile: it must yield bool, but yields int, ` +
				`spec.fields[1].path: Invalid value: "spec..x": must be fields with dots`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, warnings, errs := mapping.Compile("m", things.Spec(tc.fields...))
			got := ""
			if err := errs.ToAggregate(); err != nil {
				got = err.Error()
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("errors: got %q, want %q", got, tc.want)
			}
			if warned := strings.Join(warnings, "; "); (warned == "") != (tc.warn == "") || !strings.Contains(warned, tc.warn) {
				t.Errorf("warnings: got %q, want %q", warned, tc.warn)
			}
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
	for _, tc := range []struct {
		name   string
		change func(m *policy.FieldPermissionMapping, f *policy.FieldPermission)
	}{
		{name: "the name", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) { m.Name = "n" }},
		{name: "the group", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) { m.Spec.Resources[0].APIGroup = "" }},
		{name: "the resource", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) {
			m.Spec.Resources[0].Resource = "others"
		}},
		{name: "the version", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) {
			m.Spec.Resources[0].APIVersions = []string{"v2"}
		}},
		{name: "all versions", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) {
			m.Spec.Resources[0].APIVersions = nil
		}},
		{name: "a version more", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) {
			m.Spec.Resources[0].APIVersions = []string{"v1", "v2"}
		}},
		{name: "two versions that read as one", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) {
			m.Spec.Resources[0].APIVersions = []string{`v1" "v2`}
		}},
		{name: "a resource more", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) {
			m.Spec.Resources = append(m.Spec.Resources, policy.FieldPermissionResource{Resource: "pods"})
		}},
		{name: "no resource", change: func(m *policy.FieldPermissionMapping, _ *policy.FieldPermission) { m.Spec.Resources = nil }},
		{name: "the path", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Path = "spec.ports[*].name[*]" }},
		{name: "a key for any", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Path = `spec.ports["a"].names[*]` }},
		{name: "a list key for any", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Path = `spec.ports[a="a"].names[*]`
		}},
		{name: "another list key", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Path = `spec.ports[b="a"].names[*]`
		}},
		{name: "a field below", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Path += ".x" }},
		{name: "a long key", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Path = `spec.ports["` + longKey + `a"].names[*]`
		}},
		{name: "a long key that differs in its last letter", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Path = `spec.ports["` + longKey + `b"].names[*]`
		}},
		{name: "the permission", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Permission = "nickname" }},
		{name: "no parameter", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Parameter = nil }},
		{name: "the key", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Parameter.Key = "l" }},
		{name: "the only key", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Parameter.Key = "" }},
		{name: "the expression", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Parameter.Expression = "parameter + ''"
		}},
		{name: "verbatim", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Parameter = &policy.FieldPermissionParameter{Key: "k"}
		}},
		{name: "the prefix", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Parameter = &policy.FieldPermissionParameter{Key: "k", Treatment: policy.ParameterTreatmentSlashDelimitedPrefix}
		}},
		{name: "no exclusion", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Exclusion = nil }},
		{name: "every change excluded", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Exclusion.NewValues = "" }},
		{name: "the new values", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Exclusion.NewValues = "value == 2"
		}},
		{name: "an invalid exclusion", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) { f.Exclusion.NewValues = "value ==" }},
		{name: "an exclusion that is invalid for another reason", change: func(_ *policy.FieldPermissionMapping, f *policy.FieldPermission) {
			f.Exclusion.NewValues = "1"
		}},
	} {
		m := base()
		tc.change(m, &m.Spec.Fields[0])
		digest := mapping.NewTable(m).Digest()
		if other, ok := digests[digest]; ok {
			t.Errorf("%s: the digest is the same as with %s", tc.name, other)
		}
		digests[digest] = tc.name
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
		switch length := len(strings.TrimSuffix(message, "…")); {
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
