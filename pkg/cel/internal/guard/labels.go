/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package guard

import (
	"math"

	"github.com/google/cel-go/common/types"
)

// cel-go labels an error with its place in the expression when the error occurs first. All evaluations of the
// process share a few errors, so that two evaluations with the same error would race. init labels these
// errors in advance, because cel-go never replaces a label.
func init() {
	const nowhere = -1
	types.LabelErrNode(nowhere, types.NoSuchOverloadErr())
	types.LabelErrNode(nowhere, types.Int(math.MaxInt64).ConvertToType(types.TimestampType))
}
