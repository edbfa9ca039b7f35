/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

// report says for each policy of the input which barrier it has, and what of it has no translation.
type report struct {
	Policies []policyReport `json:"policies"`
}

type policyReport struct {
	Kind        string                           `json:"kind"`
	Namespace   string                           `json:"namespace,omitempty"`
	Name        string                           `json:"name"`
	Source      string                           `json:"source"`
	Effect      policyv1alpha1.PolicyEffect      `json:"effect,omitempty"`
	Enforcement policyv1alpha1.PolicyEnforcement `json:"enforcement,omitempty"`
	// Barrier is the name of both objects. It is empty if there is no barrier.
	Barrier string `json:"barrier,omitempty"`
	// Cost is how long kube-apiserver takes at most for the barrier and one write of an object of barrier.CostSize, such as 1ms. It is empty for a mapping.
	Cost string `json:"cost,omitempty"`
	// Reason says why a policy with another effect than Deny, or a mapping without exclusions, has no barrier.
	Reason string       `json:"reason,omitempty"`
	Rules  []ruleReport `json:"rules,omitempty"`
}

type ruleReport struct {
	// Rule is the index of the rule. For a mapping, it is the index of the field.
	Rule      int      `json:"rule"`
	Verbs     []string `json:"verbs"`
	Resources []string `json:"resources"`
	// Translated says whether the barrier has these verbs. If not, Reason says why.
	Translated bool   `json:"translated"`
	Reason     string `json:"reason,omitempty"`
}

// kindMapping is the kind of mappings.
const kindMapping = "FieldPermissionMapping"

// reportOf returns the entry of a policy. The barrier is nil if the effect is not Deny.
func reportOf(p *policyfile.Policy, b *barrier.Barrier) policyReport {
	entry := policyReport{
		Kind: p.Key.Kind(), Namespace: p.Key.Namespace, Name: p.Key.Name, Source: p.Source.String(), Effect: p.Spec.Effect, Enforcement: p.Spec.Enforcement,
	}
	if b == nil {
		entry.Reason = fmt.Sprintf("only a Deny policy has a barrier, and the effect is %s", p.Spec.Effect)
		return entry
	}
	return entry.with(b)
}

// reportOfMapping returns the entry of a mapping.
func reportOfMapping(m policyfile.Mapping, b *barrier.Barrier) policyReport {
	entry := policyReport{Kind: kindMapping, Name: m.Name, Source: m.Source.String()}
	if len(b.Report) == 0 {
		entry.Reason = "only excluded fields have a barrier"
	}
	return entry.with(b)
}

// with returns the entry with the report of its barrier.
func (p policyReport) with(b *barrier.Barrier) policyReport {
	if b.Policy != nil {
		p.Barrier = b.Policy.Name
		if cost := b.Cost(); cost > 0 {
			p.Cost = cost.String()
		}
	}
	for _, r := range b.Report {
		p.Rules = append(p.Rules, ruleReport{Rule: r.Rule, Verbs: r.Verbs, Resources: r.Resources, Translated: r.Reason == "", Reason: cmp.Or(r.Reason, strings.Join(r.Unseen, "; "))})
	}
	return p
}

// subject names what may have a part without a translation.
func (r *report) subject() string {
	if slices.ContainsFunc(r.Policies, func(p policyReport) bool { return p.Kind == kindMapping }) {
		return "Deny policies and mappings"
	}
	return "Deny policies"
}

// untranslated returns how many entries of Deny policies and mappings have no translation.
func (r *report) untranslated() (count int) {
	for _, p := range r.Policies {
		for _, rule := range p.Rules {
			if !rule.Translated {
				count++
			}
		}
	}
	return count
}

// print prints the report as a table. Its last line is a summary.
func (r *report) print(out io.Writer) error {
	table := &printable.Table{Headers: []string{"POLICY", "RULE", "VERBS", "RESOURCES", "TRANSLATED", "COST", "REMARK"}}
	barriers := 0
	for i := range r.Policies {
		p := &r.Policies[i]
		if p.Barrier != "" {
			barriers++
		}
		if p.Reason != "" {
			table.Add(nil, p.title(), none, none, none, "no", none, p.Reason)
		}
		for _, rule := range p.Rules {
			translated, cost, remark := "no", none, rule.Reason
			if rule.Translated {
				translated, cost = "yes", cmp.Or(p.Cost, none)
				if p.Enforcement == policyv1alpha1.PolicyEnforcementAudit {
					remark = "Audit: the barrier warns, and refuses nothing"
				}
			}
			table.Add(nil, p.title(), strconv.Itoa(rule.Rule), strings.Join(rule.Verbs, ","), strings.Join(rule.Resources, ","), translated, cost, remark)
		}
	}
	if err := table.Print(out, 0); err != nil {
		return err
	}
	summary := fmt.Sprintf("\n%s of %s.", counted(barriers, "barrier", "barriers"), counted(len(r.Policies), "policy", "policies"))
	if n := r.untranslated(); n > 0 {
		summary += fmt.Sprintf(" %s of %s not translated: no barrier refuses these requests.", counted(n, "part", "parts"), r.subject())
	}
	_, err := fmt.Fprintln(out, summary)
	return err
}

// none is a cell without a value.
const none = "-"

func (p *policyReport) title() string {
	return p.Kind + " " + cache.NewObjectName(p.Namespace, p.Name).String()
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

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
			var text strings.Builder
			if err := writeManifests(&text, objectsOf([]*barrier.Barrier{b}), document.YAML); err != nil {
				return nil, err
			}
			r.Manifests = text.String()
		}
		rendered = append(rendered, r)
	}
	return rendered, nil
}

// writeManifests writes the objects of barriers in the form in which users write them: each policy before its binding, without what servers
// set.
func writeManifests(out io.Writer, rendered []barrier.Objects, format string) error {
	var objects []map[string]any
	for _, r := range rendered {
		for _, object := range []runtime.Object{r.Policy, r.Binding} {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				return err
			}
			unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
			unstructured.RemoveNestedField(fields, "status")
			objects = append(objects, fields)
		}
	}
	return document.WriteManifests(out, objects, format)
}
