/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package integration_test

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
)

// gadgetGroup serves gadgets in three versions, in which their fields have other names. Its
// schemas have markers in the first two. Everything here is what generators would make.
const gadgetGroup = "renaming.example.com"

// GadgetPart is an element of a list with a key, which has another name in other versions.
type GadgetPart struct {
	Name string `json:"name"`
	Size int64  `json:"size,omitempty"`
}

// Gadget is a gadget as it is stored, and that of v1.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GadgetSpec `json:"spec,omitempty"`
}

// GadgetSpec has the names of v1.
type GadgetSpec struct {
	NodeName string       `json:"nodeName,omitempty"`
	Boom     bool         `json:"boom,omitempty"`
	Secret   string       `json:"secret,omitempty"`
	Tags     []string     `json:"tags,omitempty"`
	Disks    []GadgetPart `json:"disks,omitempty"`
}

// RenamedPart is a part in v2 and v3.
type RenamedPart struct {
	Label    string `json:"label"`
	Capacity int64  `json:"capacity,omitempty"`
}

// RenamedSpec has the names of v2 and v3.
type RenamedSpec struct {
	Placement  string        `json:"placement,omitempty"`
	Detonation bool          `json:"detonation,omitempty"`
	Hidden     string        `json:"hidden,omitempty"`
	Words      []string      `json:"words,omitempty"`
	Volumes    []RenamedPart `json:"volumes,omitempty"`
}

// GadgetV1 is a gadget in v1, GadgetV2 in v2 and GadgetV3 in v3.
type (
	GadgetV1 Gadget
	GadgetV2 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Spec              RenamedSpec `json:"spec,omitempty"`
	}
	GadgetV3 GadgetV2
)

// GadgetList is a list of gadgets as they are stored, and GadgetListV1 and so on in versions.
type (
	GadgetList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []Gadget `json:"items"`
	}
	GadgetListV1 struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []GadgetV1 `json:"items"`
	}
	GadgetListV2 struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []GadgetV2 `json:"items"`
	}
	GadgetListV3 struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []GadgetV3 `json:"items"`
	}
)

func (s *GadgetSpec) copyTo(out *GadgetSpec) {
	*out = *s
	out.Tags, out.Disks = slices.Clone(s.Tags), slices.Clone(s.Disks)
}

func (s *RenamedSpec) copyTo(out *RenamedSpec) {
	*out = *s
	out.Words, out.Volumes = slices.Clone(s.Words), slices.Clone(s.Volumes)
}

func (g *Gadget) deepCopy() *Gadget {
	out := &Gadget{TypeMeta: g.TypeMeta}
	g.DeepCopyInto(&out.ObjectMeta)
	g.Spec.copyTo(&out.Spec)
	return out
}

func (g *GadgetV2) deepCopy() *GadgetV2 {
	out := &GadgetV2{TypeMeta: g.TypeMeta}
	g.DeepCopyInto(&out.ObjectMeta)
	g.Spec.copyTo(&out.Spec)
	return out
}

// DeepCopyObject implements runtime.Object, as below.
func (g *Gadget) DeepCopyObject() runtime.Object { return g.deepCopy() }

// DeepCopyObject implements runtime.Object.
func (g *GadgetV1) DeepCopyObject() runtime.Object { return (*GadgetV1)((*Gadget)(g).deepCopy()) }

// DeepCopyObject implements runtime.Object.
func (g *GadgetV2) DeepCopyObject() runtime.Object { return g.deepCopy() }

// DeepCopyObject implements runtime.Object.
func (g *GadgetV3) DeepCopyObject() runtime.Object { return (*GadgetV3)((*GadgetV2)(g).deepCopy()) }

// DeepCopyObject implements runtime.Object.
func (l *GadgetList) DeepCopyObject() runtime.Object {
	out := &GadgetList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].deepCopy())
	}
	return out
}

// Lists in versions are only made, never shared.

// DeepCopyObject implements runtime.Object.
func (l *GadgetListV1) DeepCopyObject() runtime.Object { out := *l; return &out }

// DeepCopyObject implements runtime.Object.
func (l *GadgetListV2) DeepCopyObject() runtime.Object { out := *l; return &out }

// DeepCopyObject implements runtime.Object.
func (l *GadgetListV3) DeepCopyObject() runtime.Object { out := *l; return &out }

