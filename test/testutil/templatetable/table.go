/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package templatetable has, for each template of artifacts/templates, the requests that it is meant for and the ways to step around it,
// with their outcomes on clusters with the front door and on managed clusters. docs/templates.md shows them.
//
// A file of testdata is the table of a template. The group before has requests of an administrator, and the group requests has the requests of the document, which are sent in this order. A row with by
// is refused by this policy, also if RBAC allows the user everything; any other row passes.
package templatetable

import (
	"embed"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// The marks of rows.
const (
	// byRole: no barrier refuses the request on a managed cluster, and the role of the template does not grant it.
	byRole = "role"
	// byBudget: a PodDisruptionBudget refuses the request where no policy does.
	byBudget = "budget"
	// isReview: an administrator asks by the review whether the user may do it, because the administrator cannot do it as the user. It is refused if the review does not allow it.
	isReview = "review"
)

// names are the names of the templates, in the order of the document.
var names = []string{
	"restart-and-scale", "everything-but-secrets", "names-by-prefix", "own-finalizer", "owner-label", "protection", "ai-agent", "ci-bot",
}

//go:embed testdata/*.yaml
var tables embed.FS

// Template is a folder of artifacts/templates.
type Template struct {
	// Name is the name of the folder.
	Name string `json:"-"`
	// Managed says in a few words where the template holds on a cluster without the front door.
	Managed string

	*requests.Table `json:"-"`
}

// Templates returns all templates, in the order of the document.
func Templates(t *testing.T) (templates []*Template) {
	t.Helper()
	for _, name := range names {
		content, err := tables.ReadFile("testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		template := &Template{Name: name}
		if template.Table, err = requests.Read(content, template, byRole, byBudget, isReview); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		templates = append(templates, template)
	}
	return templates
}

// Requests are the requests of the document.
func (template *Template) Requests() []*requests.Row { return template.Rows["requests"] }

// What says in a few words what a request does, as the document shows it.
func (template *Template) What(row *requests.Row) string {
	what := row.Name
	if len(row.Command) > 0 {
		what = "`kubectl " + strings.Join(row.Command, " ") + "`"
	}
	if row.User != template.As && !strings.Contains(what, " as ") {
		what += ", as " + row.User.Name
	}
	return what
}

// Outcome returns what happens to a request, with the front door or on a managed cluster without it, as the document shows it.
func Outcome(row *requests.Row, frontDoor bool) string {
	switch {
	case row.Is(byBudget) && (row.By == "" || !frontDoor):
		return "refused by the PodDisruptionBudget"
	case row.By == "":
		return "passes"
	case !frontDoor && row.Is(byRole):
		return "refused by the role"
	default:
		return "refused by `" + row.By[strings.LastIndex(row.By, "/")+1:] + "`"
	}
}
