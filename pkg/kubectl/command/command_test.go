/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package command_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl/command"
)

// TestWarnings prints a warning of a server once, although clients hand it on from several goroutines, and a warning of a command each time. A report has
// what is printed.
func TestWarnings(t *testing.T) {
	t.Parallel()
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	o := &command.Options{IOStreams: streams}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			o.HandleWarningHeaderWithContext(t.Context(), 299, "-", "old\x1b")
			o.HandleWarningHeaderWithContext(t.Context(), 199, "-", "another code")
			o.HandleWarningHeaderWithContext(t.Context(), 299, "-", "")
		})
	}
	wait.Wait()
	var taken []string
	ctx := command.WithWarnings(t.Context(), func(text string) bool {
		taken = append(taken, text)
		return text == "for the caller"
	})
	o.HandleWarningHeaderWithContext(ctx, 299, "-", "for the caller")
	o.HandleWarningHeaderWithContext(ctx, 299, "-", "old\x1b")
	if strings.Join(taken, ",") != "for the caller,old\x1b" {
		t.Errorf("the caller got %q", taken)
	}
	o.Warn("mine")
	o.Warn("mine")
	if want := "Warning: old\\x1b\nWarning: mine\nWarning: mine\n"; errOut.String() != want {
		t.Errorf("got %q, want %q", errOut, want)
	}
	if got := strings.Join(o.Warnings(), ","); got != "old\x1b,mine,mine" {
		t.Errorf("got %q", got)
	}
}

// TestFormat accepts the formats and the default, which may be none of them.
func TestFormat(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"": "", "json": "", "yaml": "", "xml": `--output must be json, yaml or text, not "xml"`, "JSON": `--output must be json, yaml or text, not "JSON"`,
	} {
		format, cmd := command.Format{}, &cobra.Command{}
		format.AddFlag(cmd, "output", "o", "", "json", "yaml", "text")
		if value != "" {
			if err := cmd.Flags().Set("output", value); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		if err := format.Validate(); err != nil {
			got = err.Error()
		}
		if got != want || format.Value != value {
			t.Errorf("%q: got %q and %q, want %q", value, format.Value, got, want)
		}
	}
}
