/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/explain"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// TestDocuments explains requests for other commands. Nothing but the documents is read: without policies the cluster is not asked, and the
// files of a PolicyTest are not read.
func TestDocuments(t *testing.T) {
	t.Parallel()
	compilers, err := simulation.NewCompilers()
	if err != nil {
		t.Fatal(err)
	}
	const object = "object: {apiVersion: v1, kind: Thing, spec: {class: gold}}"
	allow, request := policy("a", "Allow", `object.spec.class == "dev"`), review("create", "things", "")
	for _, tc := range []struct {
		name, text string
		rbacAllows bool
		decision   answer.Verdict
		nearMiss   string
		conditions int
		want       string // in the error
	}{
		{name: "an object", text: joined(allow, request, data("CREATE", object)), decision: answer.No, nearMiss: `set spec.class to "dev" (now "gold")`, conditions: 1},
		{name: "no object", text: joined(allow, request), decision: answer.YesIf, conditions: 1},
		{name: "RBAC", text: joined(allow, request, data("CREATE", object)), rbacAllows: true, decision: answer.Yes},
		{name: "no policies", text: request, want: "there are no policies"},
		{name: "a PolicyTest", text: joined(request, "{apiVersion: test.proviso.dev/v1alpha1, kind: PolicyTest, policies: [/etc/passwd]}"), want: "names files, which are not read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			documents, err := document.ReadText("text", tc.text)
			if err != nil {
				t.Fatal(err)
			}
			r, errs := explain.Documents(t.Context(), compilers, documents, tc.rbacAllows)
			if tc.want != "" {
				if len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want) {
					t.Errorf("got %v, want %s", errs, tc.want)
				}
				return
			}
			if len(errs) > 0 || r.Decision != tc.decision || r.NearMiss != tc.nearMiss || len(r.Conditions) != tc.conditions || r.Tree == nil {
				t.Errorf("got %+v, %v", r, errs)
			}
		})
	}
}
