/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/proviso-authz/proviso/pkg/suggestion"
)

// The messages of the type checker to which hints are added. A message with another text gets no hint.
var (
	undeclared = regexp.MustCompile(`undeclared reference to '([^']*)' \(in container ''\)`)
	undefined  = regexp.MustCompile(`undefined field '([^']*)'`)
)

// policyVariables are the variables of policies, as messages list them. The variables of impersonation are left out: they
// exist for few requests only.
var policyVariables = []string{
	string(Request), string(Object), string(OldObject), string(Operation), string(Options), string(DryRun), string(NamespaceObject), string(Authorizer), string(Variables),
}

// DescribeMistakes adds hints to a message of the compiler of policies about an expression. After an undeclared variable or an undefined
// field it inserts similar names, and after a message about an undeclared variable it lists all variables. A message about what authors of
// other languages write, such as a key of labels without quotes, gets the form that CEL has. Other messages are returned unchanged.
func DescribeMistakes(expression, message string) string {
	if described := describeTypes(expression, message); described != message {
		return described
	}
	isVariable := false
	message = undeclared.ReplaceAllStringFunc(message, func(match string) string {
		name := undeclared.FindStringSubmatch(match)[1]
		if isCalled(expression, name) {
			return "undeclared reference to the function '" + name + "'" + meantFunction(name)
		}
		isVariable = true
		return "undeclared reference to '" + name + "'" + nearNames(name, policyVariables)
	})
	if isVariable {
		message += "; the variables are " + strings.Join(policyVariables, ", ")
	}
	fields := slices.Concat(fieldNames(requestType), fieldNames(namespaceType))
	if field := undefined.FindStringSubmatch(message); field != nil && strings.Contains(expression, "userInfo."+field[1]) {
		if fields = fieldNames(userInfoType); nearNames(field[1], fields) == "" {
			return strings.Replace(message, field[0], field[0]+", the fields of userInfo are "+strings.Join(fields, ", "), 1)
		}
	}
	if field := undefined.FindStringSubmatch(message); field != nil && strings.Contains(expression, string(NamespaceObject)+"."+field[1]) && slices.Contains(fieldNames(namespaceMetadataType), field[1]) {
		return strings.Replace(message, field[0], field[0]+", did you mean 'metadata."+field[1]+"'?", 1)
	}
	for _, word := range operatorWords {
		message = word.pattern.ReplaceAllString(message, word.hint)
	}
	return describeFields(message, fields, policyVariables)
}

// operatorWords are the beginnings of messages of the parser about operators of other languages, with a hint.
var operatorWords = []struct {
	pattern *regexp.Regexp
	hint    string
}{
	{regexp.MustCompile(`token recognition error at: '= ?'`), "$0; equality is =="},
	{regexp.MustCompile(`(mismatched|extraneous) input 'and'`), "$0 (write &&)"},
	{regexp.MustCompile(`(mismatched|extraneous) input 'or'`), "$0 (write ||)"},
	{regexp.MustCompile(`(mismatched|extraneous) input '<EOF>'`), "$0 (the expression ends too early)"},
	{tokens, ""},
}

// tokens is a list of all tokens that could follow, which tells authors nothing.
var tokens = regexp.MustCompile(` expecting \{(?:'[^']*'|[A-Z_]+|, )+\}`)

var (
	// labelKey is a key of labels or annotations that is written as a field, and what follows it.
	labelKey = regexp.MustCompile(`\b(labels|annotations|matchLabels|nodeSelector)\.(\w[\w-]*(?:\.\w[\w-]*)*(?:/\w[\w.-]*)?)(\s*\()?`)
	// notAKey begins the messages about such a key.
	notAKey = regexp.MustCompile(`undeclared reference to '|does not support field selection`)
)

