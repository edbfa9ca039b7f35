/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// Mode says whether and how a caller wants conditions.
type Mode = authorization.ConditionsMode

// EvaluatesConditions is the mode of a caller that evaluates conditions. It is human-readable, because a refusal shows their descriptions.
const EvaluatesConditions = authorization.ConditionsModeHumanReadable

// Request has the attributes of a request, and says how it is decided (KEP-5681, "Core interface changes"). Attributes that are derived
// from it, as for another check, have none of that.
type Request struct {
	authorizer.Attributes
	// Mode is the mode in which the caller wants conditions. Empty means that conditions must not be returned.
	Mode Mode
	// Caller is the user who sent the review, who may differ from the user of the request. It is nil
	// if the answer is not shown to a caller.
	Caller user.Info
	// Audit gets the policies with the enforcement Audit that match the request. If nil, they are not looked for.
	Audit *Audit
}

// RequestOf returns attributes as a Request: themselves, or one with no more than the attributes.
func RequestOf(attributes authorizer.Attributes) Request {
	if r, ok := attributes.(Request); ok {
		return r
	}
	return Request{Attributes: attributes}
}

// Variant is another request of the same user. Its fields replace what its attributes say; VariantOf sets them.
type Variant struct {
	authorizer.Attributes
	Verb, APIVersion, Subresource, Namespace, Name string
}

// VariantOf returns a request that does not differ from attributes yet.
func VariantOf(a authorizer.Attributes) Variant {
	return Variant{
		Attributes: a, Verb: a.GetVerb(), APIVersion: a.GetAPIVersion(), Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(),
	}
}

// WithVerb returns the same request with another verb.
func WithVerb(a authorizer.Attributes, verb string) Variant {
	v := VariantOf(a)
	v.Verb = verb
	return v
}

// GetVerb implements authorizer.Attributes.
func (v Variant) GetVerb() string { return v.Verb }

// GetAPIVersion implements authorizer.Attributes.
func (v Variant) GetAPIVersion() string { return v.APIVersion }

// GetSubresource implements authorizer.Attributes.
func (v Variant) GetSubresource() string { return v.Subresource }

// GetNamespace implements authorizer.Attributes.
func (v Variant) GetNamespace() string { return v.Namespace }

// GetName implements authorizer.Attributes.
func (v Variant) GetName() string { return v.Name }

// IsReadOnly implements authorizer.Attributes.
func (v Variant) IsReadOnly() bool { return authorizer.AttributesRecord{Verb: v.Verb}.IsReadOnly() }

// AttributesOf returns the attributes that a valid review asks about, as kube-apiserver
// reads them from authorization.k8s.io/v1. Selectors that cannot be parsed are left
// out, wholly or in part, which asks for more than the request would use; their parse
// errors stay in the attributes and in SelectorErrors.
func AttributesOf(subject user.Info, resource *authorizationv1.ResourceAttributes, nonResource *authorizationv1.NonResourceAttributes) authorizer.AttributesRecord {
	record := withoutSelectors(subject, resource, nonResource)
	if resource != nil {
		record.LabelSelectorRequirements, record.LabelSelectorParsingErr = labelRequirements(resource.LabelSelector)
		record.FieldSelectorRequirements, record.FieldSelectorParsingErr = fieldRequirements(resource.FieldSelector)
	}
	return record
}

// Selectors decodes the selectors of a review.
type Selectors interface {
	// LabelSelector returns the label selector, nil if there is none.
	LabelSelector() (*authorizationv1.LabelSelectorAttributes, error)
	// FieldSelector returns the field selector, nil if there is none.
	FieldSelector() (*authorizationv1.FieldSelectorAttributes, error)
}

