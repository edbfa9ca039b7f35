/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policytest

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// printText prints results as go test does.
func printText(screen *terminal.Terminal, out io.Writer, results []*suiteResult, verbose bool) error {
	var text strings.Builder
	for _, r := range results {
		for _, t := range r.Tests {
			word := "PASS"
			if !t.Passed {
				word = "FAIL"
			}
			if verbose || !t.Passed {
				fmt.Fprintf(&text, "--- %s: %s (%.2fs)\n", screen.Answer(word), printable.Text(t.Name), t.Seconds)
			}
			if t.Passed {
				continue
			}
			for line := range strings.SplitSeq(t.Difference, "\n") {
				fmt.Fprintf(&text, "    %s\n", printable.Text(line))
			}
		}
		if verbose || r.Percent < 100 {
			text.WriteString(uncovered(r.Coverage))
		}
		word := screen.Answer("ok") + "  " // as wide as the other one
		if r.failed() > 0 {
			word = screen.Answer("FAIL")
		}
		fmt.Fprintf(&text, "%s  %s  %d tests  %.2fs  coverage: %.1f%%\n", word, printable.Text(r.Path), len(r.Tests), r.Seconds, r.Percent)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// uncovered returns a line for each policy and clause that no test reaches in full.
func uncovered(policies []*policyCoverage) string {
	var text strings.Builder
	for _, p := range policies {
		if !p.IsMatched {
			fmt.Fprintf(&text, "    not covered: %s: no request matches it\n", printable.Text(p.Policy))
			continue
		}
		for _, clause := range p.Clauses {
			switch {
			case !clause.IsTrue:
				fmt.Fprintf(&text, "    not covered: %s: never true: %s\n", printable.Text(p.Policy), printable.Text(clause.Text))
			case !clause.IsFalse:
				fmt.Fprintf(&text, "    not covered: %s: never false: %s\n", printable.Text(p.Policy), printable.Text(clause.Text))
			}
		}
	}
	return text.String()
}

// The elements of a report of JUnit.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// printJUnit prints results as JUnit does.
func printJUnit(out io.Writer, results []*suiteResult) error {
	report := junitSuites{}
	seconds := func(s float64) string { return fmt.Sprintf("%.3f", s) }
	for _, r := range results {
		s := junitSuite{Name: cmp.Or(r.Suite, r.Path), Tests: len(r.Tests), Failures: r.failed(), Time: seconds(r.Seconds)}
		for _, t := range r.Tests {
			c := junitCase{Name: printable.Text(t.Name), Class: printable.Text(r.Path), Time: seconds(t.Seconds)}
			if !t.Passed {
				first, _, _ := strings.Cut(t.Difference, "\n")
				c.Failure = &junitFailure{Message: printable.Text(first), Text: printable.Lines(t.Difference)}
			}
			s.Cases = append(s.Cases, c)
		}
		report.Suites = append(report.Suites, s)
	}
	text, err := xml.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, xml.Header+string(text)+"\n")
	return err
}