// typeWords are messages of the type checker, with what to write instead.
var typeWords = []struct {
	pattern *regexp.Regexp
	hint    string
}{
	{regexp.MustCompile(`found no matching overload for '(?:_[=!<>]+_|@in)' applied to '\((?:string, (?:list\()?(?:int|uint|double)|(?:int|uint|double), (?:list\()?string)\)*'`), "; a number is written without quotes, and a text in quotes"},
	{regexp.MustCompile(`'_[!=]=_' applied to '\((?:bool, string|string, bool)\)'`), "; true and false are written without quotes, and ! is for what follows it, so that a comparison needs parentheses: !(a == b)"},
	{regexp.MustCompile(`'@in' applied to '\([^,]+, string\)'`), "; what follows in is a list: [\"a\", \"b\"]"},
	{regexp.MustCompile(`'contains' applied to 'list\(`), "; an element of a list is found with in: \"a\" in list"},
	{regexp.MustCompile(`expected type 'bool' but found 'string'`), "; each part between && and || is a comparison of its own"},
	{regexp.MustCompile(`it must yield bool, but yields kubernetes\.authorization\.Decision`), "; a check ends with .allowed()"},
}

// describeTypes adds hints about types, and about keys of labels without quotes, to a message about an expression.
func describeTypes(expression, message string) string {
	for _, types := range typeWords {
		if types.pattern.MatchString(message) {
			message += types.hint
		}
	}
	if !notAKey.MatchString(message) {
		return message
	}
	for _, found := range labelKey.FindAllStringSubmatch(expression, -1) {
		of, key := found[1], found[2]
		if found[3] != "" { // the last part is a function
			key = key[:max(strings.LastIndex(key, "."), 0)]
		}
		if strings.ContainsAny(key, "./") {
			return message + "; a key with a dot or a slash needs quotes: " + of + "[\"" + key + "\"]"
		}
	}
	return message
}

// describeFields inserts a hint after each undefined field in a message of the type checker: the variable with the same name,
// if there is one, or else similar names of fields.
func describeFields(message string, fields, variables []string) string {
	return undefined.ReplaceAllStringFunc(message, func(match string) string {
		name := undefined.FindStringSubmatch(match)[1]
		if slices.Contains(variables, name) {
			return match + ", did you mean the variable '" + name + "'?"
		}
		return match + nearNames(name, fields)
	})
}

// isCalled reports whether an expression calls a name as a function.
func isCalled(expression, name string) bool {
	called, err := regexp.Compile(`\b` + regexp.QuoteMeta(name) + `\s*\(`)
	return err == nil && called.MatchString(expression)
}

// knownFunctions are functions that authors of conditions use, and foreignFunctions what functions of other languages are called here.
var (
	knownFunctions   = []string{"startsWith", "endsWith", "contains", "matches", "size", "exists", "exists_one", "all", "filter", "map", "has", "lowerAscii", "upperAscii", "split", "join", "orValue", "hasValue", "isSorted", "unchanged"}
	foreignFunctions = map[string]string{
		"len": "size", "length": "size", "count": "size", "hasPrefix": "startsWith", "hasSuffix": "endsWith", "any": "exists", "some": "exists", "every": "all", "toLower": "lowerAscii", "lower": "lowerAscii",
		"toLowerCase": "lowerAscii", "toUpper": "upperAscii", "upper": "upperAscii", "includes": "exists", "match": "matches",
	}
)

// meantFunction returns a hint with the function that an author may mean.
func meantFunction(name string) string {
	if meant, ok := foreignFunctions[name]; ok {
		return ", did you mean '" + meant + "'?"
	}
	return nearNames(name, knownFunctions)
}

// nearNames returns a hint with the candidates that are similar to name, or nothing if no candidate is.
func nearNames(name string, candidates []string) string {
	near := suggestion.Near(name, candidates)
	if len(near) == 0 {
		return ""
	}
	return ", did you mean '" + strings.Join(near, "' or '") + "'?"
}

// fieldNames returns the names of all fields of an object and of the objects in it.
func fieldNames(t *apiservercel.DeclType) []string {
	names := map[string]bool{}
	eachField(t, func(f *apiservercel.DeclField) { names[f.Name] = true })
	return slices.Sorted(maps.Keys(names))
}

// eachField calls visit for all fields of an object, and of the objects in it.
func eachField(t *apiservercel.DeclType, visit func(*apiservercel.DeclField)) {
	switch {
	case t.IsList() || t.IsMap():
		eachField(t.ElemType, visit)
	case t.IsObject():
		for _, f := range t.Fields {
			visit(f)
			eachField(f.Type, visit)
		}
	}
}
