/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package barrier

import (
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations of an Extent.
const (
	policiesAnnotation = "barriers.proviso.dev/policies-up-to"
	bindingsAnnotation = "barriers.proviso.dev/bindings-up-to"
)

// Extent says which objects of barriers were stored before the sentinel was: all whose resource version is not greater. The resource
// version of the sentinel itself does not say that, because kube-controller-manager writes the status of policies afterwards.
type Extent struct {
	// Policies and Bindings are the greatest resource versions of ValidatingAdmissionPolicies and of their bindings. They are not
	// compared with each other.
	Policies, Bindings uint64
}

// IsBefore reports whether all of it can have been stored before the objects of the sentinel, which have greater resource versions then. An
// extent that says more was forged.
func (e Extent) IsBefore(policy, binding metav1.Object) bool {
	return e.Policies < VersionOf(policy) && e.Bindings < VersionOf(binding)
}

// VersionOf returns the resource version of a stored object, and 0 if it is no number.
func VersionOf(stored metav1.Object) uint64 {
	version, err := strconv.ParseUint(stored.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// SetExtent records on the policy of the sentinel what was stored before it was written.
func SetExtent(sentinel *admissionregistrationv1.ValidatingAdmissionPolicy, extent Extent) {
	annotations := map[string]string{}
	for name, value := range sentinel.Annotations {
		annotations[name] = value
	}
	annotations[policiesAnnotation] = strconv.FormatUint(extent.Policies, 10)
	annotations[bindingsAnnotation] = strconv.FormatUint(extent.Bindings, 10)
	sentinel.Annotations = annotations
}

// ExtentOf returns what was stored before the sentinel was written. It returns false if the policy does not say so.
func ExtentOf(sentinel *admissionregistrationv1.ValidatingAdmissionPolicy) (extent Extent, ok bool) {
	policies, err := strconv.ParseUint(sentinel.Annotations[policiesAnnotation], 10, 64)
	if err != nil {
		return Extent{}, false
	}
	bindings, err := strconv.ParseUint(sentinel.Annotations[bindingsAnnotation], 10, 64)
	if err != nil {
		return Extent{}, false
	}
	return Extent{Policies: policies, Bindings: bindings}, true
}
