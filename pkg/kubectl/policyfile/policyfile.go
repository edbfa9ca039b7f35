/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package policyfile loads policies, and mappings of fields, from documents. It validates and compiles them as the server does when they
// are stored, so that a policy that loads is one that the server accepts.
package policyfile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/install"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
	"github.com/proviso-authz/proviso/pkg/suggestion"
)

// Policy is a valid policy of the input.
type Policy struct {
	Key    engine.Key
	Source document.Source
	Spec   *policyv1alpha1.AuthorizationPolicySpec
	// Mistakes are the texts with which the server warns when the policy is written. Each begins with the path of the field.
	Mistakes []string
}

// Loader collects the policies of documents.
type Loader struct {
	// Errors has the errors of all documents.
	document.Errors
	// AcceptMappings says that FieldPermissionMappings are read, too.
	AcceptMappings bool
	// Others are the documents that are no policies: of other API groups, and of other kinds.
	Others []document.Document
	// Warnings are all Mistakes, and the warnings about mappings, each with its source and the name of its object.
	Warnings []string

	// AllNamespaces accepts policies of other namespaces than the one that policies without a namespace get.
	AllNamespaces bool
	// namespace is used for namespaced policies that name none. It may be empty.
	namespace string
	checker   *policy.Checker

	policies []Policy
	mappings []Mapping
}

// NewLoader returns a Loader. If a namespace is given, policies that name none get it, and policies of other namespaces are errors.
func NewLoader(namespace string, compiler *partial.Compiler) *Loader {
	return &Loader{namespace: namespace, checker: policy.NewChecker(compiler, enforcementstatus.Server{LeavesOut: manifest.Config{}.LeavesOut}, nil)}
}

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	//guard:render-unknown-fields
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
}()

// The errors of documents.
var (
	errGeneratedKey = errors.New("metadata.name: Required value: the server would generate the name, which is not known here")
	errNoNamespace  = errors.New("metadata.namespace: Required value: set it, or the flag --namespace")
)

// Load adds the policies of documents.
func (l *Loader) Load(ctx context.Context, documents ...document.Document) {
	l.Each(documents, func(d document.Document, meta metav1.TypeMeta) { l.load(ctx, d, meta) })
}

func (l *Loader) load(ctx context.Context, d document.Document, meta metav1.TypeMeta) {
	kind := meta.GroupVersionKind()
	isMisspelt := slices.Contains(kinds, kind.Kind) && len(suggestion.Near(kind.Group, []string{policyv1alpha1.GroupName})) > 0
	//guard:policy-files-misspelt-groups
	if kind.Group != policyv1alpha1.GroupName && !isMisspelt {
		l.Others = append(l.Others, d)
		return
	}
	object, err := runtime.Decode(decoder, d.JSON)
	if err != nil {
		if runtime.IsNotRegisteredError(err) {
			err = l.otherKind(meta)
		}
		l.Fail(d.Source, "", err)
		return
	}
	other := func(at document.Source) { l.Others = append(l.Others, document.Document{Source: at, JSON: d.JSON}) }
	l.EachItem(d.Source, object, func(at document.Source, object runtime.Object) {
		switch object := object.(type) {
		case *policyapi.ClusterAuthorizationPolicy:
			key := engine.Key{Name: object.Name}
			l.add(ctx, at, key, object.GenerateName, &object.Spec, func() field.ErrorList { return validation.ValidateClusterAuthorizationPolicy(object) })
		case *policyapi.AuthorizationPolicy:
			l.namespaced(ctx, at, object)
		case *policyapi.FieldPermissionMapping:
			if l.AcceptMappings {
				l.addMapping(at, object)
				return
			}
			other(at)
		default:
			other(at)
		}
	})
}

// kinds are the kinds that a Loader reads.
var kinds = []string{engine.KindCluster, engine.KindNamespaced, "FieldPermissionMapping"}

