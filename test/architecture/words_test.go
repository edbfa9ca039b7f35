/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// turns are turns of phrase that make readers read twice: persons where a component acts, pronouns and
// clauses where the field has a noun, and rare words.
var turns = map[string]*regexp.Regexp{
	"persons as actors": regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|everybody|whoever)\b`),
	"that of":           regexp.MustCompile(`(?i)\b(that|those) of\b`),
	"of which":          regexp.MustCompile(`(?i)\bof (which|whom)\b|\bby whose\b`),
	"a leading clause":  regexp.MustCompile(`(^|[.;:] )(What|Who|Whoever|Where|Nobody) [a-z]+ [^?]*$`),
	"rare words":        regexp.MustCompile(`(?i)\b(anew|besides|made of|comes? to|came to|in the words|in force)\b`),
}

// The most matches of each turn in a thousand: comment lines and messages of hand-written Go outside tests,
// and lines of documents that are not blank.
const (
	mostInCode      = 1.5
	mostInDocuments = 3.0
)

// TestWords counts turns of phrase that make readers read twice. Messages are the string literals with a
// blank: errors, reasons, warnings, help of flags and metrics.
func TestWords(t *testing.T) {
	t.Parallel()
	comment := regexp.MustCompile(`^\s*// ?(.*)`)
	code, messages, documents := map[string][]string{}, map[string][]string{}, map[string][]string{}
	var inCode, inMessages, inDocuments int
	err := filepath.WalkDir(root(t), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if name == "_output" || name == ".git" || name == "generated" {
				return fs.SkipDir
			}
			return nil
		}
		isCode := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "zz_")
		if !isCode && !strings.HasSuffix(name, ".md") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if isCode {
			for _, message := range messagesOf(content) {
				inMessages++
				match(messages, message, path)
			}
		}
		for line := range strings.Lines(string(content)) {
			line = strings.TrimRight(line, "\n")
			switch m := comment.FindStringSubmatch(line); {
			case isCode && m != nil:
				inCode++
				match(code, m[1], path)
			case !isCode && strings.TrimSpace(line) != "":
				inDocuments++
				match(documents, line, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, counted := range []struct {
		what  string
		found map[string][]string
		lines int
		most  float64 // in a thousand lines
	}{
		{"comments", code, inCode, mostInCode},
		{"messages", messages, inMessages, mostInCode},
		{"documents", documents, inDocuments, mostInDocuments},
	} {
		if counted.lines < 1000 {
			t.Errorf("got %d %s: they are not found", counted.lines, counted.what)
		}
		for turn := range turns {
			found, most := counted.found[turn], counted.most*float64(counted.lines)/1000
			if float64(len(found)) > most {
				t.Errorf("%s: %d in %s, want at most %.0f:\n%s", turn, len(found), counted.what, most, strings.Join(found, "\n"))
			}
		}
	}
}

// messagesOf returns the string literals with a blank in a Go file.
func messagesOf(content []byte) []string {
	var messages []string
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(content)), content, nil, 0)
	for {
		_, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return messages
		case kind == token.STRING && strings.Contains(literal, " "):
			messages = append(messages, literal)
		}
	}
}

// match adds a line to the turns that it has.
func match(found map[string][]string, line, path string) {
	for turn, expression := range turns {
		if expression.MatchString(line) {
			found[turn] = append(found[turn], path+": "+line)
		}
	}
}

// The most words of prose: neither of blocks of code nor of generated sections. The runbook and the figures of scale are apart, because
// each alert and each measurement adds to them.
const (
	mostInDocs         = 44_000
	mostInRunbook      = 4_000
	mostInReadme       = 900
	mostInArchitecture = 2_000
	mostInRecords      = 18_000
	mostInSection      = 400
)

var (
	// generated are sections that tests write.
	generated = regexp.MustCompile(`(?ms)^<!-- begin generated [^\n]*$.*?^<!-- end generated [^\n]*$`)
	// code is a block of code, or an indented line.
	code = regexp.MustCompile("(?ms)^ *```.*?^ *```$|^    [^\n]*$")
)

// TestDocumentsAreShort bounds the words of the documents, and of each of their sections, so that a reader finds what matters. make words prints
// the words of each document.
func TestDocumentsAreShort(t *testing.T) {
	t.Parallel()
	words := map[string]int{}
	for name, content := range readDocuments(t) {
		group := "docs"
		switch {
		case name == "docs/runbook.md" || name == "docs/scale.md":
			group = "runbook"
		case strings.HasPrefix(name, "docs/adr/"):
			group = "records"
		case name == "README.md" || name == "ARCHITECTURE.md":
			group = name
		case name == "CHANGELOG.md":
			continue
		}
		heading, inSection := "", 0
		for line := range strings.Lines(code.ReplaceAllString(generated.ReplaceAllString(content, ""), "")) {
			if strings.HasPrefix(line, "#") {
				heading, inSection = strings.TrimSpace(line), 0
			}
			n := len(strings.Fields(line))
			words[group] += n
			if inSection += n; inSection > mostInSection && inSection-n <= mostInSection {
				t.Errorf("%s: the section %q has more than %d words", name, heading, mostInSection)
			}
		}
	}
	for group, most := range map[string]int{"docs": mostInDocs, "runbook": mostInRunbook, "README.md": mostInReadme, "ARCHITECTURE.md": mostInArchitecture, "records": mostInRecords} {
		if n := words[group]; n > most || n < most/4 {
			t.Errorf("%s: %d words, want at most %d", group, n, most)
		}
	}
}
