/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// step is a step of the path of a field: a name, an index or a key in brackets.
var step = regexp.MustCompile(`^\.?([^.\[\]]+)|^\[([^\]]*)\]`)

// lineOfField returns the line of a field of the document that begins in a line of a text. If the field is not there, it is the line of
// the field around it, or the first line of the document that has more than comments.
func lineOfField(text string, begin int, path string) int {
	lines := strings.SplitAfter(text, "\n")
	if begin > len(lines) {
		return begin
	}
	root := &yaml.Node{}
	// The decoder stops at the next document.
	if yaml.NewDecoder(strings.NewReader(strings.Join(lines[begin-1:], ""))).Decode(root) != nil || len(root.Content) == 0 {
		return begin
	}
	node, line := root.Content[0], root.Content[0].Line
	for path != "" {
		m := step.FindStringSubmatch(path)
		if m == nil {
			break
		}
		path = path[len(m[0]):]
		name := m[1] + m[2]
		found, at := child(node, name)
		if found == nil {
			break
		}
		node, line = found, at
	}
	return begin + line - 1
}

// child returns a field of a map or an element of a list, and its line.
func child(node *yaml.Node, name string) (*yaml.Node, int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if index, err := strconv.Atoi(name); err == nil && index >= 0 && index < len(node.Content) {
			return node.Content[index], node.Content[index].Line
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	return nil, 0
}
