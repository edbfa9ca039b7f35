/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package typechecking

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/utils/lru"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/cel/presence"
)

const (
	// MaxWarnings is how many warnings a status holds.
	MaxWarnings = 32
	// typeCacheSize bounds the number of cached types. The type of a Deployment takes 300 KiB, less than half of its
	// schema; most are much smaller, and maxSchemaNodes bounds larger ones.
	typeCacheSize = 32
	// cleanSize bounds how many policies without mistakes are remembered. One takes less than half a kibibyte.
	cleanSize = 4096
	// typeExpiry is how long a type is used although its schema may have changed.
	typeExpiry = 5 * time.Minute
	// notFoundExpiry is how long a kind is assumed to have no schema. The schema of a new CustomResourceDefinition is
	// published some seconds after its discovery.
	notFoundExpiry = 30 * time.Second
	// failureExpiry keeps many policies from asking a server that has just failed.
	failureExpiry = 5 * time.Second
)

// ErrIncomplete is wrapped by errors that say that a name or an expression was not checked,
// because a list of resources or a schema could not be read. Trying later may help.
var ErrIncomplete = errors.New("type checking is incomplete")

var errMissing = errors.New("a checker needs schemas and kinds")

// Checker checks the types of policies. It keeps the types that it makes of schemas for
// some minutes, and which policies had no mistakes with them. It is safe for concurrent use.
type Checker struct {
	schemas resolver.SchemaResolver
	kinds   Kinds
	types   *utilcache.LRUExpireCache
	// clean has the numbers of the types, as a []uint64, with which expressions were checked last for some kinds without a mistake, by the
	// checksum of both. Statuses are made again and again, and such expressions are not checked again while the types are the same.
	clean *lru.Cache
	// published returns the resources of all servers. If nil, names in rules are not checked.
	published func() *Published
}

// New makes a Checker. schemas need no cache. kinds should have a cache, because they are
// asked a few hundred times for a policy at worst. It returns an error if one of them is nil.
func New(schemas resolver.SchemaResolver, kinds Kinds) (*Checker, error) {
	if schemas == nil || kinds == nil {
		return nil, errMissing
	}
	return &Checker{schemas: schemas, kinds: kinds, types: utilcache.NewLRUExpireCache(typeCacheSize), clean: lru.New(cleanSize)}, nil
}

// WithResources returns a Checker that also checks the names in rules. published must know the resources of all servers about
// whose requests policies decide, and is called for each policy.
func (c *Checker) WithResources(published func() *Published) *Checker {
	return &Checker{schemas: c.schemas, kinds: c.kinds, types: c.types, clean: c.clean, published: published}
}

// Check returns the mistakes in the rules, the variables and the condition of a policy, whose namespace is empty for a policy of the cluster. It checks variables and condition for
// each kind that the rules name. An unknown schema gives no warning; the caller checks again from time to time, because schemas and resources may
// appear later. Errors wrap ErrIncomplete; the result is never nil, and has the warnings that were found. Check blocks while
// it fetches lists of resources and schemas.
func (c *Checker) Check(namespace string, policy *policyv1alpha1.AuthorizationPolicySpec) (*policyv1alpha1.TypeChecking, error) {
	result := &policyv1alpha1.TypeChecking{}
	var failures []error
	if c.published != nil {
		result.ExpressionWarnings, failures = checkNames(c.published(), namespace, policy.Rules)
	}
	if policy.Condition == "" && len(policy.Variables) == 0 {
		return result, incomplete(failures)
	}
	kinds, verbs, isComplete, unknown := kindsOf(c.kinds, policy)
	if len(failures) == 0 {
		failures = unknown // otherwise the same groups have failed
	}
	sum := checksumOf(policy, kinds, verbs, isComplete)
	if len(failures) == 0 && c.isClean(sum, kinds) {
		return result, nil
	}
	found := make([][]policyv1alpha1.ExpressionWarning, len(policy.Variables)+1)
	budget, steps := cel.NewCheckBudget(), presence.Bound
	numbers := make([]uint64, 0, len(kinds))
	var last []presence.Expression
	for _, kind := range kinds {
		t := c.typeOf(kind)
		err := t.err
		if err == nil && t.declared != nil {
			var checked []presence.Expression
			if checked, err = check(kind, t.declared, policy, budget, found); err == nil && checked != nil {
				last = checked
				steps = warnOfMissing(kind, presence.Question{Expressions: checked, Object: t.shape}, policy, verbs[kind], steps, found)
			}
		}
		if errors.Is(err, cel.ErrBudget) {
			found[len(policy.Variables)] = append(found[len(policy.Variables)], policyv1alpha1.ExpressionWarning{
				FieldRef: field.NewPath("spec").String(),
				Warning:  fmt.Sprintf("%s: not checked, nor are the kinds after it: the expressions are too long to be checked for so many kinds", kind),
			})
			break
		}
		if err != nil {
			if failures = append(failures, fmt.Errorf("%s: %w", kind, err)); len(failures) >= maxFailures {
				break
			}
		}
		numbers = append(numbers, t.number)
	}
	if isComplete {
		warnOfKinds(last, kinds, policy, found)
	}
	if len(failures) == 0 && !slices.ContainsFunc(found, func(warnings []policyv1alpha1.ExpressionWarning) bool { return len(warnings) > 0 }) {
		c.clean.Add(sum, numbers)
	}
	for _, warnings := range found {
		warnings = warnings[:min(len(warnings), MaxWarnings-len(result.ExpressionWarnings))]
		result.ExpressionWarnings = append(result.ExpressionWarnings, warnings...)
	}
	return result, incomplete(failures)
}

