/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/standin"
)

// TestOutput prints answers and lists for programs. What could control a terminal is escaped, and an error prints no report.
func TestOutput(t *testing.T) {
	t.Parallel()
	onX := onCondition("Allow", `object.x == "a" || object.y == "\u202e"`)
	refused := authorizationv1alpha1.SubjectAccessReviewStatus{Reason: "no \u202e\n---\n\x1b[2J policy: b", EvaluationError: "it failed"}
	pods := authorizationv1.ResourceRule{Verbs: []string{"create", "get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}}
	list := byAction(map[string]bool{"create virtualmachines": true, "delete virtualmachines": true}, map[string]authorizationv1alpha1.SubjectAccessReviewStatus{"create virtualmachines": onX, "delete virtualmachines": allowed})
	list[reviewOfRules] = rulesSay("a webhook \u202e", pods)
	none := byAction(nil, nil)
	none[reviewOfRules] = rulesSay("")
	var text strings.Builder
	for _, tc := range []struct {
		args    string
		answers standin.Answers
	}{
		{"create pods -o json", standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: provisoSays(allowed)}},
		{"delete pods -n n -o json", standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: provisoSays(onX)}},
		{"delete pods -n n -o yaml", standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: provisoSays(onX)}},
		{"get pods/a --subresource=log -o json", standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: provisoSays(refused)}},
		{"get pods/a --subresource=log -o yaml", standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: provisoSays(refused)}},
		{"get /healthz -o json", standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: nil}},
		{"create pods -q -o json", standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: provisoSays(allowed)}},
		{"create pods -o json", standin.Answers{reviewOfKube: kubeSays(true, ""), reviewOfProviso: errEtcd}},
		{"--list -n n -o json", list},
		{"--list -n n -o yaml", none},
	} {
		answers := standin.Answers{}
		maps.Copy(answers, tc.answers)
		out, errOut, code := canI(t.Context(), t, answers, "", strings.Fields(tc.args)...)
		fmt.Fprintf(&text, "$ kubectl proviso can-i %s\n%s", tc.args, out)
		for line := range strings.Lines(errOut) {
			text.WriteString("stderr: " + line)
		}
		fmt.Fprintf(&text, "exit code %d\n\n", code)
		if code == 2 && out != "" {
			t.Errorf("%s: an error prints %s", tc.args, out)
		}
	}
	golden.Compare(t, filepath.Join("testdata", "output.golden.txt"), text.String())
}
