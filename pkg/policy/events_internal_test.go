/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
)

// recorder has events, without their notes.
type recorder []string

func (r *recorder) Event(regarding *corev1.ObjectReference, eventType, reason, _, _ string) {
	*r = append(*r, fmt.Sprintf("%s %s/%s %s: %s %s", regarding.Kind, regarding.Namespace, regarding.Name, regarding.UID, eventType, reason))
}

// statusWith returns a status whose condition Effective has a reason, or none.
func statusWith(reason string) (status policyv1alpha1.AuthorizationPolicyStatus) {
	if reason != "" {
		effective := metav1.Condition{Type: policyv1alpha1.PolicyEffective, Status: metav1.ConditionFalse, Reason: reason}
		if reason == "Enforced" {
			effective.Status = metav1.ConditionTrue
		}
		status.Conditions = []metav1.Condition{{Type: policyv1alpha1.PolicyReady, Status: metav1.ConditionTrue}, effective}
	}
	return status
}

// TestEvents has two replicas write the status of a policy in turns. The second word of a step is the replica that writes; both observe what is stored.
func TestEvents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ steps, want []string }{
		"new, and works":                    {steps: []string{" a", "Enforced a"}},
		"new, and does not work":            {steps: []string{" a", "GrantsNothing a"}},
		"new, does not work, and is mended": {steps: []string{" a", "GrantsNothing a", "Enforced a"}, want: []string{"Normal Enforced"}},
		"new, and waits for its barrier":    {steps: []string{" a", "Pending a", "Enforced b"}},
		"changed, and waits again":          {steps: []string{"Enforced a", "Pending a", "Enforced a"}},
		"stops, and works again":            {steps: []string{"Enforced a", "InnerDoorUnknown a", "Enforced b"}, want: []string{"Warning InnerDoorUnknown", "Normal Enforced"}},
		"stops for two reasons":             {steps: []string{"Enforced a", "InnerDoorUnknown a", "GrantsNothing b"}, want: []string{"Warning InnerDoorUnknown"}},
		"its barrier is refused":            {steps: []string{"Enforced a", "Pending b", "NotEnforced a"}, want: []string{"Warning NotEnforced"}},
		"its barrier is refused, and mended": {
			steps: []string{"Enforced a", "NotEnforced a", "Pending b", "Enforced b", "Pending a", "Enforced a"}, want: []string{"Warning NotEnforced", "Normal Enforced"},
		},
		"its barrier is refused again":  {steps: []string{"Enforced a", "NotEnforced a", "Pending b", "NotEnforced a"}, want: []string{"Warning NotEnforced"}},
		"does not compile":              {steps: []string{"Enforced a", "CompileFailed a"}, want: []string{"Warning CompileFailed"}},
		"is audited, and then enforced": {steps: []string{"Enforced a", "Audit a", "Enforced a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var events recorder
			replicas := map[string]*stepper{"a": newStepper(t), "b": newStepper(t)}
			key, stored := engine.Key{Namespace: "n", Name: "p"}, &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
			for i, step := range tc.steps {
				reason, replica, _ := strings.Cut(step, " ")
				for _, each := range replicas {
					each.config.Events = &events
					each.observe(stored)
				}
				_, p, _ := policyOf(stored)
				written := statusWith(reason)
				if i > 0 { // the first one is there
					replicas[replica].effectEvent(key, p, &written)()
				}
				stored = stored.DeepCopy()
				stored.Status = written
			}
			for i := range tc.want {
				tc.want[i] = "AuthorizationPolicy n/p u: " + tc.want[i]
			}
			if !slices.Equal(events, tc.want) {
				t.Errorf("got %q, want %q", events, tc.want)
			}
		})
	}
}

// TestEventsFollowWrites has a policy stop working. There is no event as long as the status cannot be written, and one when it is.
func TestEventsFollowWrites(t *testing.T) {
	t.Parallel()
	s, d, key, events := newStepper(t), &door{}, engine.Key{Name: "p"}, recorder(nil)
	s.accepting()
	s.config.Server, s.config.Events = d.server(), &events
	write := func() error {
		s.publish(t.Context())
		return s.writeStatus(t.Context(), key)
	}
	d.set(true)
	s.put(t, key, "u", policyv1alpha1.PolicyEffectAllow, readsObject)
	if err := write(); err != nil {
		t.Fatal(err)
	}
	s.written(t, key)
	d.set(true, "https://a")
	isChanged := true
	s.config.Client.(*fake.Clientset).PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !isChanged {
			s.observe(action.(clienttesting.UpdateAction).GetObject()) // the watch may be faster than the answer
		}
		return isChanged, nil, apierrors.NewConflict(schema.GroupResource{Resource: "clusterauthorizationpolicies"}, "p", nil)
	})
	if err := write(); !apierrors.IsConflict(err) || len(events) > 0 {
		t.Errorf("got %v, and the events %q", err, events)
	}
	isChanged = false
	if err := write(); err != nil || !slices.Equal(events, recorder{"ClusterAuthorizationPolicy /p u: Warning InnerDoorUnknown"}) {
		t.Errorf("got %v, and the events %q", err, events)
	}
}
