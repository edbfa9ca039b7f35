/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package controller is the common part of the controllers that follow stored objects. A controller publishes what it
// makes of the objects, so that requests are decided from it, and writes the status of each object.
//
// Invariants:
//
//   - Nothing is published before every informer has synced.
//   - A store that cannot be read for longer than the staleness bound is reported to the consumer of the objects, also if
//     the watch connections stay open.
//   - Objects are published by one goroutine, and status is written by another. A status that cannot be written is retried
//     with a backoff.
//
// The package must not know what the objects are.
package controller