func incomplete(failures []error) error {
	if len(failures) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, errors.Join(failures...))
}

// checksumOf returns the checksum of the effect, the variables and the condition of a policy, and the kinds and verbs for which they are checked.
func checksumOf(policy *policyv1alpha1.AuthorizationPolicySpec, kinds []schema.GroupVersionKind, verbs map[schema.GroupVersionKind]sets.Set[string], isComplete bool) [sha256.Size]byte {
	text := strconv.AppendBool(nil, isComplete)
	add := func(texts ...string) {
		for _, t := range texts {
			text = strconv.AppendQuote(text, t)
		}
		text = append(text, '\n')
	}
	add(string(policy.Effect), policy.Condition)
	for _, kind := range kinds {
		add(kind.Group, kind.Version, kind.Kind)
		add(sets.List(verbs[kind])...)
	}
	for _, v := range policy.Variables {
		add(v.Name, v.Expression)
	}
	return sha256.Sum256(text)
}

// isClean reports whether what the checksum is of was checked without a mistake with the types that the kinds have now.
func (c *Checker) isClean(sum [sha256.Size]byte, kinds []schema.GroupVersionKind) bool {
	value, ok := c.clean.Get(sum)
	if !ok {
		return false
	}
	numbers := value.([]uint64)
	for i, kind := range kinds {
		if t := c.typeOf(kind); t.err != nil || numbers[i] != t.number {
			return false
		}
	}
	return true
}

// cachedType is a type, nil if there is none, or why it could not be had. Each type has a number of its own, and 0 says that there is none.
type cachedType struct {
	declared *apiservercel.DeclType
	shape    *presence.Shape
	number   uint64
	err      error
}

var lastType atomic.Uint64

func (c *Checker) typeOf(kind schema.GroupVersionKind) cachedType {
	if cached, ok := c.types.Get(kind); ok {
		return cached.(cachedType)
	}
	declared, shape, err := c.resolve(kind)
	expiry := typeExpiry
	switch {
	case errors.Is(err, resolver.ErrSchemaNotFound):
		declared, err, expiry = nil, nil, notFoundExpiry
	case err != nil:
		expiry = failureExpiry
	}
	t := cachedType{declared: declared, shape: shape, err: err}
	if declared != nil {
		t.number = lastType.Add(1)
	}
	c.types.Add(kind, t, expiry)
	return t
}

// resolve recovers: schemas are written by others, and read by code that is not ours.
func (c *Checker) resolve(kind schema.GroupVersionKind) (t *apiservercel.DeclType, shape *presence.Shape, err error) {
	defer func() {
		if r := recover(); r != nil {
			t, shape, err = nil, nil, fmt.Errorf("reading the schema failed: %v", r)
		}
	}()
	s, err := c.schemas.ResolveSchema(kind)
	if err != nil {
		return nil, nil, err
	}
	return typeOf(kind, s), shapeOf(kind, s), nil
}

// check adds the warnings for one kind to the warnings of each expression, in the order of the fields. It returns the checked expressions if there
// are no warnings. The error is cel.ErrBudget if nothing is left of the budget.
func check(kind schema.GroupVersionKind, t *apiservercel.DeclType, policy *policyv1alpha1.AuthorizationPolicySpec, budget *cel.Budget, found [][]policyv1alpha1.ExpressionWarning) ([]presence.Expression, error) {
	compiler, err := cel.NewTypedCompiler(t, budget)
	if err != nil {
		return nil, err
	}
	for i, v := range policy.Variables {
		err := compiler.Define(cel.NamedExpression{Name: v.Name, Expression: v.Expression})
		if errors.Is(err, cel.ErrBudget) {
			return nil, err
		}
		if err != nil {
			warn(kind, policy, i, err.Error(), found)
		}
	}
	if policy.Condition == "" {
		return nil, nil
	}
	err = compiler.Check(policy.Condition)
	if errors.Is(err, cel.ErrBudget) {
		return nil, err
	}
	if err != nil {
		warn(kind, policy, len(policy.Variables), err.Error(), found)
	}
	if checked := compiler.Checked(); len(checked) == len(policy.Variables)+1 {
		return checked, nil
	}
	return nil, nil
}

// warn adds a warning about one kind and one expression of a policy.
func warn(kind schema.GroupVersionKind, policy *policyv1alpha1.AuthorizationPolicySpec, i int, text string, found [][]policyv1alpha1.ExpressionWarning) {
	addWarning(policy, i, fmt.Sprintf("%s: %s", kind, text), found)
}

// addWarning adds a warning about one expression of a policy.
func addWarning(policy *policyv1alpha1.AuthorizationPolicySpec, i int, text string, found [][]policyv1alpha1.ExpressionWarning) {
	path := field.NewPath("spec", "condition")
	if i < len(policy.Variables) {
		path = field.NewPath("spec", "variables").Index(i).Child("expression")
	}
	if len(found[i]) < MaxWarnings {
		found[i] = append(found[i], policyv1alpha1.ExpressionWarning{FieldRef: path.String(), Warning: text})
	}
}
