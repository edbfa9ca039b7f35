/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/apis/authorization"
	authorizationfuzzer "github.com/proviso-authz/proviso/apis/authorization/fuzzer"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	authorizationvalidation "github.com/proviso-authz/proviso/apis/authorization/validation"
	"github.com/proviso-authz/proviso/apis/demo"
	demofuzzer "github.com/proviso-authz/proviso/apis/demo/fuzzer"
	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	demovalidation "github.com/proviso-authz/proviso/apis/demo/validation"
	"github.com/proviso-authz/proviso/apis/policy"
	policyfuzzer "github.com/proviso-authz/proviso/apis/policy/fuzzer"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	policyvalidation "github.com/proviso-authz/proviso/apis/policy/validation"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/apiserver"
)

// validators validate an object of each kind as it is validated at a create or an update, and at an update of its status.
var validators = map[string]func(object, old runtime.Object) field.ErrorList{
	"ClusterAuthorizationPolicy": func(object, old runtime.Object) field.ErrorList {
		p := object.(*policy.ClusterAuthorizationPolicy)
		return append(policyvalidation.ValidateClusterAuthorizationPolicy(p),
			policyvalidation.ValidateClusterAuthorizationPolicyStatusUpdate(p, old.(*policy.ClusterAuthorizationPolicy))...)
	},
	"AuthorizationPolicy": func(object, old runtime.Object) field.ErrorList {
		p := object.(*policy.AuthorizationPolicy)
		return append(policyvalidation.ValidateAuthorizationPolicy(p),
			policyvalidation.ValidateAuthorizationPolicyStatusUpdate(p, old.(*policy.AuthorizationPolicy))...)
	},
	"FieldPermissionMapping": func(object, old runtime.Object) field.ErrorList {
		m := object.(*policy.FieldPermissionMapping)
		return append(policyvalidation.ValidateFieldPermissionMapping(m),
			policyvalidation.ValidateFieldPermissionMappingStatusUpdate(m, old.(*policy.FieldPermissionMapping))...)
	},
	"EnforcementConfiguration": func(object, old runtime.Object) field.ErrorList {
		c := object.(*policy.EnforcementConfiguration)
		return append(policyvalidation.ValidateEnforcementConfiguration(c),
			policyvalidation.ValidateEnforcementConfigurationStatusUpdate(c, old.(*policy.EnforcementConfiguration))...)
	},
	"SubjectAccessReview": func(object, _ runtime.Object) field.ErrorList {
		return authorizationvalidation.ValidateSubjectAccessReview(object.(*authorization.SubjectAccessReview))
	},
	"SelfSubjectAccessReview": func(object, _ runtime.Object) field.ErrorList {
		return authorizationvalidation.ValidateSelfSubjectAccessReview(object.(*authorization.SelfSubjectAccessReview))
	},
	"LocalSubjectAccessReview": func(object, _ runtime.Object) field.ErrorList {
		return authorizationvalidation.ValidateLocalSubjectAccessReview(object.(*authorization.LocalSubjectAccessReview))
	},
	"AuthorizationConditionsReview": func(object, _ runtime.Object) field.ErrorList {
		return authorizationvalidation.ValidateAuthorizationConditionsReview(object.(*authorization.AuthorizationConditionsReview))
	},
	"ImpersonationReview": func(object, _ runtime.Object) field.ErrorList {
		return authorizationvalidation.ValidateImpersonationReview(object.(*authorization.ImpersonationReview))
	},
	"VirtualMachine": func(object, old runtime.Object) field.ErrorList {
		vm := object.(*demo.VirtualMachine)
		return append(demovalidation.ValidateVirtualMachine(vm),
			demovalidation.ValidateVirtualMachineStatusUpdate(vm, old.(*demo.VirtualMachine))...)
	},
}

// fieldDocuments are the documents that describe the fields of each group. The schema alone describes the imaginary group.
var fieldDocuments = map[string][]string{
	policyv1alpha1.GroupName:        {"policy-reference.md", "fine-grained.md"},
	authorizationv1alpha1.GroupName: {"review-reference.md"},
	demov1alpha1.GroupName:          nil,
}

// kindsWithoutFields are the kinds that need no sample.
var kindsWithoutFields = map[string]string{
	"VirtualMachineConsoleOptions": "the query parameters of a connection, bounded by the length of a URL",
}

const (
	answerOfServer = "the server writes the answer, and ignores it in a request"
	likeUpstream   = "valid as in authorization.k8s.io/v1; a review is not stored, so that the bound of a request body is enough"
	embedded       = "an object of any kind; a review is not stored, so that the bound of a request body is enough"
)

