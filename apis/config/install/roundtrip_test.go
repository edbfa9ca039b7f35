/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package install_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"

	"github.com/proviso-authz/proviso/apis/config/fuzzer"
	"github.com/proviso-authz/proviso/apis/config/install"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	roundtrip.RoundTripTestForAPIGroup(t, install.Install, fuzzer.Funcs)
}
