/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/enforcement"
)

// unreadable is an object with a field whose value no type of CEL can hold.
type unreadable struct {
	metav1.TypeMeta `json:",inline"`

	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

func (u *unreadable) DeepCopyObject() runtime.Object { return u }

// TestUnreadableObjects evaluates conditions in text, as an authorization webhook returns them,
// on an object that cannot be read. Such a field looks absent to CEL: that must be an error,
// and neither satisfy an Allow condition nor keep a Deny condition from denying.
func TestUnreadableObjects(t *testing.T) {
	t.Parallel()
	compiler, err := cel.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	text := func(effect authorization.Effect, text string) authorization.Decision {
		return authorization.Conditions(authorization.Condition{ID: "example.com/c", Effect: effect, Type: authorization.ConditionTypeCEL, Text: text})
	}
	for _, tc := range []struct {
		name     string
		decision authorization.Decision
		wantCode int
	}{
		{"an Allow on another field", text(authorization.EffectAllow, `object.name == "n"`), 200},
		{"an Allow on the absence of the field", text(authorization.EffectAllow, `!has(object.count)`), 403},
		{"a Deny on another field", text(authorization.EffectDeny, `object.name != "n"`), 200},
		{"a Deny on the presence of the field", text(authorization.EffectDeny, `has(object.count)`), 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{
				chain: chainOf(t, always(tc.decision), always(afterDeny(tc.decision))), storages: storages,
				adjust: func(c *enforcement.Config) { c.Conditions = compiler },
				behind: func(ctx context.Context, _ *rig) error {
					return admit(ctx, admission.Create, func(to *target) {
						apiVersion, kind := to.kind.ToAPIVersionAndKind()
						to.object = &unreadable{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, Name: "n", Count: 1 << 63}
					})
				},
			})
			got := r.send(http.MethodPost, machines)
			if got.Code != tc.wantCode {
				t.Errorf("got %d %s, want %d", got.Code, got.Body, tc.wantCode)
			}
			if tc.wantCode != 200 && !strings.Contains(got.Body.String(), authorization.ErrUnreadableObjects.Error()) {
				t.Errorf("got %s, want that the object could not be read", got.Body)
			}
		})
	}
}

// afterDeny is what the authorizer after the conditions says: it allows only what they could
// have denied.
func afterDeny(d authorization.Decision) authorization.Decision {
	if d.CanBecomeDenied() {
		return allow
	}
	return authorization.NoOpinion("", nil)
}
