/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package validation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/apis/authorization"
)

// ValidateAuthorizationConditionsReview validates a review that a client creates.
func ValidateAuthorizationConditionsReview(review *authorization.AuthorizationConditionsReview) field.ErrorList {
	errs := validateMetadata(review.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("request")
	if review.Request == nil {
		return append(errs, field.Required(path, ""))
	}
	request := review.Request
	if request.Decision != nil || request.AdmissionRequest != nil {
		return append(errs, validateUpstreamRequest(request, path)...)
	}
	errs = append(errs, ValidateConditionSets(request.ConditionSets, path.Child("conditionSets"))...)
	errs = append(errs, ValidateConditionsData(request, path)...)
	if request.Impersonation != nil && request.Impersonation.Request.Verb == "" {
		errs = append(errs, field.Required(path.Child("impersonation", "request", "verb"), ""))
	}
	return errs
}

// ValidateConditionsData validates the data with which conditions are evaluated. path is the path of the request, or of an
// AdmissionRequest, whose fields have the same names.
func ValidateConditionsData(request *authorization.AuthorizationConditionsRequest, path *field.Path) field.ErrorList {
	errs := validateOperation(request, path)
	errs = append(errs, validateObject(request.Object, path.Child("object"))...)
	errs = append(errs, validateObject(request.OldObject, path.Child("oldObject"))...)
	errs = append(errs, validateObject(request.Options, path.Child("options"))...)
	errs = append(errs, validateObject(request.NamespaceObject, path.Child("namespaceObject"))...)
	return append(errs, validateAttributeLengths(request, path)...)
}

// validateUpstreamRequest validates the fields of the form that is proposed for Kubernetes. Package upstreamform reads what is in them.
func validateUpstreamRequest(request *authorization.AuthorizationConditionsRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, raw := range map[string]*runtime.RawExtension{"decision": request.Decision, "admissionRequest": request.AdmissionRequest} {
		if !isPresent(raw) {
			errs = append(errs, field.Required(path.Child(name), "decision and admissionRequest are needed together"))
		} else {
			errs = append(errs, validateObject(raw, path.Child(name))...)
		}
	}
	return errs
}

// validateAttributeLengths bounds what a URL would have in the request that the review is about.
func validateAttributeLengths(request *authorization.AuthorizationConditionsRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	bound := func(value string, path *field.Path) {
		if len(value) > authorization.MaxAttributeBytes {
			errs = append(errs, field.TooLong(path, "", authorization.MaxAttributeBytes))
		}
	}
	if kind, at := request.Kind, path.Child("kind"); kind != nil {
		bound(kind.Group, at.Child("group"))
		bound(kind.Version, at.Child("version"))
		bound(kind.Kind, at.Child("kind"))
	}
	if resource, at := request.Resource, path.Child("resource"); resource != nil {
		bound(resource.Group, at.Child("group"))
		bound(resource.Version, at.Child("version"))
		bound(resource.Resource, at.Child("resource"))
	}
	bound(request.SubResource, path.Child("subResource"))
	bound(request.Name, path.Child("name"))
	bound(request.Namespace, path.Child("namespace"))
	if request.Impersonation != nil {
		of, at := &request.Impersonation.Request, path.Child("impersonation", "request")
		bound(of.Verb, at.Child("verb"))
		bound(of.APIGroup, at.Child("apiGroup"))
		bound(of.APIVersion, at.Child("apiVersion"))
		bound(of.Resource, at.Child("resource"))
		bound(of.Subresource, at.Child("subresource"))
		bound(of.Namespace, at.Child("namespace"))
		bound(of.Name, at.Child("name"))
		bound(of.Path, at.Child("path"))
	}
	return errs
}

var operations = []authorization.Operation{
	authorization.OperationCreate,
	authorization.OperationUpdate,
	authorization.OperationDelete,
	authorization.OperationConnect,
}

// validateOperation returns an error for objects that the operation does not have. Otherwise a
// condition could, for example, read an old object on a create.
func validateOperation(request *authorization.AuthorizationConditionsRequest, path *field.Path) field.ErrorList {
	type data struct {
		name    string
		present bool
	}
	object := data{name: "object", present: isPresent(request.Object)}
	oldObject := data{name: "oldObject", present: isPresent(request.OldObject)}
	options := data{name: "options", present: isPresent(request.Options)}

	var forbidden []data
	switch request.Operation {
	case authorization.OperationUpdate:
	case authorization.OperationCreate:
		forbidden = []data{oldObject}
	case authorization.OperationDelete:
		forbidden = []data{object}
	case authorization.OperationConnect:
		forbidden = []data{oldObject, options}
	case "":
		if request.Impersonation == nil {
			return field.ErrorList{field.Required(path.Child("operation"), "may be empty only together with impersonation")}
		}
		forbidden = []data{object, oldObject, options, {name: "namespaceObject", present: isPresent(request.NamespaceObject)}, {name: "dryRun", present: request.DryRun}}
	default:
		return field.ErrorList{field.NotSupported(path.Child("operation"), request.Operation, operations)}
	}

	var errs field.ErrorList
	for _, d := range forbidden {
		if d.present {
			errs = append(errs, field.Forbidden(path.Child(d.name), fmt.Sprintf("must be absent when operation is %q", request.Operation)))
		}
	}
	return errs
}

func isPresent(raw *runtime.RawExtension) bool {
	return raw != nil && len(raw.Raw) > 0 && !bytes.Equal(raw.Raw, []byte("null"))
}

// validateObject requires a JSON object, null, or an empty value. If the review was decoded from
// JSON, the syntax and the depth have already been checked.
func validateObject(raw *runtime.RawExtension, path *field.Path) field.ErrorList {
	if !isPresent(raw) {
		return nil
	}
	if !json.Valid(raw.Raw) || !bytes.HasPrefix(bytes.TrimLeft(raw.Raw, " \t\r\n"), []byte("{")) {
		return field.ErrorList{field.TypeInvalid(path, field.OmitValueType{}, "must be a JSON object or null")}
	}
	return nil
}

// ValidateConditionSets validates a chain against the data model (KEP-5681, "Condition and
// ConditionSet data model") and its bounds. A server must not evaluate an invalid chain.
func ValidateConditionSets(chain []authorization.SubjectAccessReviewConditionSet, path *field.Path) field.ErrorList {
	v := chainValidator{}
	v.validateChain(chain, path, 1)
	if v.sets > authorization.MaxConditionSets {
		v.errs = append(v.errs, field.TooMany(path, v.sets, authorization.MaxConditionSets))
	}
	if v.conditions > authorization.MaxConditions {
		v.errs = append(v.errs, field.Invalid(path, field.OmitValueType{},
			fmt.Sprintf("must have at most %d conditions in all, but has %d", authorization.MaxConditions, v.conditions)))
	}
	return v.errs
}

// chainValidator counts sets and conditions during validation, because some bounds apply to the
// whole tree.
type chainValidator struct {
	errs       field.ErrorList
	sets       int
	conditions int
}

func (v *chainValidator) validateChain(chain []authorization.SubjectAccessReviewConditionSet, path *field.Path, depth int) {
	if depth > authorization.MaxConditionSetDepth {
		v.errs = append(v.errs, field.Invalid(path, field.OmitValueType{},
			fmt.Sprintf("must be nested at most %d deep", authorization.MaxConditionSetDepth)))
		return
	}
	names := sets.New[string]()
	for i := range chain {
		v.sets++
		if v.sets > authorization.MaxConditionSets {
			// Further sets are counted but not validated, to bound the list of errors.
			continue
		}
		set, at := &chain[i], path.Index(i)
		v.validateSet(set, at, depth)
		if names.Has(set.AuthorizerName) {
			v.errs = append(v.errs, field.Duplicate(at.Child("authorizerName"), set.AuthorizerName))
		}
		names.Insert(set.AuthorizerName)
	}
}

var failureModes = []authorization.FailureMode{"", authorization.FailureModeDeny, authorization.FailureModeNoOpinion}

func (v *chainValidator) validateSet(set *authorization.SubjectAccessReviewConditionSet, path *field.Path, depth int) {
	v.errs = append(v.errs, validateAuthorizerName(set.AuthorizerName, path.Child("authorizerName"))...)
	v.errs = append(v.errs, validateOneOf(set.FailureMode, failureModes, path.Child("failureMode"))...)

	var given []string
	for name, present := range map[string]bool{
		"allowed": set.Allowed, "denied": set.Denied,
		"conditions": len(set.Conditions) > 0, "conditionsChain": len(set.ConditionsChain) > 0,
	} {
		if present {
			given = append(given, name)
		}
	}
	if len(given) > 1 {
		v.errs = append(v.errs, field.Invalid(path, field.OmitValueType{},
			fmt.Sprintf("at most one of allowed, denied, conditions and conditionsChain may be set, but %s are", strings.Join(sets.List(sets.New(given...)), ", "))))
	}
	v.validateConditions(set.Conditions, path.Child("conditions"))
	if len(set.ConditionsChain) > 0 {
		v.validateChain(set.ConditionsChain, path.Child("conditionsChain"), depth+1)
	}
}

func validateAuthorizerName(name string, path *field.Path) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "")}
	case len(name) > authorization.MaxAuthorizerNameBytes:
		return field.ErrorList{field.TooLong(path, "", authorization.MaxAuthorizerNameBytes)}
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return field.ErrorList{field.Invalid(path, name, "must not contain spaces or control characters")}
	}
	return nil
}

