/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package mutants takes guards from the code, one at a time, and asks that a test notices. mutants.txt lists them.
package mutants

import (
	_ "embed"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/mutation"
)

//go:embed mutants.txt
var listed string

// maxQuoted is how many mutants may quote a text of the code: one that is moved or renamed keeps all others.
const maxQuoted = 120

// quoted are the mutants whose change the syntax does not define: of a number, of a text, or of several places.
var quoted = []mutation.Mutant{
	{Name: "memo: barriers of one specification", Old: `memo.KeyOf(key, spec)`, New: `memo.KeyOf(key)`, Test: "TestCompileAgain"},
	{Name: "memo: barriers of one policy", Old: `memo.KeyOf(key, spec)`, New: `memo.KeyOf(spec)`, Test: "TestCompileAgain"},
	{Name: "memo: expressions with their variables", Old: `memo.KeyOf(variables, text)`, New: `memo.KeyOf(text)`, Test: "TestCompileExpressionAgain"},
	{Name: "memo: what compiling costs", Old: `cost = expression.cost`, New: `cost = 0`, Test: "TestCompileExpressionAgain"},
	{Name: "exclusions: objects without metadata", Old: `type(o) == map && "metadata" in o && type(o.metadata) == map`, New: `o != null`, Test: "TestExclusionManagers"},
	{Name: "barrier: users without UID", Old: "`has(request.userInfo.uid) ? request.userInfo.uid : \"\"`", New: "`request.userInfo.uid`", Test: "TestAbsentInRequests"},
	{Name: "barrier: users without groups", Old: "`has(request.userInfo.groups) ? request.userInfo.groups : []`", New: "`request.userInfo.groups`", Test: "TestAbsentInRequests"},
	{Name: "barrier: requests without namespace", Old: "`has(request.namespace) ? request.namespace : \"\"`", New: "`request.namespace`", Test: "TestAbsentInRequests"},
	{Name: "kubectl: an error is no answer", Old: `const codeFailure = 2`, New: `const codeFailure = 1`, Test: "TestKubectlMistakes"},
	{Name: "render: characters of JSON in YAML", Old: "\"go.yaml.in/yaml/v2\"\n\n\t\"github.com/proviso-authz/proviso/pkg/kubectl/printable\"", New: "\"sigs.k8s.io/yaml\"\n\n\t\"github.com/proviso-authz/proviso/pkg/kubectl/printable\"", Test: "TestReadAgain"},
	{Name: "engine: other checks in Audit", Old: `authorizer.Attributes { return anyName{attributes} }`, New: "authorizer.Attributes {\n\treturn authorization.Request{Attributes: anyName{attributes}, Audit: authorization.RequestOf(attributes).Audit}\n}", Test: "TestAuditIsOfOneRequest"},
	{Name: "barriers: a sentinel of number 0", Old: `number, hasNumber = barrier.NumberOf(storedPolicy)`, New: "number, _ = barrier.NumberOf(storedPolicy)\n\t\thasNumber = true", Test: "TestSentinelOfNumberZero"},
	{Name: "barriers: replicas that do not lead", Old: "if lead == nil {\n\t\treturn nil\n\t}\n\t//guard:barriers-stale-removals\n", New: "if lead == nil {\n\t\tlead = context.Background()\n\t}\n", Test: "TestFollower"},
	{Name: "configurations: authors", Old: "about more than the author may do.\n\tverbEscalate = \"escalate\"", New: "about more than the author may do.\n\tverbEscalate = \"update\"", Test: "TestConfigurationsAuthors"},
	{Name: "cost: lists that are unwrapped", Old: `"optional.none", "hasValue"`, New: `"optional.none", "optional.unwrap", "unwrapOpt", "hasValue"`, Test: "TestCostOfEveryFunction"},
	{Name: "frontdoor: slow namespaces take the slots of a user", Old: `slowUserShare      = 2`, New: `slowUserShare      = 4`, Test: "TestWaitingReviewsHoldNoSlots"},
	{Name: "frontdoor, fields of listed resources: in time", Old: "must not take longer than one.\n\tctx, cancel := context.WithTimeout(ctx, askTimeout)", New: "must not take longer than one.\n\tctx, cancel := context.WithCancel(ctx)", Test: "TestFieldsOfListedResourcesInTime"},
	{Name: "frontdoor, inner door: the time of a check", Old: "return folded.IsAllow()\n\t}\n\tctx, cancel := context.WithTimeout(ctx, askTimeout)", New: "return folded.IsAllow()\n\t}\n\tctx, cancel := context.WithCancel(ctx)", Test: "TestFrontDoorInnerDoor"},
	{Name: "probe: servers without a certificate", Old: `return p.untiedCall()`, New: `return true, ""`, Test: "TestCertificatesThatMove"},
	{Name: "probe: canaries of other replicas", Old: "\tif r := p.rounds[nonce]; r != nil {\n\t\tr.arrived(attributes.GetVerb(), certificate)\n\t}\n\treturn true", New: "\tr := p.rounds[nonce]\n\tif r != nil {\n\t\tr.arrived(attributes.GetVerb(), certificate)\n\t}\n\treturn r != nil", Test: "TestIsCanary"},
	{Name: "inner door: slots", Old: "= 8\n\tmaxReviewsPerNamespace         = 12\n\tmaxReviewsPerUserInNamespace   = 4", New: "= 16\n\tmaxReviewsPerNamespace         = 16\n\tmaxReviewsPerUserInNamespace   = 16", Test: "TestHandlerIsBounded"},
	{Name: "manifest: the namespace of a namespace", Old: `(" + isNamespace + " ? " + nameOfRequest + " : has`, New: `(has`, Test: "TestManifestCalls"},
	{Name: "manifest: the marker in a concrete version", Old: `request.resourceAttributes.version == '*'`, New: `true`, Test: "TestMarker"},
	{Name: "manifest: the marker beside other requirements", Old: `requirements) == 1`, New: `requirements) >= 1`, Test: "TestMarker"},
	{Name: "manifest: the operator of the marker", Old: ` && r.operator == 'Exists'`, New: ``, Test: "TestMarker"},
	{Name: "manifest: the marker beside a field selector", Old: ` && !has(request.resourceAttributes.fieldSelector)`, New: ``, Test: "TestMarker"},
	{Name: "playground: decisions that go on", Old: `defer func() { <-s.running }()`, New: `<-s.running`, Test: "TestLimits"},
	{Name: "playground: other addresses", Old: `const address = "127.0.0.1"`, New: `const address = "0.0.0.0"`, Test: "TestPlaygroundRun"},
	{Name: "hide: patterns", Old: `"matches", "find", "findAll", "format":`, New: `"format":`, Test: "TestOracle"},
}

