/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhooks_test

import (
	"fmt"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// TestInnerDoorWithWebhooks creates ConfigMaps on conditions of policies and of webhooks, which the inner door evaluates.
func TestInnerDoorWithWebhooks(t *testing.T) {
	t.Parallel()
	for group, asksOthers := range map[string]bool{"inner door": false, "inner door that asks others": true} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &cluster.InnerDoor{Configuration: fmt.Sprintf("resources: [{resource: configmaps}]\naskOtherAuthorizers: %t", asksOthers)})
			r.MustApply(t, plane.TestData(t, "small.yaml"))
			runner, rows := &requests.Runner{Sender: r.Sender}, r.rows[group]
			runner.Await(t, rows[0]) // until the first canaries have been answered, nothing passes
			runner.Run(t, rows)
		})
	}
}
