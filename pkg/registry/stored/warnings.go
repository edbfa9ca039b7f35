/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package stored

import (
	"fmt"

	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/excerpt"
)

const (
	// maxWarningBytes bounds all warnings about one write. The generic server cuts every warning to 256 characters if there
	// are more than 4096, and then omits the last ones without a word. The rest is for its own warnings.
	maxWarningBytes = 3 << 10
	// maxOneWarningBytes bounds one warning, so that a long one leaves room for others.
	maxOneWarningBytes = 768
	// maxRestBytes is the room for the last warning, which says how many others there are.
	maxRestBytes = 64
)

// boundedWarnings returns warnings as the generic server can send them: in one line each, since it drops warnings with control
// characters, and not more than it sends. The first ones are kept, and the last one says how many others there are.
func boundedWarnings(warnings []string) []string {
	var result []string
	left := maxWarningBytes - maxRestBytes
	for i, warning := range warnings {
		line := excerpt.Of(authorization.OneLine(warning), maxOneWarningBytes)
		if len(line) > left {
			return append(result, fmt.Sprintf("there are %d more warnings", len(warnings)-i))
		}
		result = append(result, line)
		left -= len(line)
	}
	return result
}
