/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The domains of the IDs of conditions that come from policies: of the cluster, and of a namespace, whose name comes
// before it.
const (
	ClusterPolicyDomain    = "cluster.policy.proviso.dev"
	NamespacedPolicyDomain = ".namespace.policy.proviso.dev"
)

// Word is the word in a reason that names what a policy or a condition has done.
type Word string

// The words of reasons.
const (
	// WordAllowed is for an Allow policy that allows the request.
	WordAllowed Word = "Allowed"
	// WordDenied is for a Deny policy that denies the request.
	WordDenied Word = "Denied"
	// WordHeldBack is for a NoOpinion policy, because of which no Allow policy allows the request.
	WordHeldBack Word = "HeldBack"
	// WordNotMet is for an Allow policy whose condition is false.
	WordNotMet Word = "NotMet"
	// WordError is for a policy whose condition could not be evaluated.
	WordError Word = "Error"
)

const textOfError = "its condition could not be evaluated"

// texts has the text of a reason without other texts, by the word of the reason.
var texts = map[Word]string{
	WordAllowed: "it allows the request", WordDenied: "it denies the request", WordHeldBack: "it keeps Allow policies from allowing the request",
	WordNotMet: "its condition does not hold", WordError: textOfError,
}

// Explain returns the reason that a condition gives, by the ID of the condition: `policy=<name> reason=<word>: <text>`. The
// name of a policy of a namespace begins with the namespace and a slash. A condition that comes from no policy is
// `condition=<ID>`. The text has the parts that are not empty, or a text for the word if there are none. It is on one line and
// cannot look like another reason.
func Explain(id string, word Word, parts ...string) string {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i] = plain(parts[i])
	}
	parts = slices.DeleteFunc(parts, func(text string) bool { return text == "" })
	if len(parts) == 0 {
		parts = []string{texts[word]}
	}
	return nameOf(id) + " reason=" + string(word) + ": " + strings.Join(parts, ": ")
}

// entry is how another reason would begin, also within a word: entries finds it there.
var entry = regexp.MustCompile(`(policy|condition)=`)

// ReasonEntry is what one policy or condition says in a reason.
type ReasonEntry struct {
	// Name is the name as the reason has it, such as "policy=demo/dev-only".
	Name string
	// Word is what it has done.
	Word Word
	// Text explains it.
	Text string
}

// entries finds where each entry of a reason begins. Texts of authors cannot look like it, see plain.
var entries = regexp.MustCompile(`((?:policy|condition)=\S+) reason=([A-Za-z]+): `)

// ReasonEntries returns the entries of a reason. Other texts in it are left out.
func ReasonEntries(reason string) []ReasonEntry {
	var found []ReasonEntry
	matches := entries.FindAllStringSubmatchIndex(reason, -1)
	for i, m := range matches {
		end := len(reason)
		if i+1 < len(matches) {
			end = matches[i+1][0]
		}
		text := strings.TrimSuffix(reason[m[1]:end], "; ")
		found = append(found, ReasonEntry{Name: reason[m[2]:m[3]], Word: Word(reason[m[4]:m[5]]), Text: text})
	}
	return found
}

// plain returns a text of an author as a reason shows it, on one line. What looks like the beginning of a reason, such as "policy=", is
// separated from its name.
func plain(text string) string {
	//guard:reasons-texts-look-like-reason
	return strings.TrimSpace(entry.ReplaceAllString(OneLine(text), "$1 = "))
}

// OneLine returns a text of others as it may be shown on a terminal: control characters, line breaks and characters that change the direction of
// text become blanks. Reasons, warnings, refusals and the messages of conditions pass through it on their way to users.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		//guard:texts-control-characters
		if r < ' ' || r >= 0x7f && (unicode.Is(unicode.C, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// nameOf names a condition in a reason.
func nameOf(id string) string {
	domain, name, _ := strings.Cut(id, "/")
	if domain == ClusterPolicyDomain {
		return "policy=" + name
	}
	if namespace, ok := strings.CutSuffix(domain, NamespacedPolicyDomain); ok && namespace != "" {
		return "policy=" + namespace + "/" + name
	}
	return "condition=" + id
}

// joinReasons joins reasons that are not empty, each once.
func joinReasons(reasons ...string) string {
	var different []string
	for _, reason := range reasons {
		if reason != "" && !slices.Contains(different, reason) {
			different = append(different, reason)
		}
	}
	return strings.Join(different, "; ")
}
