/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/proviso-authz/proviso/pkg/excerpt"
)

// maxNameBytes bounds the name of a field in a message: keys are as long as clients make
// them.
const maxNameBytes = 256

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// NameOf returns the name of a field as people write it, such as
// metadata.labels["example.com/x"], status.conditions[type="Ready"].status or
// spec.containers[name="a"].args.
func NameOf(path fieldpath.Path) string {
	var b strings.Builder
	for _, e := range path {
		if writeElement(&b, e, 2*maxNameBytes); b.Len() > maxNameBytes {
			break
		}
	}
	return excerpt.Of(b.String(), maxNameBytes)
}

// WriteElement appends an element of a path to b, in the form that NameOf uses, but with whole keys, so that different keys
// differ in it. A field name gets a dot before it unless b is empty, so b must be empty before the first element of a path.
func WriteElement(b *strings.Builder, e fieldpath.PathElement) { writeElement(b, e, math.MaxInt) }

// writeElement appends an element. It writes at most limit bytes of each key.
func writeElement(b *strings.Builder, e fieldpath.PathElement, limit int) {
	switch {
	case e.FieldName != nil && plainName.MatchString(beginning(*e.FieldName, limit)):
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(beginning(*e.FieldName, limit))
	case e.FieldName != nil:
		fmt.Fprintf(b, "[%s]", strconv.Quote(beginning(*e.FieldName, limit)))
	case e.Key != nil:
		b.WriteByte('[')
		for i, field := range *e.Key {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "%s=%s", field.Name, quoted(field.Value.Unstructured(), limit))
		}
		b.WriteByte(']')
	case e.Value != nil:
		fmt.Fprintf(b, "[%s]", quoted((*e.Value).Unstructured(), limit))
	case e.Index != nil:
		fmt.Fprintf(b, "[%d]", *e.Index)
	}
}

// beginning returns at most limit bytes of a key.
func beginning(key string, limit int) string { return key[:min(len(key), limit)] }

func quoted(value any, limit int) string {
	if text, ok := value.(string); ok {
		return strconv.Quote(beginning(text, limit))
	}
	return fmt.Sprint(value)
}