// unboundedFields are fields without a bound of their own, by kind and path, with the reason. A path includes all fields below it.
var unboundedFields = map[string]string{
	"SubjectAccessReview status":      answerOfServer,
	"SelfSubjectAccessReview status":  answerOfServer,
	"LocalSubjectAccessReview status": answerOfServer,
	"ImpersonationReview status":      answerOfServer,

	"AuthorizationConditionsReview response": answerOfServer,

	"SubjectAccessReview spec.user":                       likeUpstream,
	"SubjectAccessReview spec.groups":                     likeUpstream,
	"SubjectAccessReview spec.extra":                      likeUpstream,
	"SubjectAccessReview spec.uid":                        likeUpstream,
	"LocalSubjectAccessReview spec.user":                  likeUpstream,
	"LocalSubjectAccessReview spec.groups":                likeUpstream,
	"LocalSubjectAccessReview spec.extra":                 likeUpstream,
	"LocalSubjectAccessReview spec.uid":                   likeUpstream,
	"LocalSubjectAccessReview spec.nonResourceAttributes": "refused: paths have no namespace",

	"AuthorizationPolicy spec.rules[].nonResourceURLs": "refused: paths have no namespace",
	"ImpersonationReview spec.user":                    likeUpstream,
	"ImpersonationReview spec.groups":                  likeUpstream,
	"ImpersonationReview spec.extra":                   likeUpstream,
	"ImpersonationReview spec.uid":                     likeUpstream,
}

// foreignTypes are the types of others that fields have. Their own fields are not looked at.
var foreignTypes = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":         "it has a fixed size",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Condition":    "ValidateConditions bounds them",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":      embedded,
	"k8s.io/api/authorization/v1.ResourceAttributes":    likeUpstream,
	"k8s.io/api/authorization/v1.NonResourceAttributes": likeUpstream,
	"k8s.io/api/authentication/v1.UserInfo":             likeUpstream,
}

// apiField is one field of an object.
type apiField struct {
	kind  string
	path  string // as in errors of validation: spec.rules[0].verbs
	value reflect.Value
	owner reflect.Type // the struct that has it
	name  string       // the name in JSON
}

// generic is the path without indexes, which is the same for all elements of a list.
func (f apiField) generic() string { return indexes.ReplaceAllString(f.path, "[]") }

var indexes = regexp.MustCompile(`\[\d+\]`)

// isWalked reports whether the fields of a type are ours, or are validated by us.
func isWalked(t reflect.Type) bool { return isOurs(t) || slices.Contains(walkedTypes, t) }

func isOurs(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), "github.com/proviso-authz/proviso/apis/")
}

// walkedTypes are types of others that our validation looks into.
var walkedTypes = []reflect.Type{
	reflect.TypeFor[rbacv1.Subject](), reflect.TypeFor[metav1.GroupVersionKind](), reflect.TypeFor[metav1.GroupVersionResource](),
}

// walkFields visits the fields that are set in an object.
func walkFields(kind, path string, value reflect.Value, visit func(apiField)) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			walkFields(kind, path, value.Elem(), visit)
		}
	case reflect.Slice:
		for i := range value.Len() {
			at := fmt.Sprintf("%s[%d]", path, i)
			if value.Index(i).Kind() != reflect.Struct {
				visit(apiField{kind: kind, path: at, value: value.Index(i)})
			}
			walkFields(kind, at, value.Index(i), visit)
		}
	case reflect.Struct:
		if !isWalked(value.Type()) {
			return
		}
		for i := range value.NumField() {
			name := jsonName(value.Type().Field(i))
			if name == "" || value.Field(i).IsZero() {
				continue
			}
			at := strings.TrimPrefix(path+"."+name, ".")
			visit(apiField{kind: kind, path: at, value: value.Field(i), owner: value.Type(), name: name})
			walkFields(kind, at, value.Field(i), visit)
		}
	default:
	}
}

// walkTypes visits the fields that a type declares. A type within itself is visited once.
func walkTypes(path string, t reflect.Type, within []reflect.Type, visit func(path string, owner reflect.Type, field reflect.StructField)) {
	switch t.Kind() {
	case reflect.Pointer:
		walkTypes(path, t.Elem(), within, visit)
	case reflect.Slice:
		walkTypes(path+"[]", t.Elem(), within, visit)
	case reflect.Struct:
		if !isWalked(t) || slices.Contains(within, t) {
			return
		}
		for i := range t.NumField() {
			name := jsonName(t.Field(i))
			if name == "" {
				continue
			}
			at := strings.TrimPrefix(path+"."+name, ".")
			visit(at, t, t.Field(i))
			walkTypes(at, t.Field(i).Type, append(slices.Clone(within), t), visit)
		}
	default:
	}
}

// jsonName is empty for the metadata of types and objects, which are not ours.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Type == reflect.TypeFor[metav1.TypeMeta]() || f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
		return ""
	}
	return name
}

