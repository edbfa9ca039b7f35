/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/apiserver/options"
	"github.com/proviso-authz/proviso/pkg/place"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// fieldTables are the types whose fields a page of the reference has as a generated table.
var fieldTables = map[string][]reflect.Type{
	"policy-reference.md": {
		reflect.TypeFor[policyv1alpha1.AuthorizationPolicySpec](),
		reflect.TypeFor[policyv1alpha1.PolicyRule](),
		reflect.TypeFor[policyv1alpha1.AuthorizationPolicyStatus](),
		reflect.TypeFor[policyv1alpha1.RuleEnforcement](),
		reflect.TypeFor[policyv1alpha1.PolicyAuditStatus](),
		reflect.TypeFor[policyv1alpha1.EnforcementConfigurationSpec](),
		reflect.TypeFor[policyv1alpha1.FieldPermissionMappingSpec](),
	},
	"review-reference.md": {
		reflect.TypeFor[authorizationv1alpha1.SubjectAccessReviewSpec](),
		reflect.TypeFor[authorizationv1alpha1.SubjectAccessReviewStatus](),
		reflect.TypeFor[authorizationv1alpha1.SubjectAccessReviewConditionSet](),
		reflect.TypeFor[authorizationv1alpha1.SubjectAccessReviewCondition](),
		reflect.TypeFor[authorizationv1alpha1.AuthorizationConditionsRequest](),
		reflect.TypeFor[authorizationv1alpha1.AuthorizationConditionsResponse](),
		reflect.TypeFor[authorizationv1alpha1.ImpersonationReviewSpec](),
		reflect.TypeFor[authorizationv1alpha1.ImpersonationReviewStatus](),
		reflect.TypeFor[authorizationv1alpha1.ImpersonationCheck](),
	},
}

// mostValues is how many values of a field are in its row.
const mostValues = 4

// TestReferenceHasFields compares the tables of fields with the comments of the types.
func TestReferenceHasFields(t *testing.T) {
	t.Parallel()
	definitions := generatedopenapi.GetOpenAPIDefinitions(spec.MustCreateRef)
	for document, types := range fieldTables {
		for _, of := range types {
			var b strings.Builder
			b.WriteString("| field | meaning |\n| --- | --- |\n")
			// A type with a table of its own is not within another table.
			walkTypes("", of, slices.DeleteFunc(slices.Clone(types), func(other reflect.Type) bool { return other == of }), func(path string, owner reflect.Type, f reflect.StructField) {
				if isOurs(owner) {
					fmt.Fprintf(&b, "| `%s` | %s |\n", path, meaning(t, definitions, owner, jsonName(f)))
				}
			})
			golden.CompareSection(t, filepath.Join(root(t), "docs", document), "fields of "+of.Name(), b.String())
		}
	}
}

var (
	possible = regexp.MustCompile("(?m)^ - `\"(.*)\"` (.*)$")
	isOrAre  = regexp.MustCompile(`^(is|are) `)
)

// meaning is the comment of a field, as a cell of a table: its first paragraph, without the name, and its values, if they are few.
func meaning(t *testing.T, definitions map[string]common.OpenAPIDefinition, owner reflect.Type, name string) string {
	t.Helper()
	p := property(t, definitions, owner, name)
	text, _, _ := strings.Cut(p.Description, "\n")
	if i := strings.LastIndex(text, ". "); strings.HasSuffix(text, ":") && i > 0 {
		text = text[:i+1] // the sentence before a list
	}
	text = isOrAre.ReplaceAllString(strings.TrimPrefix(text, name+" "), "")
	if values := possible.FindAllStringSubmatch(p.Description, -1); len(values) <= mostValues {
		for _, value := range values {
			if value[1] != "" {
				text += fmt.Sprintf(" `%s` %s", value[1], value[2])
			}
		}
	}
	return escaped(text)
}

// escaped is a text without the signs that have a meaning in a table, but for quotes of code.
func escaped(text string) string {
	return strings.NewReplacer("*", `\*`, "|", `\|`, "\n", " ").Replace(text)
}

// TestReferenceHasValues compares the tables of values with the comments of the constants, in the order of the code.
func TestReferenceHasValues(t *testing.T) {
	t.Parallel()
	definitions := generatedopenapi.GetOpenAPIDefinitions(spec.MustCreateRef)
	values := func(name string, order []string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "| `%s` | meaning |\n| --- | --- |\n", name)
		meanings := map[string]string{}
		for _, value := range possible.FindAllStringSubmatch(property(t, definitions, reflect.TypeFor[policyv1alpha1.RuleEnforcement](), name).Description, -1) {
			meanings[value[1]] = strings.TrimPrefix(strings.TrimPrefix(value[2], "means "), "that ")
		}
		if len(meanings) != len(order) {
			t.Errorf("%s has the values %v, and the code orders %q", name, meanings, order)
		}
		for _, value := range order {
			fmt.Fprintf(&b, "| `%s` | %s |\n", value, escaped(meanings[value]))
		}
		return b.String()
	}
	file := filepath.Join(root(t), "docs", "policy-reference.md")
	golden.CompareSection(t, file, "values of at", values("at", texts(enforcementstatus.PlacesInOrder())))
	golden.CompareSection(t, file, "values of result", values("result", texts(enforcementstatus.Severity())))
}

