/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	policyapi "github.com/proviso-authz/proviso/apis/policy"
	"github.com/proviso-authz/proviso/apis/policy/install"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/pkg/policy/enforcementstatus"
)

// loadedPolicy is a valid policy of the input.
type loadedPolicy struct {
	key    engine.Key
	source source
	spec   *policyv1alpha1.AuthorizationPolicySpec
}

// loader collects the policies of documents.
type loader struct {
	// namespace is used for namespaced policies that name none. It may be empty.
	namespace string
	checker   *policy.Checker

	policies []loadedPolicy
	sources  map[engine.Key]source
	warnings []string
	errs     []error
}

func newLoader(namespace string, compiler *partial.Compiler) *loader {
	return &loader{namespace: namespace, checker: policy.NewChecker(compiler, enforcementstatus.Server{}, nil), sources: map[engine.Key]source{}}
}

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
}()

// The errors of documents.
var (
	errNested       = errors.New("a list in a list is not read")
	errGeneratedKey = errors.New("metadata.name: Required value: the server would generate the name, which is not known here")
	errNoNamespace  = errors.New("metadata.namespace: Required value: set it, or the flag --namespace")
)

// load adds the policies of a document.
func (l *loader) load(ctx context.Context, d document) {
	meta := metav1.TypeMeta{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(d.json, &meta); err != nil {
		l.fail(d.source, "", errors.New("is not an object with apiVersion and kind"))
		return
	}
	if meta.APIVersion == "v1" && meta.Kind == "List" {
		l.list(ctx, d)
		return
	}
	object, err := runtime.Decode(decoder, d.json)
	if err != nil {
		if runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) {
			err = otherKind(meta)
		}
		l.fail(d.source, "", err)
		return
	}
	switch object := object.(type) {
	case *policyapi.ClusterAuthorizationPolicy:
		l.cluster(ctx, d.source, object)
	case *policyapi.AuthorizationPolicy:
		l.namespaced(ctx, d.source, object)
	case *policyapi.ClusterAuthorizationPolicyList:
		for i := range object.Items {
			l.cluster(ctx, d.source.at(i), &object.Items[i])
		}
	case *policyapi.AuthorizationPolicyList:
		for i := range object.Items {
			l.namespaced(ctx, d.source.at(i), &object.Items[i])
		}
	default:
		l.fail(d.source, "", otherKind(meta))
	}
}

func (s source) at(item int) source {
	s.item = item + 1
	return s
}

func otherKind(meta metav1.TypeMeta) error {
	return fmt.Errorf("kind %q of apiVersion %q is not a policy: want ClusterAuthorizationPolicy or AuthorizationPolicy of %s", meta.Kind, meta.APIVersion, policyv1alpha1.SchemeGroupVersion)
}

// list adds the policies of a list of objects of any kind, as kubectl get prints it.
func (l *loader) list(ctx context.Context, d document) {
	if d.source.item > 0 {
		l.fail(d.source, "", errNested)
		return
	}
	list := &metav1.List{}
	strict, err := kjson.UnmarshalStrict(d.json, list)
	if err == nil && len(strict) > 0 {
		err = runtime.NewStrictDecodingError(strict)
	}
	if err != nil {
		l.fail(d.source, "", err)
		return
	}
	for i := range list.Items {
		l.load(ctx, document{source: d.source.at(i), json: list.Items[i].Raw})
	}
}

func (l *loader) fail(at source, name string, err error) {
	if name != "" {
		name += ": "
	}
	l.errs = append(l.errs, fmt.Errorf("%v: %s%w", at, name, err))
}

func (l *loader) cluster(ctx context.Context, at source, p *policyapi.ClusterAuthorizationPolicy) {
	l.add(ctx, at, &p.ObjectMeta, &p.Spec, false, func() field.ErrorList { return validation.ValidateClusterAuthorizationPolicy(p) })
}

func (l *loader) namespaced(ctx context.Context, at source, p *policyapi.AuthorizationPolicy) {
	if p.Namespace == "" {
		p.Namespace = l.namespace
	}
	key := engine.Key{Namespace: p.Namespace, Name: p.Name}
	switch {
	case p.Namespace == "":
		l.fail(at, fmt.Sprintf("AuthorizationPolicy %q", p.Name), errNoNamespace)
		return
	case l.namespace != "" && p.Namespace != l.namespace:
		l.fail(at, key.String(), fmt.Errorf("the namespace is not %q, the value of --namespace", l.namespace))
		return
	}
	l.add(ctx, at, &p.ObjectMeta, &p.Spec, true, func() field.ErrorList { return validation.ValidateAuthorizationPolicy(p) })
}

// add validates a policy and adds it.
func (l *loader) add(ctx context.Context, at source, meta *metav1.ObjectMeta, spec *policyapi.AuthorizationPolicySpec, isNamespaced bool, validate func() field.ErrorList) {
	key := engine.Key{Name: meta.Name}
	if isNamespaced {
		key.Namespace = meta.Namespace
	}
	if meta.Name == "" && meta.GenerateName != "" {
		l.fail(at, key.String(), errGeneratedKey)
		return
	}
	errs := validate()
	if len(errs) == 0 {
		_, errs = l.checker.Check(spec, isNamespaced)
	}
	for _, err := range errs {
		l.fail(at, key.String(), err)
	}
	if len(errs) > 0 {
		return
	}
	if other, ok := l.sources[key]; ok {
		l.fail(at, key.String(), fmt.Errorf("the same policy is in %v, too", other))
		return
	}
	l.sources[key] = at
	served := &policyv1alpha1.AuthorizationPolicySpec{}
	if err := policyv1alpha1.Convert_policy_AuthorizationPolicySpec_To_v1alpha1_AuthorizationPolicySpec(spec, served, nil); err != nil {
		l.fail(at, key.String(), err)
		return
	}
	for _, warning := range l.checker.Warn(ctx, key, spec) {
		l.warnings = append(l.warnings, fmt.Sprintf("%v: %v: %s", at, key, warning))
	}
	l.policies = append(l.policies, loadedPolicy{key: key, source: at, spec: served})
}

// sorted returns the policies in the order of their names.
func (l *loader) sorted() []loadedPolicy {
	return slices.SortedFunc(slices.Values(l.policies), func(a, b loadedPolicy) int {
		switch {
		case a.key.Less(b.key):
			return -1
		case b.key.Less(a.key):
			return 1
		}
		return 0
	})
}
