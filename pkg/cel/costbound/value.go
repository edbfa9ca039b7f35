/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package costbound

import (
	"slices"
	"strings"
)

// shape is what is known of the kind of a value.
type shape int

const (
	unknown shape = iota
	// scalar is a number, a bool or another value of a small size.
	scalar
	text
	list
	mapping
)

// value is what is known of a value of an expression.
type value struct {
	shape shape
	// bytes bounds the size as JSON. A text has at most as many characters.
	bytes form
	// count bounds the number of elements of a list or a map. Without counted, only the size bounds it.
	count   float64
	counted bool
	// path is the path of fields of the request where the value is, or "".
	path  string
	types goTypes
	// isFlat says that the elements of a list are texts, numbers and other values of a small size.
	isFlat bool
	// keys and each bound the bytes of every key and every element, if they are not 0.
	keys, each float64
	// groups is the number of groups of the user, if the path is not "".
	groups float64
}

const (
	// scalarBytes is the most that a number, a bool, a time or a duration has as JSON.
	scalarBytes = 40
	// nameBytes is the most that names have. labelBytes is the most that values of labels have, and labelKeyBytes the keys of labels and
	// annotations. kube-apiserver validates them before admission.
	nameBytes, labelBytes, labelKeyBytes = 256, 64, 320
	// maxGroups is the number of groups of a user for which the bound holds.
	maxGroups = 128
	// unknownElement is the least size of an element of a list with a comma: 0 as JSON. keyBytes is the least size of a key with two
	// characters: few keys have one.
	unknownElement, keyBytes = 2, 5
)

func small() value            { return value{shape: scalar, bytes: fixed(scalarBytes)} }
func textOf(bytes form) value { return value{shape: text, bytes: bytes} }

// elements returns a bound of the number of elements.
func (v value) elements() form {
	switch {
	case v.counted:
		return fixed(v.count)
	case v.shape == scalar:
		return none
	}
	return v.bytes.times(1 / v.types.leastElement())
}

// isWalked reports whether a comparison looks at the parts of the value.
func (v value) isWalked() bool { return v.shape == unknown || v.shape == list || v.shape == mapping }

// typed returns a value of some types.
func typed(v value, ts goTypes) value {
	v.types = ts
	if of := ts.shape(); of != unknown {
		v.shape = of
	}
	if v.shape == scalar {
		v.bytes = fixed(scalarBytes)
	}
	return v
}

// field returns a field of the value.
func (v value) field(name string) value {
	ts := v.types.field(name)
	switch {
	//guard:cost-names-with-dots
	case v.path != "" && strings.Contains(name, "."): // which could look like the path of another field
		return typed(value{bytes: v.bytes}, ts)
	case v.path != "":
		return fieldAt(v.path+"."+name, ts, v.groups)
	case v.each > 0:
		return textOf(fixed(v.each))
	case v.shape == scalar:
		return small() // an error
	}
	return typed(value{bytes: v.bytes}, ts)
}

// objects are the variables that have objects.
var objects = []string{"object", "oldObject", "namespaceObject"}

// fieldAt returns what is at a path of the request of a user with that many groups.
func fieldAt(path string, ts goTypes, groups float64) value {
	v := value{bytes: bytesOf(path), path: path, groups: groups}
	if object, field, _ := strings.Cut(path, "."); slices.Contains(objects, object) {
		return typed(v, ts).ofObject(field)
	}
	switch path {
	case "request", "request.userInfo", "request.kind", "request.resource", "request.requestKind", "request.requestResource":
		return value{shape: mapping, bytes: fixed(groups * nameBytes), path: path, groups: groups}
	case "request.userInfo.groups":
		return value{shape: list, bytes: fixed(groups * nameBytes), count: groups, counted: true, each: nameBytes}
	case "request.userInfo.extra":
		return value{bytes: fixed(groups * nameBytes), count: groups, counted: true}
	case "request.options": // a body of a deletion has them
		return value{bytes: bytesOf(path)}
	case "request.dryRun":
		return small()
	}
	return textOf(fixed(nameBytes))
}

// ofObject limits the value of a field of an object: kube-apiserver validates metadata before admission.
func (v value) ofObject(field string) value {
	switch field {
	case "":
		v.shape = mapping
	case "metadata":
		return typed(v, metadataTypes)
	case "kind", "apiVersion", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.generateName", "metadata.resourceVersion":
		return textOf(fixed(nameBytes))
	case "metadata.labels":
		v.keys, v.each = labelKeyBytes, labelBytes
	case "metadata.annotations":
		v.keys = labelKeyBytes
	}
	return v
}

// element returns the values over which a macro iterates: the elements of a list, or the keys of a map, and the entries of a map.
func (v value) element(part string) (key, entry value) {
	key, entry = value{bytes: bytesOf(part)}, v.entry(bytesOf(part))
	switch {
	case v.shape == text || v.shape == scalar:
		return small(), small() // an error
	case v.shape == list:
		key = entry
	case v.keys > 0:
		key = textOf(fixed(v.keys))
	case v.shape == mapping:
		key = textOf(bytesOf(part))
	}
	return key, entry
}

// entry returns an element of a list, or the value of an entry of a map, of at most the given size.
func (v value) entry(bytes form) value {
	if v.each > 0 {
		return textOf(fixed(v.each))
	}
	return typed(value{bytes: bytes}, v.types.elements())
}

// union returns what is known of a value that is one of two.
func (v value) union(o value) value {
	isEmpty := func(v value) bool { return v.counted && v.count == 0 }
	switch {
	case isEmpty(o) && v.shape != text && v.shape != scalar:
		return v
	case isEmpty(v) && o.shape != text && o.shape != scalar:
		return o
	}
	u := value{bytes: v.bytes.larger(o.bytes)}
	if len(v.types) > 0 && len(o.types) > 0 {
		u.types = append(slices.Clone(v.types), o.types...)
	}
	if v.shape == o.shape {
		u.shape = v.shape
	}
	u.isFlat = v.isFlat && o.isFlat
	if v.counted && o.counted {
		u.count, u.counted = max(v.count, o.count), true
	}
	return u
}