// load returns the code and its mutants.
func load(t *testing.T) (*mutation.Module, []mutation.Mutant) {
	t.Helper()
	module, err := mutation.Load("../..", "apis", "cmd", "pkg", "test")
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := mutation.Parse(listed)
	if err != nil {
		t.Fatal(err)
	}
	return module, append(mutants, quoted...)
}

// TestMutantsExist keeps the mutants true with the code.
func TestMutantsExist(t *testing.T) {
	t.Parallel()
	module, mutants := load(t)
	for _, err := range module.Check(mutants) {
		t.Error(err)
	}
	if len(quoted) > maxQuoted {
		t.Errorf("%d mutants quote the code, want %d at most", len(quoted), maxQuoted)
	}
}

// TestMutants runs the tests of mutants: of those whose names match MUTANTS, of a fifth that MUTANTS_SEED chooses, or of one, which shows in every test
// run that mutants are noticed.
func TestMutants(t *testing.T) {
	module, mutants := load(t)
	pattern, seed := os.Getenv("MUTANTS"), os.Getenv("MUTANTS_SEED")
	switch {
	case pattern != "":
		wanted, err := regexp.Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		mutants = slices.DeleteFunc(mutants, func(m mutation.Mutant) bool { return !wanted.MatchString(m.String()) })
	case seed != "":
		number, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(number, 0))
		r.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
		mutants = mutants[:len(mutants)/5]
	default:
		mutants = slices.DeleteFunc(mutants, func(m mutation.Mutant) bool { return m.Guard != "chained-shared-sets" })
	}
	if len(mutants) == 0 {
		t.Fatal("there is no such mutant")
	}
	module.Run(t, mutants)
}
