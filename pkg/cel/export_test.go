/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cel

// ResidualText is the text of a residual, also if it does not compile.
func ResidualText(r *Residual) string { return textOf(r.tree) }