// LazyAttributesOf is like AttributesOf, but each selector is decoded and parsed when it is
// first read. Clients choose how long selectors are, and most decisions do not depend on them.
// Selectors in resource are ignored. A selector that cannot be decoded counts as one that cannot
// be parsed: reading it returns the error. The result is safe for concurrent use.
func LazyAttributesOf(subject user.Info, resource *authorizationv1.ResourceAttributes, nonResource *authorizationv1.NonResourceAttributes, selectors Selectors) authorizer.Attributes {
	record := withoutSelectors(subject, resource, nonResource)
	if resource == nil {
		return record
	}
	return &lazyAttributes{
		AttributesRecord: record,
		labels: sync.OnceValues(func() (labels.Requirements, error) {
			selector, err := selectors.LabelSelector()
			if err != nil {
				return nil, err
			}
			return labelRequirements(selector)
		}),
		fields: sync.OnceValues(func() (fields.Requirements, error) {
			selector, err := selectors.FieldSelector()
			if err != nil {
				return nil, err
			}
			return fieldRequirements(selector)
		}),
	}
}

// lazyAttributes are attributes whose selectors are parsed when they are first read.
type lazyAttributes struct {
	authorizer.AttributesRecord // without selectors

	labels func() (labels.Requirements, error)
	fields func() (fields.Requirements, error)
}

// GetLabelSelector implements authorizer.Attributes.
func (a *lazyAttributes) GetLabelSelector() (labels.Requirements, error) { return a.labels() }

// GetFieldSelector implements authorizer.Attributes.
func (a *lazyAttributes) GetFieldSelector() (fields.Requirements, error) { return a.fields() }

// withoutSelectors returns the attributes of a review, but for its selectors.
func withoutSelectors(subject user.Info, resource *authorizationv1.ResourceAttributes, nonResource *authorizationv1.NonResourceAttributes) authorizer.AttributesRecord {
	if resource == nil {
		return authorizer.AttributesRecord{User: subject, Verb: nonResource.Verb, Path: nonResource.Path}
	}
	record := authorizer.AttributesRecord{
		User:            subject,
		Verb:            resource.Verb,
		Namespace:       resource.Namespace,
		APIGroup:        resource.Group,
		APIVersion:      resource.Version,
		Resource:        resource.Resource,
		Subresource:     resource.Subresource,
		Name:            resource.Name,
		ResourceRequest: true,
	}
	if record.APIVersion == "" {
		// A review that names no version asks about all of them.
		record.APIVersion = "*"
	}
	return record
}

// SubjectOf returns the user that a review names.
func SubjectOf(spec *authorization.SubjectAccessReviewSpec) user.Info {
	return &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: ExtraOf(spec.Extra)}
}

// UserOf returns the user of an admission request, or of a review that has one.
func UserOf(u *authenticationv1.UserInfo) *user.DefaultInfo {
	return &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: ExtraOf(u.Extra)}
}

// ExtraOf returns the extra of a user. It returns nil for an empty map, as an authenticator does.
func ExtraOf[V ~[]string](extra map[string]V) map[string][]string {
	if len(extra) == 0 {
		return nil
	}
	result := make(map[string][]string, len(extra))
	for key, values := range extra {
		result[key] = values
	}
	return result
}

// SelectorErrors describes selectors that were left out, with the messages of
// kube-apiserver, so that they can be shown with the decision. It is empty if there
// are none.
func SelectorErrors(attributes authorizer.Attributes) string {
	var messages []string
	describe := func(name string, kept int, err error) {
		switch {
		case err == nil:
		case kept > 0:
			messages = append(messages, fmt.Sprintf("spec.resourceAttributes.%s partially ignored due to parse error", name))
		default:
			messages = append(messages, fmt.Sprintf("spec.resourceAttributes.%s ignored due to parse error", name))
		}
	}
	fieldReqs, err := attributes.GetFieldSelector()
	describe("fieldSelector", len(fieldReqs), err)
	labelReqs, err := attributes.GetLabelSelector()
	describe("labelSelector", len(labelReqs), err)
	return strings.Join(messages, "; ")
}

