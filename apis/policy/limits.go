/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

// The bounds of a policy. A request is matched against every policy that concerns its
// user, so what one may hold bounds what a request costs; what exceeds them is refused,
// never cut.
const (
	// MaxNameBytes bounds the name of a policy: it is the name part of a condition's ID,
	// and Kubernetes bounds the name part of a qualified name at as much.
	MaxNameBytes = 63
	// MaxDescriptionBytes bounds the description, as Kubernetes 1.38 does that of the
	// condition which it becomes.
	MaxDescriptionBytes = 1024
	// MaxSubjects bounds the subjects: more people than that are a group.
	MaxSubjects = 256
	// MaxRules bounds the rules: far more than one condition can be about.
	MaxRules = 64
	// MaxRuleEntries bounds the verbs, the groups, the versions, the resources and the paths
	// of one rule: some servers have more, and they have * for that.
	MaxRuleEntries = 64
	// MaxResourceNames bounds the names of one rule. What is about more objects than that
	// is a matter of a condition.
	MaxResourceNames = 256
	// MaxEntryBytes bounds a verb, a resource or the name of a variable. It is the bound of
	// Kubernetes on DNS names, which most of them are.
	MaxEntryBytes = 253
	// MaxReferenceBytes bounds what names something of another system: a user, a group, an
	// object, a path. Names of objects are shorter; those of users are not bounded elsewhere.
	MaxReferenceBytes = 1024
	// MaxVariables bounds the variables: each is compiled at every write.
	MaxVariables = 64
	// MaxExpressionBytes bounds a condition, or the expression of a variable, as Kubernetes
	// 1.38 does a condition.
	MaxExpressionBytes = 10240
	// MaxStatusConditions bounds the conditions of the status, of which there are two; the
	// rest is for controllers of others.
	MaxStatusConditions = 16
	// MaxExpressionWarnings bounds the mistakes that a status lists: those who mend the
	// first ones see the next.
	MaxExpressionWarnings = 32
	// MaxFieldRefBytes bounds the path of a field in such a warning. The longest there is
	// has some thirty bytes.
	MaxFieldRefBytes = 256
	// MaxWarningBytes bounds the text of such a warning: the compiler quotes the source for
	// every mistake.
	MaxWarningBytes = 4096
	// MaxMappedFields bounds the fields of a mapping. The kind with the most fields in
	// Kubernetes, the pod, has some hundreds, of which few need a permission of their own.
	MaxMappedFields = 256
	// MaxFieldPathBytes bounds the path of a field; the longest of Kubernetes have some
	// hundred bytes.
	MaxFieldPathBytes = 1024
	// MaxMappingExpressionBytes bounds an expression of a mapping: it is about one text or
	// one value.
	MaxMappingExpressionBytes = 1024
)
