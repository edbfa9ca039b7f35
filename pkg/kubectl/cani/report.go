/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cani

import (
	"github.com/proviso-authz/proviso/pkg/kubectl/answer"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

// indent is the indent of reports in JSON.
const indent = "    "

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
