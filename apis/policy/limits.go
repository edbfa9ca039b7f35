/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package policy

// The bounds of a policy. A request is matched against every policy about its user, so that bounds
// of policies bound the cost of requests. A policy beyond a bound is refused, never shortened.
const (
	// MaxNameBytes bounds the name of a policy, which is the name part of a condition's ID.
	// Kubernetes has the same bound for the name part of a qualified name.
	MaxNameBytes = 63
	// MaxDescriptionBytes bounds the description, which becomes the description of a condition.
	// Kubernetes 1.38 has the same bound for it.
	MaxDescriptionBytes = 1024
	// MaxSubjects bounds the subjects. For more users, use a group.
	MaxSubjects = 256
	// MaxRules bounds the rules: far more than one condition can be written for.
	MaxRules = 64
	// MaxRuleEntries bounds each list of verbs, groups, versions, resources and paths in a rule.
	// Some servers have more of them, and rules can use * for that.
	MaxRuleEntries = 64
	// MaxResourceNames bounds the resource names of one rule. For more objects, use a condition.
	MaxResourceNames = 256
	// MaxEntryBytes bounds a verb, a resource or the name of a variable. It is the bound of
	// Kubernetes for DNS names, and most of them are DNS names.
	MaxEntryBytes = 253
	// MaxReferenceBytes bounds the name of a user, group or object, and a path. Names of objects
	// are shorter; names of users have no other bound.
	MaxReferenceBytes = 1024
	// MaxVariables bounds the variables: each one is compiled at every write.
	MaxVariables = 64
	// MaxExpressionBytes bounds a condition, and the expression of a variable. Kubernetes 1.38 has
	// the same bound for a condition.
	MaxExpressionBytes = 10240
	// MaxTotalExpressionBytes bounds the variables and the condition of one policy together, since all
	// of them are compiled at every write.
	MaxTotalExpressionBytes = 2 * MaxExpressionBytes
	// MaxStatusConditions bounds the conditions of the status. Proviso sets two; the others are
	// for other controllers.
	MaxStatusConditions = 16
	// MaxExpressionWarnings bounds the errors that a status lists. When the first ones are
	// corrected, the status shows the next ones.
	MaxExpressionWarnings = 32
	// MaxFieldRefBytes bounds the path of a field in such a warning. The longest path has about
	// thirty bytes.
	MaxFieldRefBytes = 256
	// MaxWarningBytes bounds the text of such a warning. The compiler quotes the source for every
	// error.
	MaxWarningBytes = 4096
	// MaxRuleEnforcements bounds what a status says about rules. The condition Effective sums up all of it.
	MaxRuleEnforcements = 64
	// MaxEnforcementMessageBytes bounds the explanation of one result.
	MaxEnforcementMessageBytes = 1024
	// MaxEnforcedVersions bounds the versions of an EnforcementConfiguration. Each has an APIService; groups of Kubernetes have at
	// most five.
	MaxEnforcedVersions = 16
	// MaxMappedFields bounds the fields of a mapping. The pod, the kind of Kubernetes with the
	// most fields, has a few hundred, and few of them need a permission of their own.
	MaxMappedFields = 256
	// MaxFieldPathBytes bounds the path of a field; the longest paths in Kubernetes have about a
	// hundred bytes.
	MaxFieldPathBytes = 1024
	// MaxMappingExpressionBytes bounds an expression of a mapping, which reads one string or one
	// value.
	MaxMappingExpressionBytes = 1024
)
