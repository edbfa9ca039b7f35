/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package excerpt shortens texts that users see. It must not import other packages of Proviso.
package excerpt

import "strings"

const ellipsis = "…"

// Of returns a text of at most limit bytes, which must be more than the ellipsis has: the text itself or, if it is longer, its beginning with an ellipsis.
func Of(text string, limit int) string {
	//guard:excerpt-limit
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
