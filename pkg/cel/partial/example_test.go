/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package partial_test

import (
	"context"
	"fmt"

	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
)

// The request is known, the object is not: what is left of each expression is about the object only.
func Example() {
	residuals, err := cel.NewCompiler()
	if err != nil {
		panic(err)
	}
	compiler, err := partial.NewPolicyCompiler(residuals)
	if err != nil {
		panic(err)
	}
	request := cel.Known(map[string]any{"verb": "create", "userInfo": map[string]any{"username": "alice", "groups": []any{"devs"}}})
	for _, text := range []string{
		`request.verb == "create"`,
		`request.verb == "get" && object.spec.size < 10`,
		`request.verb == "create" && object.spec.size < 10`,
		`object.metadata.name == request.userInfo.username`,
		`request.userInfo.groups.exists(g, g == object.group)`,
		`request.userInfo.uid == "" || object.open`,
	} {
		expression, err := compiler.Compile(text)
		if err != nil {
			panic(err)
		}
		plan, err := expression.Plan(cel.Request)
		if err != nil {
			panic(err)
		}
		result := plan.Eval(context.Background(), cel.Values{cel.Request: request})
		switch {
		case result.IsTrue(), result.IsFalse():
			fmt.Println(result.IsTrue())
		case result.Err() != nil:
			fmt.Println(result.Err())
		default:
			residual, err := result.Residual().Text()
			if err != nil {
				panic(err)
			}
			fmt.Println(residual)
		}
	}

	// Output:
	// true
	// false
	// object.spec.size < 10
	// object.metadata.name == "alice"
	// "devs" == object.group
	// object.open || dyn({}["error"])
}
