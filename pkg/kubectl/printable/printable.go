/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package printable prepares texts of others for a terminal: names in policies, of files, and in answers of servers. Characters that
// control the terminal or the direction of text are written as escape sequences, so that a text looks like what it is, and cannot
// pretend to be other output.
package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Text returns a text on one line.
//
//	Text("a\x1b[2Jb\n") == `a\x1b[2Jb\n`
func Text(text string) string {
	if !strings.ContainsFunc(text, isEscaped) && utf8.ValidString(text) {
		return text
	}
	var escaped strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&escaped, `\x%02x`, text[i]) // a byte that is not UTF-8
		case !isEscaped(r):
			escaped.WriteRune(r)
		case r == '\n':
			escaped.WriteString(`\n`)
		case r == '\t':
			escaped.WriteString(`\t`)
		case r <= 0xff:
			fmt.Fprintf(&escaped, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		default:
			fmt.Fprintf(&escaped, `\U%08x`, r)
		}
	}
	return escaped.String()
}

//guard:printable-control-characters
func isEscaped(r rune) bool { return !unicode.IsPrint(r) }

// Lines returns a text whose line breaks are kept, and lines after the first are indented by two blanks: none of them can look like
// the beginning of another message.
func Lines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	//guard:printable-lines-begin-message
	return strings.Join(lines, "\n  ")
}

// JSON returns the same JSON, with the characters that Text would escape as escape sequences of JSON. Line breaks are between values
// only and stay.
func JSON(text string) string {
	var escaped strings.Builder
	for _, r := range text {
		if r == '\n' || !isEscaped(r) {
			escaped.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&escaped, `\u%04x`, unit)
		}
	}
	return escaped.String()
}

// WriteJSON writes a value for programs as JSON, with the characters that Text would escape as escape sequences.
func WriteJSON(out io.Writer, value any, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	_, err := io.WriteString(out, JSON(text.String()))
	return err
}

// EachLine returns a text with each of its lines as Text returns it.
func EachLine(text string) string {
	var escaped strings.Builder
	for line := range strings.Lines(text) {
		escaped.WriteString(Text(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return escaped.String()
}

// WriteYAML writes a value for programs as YAML, with the characters that Text would escape as escape sequences.
func WriteYAML(out io.Writer, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, EachLine(string(text)))
	return err
}
