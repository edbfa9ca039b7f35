/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

// TestFineGrainedChangesNothing has the gate FineGrainedAuthorization on, also behind the
// front door, without mappings, and makes the requests of the table on every route, asks the
// reviews of the examples and applies their policies: everything ends as it does with the
// gate off. Besides, what is asked in reviews about each request of the table is answered as
// by a server with the gate off.
func TestFineGrainedChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFine(t)
	offURL, stop, err := f.Replica(t.Context())
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	on := &table{sets: readTable(t), kube: f.kube, clients: map[string]versioned.Interface{}, oracle: newOracle(t, f.kube)}
	on.proviso = f.as(t, "admin-direct", "")
	off := &table{kube: f.kube, proviso: f.as(t, "admin-direct", offURL)}
	for _, user := range []string{"alice", "bob", "carol"} {
		for _, route := range enforcementRoutes {
			on.clients[user+route.suffix] = f.as(t, user+route.suffix, "")
		}
	}
	var requests, questions atomic.Int32
	t.Run("sets", func(t *testing.T) {
		for _, set := range on.sets {
			t.Run(set.Set, func(t *testing.T) {
				t.Parallel()
				on.install(t, set)
				off.install(t, set)
				for _, row := range set.Rows {
					if row.By == "kubectl" && row.Do == "client-apply" {
						continue // sends what it finds out only then
					}
					row.By = ""
					for _, route := range enforcementRoutes {
						c := &tableCase{tableRow: row, set: set, route: route.name}
						t.Run(route.name+"/"+row.Name, func(t *testing.T) { on.run(t, c, row.As+route.suffix) })
						requests.Add(1)
					}
					c := &tableCase{tableRow: row, set: set, route: "reviews"}
					for _, mode := range []authorizationv1alpha1.ConditionsMode{"", authorizationv1alpha1.ConditionsModeHumanReadable, authorizationv1alpha1.ConditionsModeOptimized} {
						conditional := &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: mode}
						if mode == "" {
							conditional = nil
						}
						attributes := c.attributes(occasion{subresource: c.Sub}, c.firstQuestion())
						if diff := cmp.Diff(off.askAdmin(t, c, attributes, conditional), on.askAdmin(t, c, attributes, conditional)); diff != "" {
							t.Errorf("%s: the answer to a review in mode %q (-off +on):\n%s", row.Name, mode, diff)
						}
						questions.Add(1)
					}
				}
			})
		}
	})
	t.Logf("%d requests, %d questions", requests.Load(), questions.Load())
	if requests.Load() < 600 || questions.Load() < 900 {
		t.Errorf("%d requests and %d questions prove little", requests.Load(), questions.Load())
	}
	f.checkExamples(t)
}

// as is a client in a context of the cluster, or of another server with the same users.
func (f *fine) as(t *testing.T, user, url string) versioned.Interface {
	t.Helper()
	c, err := f.Client(user)
	if err != nil {
		t.Fatal(err)
	}
	c.QPS = -1
	if url != "" {
		c.Host = url
	}
	client, err := versioned.NewForConfig(rest.CopyConfig(c))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// checkExamples compares what becomes of the examples with their golden files, which are
// those of a server with the gate off.
func (f *fine) checkExamples(t *testing.T) {
	t.Helper()
	mustRun := func(user string, args ...string) string {
		t.Helper()
		out, errs, err := f.run(t, user, "", "", args...)
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, errs)
		}
		return out
	}
	for _, file := range examples(t) {
		for _, user := range []string{"alice", "alice-direct"} {
			golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".golden.yaml", mustRun(user, "create", "-f", file, "-o", "yaml"))
			if _, errs, err := f.run(t, strings.Replace(user, "alice", "carol", 1), "", "", "create", "-f", file); (err == nil) != strings.Contains(filepath.Base(file), "self") {
				t.Errorf("%s by carol: %v: %s", file, err, errs)
			}
		}
	}
	for _, tc := range useCases {
		policies := useCaseFile(tc.name, "policy.yaml")
		mustRun("admin", "apply", "-f", policies)
		mustRun("admin", "wait", "--for=condition=Ready", "--timeout=30s", "-f", policies)
		golden.Compare(t, useCaseFile(tc.name, "review.golden.yaml"), mustRun("bob", "create", "-f", useCaseFile(tc.name, "review.yaml"), "-o", "yaml"))
		if client := f.as(t, "bob", ""); tc.atOnce {
			checkAnswers(t, client, tc.name)
		} else {
			checkConditions(t, client, tc.name)
		}
		mustRun("admin", "delete", "-f", policies)
	}
}
