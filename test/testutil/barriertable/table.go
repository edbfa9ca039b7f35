/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package barriertable has Deny policies on resources that kube-apiserver serves, and requests of users whom RBAC allows them, with
// their outcomes.
package barriertable

import (
	_ "embed"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// Policies are the policies, in YAML.
//
//go:embed policies.yaml
var Policies string

// Setup has what the requests need, in YAML: namespaces, and roles that allow the users every request.
//
//go:embed setup.yaml
var Setup string

//go:embed table.yaml
var table []byte

// Rows returns the requests. They do not depend on each other.
func Rows(t *testing.T) []*requests.Row {
	t.Helper()
	read, err := requests.Read(table, nil)
	if err != nil {
		t.Fatal(err)
	}
	return read.Rows["all"]
}