// fieldKinds are the kinds that we serve, by name.
func fieldKinds(t *testing.T) map[string]schema.GroupVersionKind {
	t.Helper()
	kinds := map[string]schema.GroupVersionKind{}
	for gvk, goType := range apiserver.Scheme.AllKnownTypes() {
		if gvk.Version != "v1alpha1" || !isOurs(goType) || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		if _, exempt := kindsWithoutFields[gvk.Kind]; exempt {
			continue
		}
		if gvk.Group == authorization.ProvisoGroupName {
			official := gvk.GroupVersion()
			official.Group = authorization.GroupName
			if other := apiserver.Scheme.KnownTypes(official)[gvk.Kind]; other != goType {
				t.Errorf("%v is %v, and in the other group of reviews %v, want one type", gvk, goType, other)
			}
			continue
		}
		if _, found := fieldDocuments[gvk.Group]; !found {
			t.Errorf("fieldDocuments has no document for the group of %v", gvk)
		}
		if validators[gvk.Kind] == nil {
			t.Errorf("validators has no function for %v", gvk)
			continue
		}
		kinds[gvk.Kind] = gvk
	}
	if len(kinds) != len(validators) {
		t.Errorf("got the kinds %v, want those of validators", kinds)
	}
	return kinds
}

func isUnbounded(kind, path string) bool {
	for exempt := range unboundedFields {
		exemptKind, exemptPath, _ := strings.Cut(exempt, " ")
		if kind == exemptKind && isWithin(path, exemptPath) {
			return true
		}
	}
	return false
}

// isWithin reports whether a path is another one or below it.
func isWithin(path, other string) bool {
	rest, found := strings.CutPrefix(path, other)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// TestFieldsAreBounded makes each field of valid objects too long, too many or too small: validation must refuse it and
// name the field. A field that no sample sets fails the test as well.
func TestFieldsAreBounded(t *testing.T) {
	t.Parallel()
	kinds := fieldKinds(t)
	covered := map[string]sets.Set[string]{}
	for i, sample := range fieldSamples(t) {
		kind := sample.GetObjectKind().GroupVersionKind().Kind
		if covered[kind] == nil {
			covered[kind] = sets.New[string]()
		}
		if errs := validateField(t, kind, sample, sample); len(errs) > 0 {
			t.Errorf("sample %d, %s: not valid: %v", i, kind, errs)
			continue
		}
		walkFields(kind, "", reflect.ValueOf(sample), func(f apiField) {
			covered[kind].Insert(f.generic())
			if isUnbounded(kind, f.generic()) {
				return
			}
			changed := sample.DeepCopyObject()
			walkFields(kind, "", reflect.ValueOf(changed), func(g apiField) {
				if g.path != f.path || !exceed(t, g) {
					return
				}
				errs := validateField(t, kind, changed, sample)
				if !slices.ContainsFunc(errs, func(err *field.Error) bool { return isWithin(err.Field, f.path) || isWithin(f.path, err.Field) }) {
					t.Errorf("%s: %s has no bound: want an error that names it, got %v", kind, f.path, errs)
				}
			})
		})
	}
	for kind, gvk := range kinds {
		walkTypes("", apiserver.Scheme.AllKnownTypes()[gvk], nil, func(path string, _ reflect.Type, _ reflect.StructField) {
			if !covered[kind].Has(path) && !isUnbounded(kind, path) {
				t.Errorf("%s: testdata/fields.yaml has no sample with %s", kind, path)
			}
		})
	}
}

// exceed gives a field a value beyond every bound. It is false for fields that need no bound of their own.
func exceed(t *testing.T, f apiField) bool {
	t.Helper()
	value := f.value
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(strings.Repeat("a", 1<<15))
	case reflect.Slice:
		for range 600 {
			value.Set(reflect.Append(value, value.Index(0)))
		}
	case reflect.Int32, reflect.Int64:
		value.SetInt(-1)
	case reflect.Float64:
		value.SetFloat(-1)
	case reflect.Bool:
		return false
	case reflect.Struct:
		if _, known := foreignTypes[value.Type().PkgPath()+"."+value.Type().Name()]; !known && !isWalked(value.Type()) {
			t.Errorf("%s: %s has the type %v, which foreignTypes does not have: how is it bounded?", f.kind, f.path, value.Type())
		}
		return false
	default:
		t.Errorf("%s: %s: the test does not know how to exceed a %v", f.kind, f.path, value.Type())
		return false
	}
	return true
}

func validateField(t *testing.T, kind string, object, old runtime.Object) field.ErrorList {
	t.Helper()
	return validators[kind](internal(t, object), internal(t, old))
}

