/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// lastApplied is the annotation in which kubectl apply stores the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secrets are the fields of built-in kinds that hold secrets, by kind.
var secrets = map[string][][]string{
	"Secret":       {{"data"}, {"stringData"}, {"metadata", "annotations", lastApplied}},
	"TokenReview":  {{"spec", "token"}, {"metadata", "annotations", lastApplied}},
	"TokenRequest": {{"status", "token"}},
}

// secretResources are the kinds of secrets, by resource.
var secretResources = map[string]string{"secrets": "Secret", "tokenreviews": "TokenReview", "serviceaccounts/token": "TokenRequest"}

// secrecy has the fields of an object whose values are not shown.
type secrecy [][]string

// secrecyOf returns the fields of a request that are not shown: those that hold secrets, by the resource or by the kind of its objects, and
// further fields, with dots between their names.
func secrecyOf(r *simulation.Request, further []string) (s secrecy, err error) {
	//guard:explain-secrets-resource
	if a := r.Spec.ResourceAttributes; a != nil {
		s = append(s, secrets[secretResources[strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")]]...)
	}
	if r.Data != nil {
		for _, raw := range objectsOf(r) {
			kind, _ := raw["kind"].(string)
			//guard:explain-secrets-kind-object
			s = append(s, secrets[kind]...)
		}
	}
	for _, field := range further {
		path := strings.Split(field, ".")
		if slices.Contains(path, "") {
			return s, fmt.Errorf("--hide must be a field such as spec.password, not %q", field)
		}
		s = append(s, path)
	}
	return s, nil
}

// hidesAny reports whether a value that may depend on these fields may depend on a secret.
func (s secrecy) hidesAny(reads []partial.Read) bool {
	return slices.ContainsFunc(reads, func(read partial.Read) bool {
		return (read.Variable == cel.Object || read.Variable == cel.OldObject) && s.hides(read.Path)
	})
}

// hides reports whether a field is a secret, is in one, or has one in it.
func (s secrecy) hides(path []string) bool {
	return slices.ContainsFunc(s, func(field []string) bool {
		//guard:explain-parts-holds-secrets
		common := min(len(field), len(path))
		return slices.Equal(field[:common], path[:common])
	})
}
