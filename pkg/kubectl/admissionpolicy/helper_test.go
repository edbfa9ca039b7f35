/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package admissionpolicy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/kubectl/admissionpolicy"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// vap is a policy about ConfigMaps with a binding. Tests replace parts of it.
const vap = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{operations: [CREATE, UPDATE, DELETE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  validations: [{expression: 'object.data.a == "1"', message: a must be 1}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]}
`

// create is the request that creates a ConfigMap in the namespace team, by a user who may do everything. Tests replace parts of it.
const create = `
permissions: [{verbs: ['*'], apiGroups: ['*'], resources: ['*']}]
request: {user: alice, resourceAttributes: {verb: create, version: v1, resource: configmaps, namespace: team}}
data: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {l: x}}, data: {a: "2"}}}
`

const namespaceTeam = "{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {tier: test}}}\n"

// replace returns a change of a text.
func replace(oldnew ...string) *strings.Replacer { return strings.NewReplacer(oldnew...) }

// changed returns a text with a change, which may be nil.
func changed(text string, change *strings.Replacer) string {
	if change == nil {
		return text
	}
	return change.Replace(text)
}

// params turns the policy into one with a parameter of a kind, and the binding into one with a reference.
func params(kind, ref string) *strings.Replacer {
	return replace("  failurePolicy", "  paramKind: "+kind+"\n  failurePolicy", `object.data.a == "1"`, `params == null || object.data.a == params.data.a`, "{policyName: p,", "{policyName: p, paramRef: "+ref+",")
}

// numbered returns the entries of a list, each with its number.
func numbered(count int, format string) string {
	entries := make([]string, count)
	for i := range entries {
		entries[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(entries, ", ")
}

// documentsOf reads documents.
func documentsOf(t *testing.T, text string) []document.Document {
	t.Helper()
	documents, errs := document.Read(strings.NewReader(text), []string{document.Stdin}, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return documents
}

// mustLoad reads policies and objects without mistakes.
func mustLoad(t *testing.T, policies, objects string) *admissionpolicy.Set {
	t.Helper()
	set, others, errs := admissionpolicy.Load(documentsOf(t, policies), documentsOf(t, objects))
	if len(errs) > 0 || len(others) > 0 {
		t.Fatalf("got %d other documents and the errors %v", len(others), errs)
	}
	return set
}

// requestOf reads a request.
func requestOf(t *testing.T, text string) *simulation.Request {
	t.Helper()
	var read struct {
		Request     *authorizationv1alpha1.SubjectAccessReviewSpec        `json:"request"`
		Data        *authorizationv1alpha1.AuthorizationConditionsRequest `json:"data"`
		Permissions []rbacv1.PolicyRule                                   `json:"permissions"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &read); err != nil {
		t.Fatal(err)
	}
	return &simulation.Request{Spec: read.Request, Data: read.Data, Permissions: read.Permissions}
}

var compilers = sync.OnceValues(simulation.NewCompilers)

// decide decides a request by a set and no policies of Proviso.
func decide(t *testing.T, set *admissionpolicy.Set, r *simulation.Request) (*admissionpolicy.Decisions, error) {
	t.Helper()
	c, err := compilers()
	if err != nil {
		t.Fatal(err)
	}
	source, err := c.SourceOf(nil)
	if err != nil {
		t.Fatal(err)
	}
	return decideBy(t, set, c, source, r)
}

func decideBy(t *testing.T, set *admissionpolicy.Set, c *simulation.Compilers, source *engine.Source, r *simulation.Request) (*admissionpolicy.Decisions, error) {
	t.Helper()
	return set.Decide(t.Context(), c, source, r)
}
