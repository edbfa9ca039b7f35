/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package printable_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

func tableOf(rows ...[]string) *printable.Table {
	table := &printable.Table{Headers: []string{"A", "LONG", "C", "LAST"}, Long: 1, Empty: "-"}
	for _, row := range rows {
		table.Add(nil, row...)
	}
	return table
}

func printed(t *testing.T, table *printable.Table, width int) string {
	t.Helper()
	var out bytes.Buffer
	if err := table.Print(&out, width); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestTableWithoutTerminal prints the same table as kubectl, as long as no cell is very long.
func TestTableWithoutTerminal(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"a", strings.Repeat("x", 100), "", "ü"}, {"longer than the header", "ü", "c\x1b", ""}}
	var want bytes.Buffer
	w := printers.GetNewTabWriter(&want)
	for _, row := range append([][]string{{"A", "LONG", "C", "LAST"}}, rows...) {
		cells := slices.Clone(row)
		for i := range cells {
			if cells[i] = printable.Text(cells[i]); cells[i] == "" {
				cells[i] = "-"
			}
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), printed(t, tableOf(rows...), 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	out := printed(t, tableOf([]string{"a", strings.Repeat("x", 900), "c", "last"}, []string{"a", "x", "c", "last"}), 0)
	if want := "A     LONG   C     LAST\na     " + strings.Repeat("x", 900) + "   c     last\na     x      c     last\n"; out != want {
		t.Errorf("got\n%s", out)
	}
}

func TestTableOnTerminal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		width   int
		headers bool
		below   func() []string
		want    string
	}{
		{width: 30, headers: true, want: "A     LONG    C     LAST\na     01234   c     the last\nb     -       c     -\n"},
		{width: 25, headers: true, want: "A     C     LAST\na     c     the last\n    long: 01234\nb     c     -\n"},
		{width: 25, want: "a     c     the last\n    long: 01234\nb     c     -\n"},
		{width: 12, headers: true, want: "A     C\na     c\n    long: 01234\n    last: the last\nb     c\n"},
		{width: 25, below: func() []string { return []string{"x1\x1b", "x1 = 01234"} }, want: "a     c     the last\n    long: x1\\x1b\n    x1 = 01234\nb     c     -\n"},
	} {
		table := tableOf()
		table.WithoutHeaders = !tc.headers
		table.Add(tc.below, "a", "01234", "c", "the last")
		table.Add(nil, "b", "", "c", "")
		if diff := cmp.Diff(tc.want, printed(t, table, tc.width)); diff != "" {
			t.Error(fmt.Sprint(tc.width, ": -want +got:\n", diff))
		}
	}
}
