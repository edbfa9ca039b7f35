/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorizationconditionsreview

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// valuesOf returns the data of a valid request as the variables of conditions. Unknown data is
// left out, so that reading it is an error.
func (k servedKinds) valuesOf(request *authorizationapi.AuthorizationConditionsRequest) (cel.Values, error) {
	values := cel.Values{}
	if impersonation := request.Impersonation; impersonation != nil {
		values[cel.ImpersonatedRequest] = cel.Known(celeval.RequestData(attributesOf(&impersonation.Request)))
		values[cel.ImpersonatedUser] = cel.Known(celeval.UserData(authorization.UserOf(&impersonation.User)))
	}
	if request.Operation == "" {
		return values, nil
	}
	values[cel.Operation] = string(request.Operation)
	values[cel.DryRun] = request.DryRun
	for variable, raw := range map[cel.Variable]*runtime.RawExtension{
		cel.Object: request.Object, cel.OldObject: request.OldObject, cel.Options: request.Options,
	} {
		value, err := k.objectOf(raw, kindOf(request, variable))
		if err != nil {
			return nil, fmt.Errorf("request.%s: %w", variable, err)
		}
		// A typed nil map would not be null to CEL.
		values[variable] = nil
		if value != nil {
			values[variable] = value
		}
	}
	namespace, err := objectOf(request.NamespaceObject)
	if err != nil {
		return nil, fmt.Errorf("request.%s: %w", cel.NamespaceObject, err)
	}
	if namespace != nil {
		values[cel.NamespaceObject] = cel.NamespaceData(namespace)
	}
	return values, nil
}

// kindOf returns the kind of the object in a variable for objects without a kind of their own, or
// nil if the request does not have it.
func kindOf(request *authorizationapi.AuthorizationConditionsRequest, variable cel.Variable) *metav1.GroupVersionKind {
	if variable == cel.Options {
		return nil
	}
	return request.Kind
}

// objectOf decodes a JSON object as the API server does: integers that fit are int64, and every
// other number is float64. It returns nil for null and for an empty value.
func objectOf(raw *runtime.RawExtension) (map[string]any, error) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, nil
	}
	var value map[string]any
	if err := utiljson.Unmarshal(raw.Raw, &value); err != nil {
		return nil, err
	}
	return value, nil
}

func attributesOf(r *authorizationapi.ImpersonatedRequest) authorizer.Attributes {
	return authorizer.AttributesRecord{
		Verb: r.Verb, APIGroup: r.APIGroup, APIVersion: r.APIVersion, Resource: r.Resource, Subresource: r.Subresource,
		Namespace: r.Namespace, Name: r.Name, Path: r.Path, ResourceRequest: r.Resource != "",
	}
}

// reviewData is the data of a review, in the form that authorizers read when they evaluate their
// conditions.
type reviewData struct {
	request *authorizationapi.AuthorizationConditionsRequest
	values  cel.Values
}

var (
	_ authorizer.ConditionsData   = reviewData{}
	_ authorization.NamespaceData = reviewData{}
	_ library.Resource            = reviewData{}
)

func (d reviewData) GetName() string        { return d.request.Name }
func (d reviewData) GetNamespace() string   { return d.request.Namespace }
func (d reviewData) GetSubresource() string { return d.request.SubResource }
func (d reviewData) IsDryRun() bool         { return d.request.DryRun }

func (d reviewData) GetUserInfo() user.Info {
	if d.request.UserInfo == nil {
		return &user.DefaultInfo{}
	}
	return authorization.UserOf(d.request.UserInfo)
}

func (d reviewData) GetOperation() authorizer.AdmissionOperation {
	return authorizer.AdmissionOperation(d.request.Operation)
}

func (d reviewData) GetObject() runtime.Object           { return d.objectIn(cel.Object) }
func (d reviewData) GetOldObject() runtime.Object        { return d.objectIn(cel.OldObject) }
func (d reviewData) GetOperationOptions() runtime.Object { return d.objectIn(cel.Options) }

// objectIn returns the object in a variable, or nil if it is null.
func (d reviewData) objectIn(variable cel.Variable) runtime.Object {
	object, ok := d.values[variable].(map[string]any)
	if !ok {
		return nil
	}
	return &unstructured.Unstructured{Object: object}
}

func (d reviewData) GetNamespaceObject() (map[string]any, error) {
	return objectOf(d.request.NamespaceObject)
}

func (d reviewData) GetResource() schema.GroupVersionResource {
	if d.request.Resource == nil {
		return schema.GroupVersionResource{}
	}
	return schema.GroupVersionResource(*d.request.Resource)
}

func (d reviewData) GetKind() schema.GroupVersionKind {
	if d.request.Kind == nil {
		return schema.GroupVersionKind{}
	}
	return schema.GroupVersionKind(*d.request.Kind)
}

// servedKinds decodes objects of the kinds that this server serves, as it does in requests. The
// zero value has no kinds.
type servedKinds struct {
	scheme  *runtime.Scheme
	decoder runtime.Decoder
}

func newServedKinds(scheme *runtime.Scheme) servedKinds {
	if scheme == nil {
		return servedKinds{}
	}
	return servedKinds{scheme: scheme, decoder: json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})}
}

// objectOf decodes a JSON object, or returns nil for null and for an empty value. If this server
// serves the object's kind, fields have the same types as in a request: an integer in a field of
// type float64 is a double. Defaults are not applied. In objects of other kinds, the JSON text
// determines the types. kind is used for an object without a kind of its own, and may be nil.
func (k servedKinds) objectOf(raw *runtime.RawExtension, kind *metav1.GroupVersionKind) (map[string]any, error) {
	value, err := objectOf(raw)
	if value == nil || err != nil || k.scheme == nil {
		return value, err
	}
	gvk, ok := kindIn(value, kind)
	//guard:review-types-served-kinds
	if !ok || gvk.Version == runtime.APIVersionInternal || !k.scheme.Recognizes(gvk) {
		return value, nil
	}
	typed, _, err := k.decoder.Decode(raw.Raw, &gvk, nil)
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// kindIn returns the kind in the object, or the given one if the object has none.
func kindIn(object map[string]any, kind *metav1.GroupVersionKind) (schema.GroupVersionKind, bool) {
	version, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	switch {
	case version != "" && name != "":
		return schema.FromAPIVersionAndKind(version, name), true
	case version == "" && name == "" && kind != nil:
		return schema.GroupVersionKind(*kind), true
	}
	return schema.GroupVersionKind{}, false
}
