/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/etcd"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/monitoring"
	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// notCaused are the alerts whose symptom no test can cause, with the reason. TestAlertRules sees them fire.
var notCaused = map[string]string{
	"ProvisoConditionsNeverEvaluated": "its symptom is a bug",
}

// watched is a control plane with a Prometheus that scrapes Proviso.
type watched struct {
	*pair
	prometheus string
	// scraped is when Prometheus had scraped Proviso.
	scraped  time.Time
	policies map[string]string
	// closeStore stops the store of Proviso, which has a directory. hookFails makes the authorization webhook answer with errors.
	storeDir   string
	closeStore func() error
	hookFails  atomic.Bool
}

// TestAlerts runs Prometheus with the alerts, and causes their symptoms one after the other. No alert fires before its symptom. At the end each query of
// the dashboard has a result.
func TestAlerts(t *testing.T) {
	if os.Getenv("PROVISO_ALERTS") == "" {
		t.Skip("make test-alerts runs it")
	}
	program := monitoring.Program(t, "prometheus")
	w := newWatched(t)
	w.Start(t, w.Up, w.Servers[1].Start)
	w.MustApply(t, w.policies["healthy"])
	w.awaitHealthy(t)
	repeat(t, w.write)
	repeat(t, w.reads(w.as("hooked")))
	rules := w.startPrometheus(t, program)
	time.Sleep(3 * shortened)
	if fired := w.firing(t, "max_over_time"); len(fired) > 0 {
		t.Fatalf("the alerts %v fire without a symptom", fired)
	}
	var seen []string
	for _, step := range []struct {
		name   string
		cause  func(*testing.T)
		alerts []string
	}{
		{"a webhook fails", func(*testing.T) { w.hookFails.Store(true) }, []string{"ProvisoWebhookErrors", "ProvisoAuthorizerErrors"}},
		{"a policy that is not effective, an expensive one, and certificates that expire", w.causeWarnings, []string{
			"ProvisoPoliciesNotEffective", "ProvisoBudgetUsedUp", "ProvisoServingCertificateExpiration", "ProvisoClientCertificateExpiration",
		}},
		{"a kube-apiserver that Proviso does not reach", w.cutServer, []string{"ProvisoBarriersBehind", "ProvisoInnerDoorNotCalled", "ProvisoInnerDoorNotKnown"}},
		{"a barrier is deleted in a loop, and a kube-apiserver has an old manifest", w.disturb, []string{"ProvisoBarriersRestored", "ProvisoDoorsUndecided"}},
		{"no kube-apiserver reaches the doors, and one does not answer", w.closeDoors, []string{"ProvisoFrontDoorNotCalled", "ProvisoChecksRefused"}},
		{"the store is gone", w.loseStore, []string{"ProvisoStoreErrors", "ProvisoPoliciesStale"}},
	} {
		began := time.Now()
		step.cause(t)
		seen = append(seen, step.alerts...)
		w.awaitFiring(t, step.name, step.alerts)
		fired := w.firing(t, "max_over_time")
		if unexpected := slices.DeleteFunc(fired, func(alert string) bool { return slices.Contains(seen, alert) }); len(unexpected) > 0 {
			t.Errorf("%s: the alerts %v fire without their symptom", step.name, unexpected)
		}
		t.Logf("%s: %v after %s", step.name, step.alerts, time.Since(began).Round(time.Second))
	}
	w.wantQueries(t)
	w.draw(t)
	mustBeNil(t, w.Kill())
	down := []string{"ProvisoDown", "ProvisoReplicaDown"}
	w.awaitFiring(t, "Proviso is down", down)
	w.startUnlisted(t)
	unlisted := []string{"ProvisoNoServerListed"}
	w.awaitFiring(t, "Proviso knows no kube-apiserver", unlisted)
	seen = slices.Concat(seen, down, unlisted)
	for _, rule := range rules.All() {
		if _, isExcused := notCaused[rule.Alert]; isExcused == slices.Contains(seen, rule.Alert) {
			t.Errorf("%s: the test must cause its symptom, or notCaused must have it", rule.Alert)
		}
	}
}

func (w *watched) awaitFiring(t *testing.T, when string, alerts []string) {
	t.Helper()
	poll.Eventually(t, when, func() string { return lacks(strings.Join(w.firing(t, "last_over_time"), " "), alerts) })
}

func mustBeNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWatched prepares a control plane whose Proviso has barriers, an authorization webhook and a store of its own.
func newWatched(t *testing.T) *watched {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e") // short enough for a socket
	mustBeNil(t, err)
	w := &watched{policies: map[string]string{}, storeDir: dir}
	plane.ReadYAML(t, "alerts.yaml", &w.policies)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	store, err := etcd.Start(t.Context(), dir)
	mustBeNil(t, err)
	w.closeStore = sync.OnceValue(store.Close)
	t.Cleanup(func() { _ = w.closeStore() })
	endpoint, err := etcd.Endpoint(dir)
	mustBeNil(t, err)
	authorizers := filepath.Join(dir, "authorizers.yaml")
	w.pair = newPair(t, func(c *cluster.Config) {
		c.Args = []string{
			"--barriers", "--etcd-servers=" + endpoint, "--policy-staleness-bound=3s", "--authorization-config=" + authorizers, "--feature-gates=WebhooksAtFrontDoor=false",
			// Prometheus is also authenticated while no kube-apiserver answers.
			"--authentication-token-webhook-cache-ttl=10m", "--authorization-webhook-cache-authorized-ttl=10m",
		}
	})
	hook := w.serveWebhook(t, "hook", func(response http.ResponseWriter, _ *http.Request) {
		if w.hookFails.Load() {
			response.WriteHeader(http.StatusForbidden) // which is not tried again
			return
		}
		_, _ = io.WriteString(response, hookAnswer)
	})
	w.writeHook(t, dir, hook)
	return w
}

// hookAnswer is NoOpinion.
const hookAnswer = `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": {"allowed": false}}`

// writeHook writes authorizers.yaml, with the authorization webhook that decides about the user hooked.
func (w *watched) writeHook(t *testing.T, dir, url string) {
	t.Helper()
	writeAuthorizers(t, dir, url, w.CAFile(), "matchConditions: [{expression: request.user == 'hooked'}]")
}

// awaitHealthy waits until both kube-apiservers call the inner door and have loaded the barrier.
func (w *watched) awaitHealthy(t *testing.T) {
	t.Helper()
	poll.Eventually(t, "all is well", func() string {
		_, metrics := w.direct(t, "/metrics")
		wanted := []string{"proviso_policy_not_effective 0", `proviso_barrier_rollout_policies{phase="pending"} 0`}
		for _, server := range w.InnerDoor.Servers {
			for _, metric := range []string{"proviso_inner_door_called", "proviso_inner_door_known", "proviso_barrier_rollout_server_loaded"} {
				wanted = append(wanted, fmt.Sprintf("%s{server=%q} 1", metric, server))
			}
		}
		return lacks(metrics, wanted)
	})
}

