/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package terminal_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

func TestWidth(t *testing.T) {
	t.Parallel()
	console, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	for _, tc := range []struct {
		isTerminal bool
		columns    string
		want       int
	}{
		{isTerminal: true}, // its size is not set
		{isTerminal: true, columns: "60", want: 60},
		{isTerminal: true, columns: "wide"},
		{isTerminal: true, columns: "-1"},
		{columns: "60"},
	} {
		streams := genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}
		if tc.isTerminal {
			streams.Out = console
		}
		screen, _ := terminal.New(streams, func(name string) string { return map[string]string{"COLUMNS": tc.columns}[name] })
		if got := screen.Width(); got != tc.want {
			t.Errorf("%+v: got %d", tc, got)
		}
	}
	if (*terminal.Terminal)(nil).Width() != 0 {
		t.Error("no terminal has a width")
	}
}
