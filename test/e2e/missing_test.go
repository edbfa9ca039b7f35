/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/policy/typechecking"
	"github.com/proviso-authz/proviso/test/testutil/cases"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// published returns what kube-apiserver and Proviso publish, and a checker of types.
func published(t *testing.T) (*typechecking.Discovery, *typechecking.Checker) {
	t.Helper()
	var clients []discovery.DiscoveryInterface
	for _, user := range []string{"alice-direct", "alice"} {
		client, err := discovery.NewDiscoveryClientForConfig(config(t, user))
		must(t, err)
		clients = append(clients, client)
	}
	found := typechecking.NewDiscovery(clients...)
	checker, err := typechecking.New(found, found)
	must(t, err)
	return found, checker
}

// missingIn returns the warnings about what may be missing.
func missingIn(t *testing.T, checker *typechecking.Checker, policy *policyv1alpha1.AuthorizationPolicySpec) (missing, others []string) {
	t.Helper()
	found, err := checker.Check("", policy)
	must(t, err)
	for _, w := range found.ExpressionWarnings {
		if strings.Contains(w.Warning, ": then the condition fails, and the policy ") {
			missing = append(missing, w.FieldRef+": "+w.Warning)
		} else {
			others = append(others, w.Warning)
		}
	}
	return missing, others
}

// missingKinds are the kinds for which TestMissing makes conditions.
var missingKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "missing.example.com", Version: "v1", Kind: "Gizmo"},
}

const (
	// maxConditions is how many conditions TestMissing tries, and objectsEach with how many objects each of them is evaluated.
	maxConditions = 200
	objectsEach   = 2000
)

// TestMissing compares the warnings for random conditions with evaluations of the conditions on random objects: if one fails because something is
// missing, there must be a warning. Of the warnings at most two of a hundred are about conditions that do not fail.
func TestMissing(t *testing.T) {
	t.Parallel()
	apply(t, readText(t, "testdata/missing-gizmos.yaml"))
	found, checker := published(t)
	poll.Eventually(t, "the schema of the custom resource", func() string {
		found, checker = published(t)
		if _, err := found.ResolveSchema(missingKinds[len(missingKinds)-1]); err != nil {
			return err.Error()
		}
		return ""
	})
	table := map[string][]string{}
	must(t, yaml.Unmarshal([]byte(readText(t, defaultedFile)), &table))
	residuals, err := cel.NewCompiler()
	must(t, err)
	compiler, err := partial.NewPolicyCompiler(residuals)
	must(t, err)
	tried := cases.For(8*time.Second, maxConditions)
	warned, failed, falseWarnings := 0, 0, 0
	for tried.Next() {
		g := newMissingGenerator(uint64(tried.Number()))
		kind := missingKinds[tried.Number()%len(missingKinds)]
		s, err := found.ResolveSchema(kind)
		must(t, err)
		objects := newObjects(kind, s, table)
		var policy *policyv1alpha1.AuthorizationPolicySpec
		var missing []string
		var expression *partial.Expression
		for isRight := false; !isRight; {
			policy = g.policy(kind, objects)
			var others []string
			missing, others = missingIn(t, checker, policy)
			if isRight = len(others) == 0; isRight {
				expression, err = compiler.Compile(policy.Condition)
				isRight = err == nil // a field of any type may be no bool
			}
		}
		failure := failureOf(t, g, objects, policy, expression.Program())
		isWarned := len(missing) > 0
		switch {
		case failure != "" && !isWarned:
			t.Errorf("%d: %s %v: no warning of\n%s\n%s", tried.Number(), kind.Kind, policy.Rules[0].Verbs, policy.Condition, failure)
		case failure == "" && isWarned:
			falseWarnings++
			t.Logf("%d: %s %v: a false warning of\n%s\n%s", tried.Number(), kind.Kind, policy.Rules[0].Verbs, policy.Condition, strings.Join(missing, "\n"))
		}
		if isWarned {
			warned++
		}
		if failure != "" {
			failed++
		}
	}
	t.Logf("%d conditions, %d fail, %d with warnings, %d of them false", tried.Tried(), failed, warned, falseWarnings)
	const enough = 40 // to see conditions of both kinds
	if tried.Tried() >= enough && (failed < tried.Tried()/5 || failed > tried.Tried()*4/5) {
		t.Errorf("%d of %d conditions fail: the test tries too few of the others", failed, tried.Tried())
	}
	if falseWarnings*50 > max(tried.Tried(), 50) {
		t.Errorf("%d of %d conditions have false warnings", falseWarnings, tried.Tried())
	}
}

// isAboutMissing are the errors of an evaluation that missing data or null causes.
var isAboutMissing = regexp.MustCompile(`no such key|index out of bounds|no such overload|optional\.none\(\) dereference|expected iterable type`)

// failureOf evaluates a condition on random objects, and returns an error and the object for which it is about something that is missing, or "".
func failureOf(t *testing.T, g *missingGenerator, objects *objects, policy *policyv1alpha1.AuthorizationPolicySpec, program *cel.Program) string {
	t.Helper()
	names := fieldNames.FindAllString(policy.Condition, -1)
	for range objectsEach {
		for _, verb := range policy.Rules[0].Verbs {
			values := cel.Values{cel.Object: nil, cel.OldObject: nil}
			if verb != "delete" {
				values[cel.Object] = objects.random(g.Rand, names)
			}
			if verb != "create" {
				values[cel.OldObject] = objects.random(g.Rand, names)
			}
			values[cel.Operation] = strings.ToUpper(verb)
			data := fmt.Sprint(values)
			for name, value := range values {
				values[name] = cel.Known(value)
			}
			if _, _, err := program.Eval(t.Context(), values); err != nil {
				if !isAboutMissing.MatchString(err.Error()) {
					t.Fatalf("%s: %v: %s", policy.Condition, err, data)
				}
				return err.Error() + " " + data
			}
		}
	}
	return ""
}

var fieldNames = regexp.MustCompile(`[a-zA-Z0-9_]+`)

func ruleFor(kind schema.GroupVersionKind, verbs ...string) policyv1alpha1.PolicyRule {
	resource := strings.ToLower(kind.Kind) + "s"
	if before, ok := strings.CutSuffix(resource, "ys"); ok {
		resource = before + "ies"
	}
	if strings.HasSuffix(resource, "ss") {
		resource = strings.TrimSuffix(resource, "s") + "es"
	}
	return policyv1alpha1.PolicyRule{Verbs: slices.Clone(verbs), APIGroups: []string{kind.Group}, APIVersions: []string{kind.Version}, Resources: []string{resource}}
}
