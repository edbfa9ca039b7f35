/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

const (
	// maxEntries bounds the entries of a tree that is printed, and maxEntryBytes the text of one.
	maxEntries    = 300
	maxEntryBytes = 400
)

// Tone is the meaning of an entry, which pictures show as a colour.
type Tone string

const (
	tonePlain Tone = "plain"
	toneYes   Tone = "yes"
	toneNo    Tone = "no"
	toneMiss  Tone = "miss"
)

// Entry is a line of the tree in which an explanation is shown.
type Entry struct {
	Text    string   `json:"text"`
	Tone    Tone     `json:"tone"`
	Entries []*Entry `json:"entries,omitempty"`
}

// tree makes the tree of an explanation.
type tree struct {
	count int
}

// add adds an entry below another one. It returns nil if the tree is full.
func (t *tree) add(to *Entry, as Tone, format string, args ...any) *Entry {
	if to == nil || t.count == maxEntries {
		return nil
	}
	if t.count++; t.count == maxEntries {
		to.Entries = append(to.Entries, &Entry{Text: "…", Tone: tonePlain})
		return nil
	}
	e := &Entry{Text: excerpt.Of(printable.Text(fmt.Sprintf(format, args...)), maxEntryBytes), Tone: as}
	to.Entries = append(to.Entries, e)
	return e
}

var opinionTexts = map[string]string{
	opinionAllow: "allows", opinionDeny: "denies", opinionNone: "no opinion", opinionConditions: "depends on conditions",
	opinionUnknown: "not known without a cluster, counts as no opinion",
}

var verdictTones = map[answer.Verdict]Tone{answer.Yes: toneYes, answer.No: toneNo, answer.YesIf: tonePlain}

// treeOf returns an explanation as a tree.
func treeOf(x *explained) *Entry {
	t, root := &tree{}, &Entry{}
	top := t.add(root, verdictTones[x.Decision], "%s: %s, %s", x.Decision.Text(), x.User, x.Request)
	for _, m := range x.Chain {
		as := tonePlain
		if m.Decides {
			as = map[string]Tone{opinionAllow: toneYes, opinionDeny: toneNo}[m.Opinion]
		}
		opinion := opinionTexts[m.Opinion]
		if m.Opinion == opinionUnknown && x.isOfCluster {
			opinion = "not known, counts as no opinion"
		}
		e := t.add(top, as, "%s: %s", m.Name, opinion)
		for _, p := range m.Policies {
			t.addPolicy(e, p)
		}
	}
	switch {
	case x.NearMiss != nil:
		t.add(top, toneMiss, "near miss: %s", x.NearMiss)
	case x.NoNearMiss != "":
		t.add(top, tonePlain, "near miss: %s", x.NoNearMiss)
	}
	for _, key := range slices.Sorted(maps.Keys(x.Recorded)) {
		t.add(top, tonePlain, "recorded: %s: %s", key, x.Recorded[key])
	}
	for _, note := range x.Notes {
		t.add(top, tonePlain, "note: %s", note)
	}
	return top
}

// addPolicy adds a policy. Only policies that decide have the parts of their conditions.
func (t *tree) addPolicy(to *Entry, p *policy) {
	if p.isAdmission {
		e := t.add(to, toneNo, "policy %s refuses: %s", p.Policy, p.Description)
		for _, v := range p.Validations {
			t.addPart(e, v)
		}
		return
	}
	state := "its condition is " + p.Result
	if p.Condition == nil {
		state = "it has no condition for this request"
	}
	switch p.Result {
	case resultError:
		state = "its condition fails"
	case resultUnknown:
		state = "its condition is not known"
	case resultNever:
		state = "its condition is true for no object"
	}
	as := tonePlain
	if p.Decides {
		as = map[bool]Tone{true: toneYes, false: toneNo}[p.Effect == "Allow" && p.Result == "true"]
	}
	text := fmt.Sprintf("%s policy %s: %s", p.Effect, p.Policy, state)
	if p.Description != "" {
		text += " (" + p.Description + ")"
	}
	if e := t.add(to, as, "%s", text); p.Decides && p.Condition != nil {
		t.addPart(e, p.Condition)
	}
}

func (t *tree) addPart(to *Entry, p *part) {
	text := p.Text + " = " + p.Value
	switch {
	case p.Error != "":
		text = "error: " + p.Text + ": " + p.Error
	case p.Value == "true" || p.Value == "false" || p.Value == resultUnknown:
		text = p.Value + ": " + p.Text
	case p.Value == "":
		text = p.Text
	}
	if p.Element != "" {
		text = "for " + p.Element + ": " + text
	}
	e := t.add(to, tonePlain, "%s", text)
	for _, child := range p.Parts {
		t.addPart(e, child)
	}
	if p.IsTruncated {
		t.add(e, tonePlain, "…")
	}
}

