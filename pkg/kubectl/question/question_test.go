/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package question_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

// unreachable is the mapper of a server that does not answer.
type unreachable struct{ meta.RESTMapper }

func (unreachable) ResourceFor(schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, &url.Error{Op: "Get", URL: "https://a", Err: errors.New("refused")}
}

func TestReadResource(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	mapper.Add(deployment, meta.RESTScopeNamespace)
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for _, tc := range []struct {
		argument, name, warning string
		want                    schema.GroupVersionResource
	}{
		{argument: "deployments", want: deployments},
		{argument: "Deployment.apps/a", want: deployments, name: "a"},
		{argument: "deployments.v1.apps", want: deployments},
		{argument: "*", want: schema.GroupVersionResource{Resource: "*"}},
		{argument: "users", want: schema.GroupVersionResource{Resource: "users"}},
		{argument: "unicorns.example.com/a/b", want: schema.GroupVersionResource{Resource: "unicorns.example.com"}, name: "a/b", warning: "the server doesn't have a resource type 'unicorns' in group 'example.com'"},
	} {
		q, warning := question.Question{}, ""
		if err := q.ReadResource(mapper, tc.argument, func(text string) { warning = text }); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(question.Question{Resource: tc.want, Name: tc.name}, q); diff != "" || warning != tc.warning {
			t.Errorf("%s: warning %q, -want +got:\n%s", tc.argument, warning, diff)
		}
	}
	q := question.Question{}
	if err := q.ReadResource(unreachable{}, "pods", func(string) {}); err == nil {
		t.Error("want an error")
	}
}

func TestIsNameless(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		question question.Question
		want     bool
	}{
		{question.Question{Verb: "get"}, true},
		{question.Question{Verb: "get", Name: "a"}, false},
		{question.Question{Verb: "get", NonResourceURL: "/a"}, false},
		{question.Question{Verb: "create"}, false},
		{question.Question{Verb: "list"}, false},
		{question.Question{Verb: "delete"}, true},
		{question.Question{Verb: "create", Subresource: "exec"}, true},
		{question.Question{Verb: "create", Subresource: "exec", Name: "a"}, false},
	} {
		if got := tc.question.IsNameless(); got != tc.want {
			t.Errorf("%+v: got %v", tc.question, got)
		}
	}
}

// TestSelectors has the selectors of questions, and those that no request has.
func TestSelectors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		verb, target, labels, fields string
		wantName, wantErr            string
	}{
		{verb: "list", target: "pods", labels: "team in (a,b)", fields: "spec.nodeName=n"},
		{verb: "watch", target: "pods", fields: "metadata.name=a", wantName: "a"},
		{verb: "list", target: "pods", fields: "metadata.name!=a"},
		{verb: "list", target: "pods", fields: "metadata.name=a/b"},
		{verb: "deletecollection", target: "pods", fields: "metadata.name=a"}, // kube-apiserver reads no name
		{verb: "get", target: "pods", labels: "a=b", wantErr: `--selector and --field-selector are for list, watch and deletecollection, and the verb is "get"`},
		{verb: "list", target: "/healthz", fields: "a=b", wantErr: `--selector and --field-selector are for list, watch and deletecollection, and the verb is "list"`},
		{verb: "list", target: "pods", labels: "a=(", wantErr: "--selector: "},
		{verb: "list", target: "pods", fields: "a", wantErr: "--field-selector: invalid selector: 'a'; can't understand 'a'"},
	} {
		q := question.Question{Verb: tc.verb, LabelSelector: tc.labels, FieldSelector: tc.fields}
		err := q.Check([]string{tc.verb, tc.target}, false)
		if tc.wantErr != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tc.wantErr) {
				t.Errorf("%+v: got %v", tc, err)
			}
			continue
		}
		if err := errors.Join(err, q.ReadResource(meta.NewDefaultRESTMapper(nil), tc.target, func(string) {})); err != nil {
			t.Fatal(err)
		}
		if got := question.RequestOf(q.Record()); got.Name != tc.wantName || got.LabelSelector != tc.labels || got.FieldSelector != tc.fields {
			t.Errorf("%+v: got %+v", tc, got)
		}
	}
}
