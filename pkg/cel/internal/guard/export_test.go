/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

// RoundFunction is the name of the function that the cost tracker sees at the end of a round.
const RoundFunction = roundFunction
