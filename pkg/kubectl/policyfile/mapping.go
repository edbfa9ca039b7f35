/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policyfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
)

// Mapping is a valid FieldPermissionMapping.
type Mapping struct {
	*policyapi.FieldPermissionMapping
	Source document.Source
}

// loadMapping loads a mapping or a list of mappings. It returns false for another object.
func (l *Loader) loadMapping(at document.Source, object runtime.Object) bool {
	switch object := object.(type) {
	case *policyapi.FieldPermissionMapping:
		l.addMapping(at, object)
	case *policyapi.FieldPermissionMappingList:
		for i := range object.Items {
			l.addMapping(at.At(i), &object.Items[i])
		}
	default:
		return false
	}
	return true
}

// addMapping checks a mapping as the server does.
func (l *Loader) addMapping(at document.Source, m *policyapi.FieldPermissionMapping) {
	title := fmt.Sprintf("FieldPermissionMapping %q", m.Name)
	if m.Name == "" && m.GenerateName != "" {
		l.Fail(at, title, errGeneratedKey)
		return
	}
	//guard:render-invalid-mappings
	errs := validation.ValidateFieldPermissionMapping(m)
	var warnings []string
	if len(errs) == 0 {
		//guard:render-expressions-mappings
		_, warnings, errs = mapping.Compile(m.Name, &m.Spec)
	}
	for _, err := range errs {
		l.Fail(at, title, err)
	}
	if len(errs) > 0 {
		return
	}
	//guard:render-same-mapping-twice
	if other, ok := l.mappings[m.Name]; ok {
		l.Fail(at, title, fmt.Errorf("the same mapping is in %v, too", other.Source))
		return
	}
	for _, warning := range warnings {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%v: %v: %s", at, title, warning))
	}
	l.mappings[m.Name] = Mapping{FieldPermissionMapping: m, Source: at}
}

// SortedMappings returns the valid mappings by name.
func (l *Loader) SortedMappings() []Mapping {
	return slices.SortedFunc(maps.Values(l.mappings), func(a, b Mapping) int { return strings.Compare(a.Name, b.Name) })
}
