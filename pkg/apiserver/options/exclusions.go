/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/features"
)

const (
	// exclusionsTimeout bounds one attempt to read the mappings. An available store answers within
	// milliseconds; an unavailable one delays the start of the server by at most this time.
	exclusionsTimeout = 10 * time.Second
	// exclusionsInterval is the time between attempts while the store is unreachable. Policies are not loaded before an attempt gets
	// an answer, so that the server denies requests and is not ready.
	exclusionsInterval = time.Second
	// maxNamedExclusions bounds the mappings and schemas that the error message names.
	maxNamedExclusions = 10
)

var errExclusionsIgnored = errors.New("mappings or schemas exclude fields, which Proviso does not enforce while the feature gate FineGrainedAuthorization is off: " +
	"turn the gate on, or set --ignore-field-exclusions to start without enforcing them")

// checkExclusions returns an error if the feature gate FineGrainedAuthorization is off and fields
// are excluded, or if the store answers but its mappings cannot be read. IgnoreFieldExclusions
// disables the check. If the store is unreachable, the server starts, as it does with the gate on,
// and the check is repeated until the store answers. The server loads no policies before that, and
// stops if the check then fails.
func (o CompletedOptions) checkExclusions(ctx context.Context, config *apiserver.Config, stop context.CancelCauseFunc) error {
	if o.IgnoreFieldExclusions || config.GenericConfig.FeatureGate.Enabled(features.FineGrainedAuthorization) {
		return nil
	}
	exclusions, err := config.NewExclusions(ctx)
	if err != nil {
		return err
	}
	err = refuseExclusions(ctx, exclusions)
	if err == nil || !isOutOfReach(err) {
		return err
	}
	klog.FromContext(ctx).Error(err, "The store does not answer, so that it is unknown whether fields are excluded")
	known := make(chan struct{})
	config.ExtraConfig.LoadPolicies = known
	go func() {
		_ = wait.PollUntilContextCancel(ctx, exclusionsInterval, false, func(ctx context.Context) (done bool, _ error) {
			err := refuseExclusions(ctx, exclusions)
			if err != nil && isOutOfReach(err) {
				return false, nil
			}
			if err != nil {
				stop(err)
				return true, nil
			}
			close(known)
			return true, nil
		})
	}()
	return nil
}

// refuseExclusions returns an error with the names of the exclusions, if there are any.
func refuseExclusions(ctx context.Context, exclusions *apiserver.Exclusions) error {
	ctx, cancel := context.WithTimeout(ctx, exclusionsTimeout)
	defer cancel()
	found, err := exclusions.Sources(ctx)
	if err != nil {
		return fmt.Errorf("exclusions of fields: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	more := ""
	if len(found) > maxNamedExclusions {
		more = fmt.Sprintf(", and %d more", len(found)-maxNamedExclusions)
		found = found[:maxNamedExclusions]
	}
	return fmt.Errorf("%w (%s%s)", errExclusionsIgnored, strings.Join(found, ", "), more)
}

// isOutOfReach reports whether the error means that the store did not answer. All other errors are
// answers; an example is an object that cannot be decoded.
func isOutOfReach(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || storage.IsUnreachable(err) ||
		slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded}, status.Code(err))
}
