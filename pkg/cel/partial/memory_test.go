/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/test/testutil/compilers"
)

// prepared is what a server keeps of a policy.
type prepared struct {
	expression     *partial.Expression
	plan, creation *partial.Plan
}

// prepare compiles a policy of medium size, and plans it.
func prepare(tb testing.TB, c *partial.Compiler, serial int) prepared {
	tb.Helper()
	expression, err := c.CompileWithVariables([]cel.NamedExpression{
		{Name: "subject", Expression: `operation == "DELETE" ? oldObject : object`},
	}, fmt.Sprintf(`request.verb in ["create", "update"] && request.userInfo.groups.exists(g, g.startsWith("dev-%d")) &&
		variables.subject.spec.storageClassName == "class-%d" && object.spec.containers.all(c, c.image.startsWith("registry-%d/" + request.namespace)) &&
		has(object.metadata.labels) && (oldObject == null || oldObject.metadata.labels.owner == request.userInfo.username)`, serial, serial, serial))
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := expression.Plan(cel.Request)
	if err != nil {
		tb.Fatal(err)
	}
	creation, err := expression.Plan(cel.Request, cel.Operation, cel.OldObject)
	if err != nil {
		tb.Fatal(err)
	}
	return prepared{expression, plan, creation}
}

func liveHeap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkPolicyCompile compiles policies, each with the two plans that a server has of it,
// and reports what each keeps of the heap.
func BenchmarkPolicyCompile(b *testing.B) {
	c := compilers.Policies(b)
	prepare(b, c, 0)
	before := liveHeap()
	var policies []prepared
	for b.Loop() {
		policies = append(policies, prepare(b, c, len(policies)))
	}
	b.StopTimer()
	if after := liveHeap(); after > before {
		b.ReportMetric(float64(after-before)/float64(len(policies)), "heap-bytes/policy")
	}
	runtime.KeepAlive(policies)
}

// TestPlansAreMadeAtAnyTime: what the compiler made is dropped, and made again of the text
// for a plan that is asked for later.
func TestPlansAreMadeAtAnyTime(t *testing.T) {
	t.Parallel()
	c := compilers.Policies(t)
	p := prepare(t, c, 1)
	early := p.plan.Eval(t.Context(), request("alice", "delete"))
	expression := p.expression
	runtime.GC()
	runtime.GC()
	plan, err := expression.Plan(cel.Request, cel.DryRun)
	if err != nil {
		t.Fatal(err)
	}
	if late := plan.Eval(t.Context(), request("alice", "delete")); early.IsFalse() != late.IsFalse() {
		t.Errorf("got false %v, want %v", late.IsFalse(), early.IsFalse())
	}
	values := request("alice", "create")
	values[cel.Request] = cel.Known(map[string]any{"verb": "create", "namespace": "n", "userInfo": map[string]any{"username": "alice", "groups": []any{"dev-1"}}})
	plan, err = expression.Plan(cel.Request)
	if err != nil {
		t.Fatal(err)
	}
	const want = `(operation == "DELETE" ? oldObject : object).spec.storageClassName == "class-1" && object.spec.containers.all(c, c.image.startsWith("registry-1/n")) && ` +
		`has(object.metadata.labels) && (oldObject == null || oldObject.metadata.labels.owner == "alice")`
	got, err := plan.Eval(t.Context(), values).Residual().Text()
	if err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// TestLongExpressionsArePlannedAgain plans an expression whose checked form has been collected. With its variables put in, it is
// longer than the parser accepts.
func TestLongExpressionsArePlannedAgain(t *testing.T) {
	t.Parallel()
	variables := []cel.NamedExpression{
		{Name: "a", Expression: `request.name == "` + strings.Repeat("x", 2000) + `"`},
		{Name: "b", Expression: strings.Repeat("variables.a || ", 15) + "variables.a"},
	}
	expression, err := compilers.Policies(t).CompileWithVariables(variables, "dryRun && ("+strings.Repeat("variables.b || ", 3)+"variables.b)")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(expression.Text()); n < 100_000 {
		t.Errorf("the text has %d bytes, want more than the parser accepts", n)
	}
	runtime.GC()
	runtime.GC()
	variables[0].Expression = "true" // the expression has its own copy
	if _, err := expression.Plan(cel.Request); err != nil {
		t.Error(err)
	}
}
