/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package architecture_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// ruleFile is a file of rules of Prometheus.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

var (
	metricNames   = regexp.MustCompile(`proviso_[a-z_]+`)
	labelsOfRules = regexp.MustCompile(`by \(([a-z]+)\)`)
)

// TestAlerts parses the alert rules. They use metrics and labels that exist, and docs/operations.md shows each rule.
func TestAlerts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root(t), "artifacts", "alerts", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %v, %v", files, err)
	}
	document, err := os.ReadFile(filepath.Join(root(t), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics, seen := map[string]metric{}, map[string]bool{}
	for _, m := range declaredMetrics(t) {
		metrics[m.name] = m
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, shown, _ := strings.Cut(string(content), "groups:\n")
		if !strings.Contains(string(document), "```yaml\ngroups:\n"+shown+"```\n") {
			t.Errorf("docs/operations.md does not show %s as it is", filepath.Base(file))
		}
		rules := &ruleFile{}
		if err := yaml.UnmarshalStrict(content, rules); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				names := metricNames.FindAllString(rule.Expr, -1)
				if rule.Alert == "" || len(names) == 0 || rule.Annotations["summary"] == "" || strings.Count(rule.Expr, "(") != strings.Count(rule.Expr, ")") {
					t.Errorf("%s: the rule %+v is not complete", group.Name, rule)
				}
				if lasts, err := time.ParseDuration(rule.For); err != nil || lasts > 30*time.Second {
					t.Errorf("%s: fires after %q, want at most 30s", rule.Alert, rule.For)
				}
				for _, name := range names {
					seen[name] = true
					for _, label := range labelsOfRules.FindAllStringSubmatch(rule.Expr, -1) {
						if m, ok := metrics[name]; !ok || !slices.Contains(m.labels, label[1]) {
							t.Errorf("%s: there is no metric %s with the label %s", rule.Alert, name, label[1])
						}
					}
				}
			}
		}
	}
	if !seen["proviso_inner_door_known"] || !seen["proviso_inner_door_called"] {
		t.Errorf("no alert for an inner door that is not known, but for %v", seen)
	}
}
