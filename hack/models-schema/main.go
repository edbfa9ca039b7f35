/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command models-schema prints the generated OpenAPI definitions as one Swagger document. The
// generator of apply configurations reads list types and map keys from it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proviso-authz/proviso/generated/openapi"
)

func main() {
	if err := json.NewEncoder(os.Stdout).Encode(document()); err != nil {
		fmt.Fprintln(os.Stderr, "models-schema:", err)
		os.Exit(1)
	}
}

func document() *spec.Swagger {
	reference := func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + name)
	}
	definitions := spec.Definitions{}
	for name, definition := range openapi.GetOpenAPIDefinitions(reference) {
		definitions[name] = definition.Schema
		// Types that differ between OpenAPI v2 and v3 have their v2 form in an extension.
		if v2, ok := definition.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			definitions[name] = v2
		}
	}
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "Proviso", Version: "unversioned"}},
		Definitions: definitions,
	}}
}
