/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// metric is a metric as the code declares it.
type metric struct {
	name, kind, stability, help string
	labels                      []string
}

// TestMetricsAreDocumented compares docs/metrics.md with the metrics that the code declares.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	found := declaredMetrics(t)
	if len(found) < 5 {
		t.Fatalf("found only %d metrics", len(found))
	}
	var b strings.Builder
	b.WriteString("| metric | type | stability | labels | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, m := range found {
		if m.stability == "" || m.help == "" {
			t.Errorf("%s has no stability or no help", m.name)
		}
		var labels []string
		for _, l := range m.labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.name, m.kind, m.stability, strings.Join(labels, ", "), m.help)
	}
	golden.CompareSection(t, filepath.Join(root(t), "docs", "metrics.md"), "metrics", b.String())
}

// declaredMetrics reads the declarations of the packages, ordered by name.
func declaredMetrics(t *testing.T) []metric {
	t.Helper()
	var found []metric
	err := filepath.WalkDir(filepath.Join(root(t), "pkg"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(path) != "metrics.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		constants := stringConstants(file)
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				m, ok := metricOf(call, constants)
				if !ok {
					m, ok = collectedOf(call, constants)
				}
				if ok {
					found = append(found, m)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return found
}

// metricOf reads a call such as metricSet.CounterVec(name, labels, help). The labels, if there are any, come after the name.
func metricOf(call *ast.CallExpr, constants map[string]string) (metric, bool) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fmt.Sprint(function.X) != "metricSet" || len(call.Args) < 2 {
		return metric{}, false
	}
	m := metric{
		name: stringOf(call.Args[0], constants), kind: strings.TrimSuffix(function.Sel.Name, "Vec"),
		stability: "ALPHA", help: stringOf(call.Args[len(call.Args)-1], constants),
	}
	if labels, ok := call.Args[1].(*ast.CompositeLit); ok && strings.HasSuffix(function.Sel.Name, "Vec") {
		for _, l := range labels.Elts {
			m.labels = append(m.labels, stringOf(l, constants))
		}
	}
	return m, true
}

// collectedOf reads metrics.NewDesc(name, help, labels, nil, metrics.…, ""), which declares a metric that a collector makes.
func collectedOf(call *ast.CallExpr, constants map[string]string) (metric, bool) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "NewDesc" || len(call.Args) != 6 {
		return metric{}, false
	}
	m := metric{name: stringOf(call.Args[0], constants), kind: "Gauge", help: stringOf(call.Args[1], constants), stability: stringOf(call.Args[4], constants)}
	if strings.HasSuffix(m.name, "_total") {
		m.kind = "Counter"
	}
	if labels, ok := call.Args[2].(*ast.CompositeLit); ok {
		for _, l := range labels.Elts {
			m.labels = append(m.labels, stringOf(l, constants))
		}
	}
	return m, true
}

func stringConstants(file *ast.File) map[string]string {
	constants := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
			for i, name := range spec.Names {
				constants[name.Name] = stringOf(spec.Values[i], constants)
			}
		}
		return true
	})
	return constants
}

// stringOf returns a string literal, the value of a constant, or the last part of a
// qualified name.
func stringOf(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if value, err := strconv.Unquote(e.Value); err == nil {
			return value
		}
	case *ast.Ident:
		return constants[e.Name]
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.BinaryExpr:
		return stringOf(e.X, constants) + stringOf(e.Y, constants)
	}
	return ""
}
