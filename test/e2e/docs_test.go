/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/documents"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// consoleMake are commands that start things in blocks of their own kind, with variables such as MODE=managed.
var consoleMake = regexp.MustCompile(`(?m)^\$ make ([a-z0-9-]+(?: [A-Z]+=[a-z0-9]+)*)`)

func documentNames(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}
	more, err := filepath.Glob(filepath.Join(stack.Repository, "docs", "*.md"))
	must(t, err)
	for _, file := range more {
		files = append(files, filepath.Join("docs", filepath.Base(file)))
	}
	return files
}

// awaitSchemas waits until kube-apiserver has read the schemas of a server that tests have replaced. It looks for them once in a minute.
func awaitSchemas(t *testing.T) {
	t.Helper()
	poll.Holds(t, "kube-apiserver has the schemas", func() bool {
		_, _, err := kubectl(t, "admin", "explain", "clusterauthorizationpolicies", "--api-version=policy.proviso.dev/v1alpha1")
		return err == nil
	})
}

// TestDocumentedCommands runs every command of the documents against the cluster of the
// tests.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	awaitSchemas(t)
	ran := 0
	for _, name := range documentNames(t) {
		content := readText(t, filepath.Join(stack.Repository, name))
		ran += documents.Blocks(content)
		if !slices.Contains(runElsewhere, name) {
			runBlocks(t, name, content)
		}
		for _, target := range consoleMake.FindAllStringSubmatch(content, -1) {
			cmd := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run"}, strings.Fields(target[1])...)...)
			cmd.Dir = stack.Repository
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: make %s is no target: %s", name, target[1], out)
			}
		}
	}
	if ran < 6 {
		t.Errorf("only %d blocks were found, so the test proves little", ran)
	}
}

// fineGrainedDocument and the sections of tutorialDocument from reviewsSection on tell of what is off by default. TestFields runs them.
var (
	fineGrainedDocument = filepath.Join("docs", "fine-grained.md")
	tutorialDocument    = filepath.Join("docs", "tutorial.md")
)

const reviewsSection = "## Reviews: who may do what?"

// runElsewhere are the documents that other tests run. Those of the packages managed and render apply barriers, which bind the users of the tests
// here, too.
var runElsewhere = []string{fineGrainedDocument, tutorialDocument, filepath.Join("docs", "first-steps.md"), filepath.Join("docs", "templates.md"), filepath.Join("docs", "barriers.md"), filepath.Join("docs", "beside-other-tools.md"), filepath.Join("docs", "kubectl-proviso.md")}

// runBlocks runs the blocks of a document.
func runBlocks(t *testing.T, name, content string) {
	t.Helper()
	if documents.Blocks(content) == 0 {
		return
	}
	t.Run(name, func(t *testing.T) {
		if err := documents.Run(t.Context(), stack.Cluster, content); err != nil {
			t.Error(err)
		}
	})
}
