/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package place says which component evaluates the conditions of a request at admission, after the front door has let the request pass, and what stands
// against it now. The front door, its counting of policies in Audit, and the warnings of reviews read the same Table.
//
// Invariants:
//
//   - The first place of a table that takes a request has it. A request that none takes is Nowhere, where conditions are folded.
//   - A request that stands for several kinds of requests, such as a review about all versions, is Nowhere.
//   - What is not known is an obstacle.
//
// The package decides nothing: an Asker decides what a place asks.
package place
