/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// TestUnchangedArguments compiles calls of unchanged. Those with other arguments than it has do not compile, and the error says what to write.
// TestUnchanged in pkg/barrier has its values.
func TestUnchangedArguments(t *testing.T) {
	t.Parallel()
	compiler := compilers.Policies(t)
	const form = `write unchanged(object, oldObject, ["data.key", "metadata.labels"])`
	var many, wide []string
	for i := range 17 {
		many, wide = append(many, fmt.Sprintf("%q", fmt.Sprint("a", i))), append(wide, fmt.Sprintf("%q", fmt.Sprintf("a%d.b", i)))
	}
	call := func(paths string) string { return "unchanged(object, oldObject, [" + paths + "])" }
	for condition, want := range map[string]string{
		call(``):                             "",
		call(`"data", "data2", "spec.data"`): "",
		call(`"metadata.labels", "metadata.uid", "metadata.managedFields.x"`):                              "",
		call(`"metadata.annotations['example.com/a']", "data['a.b']"`):                                     "",
		call(`"in.as", "a-b['0']"`):                                                                        "",
		call(strings.Join(many[:16], ", ")):                                                                "",
		call(strings.Join(wide[:6], ", ")):                                                                 "",
		`["a"].all(k, unchanged(object, oldObject, [])) && !unchanged(object, oldObject, ["a.b.c.d.e.f"])`: "",
		`unchanged(object, oldObject)`:                                                                     form,
		`unchanged(oldObject, object, [])`:                                                                 form,
		`unchanged(object.spec, oldObject.spec, [])`:                                                       form,
		`unchanged(object, oldObject, "data")`:                                                             form,
		`unchanged(object, oldObject, [?optional.of("data")])`:                                             form,
		`object.unchanged(oldObject, [])`:                                                                  "undeclared reference to 'unchanged'",
		call(`"da" + "ta"`):                                                                                "the fields must be texts in quotes",
		call(`1`):                                                                                          "the fields must be texts in quotes",
		call(`"data", "spec", "data"`):                                                                     `"data" is named twice`,
		call(`"a.b", "a['b']"`):                                                                            `"a['b']" is named twice`,
		call(`"spec.a", "spec"`):                                                                           `one of the fields "spec.a" and "spec" is inside the other: name the outer one only`,
		call(`"spec", "spec.a.b"`):                                                                         `one of the fields "spec" and "spec.a.b" is inside the other`,
		call(`""`):                                                                                         "a path is empty",
		call(`".spec"`):                                                                                    `".spec" is no path to a field`,
		call(`"spec."`):                                                                                    `"spec." is no path to a field`,
		call(`"spec..a"`):                                                                                  "no path to a field",
		call(`"spec.containers[0].image"`):                                                                 "elements of lists cannot be named, only the list",
		call(`"spec.containers[*].image"`):                                                                 "elements of lists cannot be named, only the list",
		call(`"metadata.annotations.example.com/a"`):                                                       `keys with dots or slashes as in metadata.annotations["example.com/key"]`,
		call(`"spec a"`):                                                                                   "no path to a field",
		call(`"a.b.c.d.e.f.g.h.i"`):                                                                        "is too long: name the object around the field",
		call(strings.Join(many, ", ")):                                                                     "it names 17 fields, and may name 16",
		call(strings.Join(wide[:7], ", ")):                                                                 "the fields are in 9 objects, metadata and the whole object among them, and may be in 8: name the objects around them",
		`["a"].all(object, unchanged(object, oldObject, []))`:                                              "a macro must not bind a variable that has the name of another",
	} {
		expression, err := compiler.Compile(condition)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", condition, err)
		case want == "" && strings.Contains(expression.Text(), cel.UnchangedFunction):
			t.Errorf("%s: the text has the function: %s", condition, expression.Text())
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", condition, err, want)
		}
	}
}
