/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

import (
	"math"

	"github.com/google/cel-go/common/types"
)

// cel-go writes the place of an error into the error when it first sees it, and a few
// errors are shared by every evaluation of the process: two that meet one at once race.
// Those are labelled before there is anything to race with; a label is never replaced.
func init() {
	const nowhere = -1
	types.LabelErrNode(nowhere, types.NoSuchOverloadErr())
	types.LabelErrNode(nowhere, types.Int(math.MaxInt64).ConvertToType(types.TimestampType))
}
