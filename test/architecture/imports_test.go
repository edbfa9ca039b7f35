/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/proviso-authz/proviso"

// layers are the parts of the repository, and which other parts each may import: the
// arrows that the picture in ARCHITECTURE.md sums up. Parts may always import themselves
// and what lies beneath their own folder. The longest matching prefix of a package names its part.
var layers = map[string][]string{
	"apis":      {},
	"generated": {"apis"},

	"pkg/version":       {},
	"pkg/cel":           {"pkg/cel/internal", "pkg/cel/presence", "pkg/suggestion"},
	"pkg/etcd":          {},
	"pkg/authorization": {"apis", "pkg/cel", "pkg/excerpt", "pkg/metricset"},
	"pkg/controller":    {},
	"pkg/policy":        {"apis", "generated", "pkg/authorization", "pkg/barrier", "pkg/cel", "pkg/controller", "pkg/excerpt", "pkg/metricset", "pkg/policy/enforcementstatus", "pkg/policy/typechecking", "pkg/suggestion"},
	"pkg/excerpt":       {},
	"pkg/features":      {},
	"pkg/freshness":     {},
	"pkg/enforcement":   {"apis", "pkg/authorization", "pkg/cel", "pkg/excerpt", "pkg/metricset"},
	"pkg/admission":     {"pkg/enforcement"},
	"pkg/memo":          {},
	"pkg/metricset":     {},
	"pkg/slots":         {},
	"pkg/registration":  {"pkg/metricset"},
	"pkg/aggregated":    {"apis", "generated", "pkg/controller", "pkg/freshness", "pkg/registration"},
	"pkg/suggestion":    {},
	"pkg/barrier":       {"apis", "pkg/authorization", "pkg/cel", "pkg/excerpt", "pkg/granular/mapping", "pkg/innerdoor/manifest", "pkg/memo"},
	"pkg/door":          {},
	"pkg/frontdoor":     {"apis", "pkg/authorization", "pkg/authorization/upstreamform", "pkg/door", "pkg/innerdoor", "pkg/metricset", "pkg/place", "pkg/slots"},
	"pkg/place":         {"apis", "pkg/authorization", "pkg/innerdoor", "pkg/policy/enforcementstatus"},
	"pkg/innerdoor":     {"pkg/authorization", "pkg/authorization/upstreamform", "pkg/door", "pkg/excerpt", "pkg/metricset", "pkg/slots"},
	"pkg/impersonation": {"apis", "pkg/authorization", "pkg/cel", "pkg/excerpt"},
	"pkg/registry":      {"apis", "pkg/authorization", "pkg/cel", "pkg/excerpt", "pkg/impersonation", "pkg/slots"},
	"pkg/granular":      {"pkg/authorization", "pkg/freshness", "pkg/granular/changes", "pkg/granular/mapping", "pkg/metricset"},

	"pkg/authorization/celeval":      {"pkg/authorization", "pkg/cel"},
	"pkg/authorization/engine":       {"apis", "pkg/authorization", "pkg/cel", "pkg/freshness"},
	"pkg/authorization/node":         {},
	"pkg/authorization/order":        {"pkg/authorization/engine"},
	"pkg/authorization/upstreamform": {"apis", "pkg/authorization"},
	"pkg/authorization/webhook":      {"apis", "pkg/authorization", "pkg/authorization/upstreamform", "pkg/cel", "pkg/excerpt", "pkg/metricset"},
	"pkg/innerdoor/manifest":         {"pkg/innerdoor"},
	"pkg/innerdoor/installation":     {"apis", "pkg/innerdoor", "pkg/innerdoor/manifest"},
	"pkg/innerdoor/probe":            {"pkg/cluster", "pkg/innerdoor", "pkg/metricset"},
	"pkg/cluster":                    {"pkg/excerpt", "pkg/innerdoor"},
	"pkg/barrier/barriercontroller":  {"apis", "generated", "pkg/authorization", "pkg/barrier", "pkg/controller", "pkg/excerpt", "pkg/granular/mapping", "pkg/metricset"},
	"pkg/barrier/rollout":            {"apis", "pkg/authorization", "pkg/barrier", "pkg/cluster", "pkg/innerdoor", "pkg/metricset"},
	"pkg/policy/enforcementstatus":   {"apis", "pkg/cel", "pkg/excerpt"},
	"pkg/policy/typechecking":        {"apis", "pkg/cel", "pkg/excerpt", "pkg/suggestion"},
	"pkg/cel/bound":                  {"pkg/cel"},
	"pkg/cel/costbound":              {"pkg/cel"},
	"pkg/cel/explanation":            {"pkg/cel"},
	"pkg/cel/partial":                {"pkg/cel", "pkg/memo", "pkg/suggestion"},
	"pkg/cel/presence":               {},
	"pkg/cel/internal/engine":        {"pkg/cel/internal/guard"},
	"pkg/cel/internal/guard":         {},
	"pkg/cel/internal/syntax":        {"pkg/cel"},
	"pkg/granular/changes":           {"pkg/excerpt"},
	"pkg/granular/mapping":           {"apis", "pkg/cel", "pkg/excerpt", "pkg/freshness", "pkg/granular/changes"},
	"pkg/granular/mappingcontroller": {"apis", "generated", "pkg/controller", "pkg/granular/mapping", "pkg/metricset"},

	"pkg/apiserver": {
		"apis", "generated", "pkg/version", "pkg/cel", "pkg/etcd", "pkg/authorization", "pkg/registry", "pkg/policy",
		"pkg/admission", "pkg/aggregated", "pkg/barrier", "pkg/cluster", "pkg/controller", "pkg/frontdoor", "pkg/enforcement", "pkg/features", "pkg/freshness", "pkg/granular", "pkg/impersonation", "pkg/innerdoor", "pkg/metricset", "pkg/place", "pkg/registration",
	},

	"artifacts": {},

	"pkg/kubectl": {"apis", "artifacts", "generated", "pkg/authorization", "pkg/barrier", "pkg/cel", "pkg/excerpt", "pkg/granular/mapping", "pkg/innerdoor/manifest", "pkg/policy", "pkg/suggestion", "pkg/version"},

	"cmd":  {"pkg/apiserver", "pkg/kubectl"},
	"hack": {"generated", "test/testutil"},
	"test": {"apis", "generated", "pkg"},
}

