/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mapping_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/things"
)

// specOf is a thing whose spec has fields.
func specOf(fields string) string {
	return "thing: {type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {" + fields + "}}}}\n"
}

func readMarkers(t testing.TB, document string) (*mapping.Markers, error) {
	t.Helper()
	return mapping.NewMarkers(things.MarkedSchemas(t, document), map[schema.GroupVersionKind]string{things.Kind: "machines"})
}

const disk = `
disk: {type: object, (verb: disk, (by: disk-name, properties: {
  name: {type: string, (source: disk-name},
  size: {type: integer, (verb: diskSize, (by: disk-name}}}
`

// TestMarkers are markers in schemas of every shape.
func TestMarkers(t *testing.T) {
	t.Parallel()
	const ref = "$ref: '#/components/schemas/disk'"
	for _, tc := range []struct {
		name, document string
		want           string // "field verb parameter excluded" for each
		warn           string
	}{
		{"none", specOf("a: {type: string}"), "", ""},
		{"a field", specOf("nodeName: {type: string, (verb: nodeAssignment}"), "spec.nodeName granular:nodeAssignment", ""},
		{"a field that is excluded", specOf("boom: {type: boolean, (verb: selfDestruction, (excluded: true}"), "spec.boom granular:selfDestruction excluded", ""},
		{"as Go types have it", specOf(`boom: {type: boolean, (verb: selfDestruction, (excluded: "true"}`), "spec.boom granular:selfDestruction excluded", ""},
		{"a field that is not excluded", specOf("boom: {type: boolean, (verb: selfDestruction, (excluded: false}"), "spec.boom granular:selfDestruction", ""},
		{"a type", specOf("disk: {allOf: [{$ref: '#/components/schemas/other'}], default: {}}") + "other: {type: object, (verb: storage}", "spec.disk granular:storage", ""},
		{"a field and its type", specOf("disk: {allOf: [{$ref: '#/components/schemas/other'}], (verb: storage}") + "other: {type: object, (verb: storage}", "spec.disk granular:storage", ""},
		{"a type of a type", specOf("disk: {$ref: '#/components/schemas/other'}") + "other: {allOf: [{$ref: '#/components/schemas/more'}]}\nmore: {type: object, (verb: storage}", "spec.disk granular:storage", ""},
		{"a type in two places", specOf("a: {$ref: '#/components/schemas/other'}, b: {$ref: '#/components/schemas/other'}") + "other: {type: object, (verb: storage}", "spec.a granular:storage; spec.b granular:storage", ""},
		{"a map", specOf("tiers: {type: object, (verb: levels, (source: k, additionalProperties: {type: string, (verb: level, (by: k}}"),
			"spec.tiers granular:levels; spec.tiers[*] granular:level(…) the key", ""},
		{"a map in one place", specOf("tiers: {type: object, (verb: level, (by: k, (source: k, (treatment: slash-delimited-prefix, additionalProperties: {type: string}}"),
			"spec.tiers[*] granular:level(…) the key, up to its first slash", ""},
		{"a set", specOf("tags: {type: array, (set, (verb: words, items: {type: string, (source: k, (verb: word, (by: k}}"), "spec.tags granular:words; spec.tags[*] granular:word(…) the key", ""},
		{"a set in one place", specOf("tags: {type: array, (set, (verb: word, (source: k, (by: k, items: {type: string}}"), "spec.tags[*] granular:word(…) the key", ""},
		{"a set, its elements and one permission", specOf("tags: {type: array, (set, items: {type: string, (verb: word}}"), "spec.tags[*] granular:word", ""},
		{"a list with a key", specOf("disks: {type: array, (map: [name], (verb: storage, items: {"+ref+"}}") + disk,
			"spec.disks granular:storage; spec.disks[*] granular:disk(…) the key `name`; spec.disks[*].size granular:diskSize(…) the key `name`", ""},
		{"a list with a key, in one place", specOf("disks: {type: array, (map: [name], (verb: volume, (source: v, (by: v, items: {type: object, properties: {name: {type: string}}}}"),
			"spec.disks[*] granular:volume(…) the key `name`", ""},
		{"a list with two keys", specOf("ports: {type: array, (map: [port, protocol], items: {type: object, (verb: gate, (by: p, properties: {port: {type: integer, (source: p}, protocol: {type: string, (source: q}, note: {type: string, (verb: remark, (by: q}}}}"),
			"spec.ports[*] granular:gate(…) the key `port`; spec.ports[*].note granular:remark(…) the key `protocol`", ""},
		{"a list in a list, by the outer key", specOf("disks: {type: array, (map: [name], items: {type: object, properties: {name: {type: string, (source: d}, parts: {type: array, (map: [id], items: {type: object, (verb: partition, (by: d, properties: {id: {type: string}}}}}}}"),
			"spec.disks[*].parts[*] granular:partition(…) the key `name` of `spec.disks[*]`", ""},
		{"a key without permission", specOf("disks: {type: array, (map: [name], items: {type: object, properties: {name: {type: string, (source: d}}}}"), "", ""},
		{"a schema that contains itself, without markers", specOf("a: {$ref: '#/components/schemas/other'}, b: {type: string, (verb: beauty}") + "other: {type: object, properties: {more: {$ref: '#/components/schemas/other'}}}",
			"spec.b granular:beauty", ""},
		{"keys that are no identifiers", specOf("$ref-kind.x: {type: string, (verb: reference}"), `spec["$ref-kind.x"] granular:reference`, ""},
		{"a name that should be another", specOf("nodeName: {type: string, (verb: nodeName}, x: {type: string, (verb: setX}"), "spec.nodeName granular:nodeName; spec.x granular:setX",
			`the schema of Thing in example.com/v1: spec.nodeName: permission "nodeName" is the name of a field; use the name of a concept that also fits fields of other kinds and versions
the schema of Thing in example.com/v1: spec.x: permission "setX" should be a noun, but begins with "set"`},
		{"within something of one piece", specOf("disks: {type: array, items: {type: object, properties: {size: {type: integer, (verb: capacity}}}}"), "spec.disks[*].size granular:capacity",
			`the schema of Thing in example.com/v1: spec.disks[*].size: permission "capacity" is of no use: what the field is in changes as a whole`},
		{"within a map of one piece", specOf("disk: {type: object, x-kubernetes-map-type: atomic, properties: {size: {type: integer, (verb: capacity}, boom: {type: string, (verb: explosion, (excluded: true}}}"),
			"spec.disk.boom granular:explosion excluded; spec.disk.size granular:capacity", `the schema of Thing in example.com/v1: spec.disk.size: permission "capacity" is of no use: what the field is in changes as a whole`},
		{
			name:     "a field of every element, where the map has none",
			document: specOf("tiers: {type: object, additionalProperties: {type: object, properties: {size: {type: integer, (verb: capacity}}}}"),
			want:     "spec.tiers[*].size granular:capacity",
		},
		{
			name:     "a set whose type is the set",
			document: specOf("tags: {$ref: '#/components/schemas/words', (verb: word, (source: k, (by: k}") + "words: {type: array, (set, items: {type: string}}",
			want:     "spec.tags[*] granular:word(…) the key",
		},
		{
			name:     "a list whose type has the keys",
			document: specOf("disks: {allOf: [{$ref: '#/components/schemas/disks'}], (verb: disk, (source: k, (by: k}") + "disks: {type: array, (map: [name], items: {type: object, properties: {name: {type: string}}}}",
			want:     "spec.disks[*] granular:disk(…) the key `name`",
		},
		{
			name:     "a map whose elements are of a type",
			document: specOf("tiers: {type: object, (source: k, additionalProperties: {allOf: [{$ref: '#/components/schemas/tier'}], (by: k, (verb: level}}") + "tier: {type: object, (verb: level, properties: {size: {type: integer}}}",
			want:     "spec.tiers[*] granular:level(…) the key",
		},
		{
			name:     "keys of two maps, by name",
			document: specOf("a: {type: object, (source: k, additionalProperties: {type: object, (source: l, additionalProperties: {type: string, (verb: cell, (by: k}}}"),
			want:     "spec.a[*][*] granular:cell(…) the key of `spec.a[*]`",
		},
		{
			name:     "one name for keys of fields beside each other",
			document: specOf("a: {type: object, (source: k, (verb: first, (by: k, additionalProperties: {type: string}}, b: {type: object, (source: k, (verb: second, (by: k, additionalProperties: {type: string}}"),
			want:     "spec.a[*] granular:first(…) the key; spec.b[*] granular:second(…) the key",
		},
		{
			name:     "a list with two keys that have no names",
			document: specOf("ports: {type: array, (map: [port, protocol], items: {type: object, properties: {port: {type: integer}, protocol: {type: string}, note: {type: string, (verb: remark}}}}"),
			want:     "spec.ports[*].note granular:remark",
		},
		{
			name:     "a list with a key that its elements do not describe",
			document: specOf("disks: {type: array, (map: [name], (verb: disk, (source: k, (by: k, items: {type: object}}"),
			want:     "spec.disks[*] granular:disk(…) the key `name`",
		},
		{
			name:     "a tuple of one piece",
			document: specOf("pair: {type: array, (verb: couple, items: [{type: string}, {type: integer}]}"),
			want:     "spec.pair granular:couple",
		},
		{
			name:     "a map of anything",
			document: specOf("any: {type: object, (verb: matter, additionalProperties: true}"),
			want:     "spec.any granular:matter",
		},
		{
			name:     "what is built in, again",
			document: specOf("replicas: {type: integer, (verb: replicas, (excluded: true}"),
			want:     "spec.replicas granular:replicas excluded",
			warn:     `the schema of Thing in example.com/v1: spec.replicas: permission "replicas" is the name of a field; use the name of a concept that also fits fields of other kinds and versions`,
		},
		{
			name:     "a schema that contains itself, with another extension",
			document: specOf("a: {$ref: '#/components/schemas/other'}, b: {type: string, (verb: beauty}") + "other: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {more: {$ref: '#/components/schemas/other'}}}",
			want:     "spec.b granular:beauty",
		},
		{
			name:     "a choice without markers",
			document: specOf("a: {anyOf: [{type: string}, {type: integer}], (verb: beauty}, b: {type: object, patternProperties: {x: {type: string}}, (verb: bravery}"),
			want:     "spec.a granular:beauty; spec.b granular:bravery",
		},
		{
			name:     "as deep as may be", // spec, 30 fields and b
			document: specOf(strings.Repeat("a: {type: object, properties: {", 30) + "b: {type: string, (verb: beauty}" + strings.Repeat("}}", 30)),
			want:     "spec" + strings.Repeat(".a", 30) + ".b granular:beauty",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			markers, err := readMarkers(t, tc.document)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range markers.List() {
				text := strings.TrimSpace(l.Field + " " + l.Verb + " " + l.Parameter)
				if l.Excluded {
					text += " excluded"
				}
				got = append(got, text)
				if l.Resource != things.Machines {
					t.Errorf("got resource %s", l.Resource)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.warn, strings.Join(markers.Warnings(), "\n")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMalformedMarkers are refused, and the refusal names the field.
func TestMalformedMarkers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, document, want string
	}{
		{"no text", specOf("a: {type: string, (verb: 1}"), "spec.a: x-kubernetes-permission-verb must be a text"},
		{"an empty text", specOf(`a: {type: string, (verb: ""}`), "spec.a: x-kubernetes-permission-verb must be a text"},
		{"an unknown marker", specOf("a: {type: string, (other: x}"), "spec.a: x-kubernetes-permission-verbs is no marker that is known"},
		{"a name in another case", specOf("a: {type: string, (verb: NodeAssignment}"), `spec.a: x-kubernetes-permission-verb "NodeAssignment" must be in lowerCamelCase`},
		{"a name with an ancestor", specOf("a: {type: string, (verb: specA}"), `spec.a: x-kubernetes-permission-verb "specA" must not refer to the field "spec"`},
		{"a long name", specOf("a: {type: string, (verb: " + strings.Repeat("a", 64) + "}"), "must have at most 63 bytes"},
		{"an exclusion that is no truth value", specOf("a: {type: string, (verb: beauty, (excluded: sometimes}"), "spec.a: x-kubernetes-permission-excluded must be true or false"},
		{"an exclusion of nothing", specOf("a: {type: string, (excluded: true}"), "spec.a: x-kubernetes-permission-excluded needs x-kubernetes-permission-verb"},
		{"a parameter of nothing", specOf("a: {type: object, (source: k, (by: k, additionalProperties: {type: string}}"), "spec.a: x-kubernetes-permission-parameterized-by needs x-kubernetes-permission-verb"},
		{"a treatment of nothing", specOf("a: {type: string, (verb: beauty, (treatment: slash-delimited-prefix}"), "spec.a: x-kubernetes-permission-parameter-treatment needs x-kubernetes-permission-parameterized-by"},
		{"an unknown treatment", specOf("a: {type: object, (verb: beauty, (source: k, (by: k, (treatment: lowercase, additionalProperties: {type: string}}"), "spec.a: x-kubernetes-permission-parameter-treatment must be slash-delimited-prefix"},
		{"a parameter of no source", specOf("a: {type: object, (verb: beauty, (source: k, (by: l, additionalProperties: {type: string}}"), `spec.a: x-kubernetes-permission-parameterized-by "l" names no source`},
		{"a source beside the field", specOf("a: {type: object, (source: k, additionalProperties: {type: string}}, b: {type: string, (verb: beauty, (by: k}"), `spec.b: x-kubernetes-permission-parameterized-by "k" names no source`},
		{"a source that is no key", specOf("a: {type: string, (source: k}"), "spec.a: x-kubernetes-permission-parameter-source must be at a map"},
		{"a source at an object", specOf("a: {type: object, (source: k, properties: {b: {type: string}}}"), "spec.a: x-kubernetes-permission-parameter-source must be at a map"},
		{"a source at a list of one piece", specOf("a: {type: array, (source: k, items: {type: string}}"), "spec.a: x-kubernetes-permission-parameter-source must be at a map"},
		{"a source at a map of one piece", specOf("a: {type: object, x-kubernetes-map-type: atomic, (source: k, additionalProperties: {type: string}}"), "spec.a: x-kubernetes-permission-parameter-source must be at a map"},
		{"a source at a list with two keys", specOf("a: {type: array, (map: [b, c], (source: k, items: {type: object, properties: {b: {type: string}, c: {type: string}}}}"), "spec.a: x-kubernetes-permission-parameter-source must be at a map"},
		{"a source at another field of an element", specOf("a: {type: array, (map: [b], items: {type: object, properties: {b: {type: string}, c: {type: string, (source: k}}}}"), "spec.a[*].c: x-kubernetes-permission-parameter-source must be at a map"},
		{"a source by the name of a key, elsewhere", specOf("a: {type: array, (map: [b], items: {type: object, properties: {b: {type: string}, c: {type: object, properties: {b: {type: string, (source: k}}}}}}"), "spec.a[*].c.b: x-kubernetes-permission-parameter-source must be at a map"},
		{"a source that is taken", specOf("a: {type: object, (source: k, additionalProperties: {type: object, (source: k, additionalProperties: {type: string}}}"), `spec.a[*]: x-kubernetes-permission-parameter-source "k" names two keys`},
		{"a field and its type, differently", specOf("a: {allOf: [{$ref: '#/components/schemas/other'}], (verb: storage}") + "other: {type: object, (verb: volumes}", `spec.a: x-kubernetes-permission-verb says one thing at the field and another at its type: "storage" and "volumes"`},
		{"a list and its elements, for the elements", specOf("a: {type: array, (set, (verb: word, (source: k, (by: k, items: {type: string, (verb: letters}}"), "spec.a[*]: the field has two permissions"},
		{"one name with two parameters", specOf("a: {type: object, (verb: word, (source: k, (by: k, additionalProperties: {type: string}}, b: {type: string, (verb: word}"), `spec.b: permission "word" has another parameter in another place of the schema`},
		{"the whole object", "thing: {type: object, (verb: everything}", "the object: x-kubernetes-permission-verb must be on a field"},
		{"what is built in, differently", specOf("replicas: {type: integer, (verb: copies}"), `spec.replicas: x-kubernetes-permission-verb "copies" is not the built-in permission replicas`},
		{"what the server owns", "thing: {type: object, properties: {metadata: {type: object, properties: {uid: {type: string, (verb: identity}}}}}", "metadata.uid: the server owns metadata.uid"},
		{"a schema that contains itself", specOf("a: {$ref: '#/components/schemas/other'}") + "other: {type: object, properties: {more: {$ref: '#/components/schemas/other'}, x: {type: string, (verb: beauty}}}", "spec.a.more: the schema contains itself"},
		{"a reference to nothing", specOf("a: {$ref: '#/components/schemas/other', (verb: beauty}"), "spec.a: the schema refers to one that is not there, or to itself: other"},
		{"a reference to itself", specOf("a: {allOf: [{$ref: '#/components/schemas/other'}], (verb: beauty}") + "other: {$ref: '#/components/schemas/other'}", "spec.a: the schema refers to one that is not there, or to itself: other"},
		{"a choice", specOf("a: {anyOf: [{type: string, (verb: beauty}, {type: integer}]}"), "spec.a: there are markers where a schema describes no field"},
		{"one of several", specOf("a: {oneOf: [{$ref: '#/components/schemas/other'}]}") + "other: {type: object, properties: {x: {type: string, (verb: beauty}}}", "spec.a: there are markers where a schema describes no field"},
		{"not", specOf("a: {not: {type: string, (verb: beauty}}"), "spec.a: there are markers where a schema describes no field"},
		{"part of all", specOf("a: {allOf: [{type: string, (verb: beauty}]}"), "spec.a: there are markers where a schema describes no field"},
		{"beside a reference in all", specOf("a: {allOf: [{$ref: '#/components/schemas/other'}, {type: object, (verb: beauty}]}") + "other: {type: object}", "spec.a: there are markers where a schema describes no field"},
		{"a field beside a reference", specOf("a: {allOf: [{$ref: '#/components/schemas/other'}], properties: {b: {type: string, (verb: beauty, (excluded: true}}}") + "other: {type: object, properties: {c: {type: string}}}", "spec.a: there are markers where a schema describes no field"},
		{
			name: "beside a reference, in what else it refers to",
			document: specOf("a: {$ref: '#/components/schemas/other', allOf: [{$ref: '#/components/schemas/more'}]}") +
				"other: {type: object}\nmore: {type: object, (verb: beauty, (excluded: true}",
			want: "spec.a: there are markers where a schema describes no field",
		},
		{
			name: "a field beside a reference in all",
			document: specOf("a: {allOf: [{$ref: '#/components/schemas/other', properties: {b: {type: string, (verb: beauty, (excluded: true}}}]}") +
				"other: {type: object}",
			want: "spec.a: there are markers where a schema describes no field",
		},
		{
			name:     "a choice beside a reference in all",
			document: specOf("a: {allOf: [{$ref: '#/components/schemas/other', anyOf: [{type: object, (verb: beauty}]}]}") + "other: {type: object}",
			want:     "spec.a: there are markers where a schema describes no field",
		},
		{"any field beside others", specOf("a: {type: object, properties: {b: {type: string}}, additionalProperties: {type: string, (verb: beauty}}"), "spec.a: there are markers where a schema describes no field"},
		{"no schema", "other: {type: object}", "the schema of Thing in example.com/v1: there is no schema of it"},
		{"too deep", specOf(strings.Repeat("a: {type: object, properties: {", 40) + "b: {type: string, (verb: beauty}" + strings.Repeat("}}", 40)), "must have at most 32 steps"},
		{
			name:     "one step too deep",
			document: specOf(strings.Repeat("a: {type: object, properties: {", 31) + "b: {type: string, (verb: beauty}" + strings.Repeat("}}", 31)),
			want:     "spec" + strings.Repeat(".a", 31) + ".b: must have at most 32 steps",
		},
		{
			name:     "a source at a map that is an object, too",
			document: specOf("a: {type: object, (source: k, properties: {b: {type: string}}, additionalProperties: {type: string}}"),
			want:     "spec.a: x-kubernetes-permission-parameter-source must be at a map",
		},
		{
			name:     "a source at a map of anything",
			document: specOf("a: {type: object, (source: k, additionalProperties: true}"),
			want:     "spec.a: x-kubernetes-permission-parameter-source must be at a map",
		},
		{
			name:     "a source at a set of nothing",
			document: specOf("a: {type: array, (set, (source: k}"),
			want:     "spec.a: x-kubernetes-permission-parameter-source must be at a map",
		},
		{
			name:     "a source at a list of one piece that has keys",
			document: specOf("a: {type: array, x-kubernetes-list-type: atomic, x-kubernetes-list-map-keys: [name], (source: k, items: {type: object, properties: {name: {type: string}}}}"),
			want:     "spec.a: x-kubernetes-permission-parameter-source must be at a map",
		},
		{
			name:     "a source at a list that says no key",
			document: specOf("a: {type: array, x-kubernetes-list-type: map, (source: k, items: {type: object, properties: {name: {type: string}}}}"),
			want:     "spec.a: x-kubernetes-permission-parameter-source must be at a map",
		},
		{
			name:     "a source at an element of a list of one piece",
			document: specOf("a: {type: array, items: {type: string, (source: k}}"),
			want:     "spec.a[*]: x-kubernetes-permission-parameter-source must be at a map",
		},
		{
			name:     "a source with two names",
			document: specOf("a: {type: array, (set, (source: k, items: {type: string, (source: l, (verb: word, (by: m}}"),
			want:     `spec.a[*]: x-kubernetes-permission-parameterized-by "m" names no source`,
		},
		{
			name:     "a source that is empty",
			document: specOf(`a: {type: object, (source: "", additionalProperties: {type: string}}`),
			want:     "spec.a: x-kubernetes-permission-parameter-source must be a text that is not empty",
		},
		{
			name:     "a treatment that is a truth value",
			document: specOf("a: {type: object, (verb: beauty, (source: k, (by: k, (treatment: true, additionalProperties: {type: string}}"),
			want:     "spec.a: x-kubernetes-permission-parameter-treatment must be a text",
		},
		{
			name:     "an exclusion that is null",
			document: specOf("a: {type: string, (verb: beauty, (excluded: null}"),
			want:     "spec.a: x-kubernetes-permission-excluded must be true or false",
		},
		{
			name:     "an exclusion at a field, and none at its type",
			document: specOf("a: {allOf: [{$ref: '#/components/schemas/other'}], (excluded: true}") + "other: {type: object, (verb: beauty, (excluded: false}",
			want:     `spec.a: x-kubernetes-permission-excluded says one thing at the field and another at its type: "true" and "false"`,
		},
		{
			name:     "elements of a type that is not there",
			document: specOf("tags: {type: array, (verb: words, items: {$ref: '#/components/schemas/none'}}"),
			want:     "spec.tags[*]: the schema refers to one that is not there, or to itself: none",
		},
		{
			name:     "a key of a type that is not there",
			document: specOf("disks: {type: array, (map: [name], (verb: storage, items: {type: object, properties: {name: {$ref: '#/components/schemas/none'}}}}"),
			want:     "spec.disks[*]: the schema refers to one that is not there, or to itself: none",
		},
		{
			name:     "a tuple",
			document: specOf("a: {type: array, items: [{type: string, (verb: beauty}, {type: string}]}"),
			want:     "spec.a: there are markers where a schema describes no field",
		},
		{
			name:     "fields whose names have a pattern",
			document: specOf("a: {type: object, patternProperties: {x: {type: string, (verb: beauty, (excluded: true}}}"),
			want:     "spec.a: there are markers where a schema describes no field",
		},
		{
			name:     "two references in all",
			document: specOf("a: {allOf: [{$ref: '#/components/schemas/other'}, {$ref: '#/components/schemas/more'}]}") + "other: {type: object, (verb: beauty}\nmore: {type: object}",
			want:     "spec.a: there are markers where a schema describes no field",
		},
		{
			name:     "elements beside a reference",
			document: specOf("a: {allOf: [{$ref: '#/components/schemas/other'}], items: {type: string, (verb: word}}") + "other: {type: array}",
			want:     "spec.a: there are markers where a schema describes no field",
		},
		{
			name:     "two types that contain each other",
			document: specOf("a: {$ref: '#/components/schemas/one'}") + "one: {type: object, properties: {b: {$ref: '#/components/schemas/two'}}}\ntwo: {type: object, (verb: beauty, properties: {c: {$ref: '#/components/schemas/one'}}}",
			want:     "spec.a.b.c: the schema contains itself",
		},
		{
			name:     "references that lead to each other",
			document: specOf("a: {$ref: '#/components/schemas/one', (verb: beauty}") + "one: {$ref: '#/components/schemas/two'}\ntwo: {$ref: '#/components/schemas/one'}",
			want:     "spec.a: the schema refers to one that is not there, or to itself: one",
		},
		{
			name:     "one name with the key and with its beginning",
			document: specOf("a: {type: object, (verb: word, (source: k, (by: k, additionalProperties: {type: string}}, b: {type: object, (verb: word, (source: k, (by: k, (treatment: slash-delimited-prefix, additionalProperties: {type: string}}"),
			want:     `spec.b[*]: permission "word" has another parameter in another place of the schema`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			markers, err := readMarkers(t, tc.document)
			if err == nil || markers != nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "the schema of Thing in example.com/v1: ") {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
	_, err := readMarkers(t, specOf("a: {type: string, (verb: A}, b: {type: string, (verb: B}"))
	if err == nil || !strings.Contains(err.Error(), "spec.a: ") || !strings.Contains(err.Error(), "spec.b: ") {
		t.Errorf("two mistakes: got %v, want both", err)
	}
}

// TestMarkersOfSeveralKinds reads the schemas of all kinds that are served: one schema may describe several kinds, and the order of the list
// does not depend on the order of a map.
func TestMarkersOfSeveralKinds(t *testing.T) {
	t.Parallel()
	kind := func(version, name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: version, Kind: name}
	}
	schemas := things.MarkedSchemas(t, `
thing: {type: object, properties: {spec: {type: object, properties: {boom: {type: boolean, (verb: selfDestruction, (excluded: true}}}}}
many: {type: object, properties: {data: {type: string, (verb: matter}}, x-kubernetes-group-version-kind: [
  {group: example.com, version: v1, kind: Beta}, {group: example.com, version: v2, kind: Alpha}, {group: example.com, version: v1, kind: NotServed}]}
`)
	served := map[schema.GroupVersionKind]string{things.Kind: "machines", kind("v1", "Beta"): "betas", kind("v2", "Alpha"): "alphas"}
	for range 8 {
		markers, err := mapping.NewMarkers(schemas, served)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range markers.List() {
			got = append(got, l.Resource.Resource+"/"+l.Resource.Version+" "+l.Field)
		}
		if diff := cmp.Diff([]string{"betas/v1 data", "machines/v1 spec.boom", "alphas/v2 data"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := markers.NewTable().Excluding(); len(got) != 1 || got[0] != "the schema of Thing in example.com/v1" {
			t.Errorf("got exclusions by %q", got)
		}
	}
	bad := things.MarkedSchemas(t, "thing: {type: object}\nother: {type: object, x-kubernetes-group-version-kind: {group: example.com}}")
	if _, err := mapping.NewMarkers(bad, served); err == nil || !strings.Contains(err.Error(), `schema "other": x-kubernetes-group-version-kind`) {
		t.Errorf("kinds that cannot be read: got %v", err)
	}
}

// TestMarkersInOtherLetters has the names of extensions as a program may have written them, without the decoder that makes their letters small.
func TestMarkersInOtherLetters(t *testing.T) {
	t.Parallel()
	schemas := things.MarkedSchemas(t, specOf("boom: {type: boolean}"))
	boom := schemas["thing"].Properties["spec"].Properties["boom"]
	boom.Extensions = spec.Extensions{"X-Kubernetes-Permission-Verb": "selfDestruction", "X-KUBERNETES-PERMISSION-EXCLUDED": true}
	schemas["thing"].Properties["spec"].Properties["boom"] = boom
	served := map[schema.GroupVersionKind]string{things.Kind: "machines"}
	markers, err := mapping.NewMarkers(schemas, served)
	if err != nil || len(markers.List()) != 1 || !markers.List()[0].Excluded {
		t.Errorf("got %v, %v, want an exclusion", markers, err)
	}
	boom.Extensions["x-kubernetes-permission-verb"] = "demolition"
	if _, err := mapping.NewMarkers(schemas, served); err == nil || !strings.Contains(err.Error(), `"selfDestruction" and "demolition"`) {
		t.Errorf("two markers of one name: got %v", err)
	}
	boom.Extensions = spec.Extensions{"X-Kubernetes-Permission-Verbs": "selfDestruction"}
	schemas["thing"].Properties["spec"].Properties["boom"] = boom
	if _, err := mapping.NewMarkers(schemas, served); err == nil || !strings.Contains(err.Error(), "is no marker that is known") {
		t.Errorf("an unknown marker: got %v", err)
	}
}

// FuzzMarkers reads schemas of any shape: each is read or refused, the same every time.
func FuzzMarkers(f *testing.F) {
	for _, seed := range []string{
		specOf("nodeName: {type: string, (verb: nodeAssignment}"), specOf("disks: {type: array, (map: [name], items: {$ref: '#/components/schemas/disk'}}") + disk,
		"thing: {$ref: '#/components/schemas/thing', (verb: x}", "thing: {items: [{(verb: x}]}",
	} {
		content, err := json.Marshal(things.MarkedSchemas(f, seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
	f.Fuzz(func(t *testing.T, content string) {
		read := func() string {
			schemas := map[string]*spec.Schema{}
			if json.Unmarshal([]byte(content), &schemas) != nil {
				return ""
			}
			for _, s := range schemas {
				if s == nil {
					return ""
				}
			}
			markers, err := mapping.NewMarkers(schemas, map[schema.GroupVersionKind]string{things.Kind: "machines"})
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(markers.List())
		}
		if one, other := read(), read(); one != other {
			t.Errorf("read as %s and as %s", one, other)
		}
	})
}
