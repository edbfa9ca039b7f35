/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package celeval

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// ValuesOf returns the data of a request as the variables of conditions, for one
// evaluation. The reader converts objects while conditions read them: if it has an error
// after the evaluation, the outcome of the evaluation must not be used. Objects must be in
// the version of the request. It returns an error if the namespace cannot be read.
func ValuesOf(data authorizer.ConditionsData, reader *cel.ObjectReader) (cel.Values, error) {
	values := cel.Values{
		cel.Operation: string(data.GetOperation()),
		cel.DryRun:    data.IsDryRun(),
		cel.Object:    reader.Read(data.GetObject()),
		cel.OldObject: reader.Read(data.GetOldObject()),
		cel.Options:   reader.Read(data.GetOperationOptions()),
	}
	if known, ok := data.(authorization.NamespaceData); ok {
		namespace, err := known.GetNamespaceObject()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", authorization.ErrUnreadableNamespace, err)
		}
		if namespace != nil {
			values[cel.NamespaceObject] = cel.NamespaceData(namespace)
		}
	}
	return values, nil
}

// requestTexts are the fields of a request that are texts, as conditions read them.
var requestTexts = map[string]func(authorizer.Attributes) string{
	"verb": authorizer.Attributes.GetVerb, "apiGroup": authorizer.Attributes.GetAPIGroup, "apiVersion": authorizer.Attributes.GetAPIVersion,
	"resource": authorizer.Attributes.GetResource, "subresource": authorizer.Attributes.GetSubresource,
	"namespace": authorizer.Attributes.GetNamespace, "name": authorizer.Attributes.GetName, "path": authorization.PathOf,
}

// RequestText returns a field of a request that is a text, as conditions read it. It returns false if there is no such field.
func RequestText(a authorizer.Attributes, field string) (string, bool) {
	text, ok := requestTexts[field]
	if !ok {
		return "", false
	}
	return text(a), true
}

// RequestData returns the fields of a request that are texts, as conditions read them: without its user and its selectors.
func RequestData(a authorizer.Attributes) map[string]any {
	data := make(map[string]any, len(requestTexts))
	for field, text := range requestTexts {
		data[field] = text(a)
	}
	return data
}

// UserData returns a user as conditions read it.
func UserData(u user.Info) map[string]any {
	return map[string]any{"username": u.GetName(), "uid": u.GetUID(), "groups": ListOf(u.GetGroups()), "extra": ExtraData(u)}
}

// ExtraData returns the extra of a user as conditions read it.
func ExtraData(u user.Info) map[string]any {
	extra := make(map[string]any, len(u.GetExtra()))
	for key, values := range u.GetExtra() {
		extra[key] = ListOf(values)
	}
	return extra
}

// ListOf returns a list of texts as conditions read it.
func ListOf(values []string) []any {
	list := make([]any, 0, len(values))
	for _, v := range values {
		list = append(list, v)
	}
	return list
}

// FieldsReader is implemented by condition data that shows values of the object in a refusal, as far as its user may see
// them.
type FieldsReader interface {
	// ReadFields is called with the fields of the object that a false part of an Allow condition reads, each as the names
	// on the way to it, before the evaluation of the decision ends.
	ReadFields(fields [][]string)
}
