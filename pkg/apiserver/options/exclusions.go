/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"context"
	"errors"
	"fmt"
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
	// exclusionsTimeout bounds one attempt to read the mappings. A store that answers needs
	// milliseconds; the start of the server is not delayed longer than this if it does not.
	exclusionsTimeout = 10 * time.Second
	// exclusionsInterval is between attempts while the store is out of reach. The policies cannot be
	// loaded either in this time, so that the server denies.
	exclusionsInterval = time.Second
	// maxNamedExclusions bounds the mappings that the error names.
	maxNamedExclusions = 10
)

var errExclusionsIgnored = errors.New("fields are excluded from general permission, and nothing would enforce that with the feature gate FineGrainedAuthorization off: " +
	"turn the gate on, or set --ignore-field-exclusions")

// checkExclusions returns an error if the feature gate FineGrainedAuthorization is off and fields are
// excluded, unless a flag allows that, or if it cannot be told. If the store is out of reach, the server
// starts as it does with the gate on, and stops as soon as an exclusion is found.
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
	go func() {
		_ = wait.PollUntilContextCancel(ctx, exclusionsInterval, false, func(ctx context.Context) (done bool, _ error) {
			err := refuseExclusions(ctx, exclusions)
			if err != nil && isOutOfReach(err) {
				return false, nil
			}
			if err != nil {
				stop(err)
			}
			return true, nil
		})
	}()
	return nil
}

// refuseExclusions returns an error that names the exclusions, if there are any.
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

// isOutOfReach reports whether a store did not answer. All other errors are answers, such as an
// object that cannot be decoded.
func isOutOfReach(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || storage.IsUnreachable(err) || hasCode(err, codes.Unavailable, codes.DeadlineExceeded)
}

func hasCode(err error, want ...codes.Code) bool {
	got := status.Code(err)
	for _, code := range want {
		if got == code {
			return true
		}
	}
	return false
}
