/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

// mistake is a mistake in an editor.
type mistake struct {
	// Editor is the editor. It is empty for an error that is about none.
	Editor string `json:"editor,omitempty"`
	// Line is the line in the editor, from 1. It is 0 if it is not known.
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// mistakesOf returns errors as mistakes. The editor is for errors that are about no document.
func (q *question) mistakesOf(editor string, errs []error) (mistakes []mistake) {
	for _, err := range utilerrors.Flatten(utilerrors.NewAggregate(errs)).Errors() {
		if len(mistakes) == maxMistakes {
			return mistakes
		}
		m := mistake{Editor: editor}
		if located, ok := errors.AsType[*document.Error](err); ok {
			m.Editor, err = located.Source.Path, located.Err
			m.Line = q.lineOf(located)
		}
		m.Message = printable.Text(message(err))
		mistakes = append(mistakes, m)
	}
	return mistakes
}

// inExpression is a place in an expression in a message of the compiler. Lines and columns count from 1.
var inExpression = regexp.MustCompile(`(?:expression does not compile: )?ERROR: <input>:(\d+):(\d+): `)

// compileError returns an error about an expression, if err is one, and the first place in the expression that it names.
func compileError(err error) (invalid *field.Error, line, column int) {
	invalid, ok := errors.AsType[*field.Error](err)
	if !ok {
		return nil, 0, 0
	}
	m := inExpression.FindStringSubmatch(invalid.Detail)
	if m == nil {
		return nil, 0, 0
	}
	line, _ = strconv.Atoi(m[1])
	column, _ = strconv.Atoi(m[2])
	return invalid, line, column
}

// lineInDocument is the line of a mistake of YAML, which counts from the beginning of the document.
var lineInDocument = regexp.MustCompile(`\b(?:yaml: )?(?:unmarshal errors:\n\s*)?line (\d+): `)

// message returns the text of an error without what the editor shows: the line, and the expression.
func message(err error) string {
	if invalid, _, _ := compileError(err); invalid != nil {
		return invalid.Field + ": " + inExpression.ReplaceAllString(invalid.Detail, "")
	}
	return lineInDocument.ReplaceAllString(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "")
}

// fieldInMessage is the path of a field in an error of strict decoding.
var fieldInMessage = regexp.MustCompile(`(?:unknown|duplicate) field "([^"]+)"`)

// lineOf returns the line of an error in its editor, or of the document if no more is known, or 0.
func (q *question) lineOf(err *document.Error) int {
	begin := err.Source.Line
	if begin == 0 {
		return 0
	}
	text := map[string]string{editorPolicies: q.Policies, editorRequest: q.Request, editorObject: q.Object}[err.Source.Path]
	if invalid, line, column := compileError(err.Err); invalid != nil {
		return find(text, begin, invalid.Field).lineOf(line, column)
	}
	if m := lineInDocument.FindStringSubmatch(err.Err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1])
		return begin + line - 1
	}
	path := ""
	if invalid, ok := errors.AsType[*field.Error](err.Err); ok {
		path = invalid.Field
	} else if m := fieldInMessage.FindStringSubmatch(err.Err.Error()); m != nil {
		path = m[1]
	}
	return find(text, begin, path).line
}

// step is a step of the path of a field: a name, an index or a key in brackets.
var step = regexp.MustCompile(`^\.?([^.\[\]]+)|^\[([^\]]*)\]`)

// found is a field in a text, or what there is of its path.
type found struct {
	// lines are the lines of the text.
	lines []string
	// line is the line of the field, from 1. If the field is not there, it is the line of the field around it, or the first line of the document that has more
	// than comments.
	line int
	// value is the value of the field, or nil, and begin the line of the text with which its document begins.
	value *yaml.Node
	begin int
}

// find finds a field of the document that begins in a line of a text.
func find(text string, begin int, path string) *found {
	f := &found{lines: strings.SplitAfter(text, "\n"), line: begin, begin: begin}
	if begin > len(f.lines) {
		return f
	}
	root := &yaml.Node{}
	// The decoder stops at the next document.
	if yaml.NewDecoder(strings.NewReader(strings.Join(f.lines[begin-1:], ""))).Decode(root) != nil || len(root.Content) == 0 {
		return f
	}
	node, line := root.Content[0], root.Content[0].Line
	for path != "" {
		m := step.FindStringSubmatch(path)
		if m == nil {
			break
		}
		path = path[len(m[0]):]
		next, at := child(node, m[1]+m[2])
		if next == nil {
			break
		}
		node, line = next, at
	}
	f.line = begin + line - 1
	if path == "" {
		f.value = node
	}
	return f
}

// lineOf returns the line of the text with a place in the value of the field, whose lines and columns count from 1. YAML may fold the lines of a value, so that the
// characters before the place are counted, without white space.
func (f *found) lineOf(line, column int) int {
	if f.value == nil || f.value.Kind != yaml.ScalarNode {
		return f.line
	}
	before, all := 0, 0
	for i, text := range strings.Split(f.value.Value, "\n") {
		for j, r := range []rune(text) {
			if unicode.IsSpace(r) {
				continue
			}
			if all++; i+1 < line || i+1 == line && j+1 < column {
				before++
			}
		}
	}
	before = min(before, all-1) // a place behind the end is at the last character
	at, from := f.begin+f.value.Line-1, f.value.Column-1
	switch f.value.Style &^ yaml.TaggedStyle {
	case yaml.LiteralStyle, yaml.FoldedStyle: // the text begins below | or >
		at, from = at+1, 0
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
		from++
	case yaml.TaggedStyle, yaml.FlowStyle:
	}
	for ; at <= len(f.lines); at, from = at+1, 0 {
		runes := []rune(f.lines[at-1])
		for _, r := range runes[min(from, len(runes)):] {
			switch {
			case unicode.IsSpace(r):
			case before <= 0:
				return at
			default:
				before--
			}
		}
	}
	return f.line
}

// child returns a field of a map or an element of a list, and its line.
func child(node *yaml.Node, name string) (*yaml.Node, int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if index, err := strconv.Atoi(name); err == nil && index >= 0 && index < len(node.Content) {
			return node.Content[index], node.Content[index].Line
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	return nil, 0
}
