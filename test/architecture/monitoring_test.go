/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/test/testutil/monitoring"
)

// metricsOfOthers are the metrics of rules and panels that the libraries of Kubernetes and Go declare. TestAlerts of test/e2e/innerdoor gets their series.
var metricsOfOthers = []string{
	"apiserver_client_certificate_expiration_seconds", "apiserver_request_total", "etcd_request_errors_total", "etcd_requests_total",
	"process_cpu_seconds_total", "process_resident_memory_bytes",
}

var (
	selectors   = regexp.MustCompile(`\{([^}]*)\}`)
	matchers    = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)`)
	groupings   = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
	metricNames = regexp.MustCompile(`\b[a-z]+(_[a-z0-9]+)+\b`)
	functions   = regexp.MustCompile(`\b[a-z_]+\(`)
	suffixes    = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// targetLabels are the labels that Prometheus adds.
var targetLabels = []string{"job", "instance", "le"}

// TestQueriesUseMetrics compares the metrics and labels in alerts and panels with those that the code declares.
func TestQueriesUseMetrics(t *testing.T) {
	t.Parallel()
	metrics := map[string]metric{}
	for _, m := range declaredMetrics(t) {
		metrics[m.name] = m
	}
	queries := monitoring.ReadQueries(t, root(t))
	for _, rule := range monitoring.ReadRules(t, root(t)).All() {
		queries = append(queries, monitoring.Query{Panel: rule.Alert, Expr: rule.Expr})
	}
	if len(queries) < 20 {
		t.Fatalf("found only the queries %v", queries)
	}
	for _, query := range queries {
		var labels []string
		for _, selector := range selectors.FindAllStringSubmatch(query.Expr, -1) {
			for _, matcher := range matchers.FindAllStringSubmatch(selector[1], -1) {
				labels = append(labels, matcher[1])
			}
		}
		for _, grouping := range groupings.FindAllStringSubmatch(query.Expr, -1) {
			labels = append(labels, strings.Split(grouping[1], ", ")...)
		}
		rest := query.Expr
		for _, removed := range []*regexp.Regexp{selectors, groupings, functions} {
			rest = removed.ReplaceAllString(rest, " ")
		}
		names := metricNames.FindAllString(strings.ReplaceAll(rest, "$__rate_interval", ""), -1)
		if len(names) == 0 && !strings.Contains(rest, "up") && !strings.Contains(rest, "ALERTS") {
			t.Errorf("%s: no metric in %s", query.Panel, query.Expr)
		}
		for _, name := range names {
			name = suffixes.ReplaceAllString(name, "")
			m, isDeclared := metrics[name]
			if !isDeclared && !slices.Contains(metricsOfOthers, name) {
				t.Errorf("%s: there is no metric %s", query.Panel, name)
			}
			for _, label := range labels {
				if isDeclared && !slices.Contains(m.labels, label) && !slices.Contains(targetLabels, label) {
					t.Errorf("%s: %s has no label %s", query.Panel, name, label)
				}
			}
		}
	}
}

// TestPictureOfDashboard compares the picture with the dashboard: it must have each panel, with data.
func TestPictureOfDashboard(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root(t), "docs", "pictures", "dashboard.svg"))
	if err != nil {
		t.Fatal(err)
	}
	var svg struct {
		Panels []struct {
			Texts []struct {
				Class string `xml:"class,attr"`
				Text  string `xml:",chardata"`
			} `xml:"text"`
			Lines []struct{} `xml:"polyline"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal(content, &svg); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, panel := range svg.Panels {
		drawn := panel.Texts[0].Text
		for _, text := range panel.Texts {
			if text.Class == "stat" {
				drawn += " stat"
			}
		}
		if len(panel.Lines) > 0 {
			drawn += " timeseries"
		}
		got = append(got, drawn)
	}
	for _, panel := range monitoring.ReadPanels(t, root(t)) {
		want = append(want, strings.TrimSuffix(panel.Title+" "+panel.Type, " row"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run make dashboard: (-want +got)\n%s", diff)
	}
}

// partsOfRunbook are what each section of the runbook says.
var partsOfRunbook = []string{"**Meaning.**", "**What users see.**", "**How to look.**", "**The mend.**"}

// TestAlertsHaveRunbooks checks that each alert has what its reader needs, and that docs/runbook.md has a section for each alert, and no others.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	for _, rule := range monitoring.ReadRules(t, root(t)).All() {
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: the severity is %q", rule.Alert, severity)
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s: the summary or the description is missing", rule.Alert)
		}
		if got, want := rule.Annotations["runbook_url"], "https://github.com/proviso-authz/proviso/blob/main/docs/runbook.md#"+strings.ToLower(rule.Alert); got != want {
			t.Errorf("%s: got the runbook %s, want %s", rule.Alert, got, want)
		}
		for _, part := range partsOfRunbook {
			if !strings.Contains(sections[rule.Alert], part) {
				t.Errorf("docs/runbook.md: the section %s has no %s", rule.Alert, part)
			}
		}
		delete(sections, rule.Alert)
	}
	for title := range sections {
		t.Errorf("docs/runbook.md: there is no alert %s", title)
	}
}

// TestAlertRules has promtool check the alerts, and evaluate each of them for series with which it fires, and for series with which it is silent.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	program, dir, rules := monitoring.Program(t, "promtool"), t.TempDir(), monitoring.ReadRules(t, root(t))
	promtool := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v: %s", args, err, out)
		}
	}
	promtool("check", "rules", rules.Write(t, dir))
	for _, rule := range rules.All() {
		rule.Annotations = nil // promtool compares them, too
	}
	rules.Write(t, dir)
	content, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tests := filepath.Join(dir, "tests.yaml")
	if err := os.WriteFile(tests, content, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool("test", "rules", tests)
	var table struct {
		Tests []struct {
			Evaluations []struct {
				Alert string `json:"alertname"`
				Fires []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(content, &table); err != nil {
		t.Fatal(err)
	}
	fires, isSilent := map[string]bool{}, map[string]bool{}
	for _, test := range table.Tests {
		for _, evaluation := range test.Evaluations {
			fires[evaluation.Alert] = fires[evaluation.Alert] || len(evaluation.Fires) > 0
			isSilent[evaluation.Alert] = isSilent[evaluation.Alert] || len(evaluation.Fires) == 0
		}
	}
	for _, rule := range rules.All() {
		if !fires[rule.Alert] || !isSilent[rule.Alert] {
			t.Errorf("%s: testdata/alerts.yaml has no case in which it fires, or none in which it is silent", rule.Alert)
		}
	}
}
