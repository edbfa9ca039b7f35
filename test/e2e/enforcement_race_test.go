/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
)

// TestEnforcementSeesWhatIsReplaced has many clients patch a machine that admin locks and
// unlocks meanwhile. A patch keeps the lock as it is, and is attempted again when the
// machine has changed; none may change a machine that is locked, whatever it was when the
// patch began. The audit event must say of each what became of it in the end.
func TestEnforcementSeesWhatIsReplaced(t *testing.T) {
	const patchers, patches, least = 8, 40, 20
	x := newTable(t)
	set := &tableSet{Set: "race", Policies: []tablePolicy{{
		Name: "unlocked", Effect: policyv1alpha1.PolicyEffectAllow, Users: []string{"carol"}, Resources: []string{machines}, Versions: []string{machinesVersion},
		Verbs: []string{"patch"}, Description: "carol changes what is not locked", Condition: `!("locked" in oldObject.spec.?tags.orValue([]))`,
	}}}
	x.install(t, set)
	vms := x.proviso.DemoV1alpha1().VirtualMachines(set.namespace())
	vm := &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "lockable"}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian-12"}}
	if _, err := vms.Create(t.Context(), vm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	var allowed, refused atomic.Int64
	var mu sync.Mutex
	var writes []write
	patch := func(p, i int) {
		client := x.clients["carol"+routes[p%len(routes)].suffix].DemoV1alpha1().RESTClient()
		r := apiRequest{
			method: http.MethodPatch, contentType: string(types.MergePatchType), header: map[string]string{auditv1.HeaderAuditID: string(uuid.NewUUID())},
			path: fmt.Sprintf("/apis/%s/namespaces/%s/%s/lockable", demov1alpha1.SchemeGroupVersion, set.namespace(), machines),
			body: map[string]any{"spec": map[string]any{"image": fmt.Sprintf("image-%d-%d", p, i)}},
		}
		answer, err := r.send(t.Context(), client)
		switch {
		case err == nil:
			allowed.Add(1)
			written := &demov1alpha1.VirtualMachine{}
			if err := json.Unmarshal(mustJSON(answer), written); err != nil || slices.Contains(written.Spec.Tags, "locked") {
				t.Errorf("patched what is locked: %v %+v", err, written.Spec)
			}
		case apierrors.IsForbidden(err):
			refused.Add(1)
		case !apierrors.IsConflict(err): // it was attempted too often
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		writes = append(writes, write{id: r.header[auditv1.HeaderAuditID], what: r.method, err: err})
	}

	patching := make(chan struct{})
	var locking, group sync.WaitGroup
	locking.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-patching:
				return
			default:
			}
			tags := [][]string{{"locked"}, {"open"}}[i%2]
			if _, err := vms.Patch(t.Context(), "lockable", types.MergePatchType, mustJSON(map[string]any{"spec": map[string]any{"tags": tags}}), metav1.PatchOptions{}); err != nil && !apierrors.IsConflict(err) {
				t.Error(err)
				return
			}
		}
	})
	for p := range patchers {
		group.Go(func() {
			for i := range patches {
				patch(p, i)
			}
		})
	}
	group.Wait()
	close(patching)
	locking.Wait()
	if allowed.Load() < least || refused.Load() < least {
		t.Errorf("%d patches were allowed and %d refused, which tells nothing", allowed.Load(), refused.Load())
	}
	events := eventsOf(t, writes)
	for _, w := range writes {
		want := map[bool]string{true: "allow", false: "deny"}[w.err == nil]
		if got := events[w.id].Annotations["authorization.proviso.dev/decision"]; got != want && !apierrors.IsConflict(w.err) {
			t.Errorf("the audit event says %q of a patch that ended with %v", got, w.err)
		}
	}
	t.Logf("%d allowed, %d refused, %d conflicts", allowed.Load(), refused.Load(), int64(len(writes))-allowed.Load()-refused.Load())
}
