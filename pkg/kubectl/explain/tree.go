/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
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
func treeOf(x *explanation) *Entry {
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