func gadgetVersion(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: gadgetGroup, Version: version}
}

// gadgetScheme knows gadgets, and converts them.
func gadgetScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	for version, types := range map[string]struct{ one, list runtime.Object }{
		runtime.APIVersionInternal: {&Gadget{}, &GadgetList{}},
		"v1":                       {&GadgetV1{}, &GadgetListV1{}}, "v2": {&GadgetV2{}, &GadgetListV2{}}, "v3": {&GadgetV3{}, &GadgetListV3{}},
	} {
		s.AddKnownTypeWithName(gadgetVersion(version).WithKind("Gadget"), types.one)
		s.AddKnownTypeWithName(gadgetVersion(version).WithKind("GadgetList"), types.list)
		if version != runtime.APIVersionInternal {
			metav1.AddToGroupVersion(s, gadgetVersion(version))
		}
	}
	for _, add := range []func(*runtime.Scheme) error{
		addConversion(func(in *Gadget, out *GadgetV1) { *out = GadgetV1(*in.deepCopy()) }),
		addConversion(func(in *GadgetV1, out *Gadget) { *out = *(*Gadget)(in).deepCopy() }),
		addConversion(func(in *Gadget, out *GadgetV2) { *out = *rename(in) }),
		addConversion(func(in *GadgetV2, out *Gadget) { *out = *unname(in) }),
		addConversion(func(in *Gadget, out *GadgetV3) { *out = GadgetV3(*rename(in)) }),
		addConversion(func(in *GadgetV3, out *Gadget) { *out = *unname((*GadgetV2)(in)) }),
		addConversion(func(in *GadgetList, out *GadgetListV1) { out.ListMeta = in.ListMeta }), // what is there is listed by no test
		addConversion(func(in *GadgetList, out *GadgetListV2) { out.ListMeta = in.ListMeta }),
		addConversion(func(in *GadgetList, out *GadgetListV3) { out.ListMeta = in.ListMeta }),
	} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, s.SetVersionPriority(gadgetVersion("v1"), gadgetVersion("v2"), gadgetVersion("v3"))
}

func addConversion[From, To any](convert func(*From, *To)) func(*runtime.Scheme) error {
	return func(s *runtime.Scheme) error {
		return s.AddConversionFunc((*From)(nil), (*To)(nil), func(in, out any, _ conversion.Scope) error {
			convert(in.(*From), out.(*To))
			return nil
		})
	}
}

func rename(in *Gadget) *GadgetV2 {
	in = in.deepCopy()
	out := &GadgetV2{ObjectMeta: in.ObjectMeta, Spec: RenamedSpec{Placement: in.Spec.NodeName, Detonation: in.Spec.Boom, Hidden: in.Spec.Secret, Words: in.Spec.Tags}}
	for _, d := range in.Spec.Disks {
		out.Spec.Volumes = append(out.Spec.Volumes, RenamedPart{Label: d.Name, Capacity: d.Size})
	}
	return out
}

func unname(in *GadgetV2) *Gadget {
	in = in.deepCopy()
	out := &Gadget{ObjectMeta: in.ObjectMeta, Spec: GadgetSpec{NodeName: in.Spec.Placement, Boom: in.Spec.Detonation, Secret: in.Spec.Hidden, Tags: in.Spec.Words}}
	for _, v := range in.Spec.Volumes {
		out.Spec.Disks = append(out.Spec.Disks, GadgetPart{Name: v.Label, Size: v.Capacity})
	}
	return out
}

// gadgetPackage begins the names of schemas.
const gadgetPackage = "com.example.renaming."

// OpenAPIModelName is the name of the schema, as below.
func (GadgetV1) OpenAPIModelName() string { return gadgetPackage + "GadgetV1" }

// OpenAPIModelName is the name of the schema.
func (GadgetV2) OpenAPIModelName() string { return gadgetPackage + "GadgetV2" }

// OpenAPIModelName is the name of the schema.
func (GadgetV3) OpenAPIModelName() string { return gadgetPackage + "GadgetV3" }

// OpenAPIModelName is the name of the schema.
func (GadgetListV1) OpenAPIModelName() string { return gadgetPackage + "GadgetListV1" }

