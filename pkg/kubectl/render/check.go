/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

// status is the result of comparing a barrier with the cluster.
type status string

const (
	same status = "same"
	// missing means that the policy or the binding is not there, so that nothing is refused.
	missing status = "missing"
	// different means that the cluster has another version of the barrier, or is about to delete it.
	different status = "different"
	// unexpected means that no policy of the input has this barrier.
	unexpected status = "unexpected"
)

// comparison is the result for one barrier.
type comparison struct {
	name, policy string
	status       status
	remarks      []string
	diffs        []string
}

// The kinds of the objects of a barrier, as in the names of resources.
const (
	policyKind  = "ValidatingAdmissionPolicy"
	bindingKind = "ValidatingAdmissionPolicyBinding"
)

// compare compares barriers with what a cluster has, in the order of their names.
func compare(l *admissionpolicy.Live, objects []barrier.Objects) ([]comparison, error) {
	var comparisons []comparison
	wanted := map[string]bool{}
	for _, b := range objects {
		wanted[b.Policy.Name] = true
		c, err := compareOne(l, b)
		if err != nil {
			return nil, err
		}
		comparisons = append(comparisons, *c)
	}
	//guard:render-check-other-barriers
	comparisons = append(comparisons, others(l, wanted)...)
	slices.SortFunc(comparisons, func(a, b comparison) int { return strings.Compare(a.name, b.name) })
	return comparisons, nil
}

func compareOne(l *admissionpolicy.Live, b barrier.Objects) (*comparison, error) {
	c := &comparison{name: b.Policy.Name, policy: ownerOf(&b.Policy.ObjectMeta), status: same}
	policy, hasPolicy := l.Policies[b.Policy.Name]
	binding, hasBinding := l.Bindings[b.Binding.Name]
	if hasPolicy {
		if err := c.object(policyKind, &policy.ObjectMeta, &b.Policy.ObjectMeta, barrier.EqualPolicies(policy, b.Policy),
			barrier.DefaultedPolicy(policy), barrier.DefaultedPolicy(b.Policy)); err != nil {
			return nil, err
		}
	}
	if hasBinding {
		if err := c.object(bindingKind, &binding.ObjectMeta, &b.Binding.ObjectMeta, barrier.EqualBindings(binding, b.Binding),
			barrier.DefaultedBinding(binding), barrier.DefaultedBinding(b.Binding)); err != nil {
			return nil, err
		}
	}
	if !hasPolicy {
		c.status, c.remarks = missing, append(c.remarks, "there is no "+policyKind)
	}
	//guard:render-check-bindings
	if !hasBinding {
		c.status, c.remarks = missing, append(c.remarks, "there is no "+bindingKind)
	}
	return c, nil
}

// object compares one object of a barrier. The other one may be missing.
func (c *comparison) object(kind string, got, want *metav1.ObjectMeta, isEqual bool, gotSpec, wantSpec any) error {
	//guard:render-check-deletions
	if got.DeletionTimestamp != nil {
		c.status, c.remarks = different, append(c.remarks, "the "+kind+" is being deleted")
	}
	gotMeta, wantMeta := shared(got, want), shared(want, want)
	//guard:render-check-labels
	if isEqual && maps.Equal(gotMeta.Labels, wantMeta.Labels) && maps.Equal(gotMeta.Annotations, wantMeta.Annotations) {
		return nil
	}
	c.status, c.remarks = different, append(c.remarks, "the "+kind+" differs")
	diff, err := diffOf(kind, want.Name, map[string]any{"kind": kind, "metadata": gotMeta, "spec": gotSpec}, map[string]any{"kind": kind, "metadata": wantMeta, "spec": wantSpec})
	c.diffs = append(c.diffs, diff)
	return err
}