func texts[T ~string](values []T) (converted []string) {
	for _, value := range values {
		converted = append(converted, string(value))
	}
	return converted
}

// places are the places of conditions, in the order of the table in pkg/apiserver.
var places = []place.Place{&place.Server{}, &place.AggregatedServer{}, &place.KubeAPIServer{}, &place.InnerDoor{}, place.Nowhere{}}

// TestReferenceHasPlaces compares the table of places with their terms.
func TestReferenceHasPlaces(t *testing.T) {
	t.Parallel()
	declared := 0
	for name := range declarations(t, filepath.Join(root(t), "pkg", "place")) {
		if strings.HasSuffix(name, ".Terms") {
			declared++
		}
	}
	if declared != len(places) {
		t.Errorf("pkg/place has %d places with terms, and places has %d", declared, len(places))
	}
	choose := func(first bool, yes, no string) string {
		if first {
			return yes
		}
		return no
	}
	const evaluated, folded = "evaluated", "folded"
	var b strings.Builder
	b.WriteString("| `at` | conditions that cannot deny | conditions that could deny | Allow policies that read only the path or a selector | webhooks | kube-apiserver gets |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, p := range places {
		terms := p.Terms()
		evaluates := terms.Evaluates != place.NoEffects
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", terms.At,
			choose(evaluates, evaluated+choose(terms.HasObstacles, ", in some cases", ""), folded),
			choose(terms.Evaluates == place.AllEffects, evaluated, folded),
			choose(terms.Unseen, "grant nothing", "decide"),
			choose(terms.DecidesAgain, "decide again", "decide at authorization"),
			choose(terms.GetsConditions, "the conditions", "an answer without them"))
	}
	golden.CompareSection(t, filepath.Join(root(t), "docs", "doors.md"), "places", b.String())
}

// TestReferenceHasFlags compares the table of flags with the flags that Proviso adds to an API server, or explains otherwise, and with the flags of
// its commands.
func TestReferenceHasFlags(t *testing.T) {
	t.Parallel()
	upstream := pflag.NewFlagSet("upstream", pflag.ContinueOnError)
	genericoptions.NewServerRunOptions().AddUniversalFlags(upstream)
	genericoptions.NewRecommendedOptions("", nil).AddFlags(upstream)
	logsapi.AddFlags(logsapi.NewLoggingConfiguration(), upstream)
	var b strings.Builder
	b.WriteString("| flag | default | meaning |\n| --- | --- | --- |\n")
	flags := func(command string, set *pflag.FlagSet) {
		set.VisitAll(func(f *pflag.Flag) {
			if other := upstream.Lookup(f.Name); f.Name == "help" || command == "" && other != nil && other.Usage == f.Usage {
				return
			}
			value := ""
			if !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue) {
				value = "`" + f.DefValue + "`"
			}
			fmt.Fprintf(&b, "| `%s--%s` | %s | %s |\n", command, f.Name, value, escaped(f.Usage))
		})
	}
	sections := options.NewOptions().Flags()
	for _, name := range sections.Order {
		flags("", sections.FlagSets[name])
	}
	for _, command := range options.NewCommand(t.Context()).Commands() {
		flags(command.Name()+" ", command.LocalFlags())
	}
	golden.CompareSection(t, filepath.Join(root(t), "docs", "operations.md"), "flags", b.String())
}

// TestReferenceHasGates compares the stages and the defaults of feature gates with the code.
func TestReferenceHasGates(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), "pkg", "features", "features.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	content := readDocuments(t)["docs/operations.md"]
	gates := stringConstants(file)
	if len(gates) < 6 {
		t.Errorf("got %d gates: they are not found", len(gates))
	}
	for _, name := range gates {
		if name == "" {
			continue // no string
		}
		gate, known := utilfeature.DefaultMutableFeatureGate.GetAll()[featuregate.Feature(name)]
		state := "off"
		if gate.Default {
			state = "on"
		}
		if row := fmt.Sprintf("| `%s` | %s, %s |", name, strings.ToLower(string(gate.PreRelease)), state); !known || !strings.Contains(content, row) {
			t.Errorf("operations.md lacks the row %s", row)
		}
	}
}
