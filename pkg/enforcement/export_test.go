/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

// NeverEvaluated is the metric that must stay zero.
var NeverEvaluated = neverEvaluated
