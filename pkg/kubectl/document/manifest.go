/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package document

import (
	"bytes"
	"io"

	"go.yaml.in/yaml/v2"

	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

// The formats of manifests.
const (
	YAML = "yaml"
	JSON = "json"
)

// WriteManifests writes objects for kubectl apply: as documents of YAML, or as a JSON list.
func WriteManifests(out io.Writer, objects []map[string]any, format string) error {
	if format == JSON {
		if objects == nil {
			objects = []map[string]any{}
		}
		return printable.WriteJSON(out, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}, "    ")
	}
	var text bytes.Buffer
	for i, object := range objects {
		// Not by way of JSON, as sigs.k8s.io/yaml does: JSON may have characters that YAML cannot have.
		document, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(document)
	}
	_, err := text.WriteTo(out)
	return err
}
