/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barriercontroller

import (
	"context"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// LeaseName is the name of the Lease whose holder writes barriers.
const LeaseName = "proviso-barriers"

// The times of the election, which are the defaults of the components of Kubernetes. Without a leader, barriers stay as they are.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// elect calls lead while this process holds the Lease, again and again until ctx ends.
func (c *Controller) elect(ctx context.Context, lead func(context.Context)) {
	host, err := os.Hostname()
	if err != nil {
		host = "proviso"
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: c.config.Namespace, Name: LeaseName}, Client: c.config.KubeAPIServer.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true, Name: LeaseName,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: lead,
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot take part in the election of the replica that writes barriers")
			return
		}
		elector.Run(ctx)
	}, retryPeriod)
}
