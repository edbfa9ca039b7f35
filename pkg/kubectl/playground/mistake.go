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
