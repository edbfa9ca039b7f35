/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPagesAreFound checks that README.md has a link to each page of docs, and that each page begins with
// what its reader gets.
func TestPagesAreFound(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, index, found := strings.Cut(string(readme), "## Read on")
	if !found {
		t.Fatal("README.md has no section Read on")
	}
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages:", err)
	}
	for _, path := range pages {
		page := filepath.Base(path)
		if !strings.Contains(index, "](docs/"+page+")") {
			t.Errorf("README.md has no link to docs/%s below Read on", page)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitN(string(content), "\n", 4)
		if len(lines) < 4 || !strings.HasPrefix(lines[0], "# ") || lines[1] != "" {
			t.Errorf("docs/%s does not begin with a title", page)
			continue
		}
		if !strings.HasPrefix(lines[2], "This page ") {
			t.Errorf("docs/%s must begin with what its reader gets: This page …; it begins with %q", page, lines[2])
		}
	}
}

// documentGlobs find all documents, from the root of the repository.
var documentGlobs = []string{"*.md", "docs/*.md", "docs/adr/*.md", "docs/upstream/*.md", "artifacts/*/README.md"}

// readDocuments returns the documents by their paths from the root of the repository.
func readDocuments(t *testing.T) map[string]string {
	t.Helper()
	base, documents := root(t), map[string]string{}
	for _, glob := range documentGlobs {
		paths, err := filepath.Glob(filepath.Join(base, filepath.FromSlash(glob)))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no documents: %v", glob, err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(base, path)
			if err != nil {
				t.Fatal(err)
			}
			documents[filepath.ToSlash(name)] = string(content)
		}
	}
	return documents
}

var (
	links = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	// notProse are blocks and quotes of code, which have no links and no words.
	notProse = regexp.MustCompile("(?ms)^ *```.*?^ *```$|`[^`\n]*`")
	headings = regexp.MustCompile("(?m)^#+ (.*)$")
	// notInAnchors is what an anchor of GitHub leaves out of a heading.
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// TestLinks checks that the files to which documents link exist, and that they have the sections.
func TestLinks(t *testing.T) {
	t.Parallel()
	documents := readDocuments(t)
	anchors := map[string]map[string]bool{}
	for name, content := range documents {
		anchors[name] = map[string]bool{}
		for _, heading := range headings.FindAllStringSubmatch(content, -1) {
			anchors[name][strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-")] = true
		}
	}
	found := 0
	for name, content := range documents {
		for _, link := range links.FindAllStringSubmatch(notProse.ReplaceAllString(content, ""), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			found++
			target := name
			if link[1] != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), link[1]))
			}
			if _, err := os.Stat(filepath.Join(root(t), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, link[1])
			} else if link[2] != "" && !anchors[target][link[2]] {
				t.Errorf("%s links to the section %s#%s, which does not exist", name, link[1], link[2])
			}
		}
	}
	if found < 400 {
		t.Errorf("got %d links: they are not found", found)
	}
}

// TestTermsAreDefinedOnce checks that the glossary has each term once, and that no page defines a term of the glossary: "A *barrier* is …".
func TestTermsAreDefinedOnce(t *testing.T) {
	t.Parallel()
	documents, glossary := readDocuments(t), "docs/glossary.md"
	var terms []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \|$`).FindAllStringSubmatch(documents[glossary], -1) {
		if row[1] != "term" && row[1] != "---" {
			terms = append(terms, strings.Split(row[1], ", ")...)
		}
	}
	slices.Sort(terms)
	if len(terms) < 80 {
		t.Errorf("got %d terms: they are not found", len(terms))
	}
	for i, term := range terms {
		if i > 0 && terms[i-1] == term {
			t.Errorf("the glossary has %q twice", term)
		}
	}
	definition := regexp.MustCompile(`(?i)\b(?:an?|the) \*{1,2}(` + strings.Join(terms, "|") + `)s?\*{1,2}`)
	for name, content := range documents {
		for _, found := range definition.FindAllString(notProse.ReplaceAllString(content, ""), -1) {
			if name != glossary {
				t.Errorf("%s defines a term of the glossary: %s. Link to the glossary instead", name, found)
			}
		}
	}
}