// OpenAPIModelName is the name of the schema.
func (GadgetListV2) OpenAPIModelName() string { return gadgetPackage + "GadgetListV2" }

// OpenAPIModelName is the name of the schema.
func (GadgetListV3) OpenAPIModelName() string { return gadgetPackage + "GadgetListV3" }

// gadgetDefinitions are the schemas of gadgets, beside those of the metadata.
func gadgetDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := generatedopenapi.GetOpenAPIDefinitions(ref)
	define := func(name string, s spec.Schema, dependencies ...string) {
		definitions[gadgetPackage+name] = common.OpenAPIDefinition{Schema: s, Dependencies: dependencies}
	}
	meta, listMeta := metav1.ObjectMeta{}.OpenAPIModelName(), metav1.ListMeta{}.OpenAPIModelName()
	define("GadgetPart", partSchema("name", "size", true))
	define("RenamedPart", partSchema("label", "capacity", true))
	define("PlainPart", partSchema("label", "capacity", false))
	define("GadgetSpec", specSchema(ref, "GadgetPart", true, "nodeName", "boom", "secret", "tags", "disks", "name"), gadgetPackage+"GadgetPart")
	define("RenamedSpec", specSchema(ref, "RenamedPart", true, "placement", "detonation", "hidden", "words", "volumes", "label"), gadgetPackage+"RenamedPart")
	define("PlainSpec", specSchema(ref, "PlainPart", false, "placement", "detonation", "hidden", "words", "volumes", "label"), gadgetPackage+"PlainPart")
	for version, specName := range map[string]string{"V1": "GadgetSpec", "V2": "RenamedSpec", "V3": "PlainSpec"} {
		kind := func(metaName string, fields map[string]spec.Schema) spec.Schema {
			fields["apiVersion"], fields["kind"] = *spec.StringProperty(), *spec.StringProperty()
			fields["metadata"] = refTo(ref, metaName)
			return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: fields}}
		}
		define("Gadget"+version, kind(meta, map[string]spec.Schema{"spec": refTo(ref, gadgetPackage+specName)}), meta, gadgetPackage+specName)
		item := refTo(ref, gadgetPackage+"Gadget"+version)
		define("GadgetList"+version, kind(listMeta, map[string]spec.Schema{"items": *spec.ArrayProperty(&item)}), listMeta, gadgetPackage+"Gadget"+version)
	}
	return definitions
}

func refTo(ref common.ReferenceCallback, name string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Default: map[string]any{}, Ref: ref(name)}}
}

func extended(s *spec.Schema, extensions ...string) spec.Schema {
	for i := 0; i < len(extensions); i += 2 {
		s.AddExtension(extensions[i], extensions[i+1])
	}
	return *s
}

const permission = "x-kubernetes-permission-"

func partSchema(key, size string, marked bool) spec.Schema {
	s := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Required: []string{key}, Properties: map[string]spec.Schema{
		key: *spec.StringProperty(), size: *spec.Int64Property(),
	}}}
	if marked {
		s.Properties[key] = extended(spec.StringProperty(), permission+"parameter-source", "disk")
		return extended(&s, permission+"verb", "disk", permission+"parameterized-by", "disk")
	}
	return s
}

func specSchema(ref common.ReferenceCallback, part string, marked bool, node, boom, secret, tags, disks, key string) spec.Schema {
	element := refTo(ref, gadgetPackage+part)
	fields := map[string]spec.Schema{
		node: *spec.StringProperty(), boom: *spec.BoolProperty(), secret: *spec.StringProperty(),
		tags:  extended(spec.ArrayProperty(spec.StringProperty()), "x-kubernetes-list-type", "set"),
		disks: extended(spec.ArrayProperty(&element), "x-kubernetes-list-type", "map"),
	}
	fields[disks].Extensions["x-kubernetes-list-map-keys"] = []any{key}
	if marked {
		fields[node] = extended(spec.StringProperty(), permission+"verb", "nodeAssignment")
		fields[boom] = extended(spec.BoolProperty(), permission+"verb", "selfDestruction", permission+"excluded", "true")
		list := fields[tags]
		fields[tags] = extended(&list, permission+"verb", "tag", permission+"parameter-source", "tag", permission+"parameterized-by", "tag", permission+"parameter-treatment", "slash-delimited-prefix")
	}
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: fields}}
}