// RejectOthers makes the documents errors that are no policies. hint is added to the message.
func (l *Loader) RejectOthers(hint string) {
	for _, d := range l.Others {
		meta, _ := d.TypeMeta()
		l.Fail(d.Source, "", fmt.Errorf("%w%s", l.otherKind(meta), hint))
	}
	l.Others = nil
}

func (l *Loader) otherKind(meta metav1.TypeMeta) error {
	kinds := "ClusterAuthorizationPolicy or AuthorizationPolicy"
	if l.AcceptMappings {
		kinds = "ClusterAuthorizationPolicy, AuthorizationPolicy or FieldPermissionMapping"
	}
	return fmt.Errorf("kind %q of apiVersion %q is not a policy: want %s of %s", meta.Kind, meta.APIVersion, kinds, policyv1alpha1.SchemeGroupVersion)
}

func (l *Loader) namespaced(ctx context.Context, at document.Source, p *policyapi.AuthorizationPolicy) {
	if p.Namespace == "" {
		p.Namespace = l.namespace
	}
	key := engine.Key{Namespace: p.Namespace, Name: p.Name}
	switch {
	case p.Namespace == "":
		l.Fail(at, fmt.Sprintf("AuthorizationPolicy %q", p.Name), errNoNamespace)
		return
	case l.namespace != "" && p.Namespace != l.namespace && !l.AllNamespaces:
		l.Fail(at, key.String(), fmt.Errorf("the namespace is not %q, the value of --namespace", l.namespace))
		return
	}
	l.add(ctx, at, key, p.GenerateName, &p.Spec, func() field.ErrorList { return validation.ValidateAuthorizationPolicy(p) })
}

// add validates a policy and adds it.
func (l *Loader) add(ctx context.Context, at document.Source, key engine.Key, generateName string, spec *policyapi.AuthorizationPolicySpec, validate func() field.ErrorList) {
	if key.Name == "" && generateName != "" {
		l.Fail(at, key.String(), errGeneratedKey)
		return
	}
	//guard:render-invalid-policies
	errs := validate()
	if len(errs) == 0 {
		//guard:render-conditions-server-refuses
		_, errs = l.checker.Check(key, spec)
	}
	for _, err := range errs {
		l.Fail(at, key.String(), err)
	}
	if len(errs) > 0 {
		return
	}
	//guard:render-same-policy-twice
	if !l.IsNew(at, key.String(), "policy", key.Name) {
		return
	}
	served := &policyv1alpha1.AuthorizationPolicySpec{}
	if err := policyv1alpha1.Convert_policy_AuthorizationPolicySpec_To_v1alpha1_AuthorizationPolicySpec(spec, served, nil); err != nil {
		l.Fail(at, key.String(), err)
		return
	}
	mistakes := l.checker.Warn(ctx, key, spec)
	for _, mistake := range mistakes {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%v: %v: %s", at, key, mistake))
	}
	l.policies = append(l.policies, Policy{Key: key, Source: at, Spec: served, Mistakes: mistakes})
}

// Sorted returns the policies in the order of their names.
func (l *Loader) Sorted() []Policy {
	return slices.SortedFunc(slices.Values(l.policies), func(a, b Policy) int { return a.Key.Compare(b.Key) })
}

// SpecsOf returns the specifications of policies.
func SpecsOf(policies []Policy) map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec {
	specs := map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}
	for _, p := range policies {
		specs[p.Key] = p.Spec
	}
	return specs
}

// Mapping is a valid FieldPermissionMapping.
type Mapping struct {
	*policyapi.FieldPermissionMapping
	Source document.Source
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
	if !l.IsNew(at, title, "mapping", m.Name) {
		return
	}
	for _, warning := range warnings {
		l.Warnings = append(l.Warnings, fmt.Sprintf("%v: %v: %s", at, title, warning))
	}
	l.mappings = append(l.mappings, Mapping{FieldPermissionMapping: m, Source: at})
}

// SortedMappings returns the valid mappings by name.
func (l *Loader) SortedMappings() []Mapping {
	return slices.SortedFunc(slices.Values(l.mappings), func(a, b Mapping) int { return strings.Compare(a.Name, b.Name) })
}
