/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// UnchangedFunction is the name of the function unchanged(object, oldObject, ["a.b", …]) of policies. It is true if the new object differs
// from the old one in the named fields only, apart from the metadata that the server writes, and false if one of the objects is null. It is
// replaced by an expression without it when a policy is compiled, so that all evaluators understand conditions with it.
const UnchangedFunction = "unchanged"

const (
	// maxUnchangedPaths and maxUnchangedDepth bound the expression that replaces a call.
	maxUnchangedPaths, maxUnchangedDepth, maxUnchangedObjects = 16, 8, 8
	// maxUnchangedName bounds one name in a path.
	maxUnchangedName = 317 // the longest key of an annotation
)

// writtenByServer are the fields of metadata that clients do not decide, and that count as unchanged.
var writtenByServer = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid",
}

// fieldTree has the fields below a value that may differ. One without fields stands for the whole value.
type fieldTree map[string]fieldTree

// UnchangedPaths returns the paths in the arguments of a call of unchanged, each as the names of its fields.
func UnchangedPaths(args []ast.Expr) (paths [][]string, err error) {
	isVariable := func(e ast.Expr, name Variable) bool {
		return e.Kind() == ast.IdentKind && e.AsIdent() == string(name)
	}
	//guard:unchanged-arguments
	if len(args) != 3 || !isVariable(args[0], Object) || !isVariable(args[1], OldObject) || args[2].Kind() != ast.ListKind || len(args[2].AsList().OptionalIndices()) > 0 {
		return nil, unchangedError(`write unchanged(object, oldObject, ["data.key", "metadata.labels"]): the fields that may differ are texts in a list`)
	}
	elements := args[2].AsList().Elements()
	if len(elements) > maxUnchangedPaths {
		return nil, unchangedError("it names %d fields, and may name %d: name the objects around them", len(elements), maxUnchangedPaths)
	}
	for _, element := range elements {
		if element.Kind() != ast.LiteralKind || element.AsLiteral().Type() != types.StringType {
			return nil, unchangedError("the fields must be texts in quotes, and not expressions")
		}
		text := string(element.AsLiteral().(types.String))
		path, err := fieldPath(text)
		if err != nil {
			return nil, err
		}
		for _, other := range paths {
			shared := min(len(other), len(path))
			switch isPrefix := slices.Equal(other[:shared], path[:shared]); {
			case isPrefix && len(other) == len(path):
				return nil, unchangedError("%q is named twice", text)
			//guard:unchanged-paths-inside
			case isPrefix:
				return nil, unchangedError("one of the fields %q and %q is inside the other: name the outer one only", strings.Join(other, "."), text)
			}
		}
		paths = append(paths, path)
	}
	//guard:unchanged-objects
	if count := treeOf(paths).objects(); count > maxUnchangedObjects {
		return nil, unchangedError("the fields are in %d objects, metadata and the whole object among them, and may be in %d: name the objects around them", count, maxUnchangedObjects)
	}
	return paths, nil
}

func unchangedError(format string, args ...any) error {
	return fmt.Errorf("expression %w: %s: %s", ErrCompile, UnchangedFunction, fmt.Sprintf(format, args...))
}

// pathStep is a name, or a key in brackets, at the beginning of a path.
var pathStep = regexp.MustCompile(`^(?:\.?([A-Za-z_][A-Za-z0-9_-]*)|\["([^"\\]+)"\]|\['([^'\\]+)'\])`)

// fieldPath returns the names in a path such as metadata.annotations["example.com/key"].
func fieldPath(text string) (path []string, err error) {
	for rest := text; rest != ""; {
		step := pathStep.FindStringSubmatch(rest)
		//guard:unchanged-paths-syntax
		if step == nil || strings.HasPrefix(rest, ".") != (len(path) > 0) && step[1] != "" {
			return nil, unchangedError(`%q is no path to a field: write names with dots between them, and keys with dots or slashes as in metadata.annotations["example.com/key"]; elements of lists cannot be named, only the list`, text)
		}
		path, rest = append(path, step[1]+step[2]+step[3]), rest[len(step[0]):]
		if len(path) > maxUnchangedDepth || len(path[len(path)-1]) > maxUnchangedName {
			return nil, unchangedError("the path %q is too long: name the object around the field", text)
		}
	}
	if len(path) == 0 {
		return nil, unchangedError("a path is empty")
	}
	return path, nil
}