// root is the root of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(dir))
}

// imports returns what each package of the module imports from it, tests aside. It
// reads the files itself: a test that runs `go list` is answered from the test cache
// when a package is new.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	base := root(t)
	result := map[string][]string{}
	err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != base && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != base {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(base, filepath.Dir(path))
		if err != nil {
			return err
		}
		result[filepath.ToSlash(relative)] = append(result[filepath.ToSlash(relative)], ours(file.Imports)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// partOf returns the part of the repository that a package belongs to.
func partOf(pkg string) (string, bool) {
	best := ""
	for part := range layers {
		if (pkg == part || strings.HasPrefix(pkg, part+"/")) && len(part) > len(best) {
			best = part
		}
	}
	return best, best != ""
}

// violations returns the imports that go against the arrows.
func violations(imports map[string][]string) []string {
	var found []string
	for pkg, imported := range imports {
		from, ok := partOf(pkg)
		if !ok {
			found = append(found, fmt.Sprintf("%s belongs to no part of the repository; add it to layers", pkg))
			continue
		}
		for _, i := range imported {
			to, ok := partOf(i)
			allowed := to == from || slices.ContainsFunc(layers[from], func(part string) bool {
				return i == part || strings.HasPrefix(i, part+"/")
			})
			if !ok || !allowed {
				found = append(found, fmt.Sprintf("%s must not import %s", pkg, i))
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestDependenciesPointOneWay(t *testing.T) {
	t.Parallel()
	found := imports(t)
	if len(found) < 20 {
		t.Fatalf("only %d packages were found, so the test proves nothing", len(found))
	}
	for _, violation := range violations(found) {
		t.Error(violation)
	}
}

// unused returns the declared arrows that no package follows.
func unused(imports map[string][]string) []string {
	followed := map[string]bool{}
	for pkg, imported := range imports {
		from, _ := partOf(pkg)
		for _, i := range imported {
			for _, to := range layers[from] {
				if i == to || strings.HasPrefix(i, to+"/") {
					followed[from+" -> "+to] = true
				}
			}
		}
	}
	var found []string
	for from, allowed := range layers {
		for _, to := range allowed {
			if arrow := from + " -> " + to; !followed[arrow] {
				found = append(found, arrow)
			}
		}
	}
	slices.Sort(found)
	return found
}

// TestArrowsAreUsed asks that the table permits nothing that is not needed.
func TestArrowsAreUsed(t *testing.T) {
	t.Parallel()
	for _, arrow := range unused(imports(t)) {
		t.Errorf("%s: no package needs it; remove it from layers", arrow)
	}
	if len(unused(nil)) == 0 {
		t.Error("arrows that nothing follows are not found")
	}
}

// TestViolationsAreFound makes sure that the check can fail.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from, to string
		want     bool
	}{
		{"pkg/cel", "pkg/authorization", true},
		{"pkg/cel/internal/guard", "pkg/cel", true},
		{"pkg/cel", "pkg/cel/partial", true},
		{"pkg/cel/bound", "pkg/authorization", true},
		{"pkg/cel", "pkg/cel/internal/guard", false},
		{"pkg/cel", "apis/authorization", true},
		{"apis/demo", "pkg/cel", true},
		{"pkg/registry/demo/virtualmachine", "pkg/apiserver", true},
		{"pkg/registry/policy/authorizationpolicy", "pkg/policy", true},
		{"cmd/proviso-apiserver", "pkg/cel", true},
		{"pkg/kubectl/render", "pkg/apiserver", true},
		{"pkg/policy/typechecking", "pkg/registry", true},
		{"pkg/frontdoor", "pkg/policy", true},
		{"pkg/registry/authorization/subjectaccessreview", "pkg/frontdoor", true},
		{"pkg/granular/changes", "pkg/granular/mapping", true},
		{"pkg/granular/mapping", "pkg/granular", true},
		{"pkg/authorization", "pkg/authorization/engine", true},
		{"pkg/authorization", "pkg/authorization/celeval", true},
		{"pkg/authorization/node", "pkg/authorization", true},
		{"pkg/unheard", "pkg/cel", true},
		{"pkg/authorization/webhook", "pkg/authorization", false},
		{"pkg/policy/typechecking", "apis/policy/v1alpha1", false},
		{"cmd/proviso-apiserver", "pkg/apiserver/options", false},
	} {
		if got := len(violations(map[string][]string{tc.from: {tc.to}})) > 0; got != tc.want {
			t.Errorf("%s imports %s: violation %v, want %v", tc.from, tc.to, got, tc.want)
		}
	}
}

// ours returns the imports from this module, without its path.
func ours(specs []*ast.ImportSpec) []string {
	var result []string
	for _, spec := range specs {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser accepted it, so this cannot be
		}
		if rest, ok := strings.CutPrefix(path, module+"/"); ok {
			result = append(result, rest)
		}
	}
	return result
}

// TestExecutablesHaveTimeZones checks that conditions with time zones have the same value where no files of time zones are, as in the image.
func TestExecutablesHaveTimeZones(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"proviso-apiserver", "kubectl-proviso"} {
		content, err := os.ReadFile(filepath.Join(root(t), "cmd", name, "main.go"))
		if err != nil || !strings.Contains(string(content), `_ "time/tzdata"`) {
			t.Errorf("%s does not import time/tzdata: %v", name, err)
		}
	}
}

// TestTableOfParts checks that no part has two rows in ARCHITECTURE.md.
func TestTableOfParts(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:apis|generated|pkg|cmd|test|hack)[^`]*)`").FindAllStringSubmatch(string(document), -1) {
		if parts[row[1]] {
			t.Errorf("%s has two rows in ARCHITECTURE.md", row[1])
		}
		parts[row[1]] = true
	}
	if len(parts) < 30 {
		t.Errorf("found %d parts in ARCHITECTURE.md", len(parts))
	}
}
