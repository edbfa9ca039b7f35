/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"encoding/json"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/kubectl/conditiontable"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

// The formats for programs.
const (
	outputJSON = "json"
	outputYAML = "yaml"
)

// head is the begin of every report. docs/kubectl-proviso.md describes the fields.
type head struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Warnings   []string `json:"warnings"`
}

// outcome is an answer in a report.
type outcome struct {
	Answer          string               `json:"answer"`
	Reason          string               `json:"reason,omitempty"`
	EvaluationError string               `json:"evaluationError,omitempty"`
	Conditions      []conditiontable.Row `json:"conditions"`
}

type answerReport struct {
	head
	Request question.Request `json:"request"`
	outcome
}

type listReport struct {
	head
	Namespace string         `json:"namespace,omitempty"`
	Rules     []rule         `json:"rules"`
	Changes   []changeReport `json:"changes"`
}

type changeReport struct {
	Resource string   `json:"resource"`
	Verbs    []string `json:"verbs"`
	outcome
}

func (a *answer) outcome() outcome {
	o := outcome{Answer: strings.ReplaceAll(verdicts[a.verdict], ", ", "-"), Reason: a.reason, EvaluationError: a.evaluationError, Conditions: []conditiontable.Row{}}
	if a.verdict == yesIf {
		o.Conditions = conditiontable.Rows(a.conditions)
	}
	return o
}

// head returns the begin of a report, with the warnings until now.
func (o *options) head(kind string) head {
	o.warnings.Lock()
	defer o.warnings.Unlock()
	return head{APIVersion: "report.proviso.dev/v1alpha1", Kind: kind, Warnings: append([]string{}, o.warnings.texts...)}
}

// write writes a report in the format of --output.
func (o *options) write(out io.Writer, report any) error {
	text, err := printable.Indented(report)
	if err == nil && o.output == outputYAML {
		text, err = yamlOf(report)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// yamlOf returns YAML without characters that control a terminal.
func yamlOf(report any) ([]byte, error) {
	text, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	if text, err = yaml.JSONToYAML(text); err != nil {
		return nil, err
	}
	var escaped strings.Builder
	for line := range strings.Lines(string(text)) {
		escaped.WriteString(printable.Text(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return []byte(escaped.String()), nil
}