func labelRequirements(selector *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	switch {
	case selector == nil:
		return nil, nil
	case len(selector.Requirements) > 0:
		return labelRequirementsOf(selector.Requirements)
	}
	return labels.ParseToRequirements(selector.RawSelector)
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn:           selection.In,
	metav1.LabelSelectorOpNotIn:        selection.NotIn,
	metav1.LabelSelectorOpExists:       selection.Exists,
	metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// labelRequirementsOf returns requirements as a server reads them from the text of a selector: sorted by key, and with sorted values, each once.
func labelRequirementsOf(requirements []metav1.LabelSelectorRequirement) (labels.Requirements, error) {
	var (
		result labels.Requirements
		errs   []error
	)
	for _, r := range requirements {
		operator, ok := labelOperators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a label selector operator", r.Operator))
			continue
		}
		//guard:attributes-values-requirements-sorted
		requirement, err := labels.NewRequirement(r.Key, operator, slices.Compact(slices.Sorted(slices.Values(r.Values))))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		result = append(result, *requirement)
	}
	slices.SortStableFunc(result, func(a, b labels.Requirement) int { return strings.Compare(a.Key(), b.Key()) })
	return result, utilerrors.NewAggregate(errs)
}

func fieldRequirements(selector *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	switch {
	case selector == nil:
		return nil, nil
	case len(selector.Requirements) > 0:
		return fieldRequirementsOf(selector.Requirements)
	}
	parsed, err := fields.ParseSelector(selector.RawSelector)
	if err != nil {
		return nil, err
	}
	return parsed.Requirements(), nil
}

var errOneValue = errors.New("a field selector requirement has exactly one value")

// fieldRequirementsOf reads In and NotIn with one value as the = and != of a parsed
// selector; the API server supports nothing else on fields.
func fieldRequirementsOf(requirements []metav1.FieldSelectorRequirement) (fields.Requirements, error) {
	operators := map[metav1.FieldSelectorOperator]selection.Operator{
		metav1.FieldSelectorOpIn:    selection.Equals,
		metav1.FieldSelectorOpNotIn: selection.NotEquals,
	}
	var (
		result fields.Requirements
		errs   []error
	)
	for _, r := range requirements {
		operator, ok := operators[r.Operator]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%q is not supported in field selectors", r.Operator))
		case len(r.Values) != 1:
			errs = append(errs, errOneValue)
		default:
			result = append(result, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
		}
	}
	return result, utilerrors.NewAggregate(errs)
}

// HasReservedExtra reports whether a user has the extra key that passes residual conditions of an
// impersonation between servers. The comparison ignores case, because the headers of a front proxy do
// not preserve it. It returns false for nil.
func HasReservedExtra(u user.Info) bool {
	if u == nil {
		return false
	}
	for key := range u.GetExtra() {
		if strings.EqualFold(key, authorization.ExtraImpersonationConditions) {
			return true
		}
	}
	return false
}

// FieldSelectorText returns the text of the field selector that has the requirements.
func FieldSelectorText(requirements fields.Requirements) string {
	var selectors []fields.Selector
	for _, r := range requirements {
		if r.Operator == selection.NotEquals {
			selectors = append(selectors, fields.OneTermNotEqualSelector(r.Field, r.Value))
		} else {
			selectors = append(selectors, fields.OneTermEqualSelector(r.Field, r.Value))
		}
	}
	return fields.AndSelectors(selectors...).String()
}

// PathOf returns the path of a non-resource request, and "" for a resource request. The attributes of
// a resource request to this server have the path of its URL, and the attributes of a review of the
// same request have none; conditions must not see the difference.
func PathOf(a authorizer.Attributes) string {
	//guard:path-resource
	if a.IsResourceRequest() {
		return ""
	}
	return a.GetPath()
}

// HasWildcards reports whether attributes are about more than one kind of request: the verb,
// or the version or resource of a resource request, is * or empty, or its group or subresource
// is *. A condition is written for one verb on one version of one resource, so such attributes
// get no conditions (KEP-5681, "Feature availability and version skew").
func HasWildcards(attributes authorizer.Attributes) bool {
	if isOpen(attributes.GetVerb()) {
		return true
	}
	if !attributes.IsResourceRequest() {
		return false
	}
	if attributes.GetAPIGroup() == "*" || attributes.GetSubresource() == "*" { // empty, they are one group and one resource
		return true
	}
	return isOpen(attributes.GetAPIVersion()) || isOpen(attributes.GetResource())
}

// isOpen reports whether a value stands for more than one.
func isOpen(value string) bool { return value == "" || value == "*" }
