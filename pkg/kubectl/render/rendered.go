/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render

import (
	"fmt"

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
			objects, err := manifests([]*barrier.Barrier{b})
			if err != nil {
				return nil, err
			}
			text, err := document.Manifests(objects, document.YAML)
			if err != nil {
				return nil, err
			}
			r.Manifests = string(text)
		}
		rendered = append(rendered, r)
	}
	return rendered, nil
}