// repeat calls a function with growing numbers until the test ends.
func repeat(t *testing.T, send func(ctx context.Context, i int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			within, end := context.WithTimeout(ctx, 10*time.Second)
			send(within, i)
			end()
			time.Sleep(200 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

// write has dana create an object on a condition.
func (w *watched) write(ctx context.Context, i int) {
	body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map-%d"}}`, i)
	_, _, _ = w.user(0, "dana").send(ctx, http.MethodPost, maps+"?dryRun=All", jsonType, strings.NewReader(body))
}

const policiesPath = "/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies"

// reads returns a function that has a user read a policy, each time another one, so that no answer is cached.
func (w *watched) reads(user *caller) func(context.Context, int) {
	user = user.at(w.ProvisoURL())
	return func(ctx context.Context, i int) {
		_, _, _ = user.send(ctx, http.MethodGet, fmt.Sprintf("%s/p-%d", policiesPath, i), "", http.NoBody)
	}
}

// shortened is the period of all alerts, and their delay.
const shortened = 6 * time.Second

var ranges = regexp.MustCompile(`\[(\d+[smh]|\$__rate_interval)\]`)

// shorten replaces the ranges of a query.
func shorten(query string, by time.Duration) string {
	return ranges.ReplaceAllString(query, "["+by.String()+"]")
}

// startPrometheus runs Prometheus with the alerts and, as the ServiceMonitor says, the credentials of the component. The alerts look at less time.
func (w *watched) startPrometheus(t *testing.T, program string) *monitoring.Rules {
	t.Helper()
	rules, short := monitoring.ReadRules(t, w.Repository), monitoring.ReadRules(t, w.Repository)
	for _, rule := range short.All() {
		rule.Expr = shorten(rule.Expr, shortened)
		if rule.For != "" {
			rule.For = shortened.String()
		}
	}
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"}, // a scrape without the store takes a second
		"rule_files":     []string{short.Write(t, dir)},
		"scrape_configs": []any{w.scrapeConfig(t, dir)},
	})
	mustBeNil(t, err)
	file := filepath.Join(dir, "prometheus.yaml")
	mustBeNil(t, os.WriteFile(file, config, 0o600))
	port, err := cluster.ReservePort()
	mustBeNil(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn") // ends in the cleanup
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	mustBeNil(t, cmd.Start())
	t.Cleanup(func() {
		targets, _ := w.get(context.WithoutCancel(t.Context()), "targets", nil)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the targets of Prometheus are %s, its log is %s", targets, log)
		}
	})
	w.prometheus = "http://" + address
	poll.Eventually(t, "Prometheus scrapes Proviso", func() string {
		up, err := w.query(t.Context(), `up == 1 unless on () count(last_over_time(ALERTS{alertname="ProvisoDown"}[3s])) > 0`)
		if err != nil || len(up) == 0 {
			return fmt.Sprint(up, err)
		}
		return ""
	})
	w.scraped = time.Now()
	return rules
}

// serviceMonitor has the fields of a ServiceMonitor that the test uses.
type serviceMonitor struct {
	Spec struct {
		Endpoints []struct {
			Scheme        string `json:"scheme"`
			Path          string `json:"path"`
			Authorization struct {
				Type        string `json:"type"`
				Credentials struct {
					Name string `json:"name"`
				} `json:"credentials"`
			} `json:"authorization"`
			TLSConfig struct {
				ServerName string `json:"serverName"`
				CA         struct {
					Secret struct {
						Name string `json:"name"`
					} `json:"secret"`
				} `json:"ca"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// scrapeConfig applies the permissions of the component artifacts/monitoring, and returns what prometheus-operator makes of its ServiceMonitor.
func (w *watched) scrapeConfig(t *testing.T, dir string) map[string]any {
	t.Helper()
	overlay := filepath.Join(w.Manifests, "watched")
	mustBeNil(t, os.Mkdir(overlay, 0o700))
	mustBeNil(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte("resources: [../base]\ncomponents: [../monitoring]\n"), 0o600))
	rendered, isApplied := map[string]string{}, map[string]bool{"ServiceAccount/proviso-metrics": true, "ClusterRole/proviso:metrics-reader": true, "ClusterRoleBinding/proviso:metrics-reader": true}
	var applied []string
	for document := range strings.SplitSeq(w.MustKubectl(t, "kustomize", overlay), "\n---\n") {
		object := metav1.PartialObjectMetadata{}
		unmarshal(t, document, &object)
		id := object.Kind + "/" + object.Name
		if rendered[id] = document; isApplied[id] {
			applied = append(applied, document)
		}
	}
	if len(applied) != len(isApplied) || !strings.Contains(rendered["ConfigMap/proviso-dashboard"], `grafana_dashboard: "1"`) {
		t.Fatalf("the component has %d of %v", len(applied), isApplied)
	}
	w.MustApply(t, strings.Join(applied, "\n---\n"))
	monitor := serviceMonitor{}
	unmarshal(t, rendered["ServiceMonitor/proviso-apiserver"], &monitor)
	endpoint := monitor.Spec.Endpoints[0]
	if rendered["Secret/"+endpoint.TLSConfig.CA.Secret.Name] == "" {
		t.Errorf("there is no Secret %q with the CA", endpoint.TLSConfig.CA.Secret.Name)
	}
	secret := metav1.PartialObjectMetadata{}
	unmarshal(t, rendered["Secret/"+endpoint.Authorization.Credentials.Name], &secret)
	account := secret.Annotations["kubernetes.io/service-account.name"]
	file := filepath.Join(dir, "token")
	mustBeNil(t, os.WriteFile(file, []byte(strings.TrimSpace(w.MustKubectl(t, "create", "token", account, "-n", cluster.Namespace))), 0o600))
	w.refusesOthers(t, endpoint.Path)
	return map[string]any{
		"job_name": cluster.Service, "scheme": endpoint.Scheme, "metrics_path": endpoint.Path,
		"authorization":  map[string]any{"type": endpoint.Authorization.Type, "credentials_file": file},
		"tls_config":     map[string]any{"ca_file": w.ProvisoCAFile(), "server_name": endpoint.TLSConfig.ServerName},
		"static_configs": []any{map[string]any{"targets": []string{strings.TrimPrefix(w.ProvisoURL(), "https://")}}},
	}
}

func unmarshal(t *testing.T, document string, into any) {
	t.Helper()
	mustBeNil(t, yaml.Unmarshal([]byte(document), into))
}

// refusesOthers expects that a ServiceAccount without the role does not get the metrics.
func (w *watched) refusesOthers(t *testing.T, path string) {
	t.Helper()
	token := strings.TrimSpace(w.MustKubectl(t, "create", "token", cluster.Service, "-n", cluster.Namespace))
	if code, answer := w.Sender.At(w.ProvisoURL()).Send(t, &requests.User{Name: cluster.Service, Token: token}, http.MethodGet, path, "", ""); code != http.StatusForbidden {
		t.Errorf("metrics without permission: got %d %.100s", code, answer)
	}
}

// get returns the data of an answer of Prometheus.
func (w *watched) get(ctx context.Context, path string, parameters url.Values) (json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.prometheus+"/api/v1/"+path+"?"+parameters.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string          `json:"error"`
		Data  json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Data, nil
}

// query returns the series of a query, as their labels.
func (w *watched) query(ctx context.Context, query string) (series []map[string]string, err error) {
	answer, err := w.get(ctx, "query", url.Values{"query": {query}})
	if err != nil {
		return nil, err
	}
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
		} `json:"result"`
	}
	if err := json.Unmarshal(answer, &data); err != nil {
		return nil, err
	}
	for _, result := range data.Result {
		series = append(series, result.Metric)
	}
	return series, nil
}

// firing returns the alerts that fire now, by last_over_time, or have fired since the start, by max_over_time.
func (w *watched) firing(t *testing.T, function string) (alerts []string) {
	t.Helper()
	over := 2 * time.Second
	if function == "max_over_time" {
		over = time.Since(w.scraped).Round(time.Second)
	}
	series, err := w.query(t.Context(), fmt.Sprintf(`%s(ALERTS{alertstate="firing"}[%s])`, function, over))
	mustBeNil(t, err)
	for _, labels := range series {
		if alert := labels["alertname"]; !slices.Contains(alerts, alert) {
			alerts = append(alerts, alert)
		}
	}
	return alerts
}

// wantQueries expects that each query of the dashboard has a result for the time of the test.
func (w *watched) wantQueries(t *testing.T) {
	t.Helper()
	for _, query := range monitoring.ReadQueries(t, w.Repository) {
		if series, err := w.query(t.Context(), shorten(query.Expr, 2*time.Minute)); err != nil || len(series) == 0 {
			t.Errorf("the panel %q has no series, %v: %s", query.Panel, err, query.Expr)
		}
	}
}

// draw draws the dashboard with what has happened since the start of the test, if make dashboard wants the picture.
func (w *watched) draw(t *testing.T) {
	t.Helper()
	dir := os.Getenv("PROVISO_PICTURES")
	if dir == "" {
		return
	}
	p := &monitoring.Picture{Start: w.scraped, End: time.Now(), Step: 2 * time.Second}
	p.Query = func(expr string) ([]monitoring.Series, error) {
		answer, err := w.get(t.Context(), "query_range", url.Values{
			"query": {shorten(expr, 10*time.Second)}, "start": {p.Start.Format(time.RFC3339Nano)}, "end": {p.End.Format(time.RFC3339Nano)}, "step": {p.Step.String()},
		})
		if err != nil {
			return nil, err
		}
		return monitoring.ReadSeries(answer)
	}
	svg, err := p.Draw(monitoring.ReadPanels(t, w.Repository))
	mustBeNil(t, err)
	mustBeNil(t, os.WriteFile(filepath.Join(dir, "dashboard.svg"), svg, 0o600))
}

// causeWarnings stores a policy that is not effective and one that is too expensive, and has certificates of the server and of a client expire soon.
func (w *watched) causeWarnings(t *testing.T) {
	t.Helper()
	for _, policy := range []string{"not effective", "over budget"} {
		w.MustApply(t, w.policies[policy])
	}
	ca, err := pki.New(filepath.Join(w.Dir, "pki"), "ca", time.Hour)
	mustBeNil(t, err)
	admin, err := w.Client(cluster.Admin)
	mustBeNil(t, err)
	short := requests.NewSender(admin, func(name string, groups ...string) (string, string, error) {
		files, err := ca.Client("short-"+name, name, groups...)
		return files.Cert, files.Key, err
	})
	_, err = ca.Server("proviso-serving", cluster.ServerName, "localhost", "127.0.0.1")
	mustBeNil(t, err)
	repeat(t, w.reads(&caller{short, certified("late")}))
	repeat(t, w.reads(w.as("spender")))
}

// disturb deletes a barrier in a loop, and calls the inner door as a kube-apiserver with an old manifest does.
func (w *watched) disturb(t *testing.T) {
	t.Helper()
	admin, kubeAPIServer := w.as(cluster.Admin), doorClient(t, w.Cluster)
	const barrier = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/no-secret-maps.cluster.policy.proviso.dev"
	repeat(t, func(ctx context.Context, _ int) {
		code, answer, err := admin.send(ctx, http.MethodDelete, barrier, "", http.NoBody)
		if err == nil && code != http.StatusOK && code != http.StatusNotFound { // the context ends during the last request
			t.Errorf("deleting a barrier: got %d %s", code, answer)
		}
	})
	repeat(t, func(ctx context.Context, _ int) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.FrontDoorURL()+manifest.AdmitPath+strings.Repeat("0", 32), strings.NewReader(fmt.Sprintf(review, "admission.k8s.io/v1", "1", "dana")))
		if err != nil {
			return
		}
		request.Header.Set("Content-Type", jsonType)
		if response, err := kubeAPIServer.Do(request); err == nil {
			_ = response.Body.Close()
		}
	})
}

// cutServer cuts the connection of Proviso to the second kube-apiserver, and stores a policy that needs a barrier.
func (w *watched) cutServer(t *testing.T) {
	t.Helper()
	w.wire.cut(true)
	if code, answer := w.Sender.At(w.ProvisoURL()).Send(t, nil, http.MethodPost, policiesPath, "application/yaml", w.policies["a barrier behind"]); code != http.StatusCreated {
		t.Fatalf("got %d %s", code, answer)
	}
}

// closeDoors keeps all kube-apiservers from the doors, and stops the first one, so that many checks wait. A review that is too long has no decision.
func (w *watched) closeDoors(t *testing.T) {
	t.Helper()
	response, err := doorClient(t, w.Cluster).Post(w.FrontDoorURL()+frontdoor.AuthorizePath, jsonType, strings.NewReader(strings.Repeat("x", 300<<10)))
	mustBeNil(t, err)
	_ = response.Body.Close()
	for _, door := range w.doors {
		door.set(func() { door.down = true })
	}
	mustBeNil(t, w.Servers[0].Stall())
	for range 100 {
		repeat(t, w.reads(w.as("waiting")))
	}
}

// loseStore lets the first kube-apiserver go on, and stops the store.
func (w *watched) loseStore(t *testing.T) {
	t.Helper()
	mustBeNil(t, w.Servers[0].Resume())
	mustBeNil(t, w.closeStore())
}

// startUnlisted starts the store and Proviso again, without the addresses of kube-apiservers. It lists the endpoints of the Service kubernetes, which
// has none here, because they cannot be loopback addresses.
func (w *watched) startUnlisted(t *testing.T) {
	t.Helper()
	store, err := etcd.Start(t.Context(), w.storeDir)
	mustBeNil(t, err)
	w.closeStore = sync.OnceValue(store.Close)
	w.InnerDoor.Servers = []string{""}
	mustBeNil(t, w.StartProviso(t.Context()))
}
