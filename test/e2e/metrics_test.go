/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/golden"
	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// examplesOfMetrics are the reviews in artifacts/examples/reviews that the table sends, by placeholder.
var examplesOfMetrics = map[string]string{
	"allowing": "conditions-allow", "failing": "conditions-error-denies", "unknown": "conditions-unknown-type", "depending": "conditions-impersonation", "deputy": "impersonation-deputy",
}

// measured is a server whose metrics the test compares.
type measured struct {
	*separate
	// runner sends requests to the server, and frontDoor to its front door as kube-apiserver.
	runner, frontDoor requests.Runner
}

func newMeasured(t *testing.T) *measured {
	t.Helper()
	ca, err := pki.New(t.TempDir(), "front-door-ca", time.Hour)
	must(t, err)
	pair, err := ca.Client("kube-apiserver", "kube-apiserver")
	must(t, err)
	port, err := cluster.ReservePort()
	must(t, err)
	// The bound on staleness is long, so that the server does not look for lost policies meanwhile.
	m := &measured{separate: newSeparate(t, fmt.Sprintf("measured-%d", port),
		"--enable-demo-api", "--policy-staleness-bound=1h", "--feature-gates=ConditionalImpersonation=true,FineGrainedAuthorization=true,WebhooksAtFrontDoor=true",
		"--authorization-config="+hooks(t), "--webhook-bind-address=127.0.0.1", fmt.Sprintf("--webhook-secure-port=%d", port),
		"--webhook-client-ca-file="+ca.Files().Cert, "--webhook-allowed-names=kube-apiserver")}
	m.runner.Sender = requests.NewSender(m.Client("admin"), certificates)
	m.runner.Values = map[string]string{}
	for placeholder, name := range examplesOfMetrics {
		review, err := yaml.ToJSON([]byte(readText(t, filepath.Join(stack.Repository, "artifacts", "examples", "reviews", name+".yaml"))))
		must(t, err)
		m.runner.Values[placeholder] = string(review)
	}
	m.runner.After = func(row *requests.Row, answer *requests.Answer, _ []*admissionv1.AdmissionRequest) {
		if row.Do == "merge" && answer.Code == http.StatusOK {
			m.waitForCache(t, row.To, answer.Body)
		}
	}
	m.frontDoor.Sender = requests.NewSender(&rest.Config{
		Host: fmt.Sprintf("https://localhost:%d", port), TLSClientConfig: rest.TLSClientConfig{CAFile: stack.CAFile(), CertFile: pair.Cert, KeyFile: pair.Key},
	}, nil)
	m.frontDoor.Values = map[string]string{"long": strings.Repeat("x", 300<<10)}
	return m
}

// hooks serves a webhook whose answer depends on the user, and returns a configuration with it.
func hooks(t *testing.T) (file string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/conditions") {
			_, _ = io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","response":{"allowed":true}}`)
			return
		}
		var review authorizationv1alpha1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		status := `{"allowed":false}`
		switch review.Spec.User {
		case "hooked-allow":
			status = `{"allowed":true}`
		case "hooked-fail":
			w.WriteHeader(http.StatusForbidden)
			return
		case "hooked-conditional":
			status = `{"allowed":false,"conditionsChain":[{"authorizerName":"hook","conditions":[{"id":"example.com/c","effect":"Allow","type":"example.com/language","condition":"x"}]}]}`
		}
		_, _ = io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SubjectAccessReview","status":`+status+`}`)
	}))
	t.Cleanup(server.Close)
	return writeAuthorizationConfig(t, webhookAuthorizer{name: "hook.example.com", clusters: webhooksOf(server, "/reviews", "/conditions"), settings: `
    subjectAccessReviewVersion: v1alpha1
    failurePolicy: NoOpinion
    authorizedTTL: 5m
    unauthorizedTTL: 5m
    conditionsEndpointKubeConfigContext: conditions
    authorizationConditionsReviewVersion: v1alpha1
    matchConditionSubjectAccessReviewVersion: v1
    matchConditions: [{expression: "request.user.startsWith('hooked-')"}]`})
}

// waitForCache waits until the watch cache has an object that was patched. The server retries a patch that is refused with an
// old object of the cache, and counts it twice.
func (m *measured) waitForCache(t *testing.T, path, patched string) {
	t.Helper()
	var object metav1.PartialObjectMetadata
	must(t, json.Unmarshal([]byte(patched), &object))
	if code, body := m.get(t, path+"?resourceVersion="+object.ResourceVersion); code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, code, body)
	}
}

// exposition is what /metrics shows of Proviso.
type exposition struct {
	// help and kind are by name of the metric, and values by series, as they are printed.
	help, kind map[string]string
	values     map[string]float64
}

// seriesPattern reads a series: the name, the labels and the value.
var seriesPattern = regexp.MustCompile(`^([a-z_]+)(\{.*\})? ([^ ]+)$`)

func (m *measured) scrape(t *testing.T) *exposition {
	t.Helper()
	e := &exposition{help: map[string]string{}, kind: map[string]string{}, values: map[string]float64{}}
	_, body := m.get(t, "/metrics")
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP proviso_"); ok {
			name, help, _ := strings.Cut(rest, " ")
			e.help["proviso_"+name] = help
		} else if rest, ok := strings.CutPrefix(line, "# TYPE proviso_"); ok {
			name, kind, _ := strings.Cut(rest, " ")
			e.kind["proviso_"+name] = kind
		} else if strings.HasPrefix(line, "proviso_") {
			match := seriesPattern.FindStringSubmatch(line)
			if match == nil {
				t.Fatalf("cannot read %q", line)
			}
			value, err := strconv.ParseFloat(match[3], 64)
			must(t, err)
			e.values[match[1]+match[2]] = value
		}
	}
	return e
}

