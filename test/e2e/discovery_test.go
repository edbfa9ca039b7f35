/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

func TestAPIServiceIsAvailable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v1alpha1.authorization.k8s.io", "v1alpha1.authorization.proviso.dev", "v1alpha1.policy.proviso.dev", "v1alpha1.demo.proviso.dev"} {
		var service struct {
			Spec struct {
				CABundle              []byte
				InsecureSkipTLSVerify bool
			}
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		must(t, json.Unmarshal([]byte(mustKubectl(t, "admin", "get", "apiservice", name, "-o", "json")), &service))
		if block, _ := pem.Decode(service.Spec.CABundle); block == nil || service.Spec.InsecureSkipTLSVerify {
			t.Errorf("%s: its certificate is not verified by a CA", name)
		}
		available := false
		for _, c := range service.Status.Conditions {
			available = available || (c.Type == "Available" && c.Status == "True")
		}
		if !available {
			t.Errorf("%s is not available: %+v", name, service.Status.Conditions)
		}
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	resources := mustKubectl(t, "alice", "api-resources", "--no-headers")
	for _, want := range []string{
		"authorizationconditionsreviews authorization.k8s.io/v1alpha1 false AuthorizationConditionsReview",
		"impersonationreviews authorization.k8s.io/v1alpha1 false ImpersonationReview",
		"authorizationconditionsreviews authorization.proviso.dev/v1alpha1 false AuthorizationConditionsReview",
		"subjectaccessreviews authorization.proviso.dev/v1alpha1 false SubjectAccessReview",
		"localsubjectaccessreviews authorization.proviso.dev/v1alpha1 true LocalSubjectAccessReview",
		"subjectaccessreviews authorization.k8s.io/v1 false SubjectAccessReview", // the built-in version stays preferred
		"clusterauthorizationpolicies cap policy.proviso.dev/v1alpha1 false ClusterAuthorizationPolicy",
		"authorizationpolicies ap policy.proviso.dev/v1alpha1 true AuthorizationPolicy",
		"virtualmachines vm demo.proviso.dev/v1alpha1 true VirtualMachine",
	} {
		found := false
		for line := range strings.Lines(resources) {
			found = found || strings.Join(strings.Fields(line), " ") == want
		}
		if !found {
			t.Errorf("kubectl api-resources does not list %q:\n%s", want, resources)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	runner := &requests.Runner{Kubectl: func(_ context.Context, row *requests.Row, args ...string) (string, error) {
		out, err := kubectlOf(t, row.User.Name, "", args...)
		return strings.Join(strings.Fields(out), " "), err
	}}
	runner.Run(t, readRequests(t, "discovery.yaml").Rows["explain"])
}

// TestEndpoints reads what servers publish.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	table := readRequests(t, "discovery.yaml")
	for _, route := range routes {
		(&requests.Runner{Sender: newSender(t, "admin"+route.suffix)}).Run(t, table.Rows["both"])
	}
	(&requests.Runner{Sender: newSender(t, "admin-direct")}).Run(t, table.Rows["direct"])
}