// shared returns the labels and annotations that the barrier has. Others may have more.
func shared(got, want *metav1.ObjectMeta) metav1.ObjectMeta {
	of := func(got, want map[string]string) map[string]string {
		result := map[string]string{}
		for key := range want {
			if value, ok := got[key]; ok {
				result[key] = value
			}
		}
		return result
	}
	return metav1.ObjectMeta{Name: got.Name, Labels: of(got.Labels, want.Labels), Annotations: of(got.Annotations, want.Annotations)}
}

// diffOf returns what applying the manifests would change, as kubectl diff shows it.
func diffOf(kind, name string, got, want map[string]any) (string, error) {
	before, err := yaml.Marshal(got)
	if err != nil {
		return "", err
	}
	after, err := yaml.Marshal(want)
	if err != nil {
		return "", err
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(string(before)), B: difflib.SplitLines(string(after)), Context: contextLines,
		FromFile: "LIVE/" + kind + "/" + name, ToFile: "RENDERED/" + kind + "/" + name,
	})
}

// contextLines are the lines around a difference, as diff -u shows them.
const contextLines = 3

// others returns the barriers that no policy of the input has, also without their label, and bindings of others that bind a barrier. The
// sentinel of the server is no barrier.
func others(l *admissionpolicy.Live, wanted map[string]bool) []comparison {
	found := map[string]comparison{}
	add := func(kind string, meta *metav1.ObjectMeta, bindsBarrier bool) {
		if wanted[meta.Name] || meta.Name == barrier.SentinelName || !bindsBarrier && !isBarrier(meta) {
			return
		}
		c := found[meta.Name]
		c.name, c.status = meta.Name, unexpected
		c.policy = cmp.Or(ownerOf(meta), c.policy)
		c.remarks = append(c.remarks, kind)
		found[meta.Name] = c
	}
	for _, name := range slices.Sorted(maps.Keys(l.Policies)) {
		add(policyKind, &l.Policies[name].ObjectMeta, false)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Bindings)) {
		bound, kind := l.Bindings[name].Spec.PolicyName, bindingKind
		if wanted[bound] {
			kind += " of " + bound
		}
		//guard:render-check-bindings-others
		add(kind, &l.Bindings[name].ObjectMeta, wanted[bound])
	}
	comparisons := make([]comparison, 0, len(found))
	for _, c := range found {
		c.remarks = []string{"no barrier of these policies: " + strings.Join(c.remarks, ", ")}
		comparisons = append(comparisons, c)
	}
	return comparisons
}

// isBarrier reports whether an object has the label or the name of a barrier.
//
//guard:render-check-barriers-without-their-label
func isBarrier(meta *metav1.ObjectMeta) bool {
	return meta.Labels[barrier.ManagedByLabel] == barrier.ManagedBy ||
		slices.ContainsFunc(barrier.NameSuffixes(), func(suffix string) bool { return strings.HasSuffix(meta.Name, suffix) })
}

// ownerOf returns the policy of an object, or its mapping with the kind, or the policies of a group.
func ownerOf(meta *metav1.ObjectMeta) string {
	if name := meta.Annotations[barrier.MappingAnnotation]; name != "" {
		return kindMapping + " " + name
	}
	return cmp.Or(meta.Annotations[barrier.PolicyAnnotation], meta.Annotations[barrier.GroupAnnotation])
}

// printComparisons prints the table of all barriers, and the diffs after it.
func printComparisons(out io.Writer, comparisons []comparison) error {
	table, diffs := &printable.Table{Headers: []string{"BARRIER", "POLICY", "STATUS", "REMARK"}}, ""
	for _, c := range comparisons {
		table.Add(nil, c.name, cmp.Or(c.policy, none), string(c.status), strings.Join(c.remarks, "; "))
		for _, diff := range c.diffs {
			//guard:render-check-texts-cluster
			diffs += "\n" + printable.EachLine(diff)
		}
	}
	if err := table.Print(out, 0); err != nil {
		return err
	}
	_, err := io.WriteString(out, diffs)
	return err
}
