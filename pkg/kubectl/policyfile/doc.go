/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package policyfile loads policies, and mappings of fields, from documents. It validates and compiles them as the server does when they
// are stored, so that a policy that loads is one that the server accepts.
package policyfile
