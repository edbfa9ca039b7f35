/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package answer

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/cel-go/common/ast"
	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

func TestNamed(t *testing.T) {
	t.Parallel()
	long := `object.metadata.labels["example.com/team"]`
	for _, tc := range []struct {
		name, condition string
		variables       []policyv1alpha1.Variable
		width           int
		want            string
	}{
		{name: "a short condition", condition: `dyn(object).x == 1`, width: 40, want: `dyn(object).x == 1`},
		{name: "no condition", condition: "type is Opaque and name is a", want: "type is Opaque and name is a"},
		{name: "a variable", condition: `object.spec.x == "a"`, variables: []policyv1alpha1.Variable{{Name: "x", Expression: "object.spec.x"}}, want: `variables.x == "a"` + "\nvariables.x = object.spec.x"},
		{
			name: "variables in variables, without types", condition: `dyn(dyn(object).spec).x == "a"`, variables: []policyv1alpha1.Variable{{Name: "other", Expression: "object.status"}, {Name: "spec", Expression: "dyn(object).spec"}, {Name: "x", Expression: "variables.spec.x"}},
			want: `variables.x == "a"` + "\nvariables.spec = object.spec\nvariables.x = variables.spec.x",
		},
		{
			name: "terms in the middle", condition: `object.a && object.b && object.c && object.d`, variables: []policyv1alpha1.Variable{{Name: "bc", Expression: "object.b && object.c"}},
			want: "object.a && variables.bc && object.d\nvariables.bc = object.b && object.c",
		},
		{name: "terms in another order", condition: `object.c && object.b`, variables: []policyv1alpha1.Variable{{Name: "bc", Expression: "object.b && object.c"}}, want: "object.c && object.b"},
		{name: "a macro", condition: `object.l.all(k, k in object.l)`, variables: []policyv1alpha1.Variable{{Name: "l", Expression: "object.l"}}, want: "variables.l.all(k, k in variables.l)\nvariables.l = object.l"},
		{name: "a constant has no name", condition: `object.a == 1`, variables: []policyv1alpha1.Variable{{Name: "one", Expression: "1"}}, want: "object.a == 1"},
		{name: "repeated parts", condition: long + ` == "a" || ` + long + ` == "b"`, want: `x1 == "a" || x1 == "b"` + "\nx1 = " + long},
		{name: "a repeated part of a macro", condition: `object.l.all(k, k.aaaaaaaaaaaaaaaaaaaaaaaaaaa == 1 || k.aaaaaaaaaaaaaaaaaaaaaaaaaaa == 2)`, want: `object.l.all(k, k.aaaaaaaaaaaaaaaaaaaaaaaaaaa == 1 || k.aaaaaaaaaaaaaaaaaaaaaaaaaaa == 2)`},
	} {
		if diff := cmp.Diff(tc.want, strings.Join(Named(tc.condition, tc.variables, tc.width), "\n")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.name, diff)
		}
	}
}

// TestNamedStandsForTheCondition puts the parts in place of their names again, for the policies in the artifacts: the result is the condition.
func TestNamedStandsForTheCondition(t *testing.T) {
	t.Parallel()
	conditions, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := partial.NewPolicyCompiler(conditions)
	if err != nil {
		t.Fatal(err)
	}
	withNames := 0
	check := func(file, condition string, variables []policyv1alpha1.Variable) {
		n := &namer{factory: ast.NewExprFactory()}
		want, ok := n.parse(condition)
		if !ok {
			t.Fatalf("%s: %s", file, condition)
		}
		lines := Named(condition, variables, 0)
		definitions := map[string]ast.Expr{}
		inline := func(text string) ast.Expr {
			tree, ok := n.parse(text)
			if !ok {
				t.Fatalf("%s: %s", file, text)
			}
			ast.PostOrderVisit(tree, ast.NewExprVisitor(func(e ast.Expr) {
				if of := definitions[n.text(e)]; of != nil {
					e.SetKindCase(n.factory.CopyExpr(of))
				}
			}))
			return tree
		}
		for _, line := range lines[1:] {
			name, text, _ := strings.Cut(line, " = ")
			definitions[name] = inline(text)
			withNames++
		}
		flat := func(text string) string { return strings.NewReplacer("(", "", ")", "").Replace(text) } // && and || have no order of evaluation
		if got := n.text(inline(lines[0])); flat(got) != flat(n.text(want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, n.text(want))
		}
	}
	err = filepath.WalkDir("../../../artifacts", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.Open(path)
		if err != nil {
			return err
		}
		defer content.Close()
		decoder := utilyaml.NewYAMLOrJSONDecoder(content, 4096)
		for {
			p := policyv1alpha1.ClusterAuthorizationPolicy{}
			if err := decoder.Decode(&p); err != nil {
				return nil // the end, or another kind
			}
			if !strings.HasSuffix(p.Kind, "AuthorizationPolicy") || p.Spec.Condition == "" {
				continue
			}
			var named []cel.NamedExpression
			for _, v := range p.Spec.Variables {
				named = append(named, cel.NamedExpression(v))
			}
			expression, err := compiler.CompileWithVariables(named, p.Spec.Condition)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			check(path, expression.Text(), p.Spec.Variables)
			check(path, expression.Text(), nil)
		}
	})
	if err != nil || withNames < 80 {
		t.Errorf("%d names, %v", withNames, err)
	}
}
