/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// Mapping is a compiled FieldPermissionMapping. It is immutable.
type Mapping struct {
	name      string
	resources []policy.FieldPermissionResource
	rules     []Rule
}

// FromStored returns mappings that are stored in the form in which they are compiled.
func FromStored(stored []*policyv1alpha1.FieldPermissionMapping) ([]*policy.FieldPermissionMapping, error) {
	hubs := make([]*policy.FieldPermissionMapping, len(stored))
	for i, m := range stored {
		hubs[i] = &policy.FieldPermissionMapping{}
		// The conversion shares memory with what is stored.
		if err := policyv1alpha1.Convert_v1alpha1_FieldPermissionMapping_To_policy_FieldPermissionMapping(m.DeepCopy(), hubs[i], nil); err != nil {
			return nil, fmt.Errorf("mapping %q: %w", m.Name, err)
		}
	}
	return hubs, nil
}

// Compile compiles a mapping that is valid in structure, and returns warnings for its author. The paths of errors begin
// with spec. A mapping must not contradict itself or the built-in mapping, and all its expressions share the compile
// budget of one policy. If there are errors, m has the resources, and the rules that could be compiled.
func Compile(name string, spec *policy.FieldPermissionMappingSpec) (m *Mapping, warnings []string, errs field.ErrorList) {
	m = &Mapping{name: name, resources: slices.Clone(spec.Resources)}
	paths := map[string]bool{}
	parameters := map[string]string{}
	//guard:granular-budget-each-field
	budget := cel.NewBudget()
	for i := range spec.Fields {
		f, at := &spec.Fields[i], field.NewPath("spec", "fields").Index(i)
		r, warned, invalid := compileField(f, at, budget)
		for _, w := range warned {
			warnings = append(warnings, fmt.Sprintf("%s: %s", at.Child("permission"), w))
		}
		errs = append(errs, invalid...)
		if len(invalid) > 0 {
			continue
		}
		r.source, r.field = sourceOf(name), i
		if text := r.pattern.String(); paths[text] {
			errs = append(errs, field.Duplicate(at.Child("path"), f.Path))
		} else {
			paths[text] = true
		}
		if other, ok := parameters[r.permission]; ok && other != r.parameter.String() {
			errs = append(errs, field.Invalid(at.Child("parameter"), f.Permission, "the permission has another parameter in another place of this mapping, so that its verb would mean two things"))
		}
		parameters[r.permission] = r.parameter.String()
		errs = append(errs, m.againstBuiltIn(r, at)...)
		m.rules = append(m.rules, *r)
	}
	return m, warnings, errs
}

// againstBuiltIn refuses a rule that contradicts a built-in one.
func (m *Mapping) againstBuiltIn(r *Rule, at *field.Path) field.ErrorList {
	for _, resource := range m.resources {
		for _, b := range builtInFor(schema.GroupResource{Group: resource.APIGroup, Resource: resource.Resource}) {
			if b.pattern.String() == r.pattern.String() && b.grants() != r.grants() {
				return field.ErrorList{field.Forbidden(at.Child("permission"), fmt.Sprintf("%s has the built-in permission %s, which is the same for every object", b.pattern, b.grants()))}
			}
		}
	}
	return nil
}

func compileField(f *policy.FieldPermission, at *field.Path, budget *cel.Budget) (r *Rule, warnings []string, errs field.ErrorList) {
	r = &Rule{permission: f.Permission}
	var err error
	if r.pattern, err = parsePattern(f.Path); err != nil {
		return nil, nil, field.ErrorList{field.Invalid(at.Child("path"), f.Path, err.Error())}
	}
	if reason := r.pattern.isOwned(); reason != "" {
		errs = append(errs, field.Forbidden(at.Child("path"), reason))
	}
	if warnings, err = ValidatePermission(f.Permission, r.pattern.names()); err != nil {
		errs = append(errs, field.Invalid(at.Child("permission"), f.Permission, err.Error()))
	}
	if f.Parameter != nil {
		var invalid field.ErrorList
		r.parameter, invalid = compileParameterOf(f, r.pattern, at.Child("parameter"), budget)
		errs = append(errs, invalid...)
	}
	if f.Exclusion != nil {
		r.excluded = true
		if f.Exclusion.NewValues != "" {
			if r.newValues, err = compile(newValuesCompiler, f.Exclusion.NewValues, budget); err != nil {
				errs = append(errs, field.Invalid(at.Child("exclusion", "newValues"), f.Exclusion.NewValues, err.Error()))
			}
		}
	}
	return r, warnings, errs
}

func compileParameterOf(f *policy.FieldPermission, in pattern, at *field.Path, budget *cel.Budget) (*parameter, field.ErrorList) {
	result := &parameter{key: f.Parameter.Key, step: in.lastAny()}
	if result.step < 0 {
		return nil, field.ErrorList{field.Invalid(at, f.Path, "there is no [*] in the path that could be the parameter")}
	}
	if treatment := f.Parameter.Treatment; (treatment == policy.ParameterTreatmentExpression) != (f.Parameter.Expression != "") {
		return nil, field.ErrorList{field.Invalid(at.Child("expression"), f.Parameter.Expression, "must be given for the treatment Expression, and for no other")}
	}
	switch f.Parameter.Treatment {
	case policy.ParameterTreatmentVerbatim, "":
	case policy.ParameterTreatmentSlashDelimitedPrefix:
		result.treatment = slashDelimitedPrefix
	case policy.ParameterTreatmentExpression:
		result.treatment = computed
		var err error
		if result.expression, err = compile(parameterCompiler, f.Parameter.Expression, budget); err != nil {
			return nil, field.ErrorList{field.Invalid(at.Child("expression"), f.Parameter.Expression, err.Error())}
		}
	default:
		return nil, field.ErrorList{field.NotSupported(at.Child("treatment"), f.Parameter.Treatment, []policy.ParameterTreatment{
			policy.ParameterTreatmentVerbatim, policy.ParameterTreatmentSlashDelimitedPrefix, policy.ParameterTreatmentExpression,
		})}
	}
	return result, nil
}
