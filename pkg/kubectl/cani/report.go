/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

// head is the begin of every report. docs/kubectl-proviso.md describes the fields.
type head struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Warnings   []string `json:"warnings"`
}

type answerReport struct {
	head
	Request question.Request `json:"request"`
	*answer.Answer
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
	*answer.Answer
}

// head returns the begin of a report, with the warnings until now.
func (o *options) head(kind string) head {
	return head{APIVersion: "report.proviso.dev/v1alpha1", Kind: kind, Warnings: o.Warnings()}
}

// write writes a report in the format of --output.
func (o *options) write(report any) error {
	if o.output.Value == document.JSON {
		return printable.WriteJSON(o.Out, report, "    ")
	}
	text, err := yamlOf(report)
	if err != nil {
		return err
	}
	_, err = o.Out.Write(text)
	return err
}

// yamlOf returns YAML without characters that control a terminal.
func yamlOf(report any) ([]byte, error) {
	text, err := yaml.Marshal(report)
	if err != nil {
		return nil, err
	}
	var escaped strings.Builder
	for line := range strings.Lines(string(text)) {
		escaped.WriteString(printable.Text(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return []byte(escaped.String()), nil
}
