/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"

	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// TestPermissionsAreDocumented compares docs/permissions.md with the permissions that are
// built in and those of our schemas, which must also be what KEP-3617 says they should be.
func TestPermissionsAreDocumented(t *testing.T) {
	t.Parallel()
	config := genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(apiserver.Scheme))
	fields, err := apiserver.NewFields(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range fields.Markers.Warnings() {
		t.Error(warning)
	}
	builtIn, marked := mapping.ListBuiltIn(), fields.Markers.List()
	if len(builtIn) == 0 || len(marked) == 0 {
		t.Fatalf("found %d permissions that are built in and %d in schemas", len(builtIn), len(marked))
	}
	var b strings.Builder
	b.WriteString("| resource | field | verb | parameter | excluded from permission on the whole object |\n| --- | --- | --- | --- | --- |\n")
	for _, p := range append(builtIn, marked...) {
		excluded := "no"
		if p.Excluded {
			excluded = "yes"
		}
		fmt.Fprintf(&b, "| %s | `%s` | `%s` | %s | %s |\n", resourceText(p), p.Field, p.Verb, p.Parameter, excluded)
	}
	golden.CompareSection(t, filepath.Join(root(t), "docs", "permissions.md"), "permissions", b.String())
}

func resourceText(p mapping.Listed) string {
	switch {
	case p.Resource.Resource == "":
		return "every resource"
	case p.Resource.Version == "":
		return "`" + p.Resource.GroupResource().String() + "`"
	}
	return fmt.Sprintf("`%s` in %s", p.Resource.GroupResource(), p.Resource.Version)
}
