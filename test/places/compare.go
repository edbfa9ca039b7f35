/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// maxLine bounds a line of a file. A case has a few kilobytes.
const maxLine = 1 << 20

var errOtherCases = errors.New("the files are about different cases")

// CompareFiles writes the differences between two files with cases to out, case by case, and returns how many cases differ. Cases in which a Deny rule
// names only one of update and patch are marked.
func CompareFiles(before, after string, out io.Writer) (differences int, err error) {
	a, err := readLines(before)
	if err != nil {
		return 0, err
	}
	b, err := readLines(after)
	if err != nil {
		return 0, err
	}
	if len(a) != len(b) {
		return 0, errOtherCases
	}
	marked := 0
	for i := range a {
		if a[i].Case.Seed != b[i].Case.Seed || a[i].Case.Number != b[i].Case.Number {
			return 0, errOtherCases
		}
		lines := differencesOf(a[i].Codes, b[i].Codes)
		if len(lines) == 0 {
			continue
		}
		differences++
		mark := ""
		if a[i].Case.NamesOneOfUpdateAndPatch() {
			marked, mark = marked+1, " (a Deny rule names one of update and patch)"
		}
		_, _ = fmt.Fprintf(out, "case %d of seed %d%s\n", a[i].Case.Number, a[i].Case.Seed, mark)
		for _, line := range lines {
			_, _ = fmt.Fprintln(out, "  "+line)
		}
	}
	_, _ = fmt.Fprintf(out, "%d cases: %d differ; in %d of them a Deny rule names one of update and patch\n", len(a), differences, marked)
	return differences, nil
}

func readLines(path string) ([]Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []Line
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		var line Line
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		lines = append(lines, line)
	}
	return lines, scanner.Err()
}

// differencesOf returns the values that only one of two codes has, with a minus for the first and a plus for the second.
func differencesOf(before, after *Codes) (lines []string) {
	a, b := valuesOf(before), valuesOf(after)
	for _, value := range a {
		if !slices.Contains(b, value) {
			lines = append(lines, "- "+value)
		}
	}
	for _, value := range b {
		if !slices.Contains(a, value) {
			lines = append(lines, "+ "+value)
		}
	}
	return lines
}

// valuesOf returns the values of codes, each with its place.
func valuesOf(codes *Codes) (values []string) {
	if d := codes.FrontDoor; d != nil {
		values = append(values, "front door: "+d.Decision+" because of ["+strings.Join(d.Why, ", ")+"]")
		for _, c := range d.Conditions {
			values = append(values, "front door condition: "+c)
		}
		for _, c := range d.Counted {
			values = append(values, "front door metric: "+c)
		}
	}
	for i := range codes.Policies {
		p := &codes.Policies[i]
		values = append(values, fmt.Sprintf("policy %s: %s, %s", p.Policy, p.Ready, p.Effective))
		for _, e := range p.Entries {
			values = append(values, fmt.Sprintf("policy %s status: rules[%d] %v %v: %s %s %v", p.Policy, e.Rule, e.Verbs, e.Resources, e.At, e.Result, e.Why))
		}
		for _, text := range slices.Concat(p.Refused, p.Warned) {
			values = append(values, fmt.Sprintf("policy %s for its author: %s", p.Policy, text))
		}
		if p.Audit != nil {
			values = append(values, fmt.Sprintf("policy %s audit: %d decided, %d errors, %d undetermined", p.Policy, p.Audit.Decided, p.Audit.Errors, p.Audit.Undetermined))
		}
	}
	r := &codes.Review
	values = append(values, fmt.Sprintf("review: %s because of [%s]", r.Decision, strings.Join(r.Why, ", ")))
	for _, c := range r.Conditions {
		values = append(values, "review condition: "+c)
	}
	for _, w := range r.Warnings {
		values = append(values, "review warning: "+w)
	}
	return values
}
