/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
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

// The most matches of each turn in a thousand lines: comment lines of hand-written Go outside tests, and lines
// of documents that are not blank.
const (
	mostInCode      = 1.5
	mostInDocuments = 3.0
)

// TestWords counts turns of phrase that make readers read twice.
func TestWords(t *testing.T) {
	t.Parallel()
	comment := regexp.MustCompile(`^\s*// ?(.*)`)
	code, documents := map[string][]string{}, map[string][]string{}
	var inCode, inDocuments int
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
	if inCode < 1000 || inDocuments < 1000 {
		t.Fatalf("got %d comment lines and %d lines of documents: they are not found", inCode, inDocuments)
	}
	for turn := range turns {
		if most := mostInCode * float64(inCode) / 1000; float64(len(code[turn])) > most {
			t.Errorf("%s: %d in comments, want at most %.0f:\n%s", turn, len(code[turn]), most, strings.Join(code[turn], "\n"))
		}
		if most := mostInDocuments * float64(inDocuments) / 1000; float64(len(documents[turn])) > most {
			t.Errorf("%s: %d in documents, want at most %.0f:\n%s", turn, len(documents[turn]), most, strings.Join(documents[turn], "\n"))
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