func (v *chainValidator) validateConditions(conditions []authorization.SubjectAccessReviewCondition, path *field.Path) {
	v.conditions += len(conditions)
	if len(conditions) > authorization.MaxConditionsPerSet {
		v.errs = append(v.errs, field.TooMany(path, len(conditions), authorization.MaxConditionsPerSet))
		return
	}
	ids := sets.New[string]()
	for i := range conditions {
		condition, at := &conditions[i], path.Index(i)
		if ids.Has(condition.ID) {
			v.errs = append(v.errs, field.Duplicate(at.Child("id"), condition.ID))
		}
		ids.Insert(condition.ID)
		v.errs = append(v.errs, validateCondition(condition, at)...)
	}
}

var effects = []authorization.ConditionEffect{
	authorization.ConditionEffectAllow,
	authorization.ConditionEffectDeny,
	authorization.ConditionEffectNoOpinion,
}

func validateCondition(condition *authorization.SubjectAccessReviewCondition, path *field.Path) field.ErrorList {
	errs := validateQualifiedName(condition.ID, nil, path.Child("id"))
	errs = append(errs, validateQualifiedName(condition.Type, conditionTypesOfKEPs, path.Child("type"))...)
	errs = append(errs, validateOneOf(condition.Effect, effects, path.Child("effect"))...)
	if len(condition.Condition) > authorization.MaxConditionBytes {
		errs = append(errs, field.TooLong(path.Child("condition"), "", authorization.MaxConditionBytes))
	}
	if len(condition.Description) > authorization.MaxDescriptionBytes {
		errs = append(errs, field.TooLong(path.Child("description"), "", authorization.MaxDescriptionBytes))
	}
	return errs
}

var conditionTypesOfKEPs = sets.New(authorization.ConditionTypeCEL, authorization.ConditionTypeUpstreamCEL, authorization.ConditionTypeNodeAuthorizer)

// validateQualifiedName requires a label key with a domain. Domains of Kubernetes are reserved,
// except for the names in known.
func validateQualifiedName(name string, known sets.Set[string], path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, message := range content.IsLabelKey(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	domain, _, qualified := strings.Cut(name, "/")
	if !qualified {
		return append(errs, field.Invalid(path, name, "must be qualified by a domain, such as example.com/name"))
	}
	if isReserved(domain) && !known.Has(name) {
		errs = append(errs, field.Invalid(path, name, fmt.Sprintf("the domain %q is reserved for Kubernetes", domain)))
	}
	return errs
}

func isReserved(domain string) bool {
	for _, reserved := range []string{"k8s.io", "kubernetes.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return true
		}
	}
	return false
}
