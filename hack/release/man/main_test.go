/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
)

// TestPages writes the pages twice. Each command has one, with its examples and flags, and both times it is the same.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1800000000")
	dirs := []string{t.TempDir(), filepath.Join(t.TempDir(), "new")}
	for _, dir := range dirs {
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if !c.IsAvailableCommand() && c.HasParent() {
			return
		}
		count++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dirs[0], name))
		if err != nil {
			t.Error(err)
			return
		}
		text := strings.ReplaceAll(string(page), `\-`, "-")
		if !strings.Contains(text, c.Short) || !strings.Contains(text, ".SH SYNOPSIS") || !strings.Contains(text, `"Jan 2027"`) {
			t.Errorf("%s: got\n%s", name, text)
		}
		for line := range strings.Lines(c.Example) {
			if command := strings.TrimSpace(line); !strings.Contains(text, command) {
				t.Errorf("%s does not have %q", name, command)
			}
		}
		if again, err := os.ReadFile(filepath.Join(dirs[1], name)); err != nil || !bytes.Equal(page, again) {
			t.Errorf("%s is not the same the second time: %v", name, err)
		}
		for _, child := range c.Commands() {
			check(child)
		}
	}
	check(kubectl.NewCommand(genericiooptions.NewTestIOStreamsDiscard()))
	pages, err := os.ReadDir(dirs[0])
	if err != nil || len(pages) < count || count < 11 {
		t.Errorf("there are %d pages for %d commands: %v", len(pages), count, err)
	}
}
