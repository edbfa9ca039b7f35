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

// lineInDocument is the line of a mistake of YAML, which counts from the beginning of the document.
var lineInDocument = regexp.MustCompile(`\b(?:yaml: )?(?:unmarshal errors:\n\s*)?line (\d+): `)

func message(err error) string {
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
	text := map[string]string{editorPolicies: q.Policies, editorRequest: q.Request, editorObject: q.Object}[err.Source.Path]
	return lineOfField(text, begin, path)
}