// String returns the change in words.
func (n *nearMiss) String() string {
	if n.Action == actionSelect {
		return "select with " + n.Selectors
	}
	of := ""
	if n.Object == "oldObject" {
		of = " of the stored object"
	}
	text, now := "set "+n.Field+of+" to "+n.Value, " (now there is none)"
	if n.Action == actionRemove {
		text, now = "remove "+n.Field+of, ""
	}
	if n.Old != "" {
		now = " (now " + n.Old + ")"
	}
	return text + now
}

// printText prints the tree with lines. The first line is the answer alone, as can-i prints it.
func printText(screen *terminal.Terminal, out io.Writer, x *explained) error {
	top := treeOf(x)
	answer, rest, _ := strings.Cut(top.Text, ": ")
	line := screen.Answer(answer)
	if x.isUndecided() {
		line += " - unless RBAC allows it, which is not known"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", line, rest)
	writeEntries(&b, top.Entries, "")
	_, err := io.WriteString(out, b.String())
	return err
}

func writeEntries(b *strings.Builder, entries []*Entry, indent string) {
	for i, e := range entries {
		branch, below := "├── ", "│   "
		if i == len(entries)-1 {
			branch, below = "└── ", "    "
		}
		b.WriteString(indent + branch + e.Text + "\n")
		writeEntries(b, e.Entries, indent+below)
	}
}

// dotColours are the colours of the frames in a graph.
var dotColours = map[Tone]string{tonePlain: "gray50", toneYes: "green4", toneNo: "red3", toneMiss: "blue3"}

// printDOT prints the tree as a graph in the language of Graphviz.
func printDOT(out io.Writer, x *explained) error {
	var b strings.Builder
	b.WriteString("digraph explanation {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=monospace];\n")
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	count := 0
	var write func(e *Entry) int
	write = func(e *Entry) int {
		id := count
		count++
		fmt.Fprintf(&b, "  n%d [label=\"%s\", color=%s];\n", id, escape.Replace(e.Text), dotColours[e.Tone])
		for _, child := range e.Entries {
			fmt.Fprintf(&b, "  n%d -> n%d;\n", id, write(child))
		}
		return id
	}
	write(treeOf(x))
	b.WriteString("}\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// The measures of a picture, in pixels.
const (
	svgRow, svgIndent, svgMargin = 30, 28, 16
	svgCharacter                 = 8
	// svgCharacters bounds the characters of a row.
	svgCharacters = 140
)

const svgStyle = `<style>
  .ground { fill: #ffffff } text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328 }
  rect.box { fill: #f6f8fa; stroke: #59636e } path { stroke: #818b98; fill: none }
  rect.yes { stroke: #1a7f37; stroke-width: 2 } rect.no { stroke: #d1242f; stroke-width: 2 } rect.miss { stroke: #0969da; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } text { fill: #f0f6fc } rect.box { fill: #151b23; stroke: #9198a1 } path { stroke: #656c76 }
    rect.yes { stroke: #3fb950 } rect.no { stroke: #f85149 } rect.miss { stroke: #4493f8 }
  }
</style>
`

// row is an entry in a picture.
type row struct {
	*Entry

	text          string
	depth, parent int
}

// printSVG prints the tree as a picture: a row for each entry, for light and dark backgrounds.
func printSVG(out io.Writer, x *explained) error {
	var rows []row
	var add func(e *Entry, depth, parent int)
	add = func(e *Entry, depth, parent int) {
		text := e.Text
		if utf8.RuneCountInString(text) > svgCharacters {
			text = string([]rune(text)[:svgCharacters-1]) + "…"
		}
		rows = append(rows, row{Entry: e, text: text, depth: depth, parent: parent})
		self := len(rows) - 1
		for _, child := range e.Entries {
			add(child, depth+1, self)
		}
	}
	add(treeOf(x), 0, -1)
	width := 0
	for _, r := range rows {
		width = max(width, r.left()+r.width()+svgMargin)
	}
	var b bytes.Buffer
	height := 2*svgMargin + len(rows)*svgRow
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%[1]d\" height=\"%[2]d\" viewBox=\"0 0 %[1]d %[2]d\" role=\"img\">\n<title>", width, height)
	_ = xml.EscapeText(&b, []byte(rows[0].text))
	fmt.Fprintf(&b, "</title>\n%s<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n", svgStyle, width, height)
	for i, r := range rows {
		top := svgMargin + i*svgRow
		if r.parent >= 0 {
			from := svgMargin + r.parent*svgRow + svgRow - 6
			fmt.Fprintf(&b, "<path d=\"M%d %dV%dH%d\"/>\n", r.left()-svgIndent/2, from, top+svgRow/2-3, r.left())
		}
		fmt.Fprintf(&b, "<rect class=\"box %s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>", r.Tone, r.left(), top, r.width(), svgRow-6)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" xml:space=\"preserve\">", r.left()+8, top+16)
		_ = xml.EscapeText(&b, []byte(r.text))
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	_, err := out.Write(b.Bytes())
	return err
}

func (r row) left() int { return svgMargin + r.depth*svgIndent }

func (r row) width() int { return utf8.RuneCountInString(r.text)*svgCharacter + 16 }
