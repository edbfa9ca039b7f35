/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package engine

import (
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/pkg/authorization/celeval"
	"github.com/proviso-authz/proviso/pkg/cel"
)

// TestFieldsAreTheData asks that a field that is read by itself is what it is in the data
// as a whole, and that there are no others.
func TestFieldsAreTheData(t *testing.T) {
	t.Parallel()
	requirement, err := labels.NewRequirement("l", selection.In, []string{"x", "y"})
	if err != nil {
		t.Fatal(err)
	}
	full := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "alice", UID: "1", Groups: []string{"g", "h"}, Extra: map[string][]string{"k": {"v", "w"}, "none": nil}},
		Verb: "list", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Subresource: "status", Namespace: "n", Name: "d", Path: "/p",
		ResourceRequest:           true,
		FieldSelectorRequirements: fields.Requirements{{Operator: selection.Equals, Field: "f", Value: "1"}},
		LabelSelectorRequirements: labels.Requirements{*requirement},
	}
	for _, tc := range []struct {
		name       string
		attributes authorizer.Attributes
	}{
		{"full", full},
		{"empty", authorizer.AttributesRecord{}},
		{"of nobody in particular", authorizer.AttributesRecord{User: &user.DefaultInfo{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request := &requestFields{Attributes: tc.attributes}
			asData(t, request, requestData(tc.attributes))
			asData(t, &userFields{Info: userOf(tc.attributes)}, celeval.UserData(userOf(tc.attributes)))
			if _, ok := requestData(tc.attributes)["userInfo"].(map[string]any); !ok {
				t.Error("there is no user in the data")
			}
		})
	}
}

func asData(t *testing.T, lazy cel.Fields, data map[string]any) {
	t.Helper()
	whole, ok := lazy.Whole().(traits.Mapper)
	if !ok || whole.Equal(cel.Known(data)) != types.True {
		t.Errorf("got %v as a whole, want %v", lazy.Whole(), data)
	}
	for name, want := range data {
		got, ok := lazy.Field(name)
		if !ok || got.Equal(cel.Known(want)) != types.True || cel.Known(want).Equal(got) != types.True {
			t.Errorf("got %v, %t for %s, want %v", got, ok, name, want)
		}
	}
	for _, name := range []string{"", "Verb", "userinfo", "object", "user", "requirements"} {
		if got, ok := lazy.Field(name); ok || got != nil {
			t.Errorf("got %v for %q, which there is not", got, name)
		}
	}
}

// countingUser counts how often its extra is read.
type countingUser struct {
	user.Info
	reads *int
}

func (u countingUser) GetExtra() map[string][]string {
	*u.reads++
	return u.Info.GetExtra()
}

// TestUserIsConvertedOnce reads the extra of a user many times, as a part of the user, and as a part of the request.
func TestUserIsConvertedOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		read func(userInfo traits.Mapper) ref.Val
	}{
		{"the extra", func(userInfo traits.Mapper) ref.Val { return userInfo.Get(types.String("extra")) }},
		{"the user", func(userInfo traits.Mapper) ref.Val { return userInfo.Size() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			attributes := authorizer.AttributesRecord{User: countingUser{&user.DefaultInfo{Extra: map[string][]string{"k": {"v"}}}, &reads}}
			request, _ := cel.Lazy(&requestFields{Attributes: attributes}).(traits.Mapper)
			for range 10 {
				userInfo, ok := request.Get(types.String("userInfo")).(traits.Mapper)
				if !ok || types.IsError(tc.read(userInfo)) {
					t.Fatalf("got %v", userInfo)
				}
			}
			if reads > 2 { // one conversion reads it twice
				t.Errorf("the extra was read %d times, want one conversion", reads)
			}
		})
	}
}
