/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// Variable is the name of a variable of the environment.
type Variable string

// Request is the data of a request that is known at authorization: verb, apiGroup, apiVersion,
// resource, subresource, namespace, name, path, fieldSelector, labelSelector and userInfo.
// Policies may read it. Conditions may not: partial evaluation has replaced it by its values.
const Request Variable = "request"

// Variables holds the named expressions of a policy, as fields. Policies may read it; it has no value
// at run time, because the compiler replaces variables.NAME by the expression.
const Variables Variable = "variables"

// The variables that are unknown until admission. Conditions may read no others.
const (
	// Object is the object of the request after mutation, or null. For CONNECT it is
	// the options of the connection.
	Object Variable = "object"
	// OldObject is the stored object, or null.
	OldObject Variable = "oldObject"
	// Options are the options of the operation, or null.
	Options Variable = "options"
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation Variable = "operation"
	// DryRun says that nothing will be persisted.
	DryRun Variable = "dryRun"
	// NamespaceObject is the Namespace of the request. Only its metadata is known. It does not exist for requests without namespace: reading it is an error.
	NamespaceObject Variable = "namespaceObject"
	// ImpersonatedRequest is the request that is made while impersonating. It exists in
	// conditions of impersonation checks only.
	ImpersonatedRequest Variable = "impersonatedRequest"
	// ImpersonatedUser is the user who is impersonated. It exists in conditions of impersonation checks only.
	ImpersonatedUser Variable = "impersonatedUser"
	// Authorizer asks for secondary authorization checks, as in
	// ValidatingAdmissionPolicy.
	Authorizer Variable = "authorizer"
	// RequestResource is a check of Authorizer about the resource of the request.
	RequestResource Variable = "authorizer.requestResource"
)

// NamedExpression is an expression that others refer to as variables.NAME, as in
// ValidatingAdmissionPolicy.
type NamedExpression struct {
	Name       string
	Expression string
}

func field(name string, t *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField(name, t, false, nil, nil)
}

// texts returns fields that are strings.
func texts(names ...string) (fields []*apiservercel.DeclField) {
	for _, name := range names {
		fields = append(fields, field(name, apiservercel.StringType))
	}
	return fields
}

// TypePrefix is the beginning of the names of the object types that this package declares. The values of these types are
// maps.
const TypePrefix = "proviso."

func object(name string, fields ...*apiservercel.DeclField) *apiservercel.DeclType {
	byName := make(map[string]*apiservercel.DeclField, len(fields))
	for _, f := range fields {
		byName[f.Name] = f
	}
	return apiservercel.NewObjectType(TypePrefix+name, byName)
}

var (
	stringList = apiservercel.NewListType(apiservercel.StringType, -1)
	stringMap  = apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)

	userInfoType = object("UserInfo", append(texts("username", "uid"),
		field("groups", stringList),
		field("extra", apiservercel.NewMapType(apiservercel.StringType, stringList, -1)),
	)...)

	selectorType = object("Selector",
		field("requirements", apiservercel.NewListType(object("SelectorRequirement", append(texts("key", "operator"), field("values", stringList))...), -1)),
	)

	attributes = []string{"verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name", "path"}

	requestType = object("Request", append(texts(attributes...),
		field("fieldSelector", selectorType),
		field("labelSelector", selectorType),
		field("userInfo", userInfoType),
	)...)

	impersonatedRequestType = object("ImpersonatedRequest", texts(attributes...)...)

	// namespaceType has the fields of ObjectMeta that are of use in a condition; spec and
	// status of a namespace are not available.
	namespaceType = object("Namespace", field("metadata", namespaceMetadataType))

	namespaceMetadataType = object("NamespaceMetadata", append(texts("name", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
		field("labels", stringMap),
		field("annotations", stringMap),
		field("finalizers", stringList),
		field("generation", apiservercel.IntType),
	)...)
)

// RequestType returns the type of Request. All callers share it, and must not change it.
func RequestType() *apiservercel.DeclType { return requestType }

// NamespaceData returns a copy of a Namespace that has only the fields of NamespaceObject. Otherwise an expression that
// converts it with dyn() could read other fields on some servers, and not on others.
func NamespaceData(namespace map[string]any) map[string]any {
	reduced := map[string]any{}
	metadata, _ := namespace["metadata"].(map[string]any)
	for name := range namespaceMetadataType.Fields {
		if value, ok := metadata[name]; ok {
			reduced[name] = value
		}
	}
	return map[string]any{"metadata": reduced}
}

// unknownVariables are the variables of conditions. requestVariables are the additional variables of policies.
var (
	unknownVariables = map[Variable]*cel.Type{
		Object:              cel.DynType,
		OldObject:           cel.DynType,
		Options:             cel.DynType,
		Operation:           cel.StringType,
		DryRun:              cel.BoolType,
		NamespaceObject:     namespaceType.CelType(),
		ImpersonatedRequest: impersonatedRequestType.CelType(),
		ImpersonatedUser:    userInfoType.CelType(),
		Authorizer:          library.AuthorizerType,
		RequestResource:     library.ResourceCheckType,
	}
	requestVariables = map[Variable]*cel.Type{
		Request: requestType.CelType(),
	}
)
