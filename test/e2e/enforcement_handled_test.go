/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
)

// handledMachines stand for the machines in the table where a stand-in for kube-apiserver serves them. They have a group and version that the
// real kube-apiserver serves itself, so that Proviso leaves their conditions to it.
var handledMachines = &tableResource{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: machines}, kind: "VirtualMachine"}

// served changes a set so that its policies are about handledMachines, in a namespace of their own.
func (s *tableSet) served() {
	s.env = s.Set
	s.elsewhere("handled-")
	renamed := func(expression string) string {
		return strings.ReplaceAll(expression, `"`+demov1alpha1.GroupName+`"`, `"`+handledMachines.Group+`"`)
	}
	for i := range s.Policies {
		p := &s.Policies[i]
		p.group, p.Condition = handledMachines.Group, renamed(p.Condition)
		for j := range p.Variables {
			p.Variables[j].Expression = renamed(p.Variables[j].Expression)
		}
		for j, version := range p.Versions {
			if version == machinesVersion {
				p.Versions[j] = handledMachines.Version
			}
		}
	}
}

// TestEnforcementByKubeAPIServerThatHandlesConditions decides the table as a kube-apiserver that handles conditions: a stand-in asks the front door and
// then RBAC, and has conditions evaluated with the objects of the row. It has no connections, which get no conditions. A user who may not
// read the object gets no conditions that allow: such a row may be forbidden, and nothing else.
func TestEnforcementByKubeAPIServerThatHandlesConditions(t *testing.T) {
	alone := startAlone(t, "--feature-gates=UpstreamConditionalDecisions=true")
	client := stack.ClientAt(t, "admin-direct", alone.URL)
	kube, err := kubernetes.NewForConfig(config(t, "admin"))
	must(t, err)
	x := &table{sets: readTable(t), kube: kube, proviso: client}
	server := handling{client: withCA(t, stack.CAFile(), alone.CertFile, alone.KeyFile), url: alone.FrontDoorURL}
	var decided, conditional, unreadable atomic.Int32
	t.Run("sets", func(t *testing.T) {
		for _, set := range x.sets {
			set.served()
			t.Run(set.Set, func(t *testing.T) {
				x.install(t, set)
				for _, row := range set.Rows {
					// The machines of a row are stored in the demo API, where admin finds out what a request would write.
					c := &tableCase{tableRow: row, set: set, route: "direct"} // some policies name its machines
					if !c.decides() || c.connects() {
						continue
					}
					x.prepare(t, c)
					outcome, onConditions := server.outcome(t, c, x.admittedOf(t, c))
					decided.Add(1)
					if onConditions {
						conditional.Add(1)
					}
					want, _ := c.wanted()
					switch {
					case outcome == want:
					case outcome == outcomeForbidden && !server.mayRead(t, c):
						unreadable.Add(1)
					default:
						t.Errorf("%s: the request was %s, want %s", c.Name, outcome, c.Want)
					}
				}
			})
		}
	})
	t.Logf("%d rows were decided, %d of them on conditions; %d were forbidden because the user may not read the object", decided.Load(), conditional.Load(), unreadable.Load())
	if decided.Load() < 150 || conditional.Load() < 100 || unreadable.Load() > decided.Load()/5 {
		t.Errorf("%d rows were decided, %d of them on conditions, and %d users may not read: the table proves little", decided.Load(), conditional.Load(), unreadable.Load())
	}
}

// outcome returns the outcome of a row, and whether it was decided on conditions.
func (h handling) outcome(t *testing.T, c *tableCase, data []admitted) (outcome string, conditional bool) {
	t.Helper()
	if len(data) == 0 { // nothing comes to admission; the verb has to be allowed all the same
		decision, answer := h.authorize(t, c.As, handledAttributes(c, admitted{subresource: c.Sub}, c.firstCheck()))
		if decision == nil && !isAllowed(c, c.Sub, c.firstCheck().verb, answer) {
			return outcomeForbidden, false
		}
		return outcomeAllowed, decision != nil
	}
	outcome = outcomeAllowed
	for _, o := range data {
		for _, q := range o.checks {
			decision, answer := h.authorize(t, c.As, handledAttributes(c, o, q))
			if decision != nil {
				conditional = true
				if o.operation == "" {
					t.Fatalf("%s: a read gets conditions: %s", c.Name, decision)
				}
				answer = h.evaluate(t, decision, admissionRequest(c, o))
			}
			if !isAllowed(c, o.subresource, q.verb, answer) {
				outcome = outcomeForbidden
			}
		}
	}
	return outcome, conditional
}

// isAllowed reports whether the answer of the front door, or RBAC after it, allows a check.
func isAllowed(c *tableCase, subresource, verb, answer string) bool {
	return answer == "Allow" || answer == "NoOpinion" && rbacAllows(c.As, subresource, verb)
}

// mayRead reports whether the user of a row may read what the answer shows. The answer to a create shows what the user has sent.
func (h handling) mayRead(t *testing.T, c *tableCase) bool {
	t.Helper()
	if c.firstCheck().verb == "create" {
		return true
	}
	q := check{"get", c.object()}
	if c.Do == "deletecollection" {
		q = check{"list", ""}
	}
	_, answer := h.authorize(t, c.As, handledAttributes(c, admitted{}, q))
	return isAllowed(c, "", q.verb, answer)
}

func handledAttributes(c *tableCase, o admitted, q check) *authorizationv1.ResourceAttributes {
	attributes := c.attributes(o, q)
	attributes.Group, attributes.Version = handledMachines.Group, handledMachines.Version
	return attributes
}

// admissionRequest returns an AdmissionRequest for a row.
func admissionRequest(c *tableCase, o admitted) map[string]any {
	resource := metav1.GroupVersionResource(handledMachines.GroupVersionResource)
	kind := metav1.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: handledMachines.kind}
	served := func(object map[string]any) map[string]any {
		if object == nil {
			return nil
		}
		object = maps.Clone(object)
		object["apiVersion"] = handledMachines.GroupVersion().String()
		return object
	}
	return map[string]any{
		"uid": "u1", "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource, "subResource": o.subresource, "requestSubResource": o.subresource,
		"name": o.name, "namespace": c.set.namespace(), "operation": o.operation, "userInfo": map[string]any{"username": c.As, "groups": []string{"system:authenticated"}},
		"object": served(o.object), "oldObject": served(o.oldObject), "options": o.options, "dryRun": o.dryRun,
	}
}

// authorize asks with options whether a user may make a request, and returns the decision if it is conditional, or an outcome.
func (h handling) authorize(t *testing.T, user string, attributes *authorizationv1.ResourceAttributes) (conditional json.RawMessage, outcome string) {
	t.Helper()
	return h.review(t, fmt.Sprintf(`{"user": %q, "groups": ["system:authenticated"], "resourceAttributes": %s, "authorizationOptions": {"handledDecisionTypes": ["Allow", "Deny", "NoOpinion", "ConditionsMap", "Union"]}}`,
		user, mustJSON(attributes)))
}
