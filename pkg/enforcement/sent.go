/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

const (
	// maxReasonBytes bounds the reason of a refusal: some conditions with their descriptions.
	maxReasonBytes = 4096
	// maxShownFields bounds the fields whose values a refusal shows.
	maxShownFields = 4
	// maxShownBytes bounds a value that a refusal shows. A longer one is not shown.
	maxShownBytes = 64
	// maxFieldBytes bounds the name of a field that a refusal shows. Together with maxShownFields and maxShownBytes it leaves
	// about half of maxReasonBytes to the reasons.
	maxFieldBytes = 256
)

// recordSent keeps the object of a create as the user has sent it, before admission plugins mutate it. No value of any other
// request is shown: the object of an update has parts of the stored one, and a Secret has secrets.
func (s *slot) recordSent(a admission.Attributes) {
	if s == nil || !showsSent(a) {
		return
	}
	request, _, _ := s.records()
	//guard:refusals-values-requests-turn-creates
	if !request.isConditional() || request.attributes.GetVerb() != "create" {
		return
	}
	sent := a.GetObject().DeepCopyObject()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = sent
}

func showsSent(a admission.Attributes) bool {
	//guard:refusals-values-updates
	return a.GetOperation() == admission.Create && a.GetSubresource() == "" && a.GetResource().Resource != "secrets" && a.GetObject() != nil
}

// sentBy returns the object that recordSent has kept, or nil if it kept none or if a is not about a create whose values may be
// shown.
func (s *slot) sentBy(a admission.Attributes) runtime.Object {
	if !showsSent(a) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// ReadFields records the fields that a false condition has read.
func (d *requestData) ReadFields(fields [][]string) { d.read = append(d.read, fields...) }

// sentValues returns the part of a refusal that shows the fields that false conditions have read, with the values that the user has
// sent. For a field that the user has not sent, it says "not set". It leaves out a field if its value is a long string or no scalar,
// if an admission plugin has changed the value, or if a name in its path looks like the name of a secret. It shows at most
// maxShownFields fields, and only for a create (see recordSent). If it shows no field, it returns "".
func (d *requestData) sentValues() string {
	if d.sent == nil || len(d.read) == 0 {
		return ""
	}
	sent, err := admission.ConvertToGVK(d.sent, d.admitted.GetKind(), d.objects)
	if err != nil {
		return ""
	}
	before, err := contentOf(sent)
	if err != nil {
		return ""
	}
	after, err := contentOf(d.object)
	if err != nil {
		return ""
	}
	var shown []string
	for _, field := range d.read {
		//guard:refusals-fields-secrets
		if slices.ContainsFunc(field, mayHoldSecret) {
			continue
		}
		name := nameOfField(field)
		value, ok := shownValue(before, field)
		//guard:refusals-values-plugins
		if other, same := shownValue(after, field); !ok || !same || other != value || len(name) > maxFieldBytes {
			continue
		}
		//guard:refusals-values-look-like-reason
		if strings.Contains(value, "policy=") || strings.Contains(value, "condition=") { // it could look like a reason
			continue
		}
		if text := name + value; !slices.Contains(shown, text) && len(shown) < maxShownFields {
			shown = append(shown, text)
		}
	}
	if len(shown) == 0 {
		return ""
	}
	return "the request has " + strings.Join(shown, ", ")
}

// namesOfSecrets are parts of the names of fields whose values are likely secrets, in lower case and without separators.
var namesOfSecrets = []string{"password", "passwd", "passphrase", "secret", "token", "credential", "privatekey", "apikey", "accesskey"}

// mayHoldSecret reports whether a field may have secrets, to judge by its name. The message of a refusal is in audit events that
// have no request body.
func mayHoldSecret(name string) bool {
	name = strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(namesOfSecrets, func(part string) bool { return strings.Contains(name, part) })
}

func contentOf(object runtime.Object) (map[string]any, error) {
	if known, ok := object.(runtime.Unstructured); ok {
		return known.UnstructuredContent(), nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}

// shownValue returns the text " = <value>" or " not set" that a refusal shows for a field. It returns false if the refusal shows
// nothing: the value is a long string or no scalar, or the field is below a value that has no fields.
func shownValue(content map[string]any, field []string) (string, bool) {
	var value any = content
	for _, name := range field {
		object, ok := value.(map[string]any)
		if !ok {
			return "", false
		}
		if value, ok = object[name]; !ok || value == nil {
			return " not set", true
		}
	}
	switch v := value.(type) {
	case string:
		//guard:refusals-long-values
		return " = " + strconv.Quote(v), len(v) <= maxShownBytes
	case bool:
		return " = " + strconv.FormatBool(v), true
	case int64:
		return " = " + strconv.FormatInt(v, 10), true
	case float64:
		return " = " + strconv.FormatFloat(v, 'g', -1, 64), true
	default:
		return "", false
	}
}

// nameOfField returns the name of a field as CEL conditions write it, such as object.spec["a-b"].
func nameOfField(field []string) string {
	name := "object"
	for _, step := range field {
		if strings.Trim(step, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" {
			name += "." + step
		} else {
			name += "[" + strconv.Quote(step) + "]"
		}
	}
	return name
}

// joinBounded appends values to a reason, and cuts the reason so that both have at most maxReasonBytes.
func joinBounded(reason, values string) string {
	if values != "" {
		values = "; " + values
	}
	return excerpt.Of(authorization.OneLine(reason), maxReasonBytes-len(values)) + values // the error beside a reason may quote others
}
