/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package authorization

import (
	"encoding/json"
	"slices"
	"strings"
)

// verbsOfOne are the verbs whose requests have the name of an object.
var verbsOfOne = []string{"get", "update", "patch", "delete"}

// LacksName reports whether a review of a request for a resource has no name, although each such request has one.
func LacksName(verb, subresource, name string) bool {
	return name == "" && (slices.Contains(verbsOfOne, verb) || verb == "create" && subresource != "")
}

// WarningLeftOut is the warning of a review with a mode about a user whose request kube-apiserver decides without Proviso, whatever policies say.
const WarningLeftOut = "kube-apiserver decides this request of the user without Proviso, so that the cluster goes on while Proviso is down: policies neither allow nor deny it"

// Names are the names of objects about which policies can decide otherwise than about all others.
type Names struct {
	// Names are in order, each once.
	Names []string
	// IsOpen says that there can be others.
	IsOpen bool
	// By is a policy whose condition compares the name, as NAME or NAMESPACE/NAME. It is empty if there is none.
	By string
}

// The parts of a warning about names.
const (
	warningOfNames = "policies can decide otherwise about objects with certain names: "
	openNames      = " and others"
	comparing      = ", which policy="
	comparingEnd   = " compares"
)

// Warning returns the warning of a review without a name, or an empty text.
func (n Names) Warning() string {
	if len(n.Names) == 0 && !n.IsOpen {
		return ""
	}
	list, err := json.Marshal(append([]string{}, n.Names...))
	if err != nil {
		list, n.IsOpen = []byte("[]"), true // texts can be written, so that this does not happen
	}
	text := warningOfNames + string(list)
	if n.IsOpen {
		text += openNames
	}
	if n.IsOpen && n.By != "" {
		text += comparing + n.By + comparingEnd
	}
	return text
}

// NamesIn reads a warning that Names.Warning has written. It returns false for any other text.
func NamesIn(warning string) (n Names, ok bool) {
	text, ok := strings.CutPrefix(warning, warningOfNames)
	if !ok {
		return Names{}, false
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	if decoder.Decode(&n.Names) != nil {
		return Names{IsOpen: true}, true // a long warning is cut
	}
	text = text[decoder.InputOffset():]
	n.IsOpen = text != ""
	if by, ok := strings.CutSuffix(strings.TrimPrefix(text, openNames), comparingEnd); ok {
		n.By = strings.TrimPrefix(by, comparing)
	}
	return n, true
}
