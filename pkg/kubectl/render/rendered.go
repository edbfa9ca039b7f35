/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
)

// Rendered is the barrier of a policy, or the reasons why it has none, for other commands.
type Rendered struct {
	policyReport

	// Manifests are the objects of the barrier as documents of YAML. They are empty if there is no barrier.
	Manifests string `json:"manifests,omitempty"`
}

// Policies compiles the barriers of policies, with the default exemptions.
func Policies(compiler *partial.Compiler, policies []policyfile.Policy) ([]Rendered, error) {
	barriers, err := barrier.NewCompiler(barrier.Config{Policies: compiler, Exempt: manifest.DefaultIdentities(defaultNamespace)})
	if err != nil {
		return nil, err
	}
	rendered := make([]Rendered, 0, len(policies))
	for i := range policies {
		p := &policies[i]
		b, err := compilePolicy(barriers, p)
		if err != nil {
			return nil, fmt.Errorf("%v: %v: %w", p.Source, p.Key, err)
		}
		r := Rendered{policyReport: reportOf(p, b)}
		if b != nil {
			text, err := manifests([]*barrier.Barrier{b}, document.YAML)
			if err != nil {
				return nil, err
			}
			r.Manifests = string(text)
		}
		rendered = append(rendered, r)
	}
	return rendered, nil
}

// manifests returns the objects of barriers in the form in which users write them: each policy before its binding, without what servers
// set. Barriers without objects are left out.
func manifests(barriers []*barrier.Barrier, format string) ([]byte, error) {
	var objects []map[string]any
	for _, b := range barriers {
		if b.Policy == nil {
			continue
		}
		for _, object := range []runtime.Object{b.Policy, b.Binding} {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				return nil, err
			}
			unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
			unstructured.RemoveNestedField(fields, "status")
			objects = append(objects, fields)
		}
	}
	return document.Manifests(objects, format)
}
