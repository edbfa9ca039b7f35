/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	// selfMember is the key of a node in fieldsV1 that says that the field of the node is itself owned, in addition
	// to fields in it.
	selfMember = "."

	// maxLevels bounds the elements of a path in fieldsV1, and the depth of objects. Every path
	// below is as long as its depth, so that the paths of a deep object take memory in the square of
	// its size. No object of Kubernetes is that deep: a pod has about a dozen levels, the schema in a
	// CustomResourceDefinition a few dozen.
	maxLevels = 128
	// maxClaims bounds the fields whose managers one request changes without a change of the
	// field. Each is checked against every rule. A request that claims more than the entries
	// of the largest list that is compared owns more fields than a manager applies.
	maxClaims = maxEntries
	// maxClaimElements bounds the elements in the paths of these fields, which are kept until the
	// request has been checked: 25 for each of maxClaims, in 16 MiB.
	maxClaimElements = 25 * maxClaims
	// maxPathBytes bounds the keys in the paths that are looked up among the changed fields, each path
	// with the keys that it shares with others: a few long keys over many fields would
	// otherwise take time in the square of the size of the request. An object of 1.5 MiB, the
	// most that etcd stores, has room for 100 000 fields, whose paths may then have 300 bytes each.
	maxPathBytes = 32 << 20
)

var errTooManyClaims = fmt.Errorf("the request changes the managers of too many fields: at most %d may change their managers only, with %d elements in their paths, and all paths may have %d bytes",
	maxClaims, maxClaimElements, maxPathBytes)

// claimBudget counts the work of comparing metadata.managedFields for one request.
type claimBudget struct{ claims, elements, bytes int }

// compare counts the keys of a path that is looked up, and returns an error if they exceed the budget.
func (b *claimBudget) compare(keyBytes int) error {
	//guard:granular-too-many-bytes-paths
	if b.bytes += keyBytes; b.bytes > maxPathBytes {
		return errTooManyClaims
	}
	return nil
}

// claim counts a claim on a path, and returns an error if the claims exceed the budget.
func (b *claimBudget) claim(path fieldpath.Path) error {
	b.claims++
	b.elements += len(path)
	//guard:granular-too-many-claims
	if b.claims > maxClaims || b.elements > maxClaimElements {
		return errTooManyClaims
	}
	return nil
}

// fieldsV1Walker finds the paths that are in only one of two fieldsV1. It visits each node once.
type fieldsV1Walker struct {
	// show is called for each such path with the size of its keys; gained is true if the path is in the second
	// fieldsV1 only. The path is reused after the function returns. An error ends the walk.
	show func(path fieldpath.Path, keyBytes int, gained bool) error

	keys     []string // on the way to the present node
	keyBytes int
	path     fieldpath.Path // the elements of the first keys: keys are only read for paths that are shown
}

// walk compares the nodes below two nodes with the same path. It returns an error if ctx has ended, if show fails, or if
// nodes differ and cannot be understood.
func (w *fieldsV1Walker) walk(ctx context.Context, before, after map[string]any) error {
	for _, key := range keysOfBoth(before, after) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if key == selfMember {
			continue
		}
		if err := w.walkKey(ctx, key, before, after); err != nil {
			return err
		}
	}
	return nil
}

func (w *fieldsV1Walker) walkKey(ctx context.Context, key string, before, after map[string]any) error {
	nodeBefore, wasOwned, errBefore := nodeOf(before, key)
	nodeAfter, isOwned, errAfter := nodeOf(after, key)
	//guard:granular-deep-managed-fields
	if errBefore != nil || errAfter != nil || len(w.keys) == maxLevels {
		_, wasThere := before[key]
		_, isThere := after[key]
		//guard:granular-null-managed-fields
		if wasThere == isThere && reflect.DeepEqual(before[key], after[key]) { // nothing that would have to be understood
			return nil
		}
		return errEntry // also for null, which the server reads as a field that is owned
	}
	w.keys, w.keyBytes = append(w.keys, key), w.keyBytes+len(key)
	if wasOwned != isOwned {
		if err := w.readKeys(); err != nil {
			return err
		}
		if err := w.show(w.path, w.keyBytes, isOwned); err != nil {
			return err
		}
	}
	if err := w.walk(ctx, nodeBefore, nodeAfter); err != nil {
		return err
	}
	w.keys, w.keyBytes = w.keys[:len(w.keys)-1], w.keyBytes-len(key)
	w.path = w.path[:min(len(w.path), len(w.keys))]
	return nil
}

// readKeys makes path the path of the present node. It returns errEntry if a key is no path element.
func (w *fieldsV1Walker) readKeys() error {
	for _, key := range w.keys[len(w.path):] {
		element, err := fieldpath.DeserializePathElement(key)
		if err != nil {
			return errEntry
		}
		w.path = append(w.path, element)
	}
	return nil
}

func keysOfBoth(a, b map[string]any) []string {
	keys := slices.AppendSeq(make([]string, 0, len(a)+len(b)), maps.Keys(a))
	keys = slices.AppendSeq(keys, maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// nodeOf returns the node at a key of fieldsV1, and whether the path of the node is itself owned. A node without keys is
// owned. It returns errEntry if the value is no node.
func nodeOf(fields map[string]any, key string) (node map[string]any, isOwned bool, err error) {
	value, ok := fields[key]
	if !ok {
		return nil, false, nil
	}
	node, ok = value.(map[string]any)
	if !ok {
		return nil, false, errEntry
	}
	_, isOwned = node[selfMember]
	return node, isOwned || len(node) == 0, nil
}

// uniteInto adds the paths of one fieldsV1, from, to another one, into, which then shares no node with from. A node
// without keys is a path that is owned, except the root, which then owns nothing.
func uniteInto(into, from map[string]any, isRoot bool) {
	hasLeaf := !isRoot && (len(into) == 0 || len(from) == 0)
	for key, value := range from {
		other, isNode := value.(map[string]any)
		if !isNode {
			into[key] = value // fieldsV1Walker refuses what is no node
			continue
		}
		if existing, ok := into[key].(map[string]any); ok {
			uniteInto(existing, other, false)
		} else {
			into[key] = runtime.DeepCopyJSON(other)
		}
	}
	if hasLeaf && len(into) > 0 {
		into[selfMember] = map[string]any{}
	}
}
