/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package printable

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// minColumn and padding are as in the tables of kubectl.
	minColumn, padding = 6, 3
	// maxPadded bounds the cells that widen their column. A longer one would pad every row with blanks.
	maxPadded = 120
	indent    = "    "
)

// Table is a table of texts.
type Table struct {
	// Headers are the names of the columns, and Empty stands for an empty cell.
	Headers []string
	Empty   string
	// Long is the column that goes below its rows in a table that is wider than the terminal. The last column follows it if the table is still too wide.
	// With 0, no column does, and cells of any length widen their column, as in the tables of kubectl.
	Long int
	// WithoutHeaders leaves out the headers.
	WithoutHeaders bool

	rows  [][]string
	below []func() []string
}

// Add adds a row. If the cell of the column Long goes below the row, below returns its lines; nil stands for the cell as it is.
func (t *Table) Add(below func() []string, cells ...string) {
	for i := range cells {
		cells[i] = cmp.Or(Text(cells[i]), t.Empty)
	}
	t.rows, t.below = append(t.rows, cells), append(t.below, below)
}

// Print prints the table for a terminal with a width. 0 is no terminal: every row is one line then.
func (t *Table) Print(out io.Writer, width int) error {
	last, widths := len(t.Headers)-1, t.widths()
	var moved []int
	row := func(cells []string) string {
		end := last
		for slices.Contains(moved, end) {
			end--
		}
		var text strings.Builder
		for i, cell := range cells[:end+1] {
			if slices.Contains(moved, i) {
				continue
			}
			text.WriteString(cell)
			if i < end {
				text.WriteString(strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), padding)))
			}
		}
		return text.String()
	}
	isWide := func(cells []string) bool { return utf8.RuneCountInString(row(cells)) > width }
	for _, column := range []int{t.Long, last} {
		if t.Long > 0 && width > 0 && slices.ContainsFunc(t.rows, isWide) {
			moved = append(moved, column)
		}
	}
	var text strings.Builder
	if !t.WithoutHeaders {
		text.WriteString(row(t.Headers) + "\n")
	}
	for i, cells := range t.rows {
		text.WriteString(row(cells) + "\n")
		for _, column := range moved {
			lines := []string{cells[column]}
			if column == t.Long && t.below[i] != nil {
				lines = t.below[i]()
			}
			for k, line := range lines {
				if line == t.Empty {
					continue
				}
				if line = Text(line); k == 0 {
					line = strings.ToLower(t.Headers[column]) + ": " + line
				}
				text.WriteString(indent + line + "\n")
			}
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// widths returns the width of each column, with the blanks after it.
func (t *Table) widths() []int {
	widths := make([]int, len(t.Headers))
	measure := func(cells []string) {
		for i, cell := range cells {
			if n := utf8.RuneCountInString(cell); n <= maxPadded || t.Long == 0 {
				widths[i] = max(widths[i], n+padding, minColumn)
			}
		}
	}
	if !t.WithoutHeaders {
		measure(t.Headers)
	}
	for _, cells := range t.rows {
		measure(cells)
	}
	return widths
}