// internal converts an object as the server does when it has decoded it.
func internal(t *testing.T, object runtime.Object) runtime.Object {
	t.Helper()
	object = object.DeepCopyObject()
	gvk := object.GetObjectKind().GroupVersionKind()
	apiserver.Scheme.Default(object)
	converted, err := apiserver.Scheme.ConvertToVersion(object, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		t.Fatal(err)
	}
	return converted
}

func fieldSamples(t *testing.T) []runtime.Object {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "fields.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var samples []runtime.Object
	for _, document := range strings.Split(string(content), "\n---\n") {
		meta := metav1.TypeMeta{}
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		object, err := apiserver.Scheme.New(meta.GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatalf("%s: %v", meta.Kind, err)
		}
		samples = append(samples, object)
	}
	return samples
}

// source is a source of random numbers for the fuzzer.
type source struct{ *rand.PCG }

func (s source) Int63() int64 { return int64(s.Uint64() >> 1) }
func (s source) Seed(int64)   {}

// TestFieldsAreFuzzed checks that the round-trip tests set every field.
func TestFieldsAreFuzzed(t *testing.T) {
	t.Parallel()
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, authorizationfuzzer.Funcs, policyfuzzer.Funcs, demofuzzer.Funcs)
	filler := fuzzer.FuzzerFor(funcs, source{rand.NewPCG(1, 1)}, apiserver.Codecs)
	for kind, gvk := range fieldKinds(t) {
		missing := sets.New[string]()
		walkTypes("", apiserver.Scheme.AllKnownTypes()[gvk], nil, func(path string, _ reflect.Type, _ reflect.StructField) { missing.Insert(path) })
		for range 5000 {
			if len(missing) == 0 {
				break
			}
			object, err := apiserver.Scheme.New(schema.GroupVersionKind{Group: gvk.Group, Version: runtime.APIVersionInternal, Kind: kind})
			if err != nil {
				t.Fatal(err)
			}
			filler.Fill(object)
			versioned, err := apiserver.Scheme.ConvertToVersion(object, gvk.GroupVersion())
			if err != nil {
				t.Fatal(err)
			}
			walkFields(kind, "", reflect.ValueOf(versioned), func(f apiField) { missing.Delete(f.generic()) })
		}
		if len(missing) > 0 {
			t.Errorf("%s: the fuzzer never sets %q", kind, sets.List(missing))
		}
	}
}

// TestFieldsAreDescribed checks that a document mentions every field, and that `kubectl explain` tells its bound or its values.
func TestFieldsAreDescribed(t *testing.T) {
	t.Parallel()
	definitions := generatedopenapi.GetOpenAPIDefinitions(spec.MustCreateRef)
	for kind, gvk := range fieldKinds(t) {
		var text strings.Builder
		for _, document := range fieldDocuments[gvk.Group] {
			content, err := os.ReadFile(filepath.Join(root(t), "docs", document))
			if err != nil {
				t.Fatal(err)
			}
			text.Write(content)
		}
		walkTypes("", apiserver.Scheme.AllKnownTypes()[gvk], nil, func(path string, owner reflect.Type, f reflect.StructField) {
			name := jsonName(f)
			if len(fieldDocuments[gvk.Group]) > 0 && !regexp.MustCompile("`[^`\n]*\\b"+name+"\\b[^`\n]*`").MatchString(text.String()) {
				t.Errorf("%s: %q does not mention `%s`", kind, fieldDocuments[gvk.Group], path)
			}
			if isOurs(owner) && !isUnbounded(kind, path) {
				checkBoundIsDescribed(t, kind, path, f, property(t, definitions, owner, name))
			}
		})
	}
}

// checkBoundIsDescribed checks the description of a field whose bound is its length.
func checkBoundIsDescribed(t *testing.T, kind, path string, f reflect.StructField, p spec.Schema) {
	t.Helper()
	if p.Description == "" {
		t.Errorf("%s: %s has no description", kind, path)
	}
	goType := f.Type
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	switch goType.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		if !strings.Contains(p.Description, "most ") && !strings.Contains(p.Description, "DNS ") && len(p.Enum) == 0 {
			t.Errorf("%s: the description of %s names neither a bound nor values: %s", kind, path, p.Description)
		}
	default:
	}
}

// property is the schema of a field.
func property(t *testing.T, definitions map[string]common.OpenAPIDefinition, owner reflect.Type, name string) spec.Schema {
	t.Helper()
	model, ok := reflect.New(owner).Interface().(interface{ OpenAPIModelName() string })
	if !ok {
		t.Fatalf("%v has no name in OpenAPI", owner)
	}
	definition, found := definitions[model.OpenAPIModelName()]
	if !found {
		t.Fatalf("OpenAPI has no %s", model.OpenAPIModelName())
	}
	return definition.Schema.Properties[name]
}