// UnchangedText returns the expression that replaces a call of unchanged with these paths.
func UnchangedText(paths [][]string) string {
	a, b := string(Object), string(OldObject)
	// A conditional, so that the parts of a condition are as their author has written them.
	return fmt.Sprintf("(%s != null && %s != null ? %s : false)", a, b, treeOf(paths).same(a, b, a, b))
}

// treeOf returns the tree of the fields at paths, and of the metadata that the server writes.
func treeOf(paths [][]string) fieldTree {
	tree := fieldTree{"metadata": {}}
	for _, name := range writtenByServer {
		tree["metadata"][name] = nil
	}
	for _, path := range paths {
		tree.add(path)
	}
	return tree
}

func (t fieldTree) add(path []string) {
	inner, ok := t[path[0]]
	switch {
	case len(path) == 1:
		t[path[0]] = nil
	case ok && inner == nil: // the server writes the field
	default:
		if !ok {
			t[path[0]] = fieldTree{}
		}
		t[path[0]].add(path[1:])
	}
}

// objects returns the number of objects in the tree.
func (t fieldTree) objects() int {
	count := 1
	for _, inner := range t {
		if inner != nil {
			count += inner.objects()
		}
	}
	return count
}

// same returns an expression that is true if two objects have the same fields apart from the tree. a and b are expressions for the objects, in
// which a missing one is empty, and optionalA and optionalB expressions from which fields are selected as optional values.
func (t fieldTree) same(a, b, optionalA, optionalB string) string {
	names := slices.Sorted(maps.Keys(t))
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, strconv.Quote(name))
	}
	named := "[" + strings.Join(quoted, ", ") + "]"
	operands := []string{fmt.Sprintf("%s.all(k, k in %s || %s[?k] == %s[?k])", a, named, optionalB, optionalA)}
	//guard:unchanged-removed-fields
	operands = append(operands, fmt.Sprintf("%s.all(k, k in %s || %s[?k].hasValue())", b, named, optionalA))
	for _, name := range names {
		if inner := t[name]; inner != nil {
			operands = append(operands, inner.sameIn(optionalA+optionalField(name), optionalB+optionalField(name)))
		}
	}
	return strings.Join(operands, " && ")
}

// sameIn is same for optional values, which need not be objects.
func (t fieldTree) sameIn(a, b string) string {
	valueA, valueB := a+".orValue({})", b+".orValue({})"
	return fmt.Sprintf("(type(%[3]s) == type({}) && type(%[4]s) == type({}) ? %[5]s : %[1]s == %[2]s)", a, b, valueA, valueB, t.same(valueA, valueB, a, b))
}

var isIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are the words that are no identifiers in CEL.
var reserved = strings.Fields("as break const continue else false for function if import in let loop namespace null package return true var void while")

// optionalField returns the selection of an optional field. The checker needs less time for a name than for a text.
func optionalField(name string) string {
	if isIdentifier.MatchString(name) && !slices.Contains(reserved, name) {
		return ".?" + name
	}
	return "[?" + strconv.Quote(name) + "]"
}

// takeUnchanged replaces the calls of unchanged in a parsed expression by a comparison of the objects, and returns the fields that they name, as they are selected from
// object, up to the first key that needs quotes. Calls with other arguments stay as they are.
func takeUnchanged(parsed *ast.AST) (fields []string) {
	factory, last := ast.NewExprFactory(), ast.MaxID(parsed)
	dynamic := func(v Variable) ast.Expr {
		last += 2
		return factory.NewCall(last-1, "dyn", factory.NewIdent(last, string(v)))
	}
	ast.PostOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != UnchangedFunction || e.AsCall().IsMemberFunction() {
			return
		}
		paths, err := UnchangedPaths(e.AsCall().Args())
		if err != nil {
			return
		}
		for _, path := range paths {
			field := string(Object)
			for _, name := range path {
				selected := optionalField(name)
				if !strings.HasPrefix(selected, ".") {
					break
				}
				field += "." + name
			}
			if field != string(Object) {
				fields = append(fields, field)
			}
		}
		e.SetKindCase(factory.NewCall(e.ID(), operators.Equals, dynamic(Object), dynamic(OldObject)))
	}))
	return fields
}
