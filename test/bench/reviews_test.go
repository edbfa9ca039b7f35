/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/server"
)

const review = `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","request":{
"operation":"CREATE","object":{"metadata":{"name":"data"},"spec":{"storageClassName":"dev"}},
"conditionSets":[{"authorizerName":"policies","conditions":[
{"id":"example.com/dev","effect":"Allow","type":"k8s.io/authorization-cel","condition":"object.spec.storageClassName == \"dev\"%s"}]}]}}`

// BenchmarkConditionsReview is a whole request to the endpoint, without a network: the
// handler chain, decoding, evaluation, encoding. One operation is one review.
func BenchmarkConditionsReview(b *testing.B) {
	allow := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	s := server.New(b, server.Config{Authorizer: allow})
	post := func(body string) {
		r := httptest.NewRequest(http.MethodPost, "/apis/authorization.k8s.io/v1alpha1/authorizationconditionsreviews", strings.NewReader(body))
		r.Header.Set(server.UserHeader, "alice")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"allowed":true`) {
			b.Fatal(w.Body)
		}
	}
	b.Run("program=cached", func(b *testing.B) {
		for b.Loop() {
			post(fmt.Sprintf(review, ""))
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reviews/s")
	})
	b.Run("program=uncached", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			post(fmt.Sprintf(review, strings.Repeat(" ", i%5000)+strings.Repeat(`\n`, i/5000)))
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reviews/s")
	})
}

// start runs a control plane for the benchmark.
func start(b *testing.B) *cluster.Cluster {
	b.Helper()
	return startWith(b, nil)
}

// startWith is start with an inner door, if it is not nil.
func startWith(b *testing.B, innerDoor *cluster.InnerDoor) *cluster.Cluster {
	b.Helper()
	c := newCluster(b, cluster.Config{InnerDoor: innerDoor, Token: true})
	if err := c.Up(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}

// newCluster prepares a control plane, and stops its servers when the benchmark ends.
func newCluster(b *testing.B, config cluster.Config) *cluster.Cluster {
	b.Helper()
	wd, err := os.Getwd()
	if err != nil {
		b.Fatal(err)
	}
	repository := filepath.Dir(filepath.Dir(wd))
	if config.Dir, err = os.MkdirTemp("", "bench"); err != nil { // short enough for a socket
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(config.Dir) })
	config.Bin, config.Manifests = filepath.Join(repository, "_output", "bin"), filepath.Join(repository, "artifacts")
	c, err := cluster.New(config)
	if err != nil {
		b.Fatal(err)
	}
	c.StopAfter(b)
	return c
}
