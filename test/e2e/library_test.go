/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	democlient "github.com/proviso-authz/proviso/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/etcd"
	"github.com/proviso-authz/proviso/test/library"
)

// libraryServer is the user as whom the server asks kube-apiserver and Proviso.
const libraryServer = "e2e-library-server"

// libraryRBAC is what docs/library.md grants to the server.
const libraryRBAC = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s:%[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "%[2]s"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]
---
`

// libraryKubeconfig writes the only kubeconfig of the server, which is for kube-apiserver, and grants the permissions of its user.
func libraryKubeconfig(t *testing.T, dir string) string {
	t.Helper()
	cert, key, err := stack.NewUser(libraryServer)
	if err != nil {
		t.Fatal(err)
	}
	manifest := ""
	for _, role := range []string{"system:auth-delegator", "proviso:reviewer", "proviso-apiserver"} { // the last one is for the informers of admission
		manifest += fmt.Sprintf(libraryRBAC, libraryServer, role)
	}
	manifest += `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ` + libraryServer + `, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + libraryServer + `}]
`
	if _, errs, err := kubectlWithInput(t, "admin", manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	file := filepath.Join(dir, "kubeconfig")
	content := fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: kube-apiserver
contexts: [{name: kube-apiserver, context: {cluster: kube-apiserver, user: library}}]
clusters: [{name: kube-apiserver, cluster: {server: %s, certificate-authority: %s}}]
users: [{name: library, user: {client-certificate: %s, client-key: %s}}]
`, stack.KubeAPIServerURL(), stack.CAFile(), cert, key)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const libraryPolicies = `
apiVersion: v1
kind: Namespace
metadata: {name: e2e-library}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: dev, namespace: e2e-library}
spec:
  description: carol writes machines of class dev only
  effect: Allow
  subjects:
  - {kind: User, name: carol}
  rules:
  - verbs: [create, update, patch]
    apiGroups: [demo.proviso.dev]
    apiVersions: [v1alpha1]
    resources: [virtualmachines]
  condition: object.spec.storageClassName == "dev"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: everything, namespace: e2e-library}
rules:
- {apiGroups: [demo.proviso.dev], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everything, namespace: e2e-library}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: everything}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: no-patch, namespace: e2e-library}
spec:
  description: bob patches no machines
  effect: Deny
  subjects: [{kind: User, name: bob}]
  rules: [{verbs: [patch], apiGroups: [demo.proviso.dev], resources: [virtualmachines]}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: no-prod, namespace: e2e-library}
spec:
  description: bob writes no machines of class prod
  effect: Deny
  subjects: [{kind: User, name: bob}]
  rules: [{verbs: [create, update], apiGroups: [demo.proviso.dev], apiVersions: [v1alpha1], resources: [virtualmachines]}]
  condition: object.spec.storageClassName == "prod"
`

// startLibrary runs the server of docs/library.md, which is not Proviso, and asks Proviso. It
// returns a function that makes clients of the server for the users of the stack.
func startLibrary(t *testing.T) func(user string) democlient.VirtualMachineInterface {
	t.Helper()
	if _, errs, err := kubectlWithInput(t, "admin", libraryPolicies, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	mustKubectl(t, "admin", "wait", "--for=condition=Ready", "--namespace=e2e-library", "authorizationpolicy", "--all")
	dir, err := os.MkdirTemp("", "lib") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	member, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close() })
	endpoint, err := etcd.Endpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := library.New(library.Options{
		Kubeconfig: libraryKubeconfig(t, dir), EtcdServers: []string{endpoint}, EtcdPrefix: "/library",
		Listener: listener, CertDirectory: filepath.Join(dir, "certificates"),
	})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.PrepareRun().RunWithContext(t.Context()) }()
	t.Cleanup(func() {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return func(user string) democlient.VirtualMachineInterface {
		cert, key := stack.UserCertificate(user)
		client, err := versioned.NewForConfig(&rest.Config{Host: "https://" + listener.Addr().String(), TLSClientConfig: rest.TLSClientConfig{
			Insecure: true, // it makes its certificate itself
			CertFile: cert, KeyFile: key,
		}})
		if err != nil {
			t.Fatal(err)
		}
		return client.DemoV1alpha1().VirtualMachines("e2e-library")
	}
}

func libraryMachine(name, class string) *demov1alpha1.VirtualMachine {
	return &demov1alpha1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demov1alpha1.VirtualMachineSpec{Image: "debian", StorageClassName: class}}
}

// TestLibrary checks that the server allows on conditions, and enforces them, and that what
// Proviso denies is denied although kube-apiserver allows it.
func TestLibrary(t *testing.T) {
	t.Parallel()
	machinesOf := startLibrary(t)
	t.Run("conditions allow", func(t *testing.T) { checkLibraryAllows(t, machinesOf("carol")) })
	t.Run("policies deny whom kube-apiserver allows", func(t *testing.T) { checkLibraryDenies(t, machinesOf("bob")) })
}

// checkLibraryAllows makes requests as a user who may only write machines of class dev.
func checkLibraryAllows(t *testing.T, machines democlient.VirtualMachineInterface) {
	t.Helper()
	if got := settled(t, "", func() string {
		if _, err := machines.Create(t.Context(), libraryMachine("one", "dev"), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	}); got != "" {
		t.Fatalf("class dev: %s", got)
	}
	for name, attempt := range map[string]func() error{
		"another class": func() error {
			_, err := machines.Create(t.Context(), libraryMachine("two", "prod"), metav1.CreateOptions{})
			return err
		},
		"into another class": func() error {
			_, err := machines.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"storageClassName":"prod"}}`), metav1.PatchOptions{})
			return err
		},
	} {
		if err := attempt(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "carol writes machines of class dev only") {
			t.Errorf("%s: got %v, want 403 that describes the policy", name, err)
		}
	}
	if _, err := machines.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("within the class: %v", err)
	}
	if err := machines.Delete(t.Context(), "one", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting: got %v, want 403", err)
	}
}

// checkLibraryDenies makes requests as a user whom RBAC allows everything, and whom Deny
// policies deny some of it.
func checkLibraryDenies(t *testing.T, machines democlient.VirtualMachineInterface) {
	t.Helper()
	for _, row := range []struct {
		name    string
		attempt func() error
		want    string // in the refusal; empty if the request succeeds
	}{
		{name: "class dev, which no policy denies", attempt: func() error {
			_, err := machines.Create(t.Context(), libraryMachine("bobs", "dev"), metav1.CreateOptions{})
			return err
		}},
		{name: "denied on a condition", want: "bob writes no machines of class prod", attempt: func() error {
			_, err := machines.Create(t.Context(), libraryMachine("bobs-prod", "prod"), metav1.CreateOptions{})
			return err
		}},
		{name: "denied on a condition in an update", want: "bob writes no machines of class prod", attempt: func() error {
			stored, err := machines.Get(t.Context(), "bobs", metav1.GetOptions{})
			if err != nil {
				return err
			}
			stored.Spec.StorageClassName = "prod"
			_, err = machines.Update(t.Context(), stored, metav1.UpdateOptions{})
			return err
		}},
		{name: "denied unconditionally", want: "bob patches no machines", attempt: func() error {
			_, err := machines.Patch(t.Context(), "bobs", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		}},
		{name: "a deletion, which no policy denies", attempt: func() error { return machines.Delete(t.Context(), "bobs", metav1.DeleteOptions{}) }},
	} {
		err := row.attempt()
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.name, err)
		case row.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: got %v, want 403 with %q", row.name, err, row.want)
		}
	}
}
