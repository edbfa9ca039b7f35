/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
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
	for field, want := range map[string]string{
		"authorizationconditionsreviews.request.conditionSets.conditions.effect":                    "FIELD: effect <string>",
		"authorizationconditionsreviews.request.conditionSets.conditionsChain.conditions.condition": "10240 bytes",
		"authorizationconditionsreviews.request.impersonation.request.verb":                         "such as get",
		"subjectaccessreviews.status.conditionsChain.failureMode":                                   "NoOpinion",
		"subjectaccessreviews.spec.conditionalAuthorization.mode":                                   "HumanReadable",
	} {
		for _, version := range []string{"authorization.k8s.io/v1alpha1", "authorization.proviso.dev/v1alpha1"} {
			if got := mustKubectl(t, "alice", "explain", field, "--api-version="+version); !strings.Contains(got, want) {
				t.Errorf("kubectl explain %s --api-version=%s: got\n%s\nwant %q in it", field, version, got, want)
			}
		}
	}
	for field, want := range map[string][]string{
		"clusterauthorizationpolicies.spec.effect":               {"ENUM:", "NoOpinion"},
		"clusterauthorizationpolicies.spec.subjects":             {"at most 256", "Required with the effect Allow"},
		"authorizationpolicies.spec.rules.verbs":                 {"At least 1 and at most 64, each of at most 253 bytes"},
		"authorizationpolicies.spec.condition":                   {"at most 10240 bytes", "request.userInfo.groups", "request.labelSelector.requirements", "namespaceObject:"},
		"clusterauthorizationpolicies.status.enforcement.at":     {"ENUM:", "FrontDoor"},
		"clusterauthorizationpolicies.status.enforcement.result": {"ENUM:", "DeniesUnconditionally"},
	} {
		got := strings.Join(strings.Fields(mustKubectl(t, "alice", "explain", field, "--api-version=policy.proviso.dev/v1alpha1")), " ")
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("kubectl explain %s: got\n%s\nwant %q in it", field, got, part)
			}
		}
	}
	if got := mustKubectl(t, "alice", "explain", "vm.spec.disks.sizeGiB"); !strings.Contains(got, "size of the disk in GiB") {
		t.Errorf("kubectl explain vm.spec.disks.sizeGiB: got\n%s", got)
	}
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