// settled scrapes until nothing but the scrapes changes the metrics.
func (m *measured) settled(t *testing.T) *exposition {
	t.Helper()
	last, quiet := m.scrape(t), 0
	for range 120 {
		time.Sleep(200 * time.Millisecond)
		next := m.scrape(t)
		var grown float64
		for series, value := range next.values {
			if next.kind[next.metricOf(series)] == "counter" {
				grown += value - last.values[series]
			}
		}
		// A scrape is a decision of the authorizer of privileged groups, and one of the authorization filter.
		if quiet++; grown != 2 {
			quiet = 0
		}
		if quiet == 15 {
			return next
		}
		last = next
	}
	t.Fatal("the metrics do not settle")
	return nil
}

// metricOf returns the metric of a series. A histogram has three kinds of series.
func (e *exposition) metricOf(series string) string {
	name, _, _ := strings.Cut(series, "{")
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if metric, ok := strings.CutSuffix(name, suffix); ok && e.kind[metric] == "histogram" {
			return metric
		}
	}
	return name
}

var bound = regexp.MustCompile(`,?le="([^"]*)"`)

// since shows what has been counted since an earlier exposition, by metric. Instead of times, it shows #, and instead of the
// counts in the buckets of a duration, their bounds.
func (e *exposition) since(before *exposition) map[string][]string {
	shown, bounds := map[string][]string{}, map[string][]float64{}
	add := func(metric, series string, value any) {
		shown[metric] = append(shown[metric], fmt.Sprintf("%s %v", series, value))
	}
	for series, value := range e.values {
		metric, n := e.metricOf(series), value-before.values[series]
		isTime := strings.HasSuffix(metric, "_seconds")
		switch {
		case e.kind[metric] == "gauge" && (isTime || strings.HasSuffix(metric, "_revision") || metric == "proviso_policy_not_effective"): // statuses are written later
			add(metric, series, "#")
		case e.kind[metric] == "gauge":
			add(metric, series, value)
		case n == 0:
		case isTime && strings.HasPrefix(series, metric+"_sum"):
			add(metric, series, "#")
		case isTime && strings.HasPrefix(series, metric+"_bucket"):
		default:
			add(metric, series, n)
		}
		if match := bound.FindStringSubmatch(series); match != nil && isTime && bounds[metric] == nil {
			for other := range e.values {
				if le := bound.FindStringSubmatch(other); le != nil && bound.ReplaceAllString(other, "") == bound.ReplaceAllString(series, "") {
					limit, _ := strconv.ParseFloat(le[1], 64) // it is a number, or the exposition would be refused
					bounds[metric] = append(bounds[metric], limit)
				}
			}
		}
	}
	for metric, lines := range shown {
		slices.Sort(lines)
		if limits := bounds[metric]; limits != nil {
			slices.Sort(limits)
			shown[metric] = append([]string{fmt.Sprint("# the bounds of its buckets: ", limits)}, lines...)
		}
	}
	return shown
}

// print prints metrics as an exposition.
func (e *exposition) print(shown map[string][]string) string {
	var b strings.Builder
	for _, metric := range slices.Sorted(maps.Keys(shown)) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s\n", metric, e.help[metric], metric, e.kind[metric], strings.Join(shown[metric], "\n"))
	}
	return b.String()
}

// TestMetrics makes one request for each outcome, to a server of its own, and compares all of its metrics. A metric that
// no request counts fails the test, unless the table has a reason.
func TestMetrics(t *testing.T) {
	var about struct{ Untouched map[string]string }
	m, table := newMeasured(t), requests.ReadFile(t, "testdata/metrics.yaml", &about)
	m.apply(t, table.Manifest())
	m.runner.Run(t, table.Rows["before"])
	poll.Holds(t, "all policies are ready", func() bool {
		return m.metric(t, `proviso_policy_policies{state="ready"}`) == strconv.Itoa(len(table.Setup)-1) && m.metric(t, `proviso_policy_field_permission_mappings{state="ready"}`) == "1"
	})
	before := m.settled(t)
	m.runner.Run(t, table.Rows["requests"])
	m.frontDoor.Run(t, table.Rows["front door"])
	after := m.scrape(t)
	touched := after.since(before)
	golden.Compare(t, filepath.Join("testdata", "metrics.golden.txt"), after.print(touched))
	documented := readText(t, filepath.Join(stack.Repository, "docs", "metrics.md"))
	for _, match := range regexp.MustCompile("(?m)^\\| `(proviso_[a-z_]+)` ").FindAllStringSubmatch(documented, -1) {
		name := match[1]
		switch reason, excused := about.Untouched[name]; {
		case touched[name] == nil && !excused:
			t.Errorf("no request counts %s", name)
		case touched[name] != nil && excused:
			t.Errorf("a request counts %s, which the table excuses: %s", name, reason)
		}
		delete(touched, name)
	}
	for name := range touched {
		t.Errorf("%s is not documented", name)
	}
}
