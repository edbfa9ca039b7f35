/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package monitoring reads the alerts and the dashboard in artifacts/monitoring, draws the dashboard, and finds the programs of Prometheus.
package monitoring

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// requireVariable makes a machine without Prometheus a failure.
const requireVariable = "PROVISO_REQUIRE_PROMETHEUS"

// Program returns the path of prometheus or promtool, or skips the test.
func Program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	const message = "there is no Prometheus: install the package prometheus, for example with apt-get install prometheus"
	if os.Getenv(requireVariable) != "" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

// Rule is an alert.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Group is a group of alerts.
type Group struct {
	Name  string  `json:"name"`
	Rules []*Rule `json:"rules"`
}

// Rules are the content of a file of rules of Prometheus.
type Rules struct {
	Groups []Group `json:"groups"`
}

// ReadRules returns the rules of the PrometheusRule.
func ReadRules(t *testing.T, repository string) *Rules {
	t.Helper()
	var resource struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       Rules          `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(read(t, repository, "prometheusrule.yaml"), &resource); err != nil {
		t.Fatal(err)
	}
	return &resource.Spec
}

// All returns the alerts of all groups.
func (r *Rules) All() (all []*Rule) {
	for _, group := range r.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// Write writes a file of rules, and returns its path.
func (r *Rules) Write(t *testing.T, dir string) string {
	t.Helper()
	content, err := yaml.Marshal(r)
	file := filepath.Join(dir, "rules.yaml")
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Query is a query of a panel.
type Query struct{ Panel, Expr string }

// ReadQueries returns the queries of the dashboard.
func ReadQueries(t *testing.T, repository string) (queries []Query) {
	t.Helper()
	for _, panel := range ReadPanels(t, repository) {
		for _, target := range panel.Targets {
			queries = append(queries, Query{panel.Title, target.Expr})
		}
	}
	return queries
}

// ReadPanels returns the panels of the dashboard.
func ReadPanels(t *testing.T, repository string) []Panel {
	t.Helper()
	var dashboard struct{ Panels []Panel }
	if err := json.Unmarshal(read(t, repository, "dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

func read(t *testing.T, repository, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, "artifacts", "monitoring", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
