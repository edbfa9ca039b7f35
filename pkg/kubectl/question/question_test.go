/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package question_test

import (
	"errors"
	"net/url"
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

// counting counts the resources that a mapper does not know.
type counting struct {
	meta.RESTMapper
	unknown int
}

func (c *counting) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	found, err := c.RESTMapper.ResourceFor(r)
	if err != nil {
		c.unknown++
	}
	return found, err
}

func TestReadResource(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	mapper.Add(deployment, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "farm.example.com", Version: "stable", Kind: "Widget"}, meta.RESTScopeNamespace)
	widgets := schema.GroupVersionResource{Group: "farm.example.com", Version: "stable", Resource: "widgets"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for _, tc := range []struct {
		argument, name, warning string
		want                    schema.GroupVersionResource
		unknown                 int
	}{
		{argument: "deployments", want: deployments},
		{argument: "Deployment.apps/a", want: deployments, name: "a"},
		{argument: "deployments.v1.apps", want: deployments},
		{argument: "widgets.farm.example.com", want: widgets},
		{argument: "widgets.stable.farm.example.com", want: widgets, unknown: 1},
		{argument: "*", want: schema.GroupVersionResource{Resource: "*"}},
		{argument: "users", want: schema.GroupVersionResource{Resource: "users"}, unknown: 1},
		{argument: "unicorns.example.com/a/b", want: schema.GroupVersionResource{Resource: "unicorns.example.com"}, name: "a/b", warning: "the server doesn't have a resource type 'unicorns' in group 'example.com'", unknown: 2},
	} {
		q, warning, counting := question.Question{}, "", &counting{RESTMapper: mapper}
		if err := q.ReadResource(counting, tc.argument, func(text string) { warning = text }); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(question.Question{Resource: tc.want, Name: tc.name}, q); diff != "" || warning != tc.warning {
			t.Errorf("%s: warning %q, -want +got:\n%s", tc.argument, warning, diff)
		}
		if counting.unknown != tc.unknown {
			t.Errorf("%s: the mapper was asked for %d unknown resources, want %d", tc.argument, counting.unknown, tc.unknown)
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
	} {
		if got := tc.question.IsNameless(); got != tc.want {
			t.Errorf("%+v: got %v", tc.question, got)
		}
	}
}
