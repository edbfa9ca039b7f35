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

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
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

// BenchmarkSubjectAccessReview compares the ways of asking what a user may do. One
// operation is one review over the network of this machine, by one client.
func BenchmarkSubjectAccessReview(b *testing.B) {
	c := start(b)
	spec := authorizationv1.SubjectAccessReviewSpec{User: "bob", ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: "create", Group: "demo.proviso.dev", Version: "v1alpha1", Resource: "virtualmachines", Namespace: "demo"}}

	b.Run("by=kube-apiserver-v1", func(b *testing.B) {
		reviews := kubeClient(b, c, "alice").AuthorizationV1().SubjectAccessReviews()
		for b.Loop() {
			got, err := reviews.Create(b.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			if err != nil || !got.Status.Allowed {
				b.Fatal(got, err)
			}
		}
	})
	for name, user := range map[string]string{"by=proviso-through-aggregator": "alice", "by=proviso-direct": "alice-direct"} {
		b.Run(name, func(b *testing.B) {
			reviews := provisoClient(b, c, user).AuthorizationV1alpha1().SubjectAccessReviews()
			for b.Loop() {
				got, err := reviews.Create(b.Context(), &authorizationv1alpha1.SubjectAccessReview{
					Spec: authorizationv1alpha1.SubjectAccessReviewSpec{User: spec.User, ResourceAttributes: spec.ResourceAttributes}}, metav1.CreateOptions{})
				if err != nil || !got.Status.Allowed {
					b.Fatal(got, err)
				}
			}
		})
	}
}

// start runs a control plane for the benchmark.
func start(b *testing.B) *cluster.Cluster {
	b.Helper()
	wd, err := os.Getwd()
	if err != nil {
		b.Fatal(err)
	}
	repository := filepath.Dir(filepath.Dir(wd))
	dir, err := os.MkdirTemp("", "bench") // short enough for a socket
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := cluster.New(cluster.Config{Dir: dir, Bin: filepath.Join(repository, "_output", "bin"), Manifests: filepath.Join(repository, "artifacts")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Down() })
	if err := c.Up(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}

func kubeClient(b *testing.B, c *cluster.Cluster, user string) kubernetes.Interface {
	b.Helper()
	config, err := c.Client(user)
	if err != nil {
		b.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

func provisoClient(b *testing.B, c *cluster.Cluster, user string) versioned.Interface {
	b.Helper()
	config, err := c.Client(user)
	if err != nil {
		b.Fatal(err)
	}
	config.QPS = -1
	client, err := versioned.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return client
}
