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
//   - Objects count as up to date until the staleness bound after the last good check, also if no check runs any more.
//   - A store that has gone back to an earlier revision, as after a restore from a backup, makes the objects stale and ends
//     the process: the caches of the process keep objects that the store does not have.
//   - Objects are published by one goroutine, and status is written by another. A status that cannot be written is retried
//     with a backoff.
//
// The package must not know what the objects are.
package controller
