/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// KubeAPIServer is a kube-apiserver of a cluster. Its methods must not be called concurrently.
type KubeAPIServer struct {
	// Args are additional arguments. They apply from the next start.
	Args []string
	// Doors is the URL of the front door and the inner door for this server. Empty means the URL of Config.InnerDoor.
	Doors string
	// SharesCertificate lets the server use the first one's client certificate for the front door, from the next start.
	SharesCertificate bool

	cluster *Cluster
	// suffix ends the names of its certificates.
	suffix  string
	dir     string
	port    int
	process *process
}

func (c *Cluster) newKubeAPIServer(suffix, dir string, port int) *KubeAPIServer {
	return &KubeAPIServer{cluster: c, suffix: suffix, dir: dir, port: port, process: &process{name: "kube-apiserver", dir: dir, detached: c.Detached}}
}

// URL returns the URL of the server.
func (s *KubeAPIServer) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", s.port) }

// Kill kills the server. Start starts it again at the same address.
func (s *KubeAPIServer) Kill() error { return s.process.stop(syscall.SIGKILL, startTimeout) }

// Stall stops the process without ending it. Resume lets it go on.
func (s *KubeAPIServer) Stall() error { return s.process.signal(syscall.SIGSTOP) }

// Resume lets a process go on that was stalled.
func (s *KubeAPIServer) Resume() error { return s.process.signal(syscall.SIGCONT) }

// FrontDoorCertificate returns the server's client certificate for the front door.
func (s *KubeAPIServer) FrontDoorCertificate() (certFile, keyFile string, err error) {
	c, suffix := s.cluster, s.suffix
	if c.Deployment {
		dir := filepath.Join(c.Manifests, "front-door", "certs")
		return filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"), nil
	}
	if s.SharesCertificate {
		suffix = ""
	}
	name := "front-door" + suffix
	files := pki.Pair{Cert: c.pki(name + ".crt"), Key: c.pki(name + ".key")}
	if _, err := os.Stat(files.Cert); err == nil {
		return files.Cert, files.Key, nil
	}
	files, err = c.frontDoorCA.Client(name, frontDoorClient+suffix)
	return files.Cert, files.Key, err
}

// auditPolicy records requests with the requester, the impersonated user and the decision, and writes in the namespace AuditedNamespace
// also with their objects, but not the requests of the servers themselves, which would fill the log.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver", "system:serviceaccount:proviso-system:proviso-apiserver"]
- level: Request
  namespaces: ["` + AuditedNamespace + `"]
- level: Metadata
`

// AuditedNamespace is a namespace in which the audit log has the objects of writes.
const AuditedNamespace = "audited"

// AuditLog returns the path of the first kube-apiserver's audit log, which has one event per line.
func (c *Cluster) AuditLog() string { return filepath.Join(c.Dir, "audit.log") }

// StartKubeAPIServer starts the first kube-apiserver, if it does not run, and waits until it is ready. It
// writes Kubeconfig.
func (c *Cluster) StartKubeAPIServer(ctx context.Context) error { return c.Servers[0].Start(ctx) }

// Start starts the server, if it does not run, and waits until it is ready.
func (s *KubeAPIServer) Start(ctx context.Context) error {
	c := s.cluster
	if err := c.writeKubeconfig(); err != nil {
		return err
	}
	if s.process.find() {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	serving, err := c.ca.Server("kube-apiserver"+s.suffix, "127.0.0.1", "localhost", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	proxy, err := c.frontProxyCA.Client("front-proxy"+s.suffix, "front-proxy-client")
	if err != nil {
		return err
	}
	doors, err := s.writeDoors(ctx)
	if err != nil {
		return err
	}
	policy := filepath.Join(s.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	serviceAccounts, err := c.serviceAccountKey()
	if err != nil {
		return err
	}
	args := []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", s.port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + serving.Cert, "--tls-private-key-file=" + serving.Key,
		"--client-ca-file=" + c.CAFile(),
		"--requestheader-client-ca-file=" + c.frontProxyCA.Files().Cert,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + proxy.Cert, "--proxy-client-key-file=" + proxy.Key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + serviceAccounts, "--service-account-signing-key-file=" + serviceAccounts,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--audit-policy-file=" + policy, "--audit-log-path=" + filepath.Join(s.dir, "audit.log"), "--audit-log-maxsize=100", "--audit-log-maxbackup=1",
	}
	if !c.ControllerManager { // no controller makes the default accounts
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	args = slices.Concat(args, c.storeArgs(c.EtcdURL()), doors, c.KubeAPIServerArgs, s.Args)
	binary := "kube-apiserver"
	if c.IsOld() {
		binary += "-" + c.Kubernetes
	}
	if err := s.process.start(c.binary(binary), args, nil); err != nil {
		return err
	}
	return c.waitFor(ctx, s.process, s.URL()+"/readyz", c.CAFile(), c.userPair(Admin))
}

// serviceAccountKey returns the file with the key of the tokens of ServiceAccounts.
func (c *Cluster) serviceAccountKey() (string, error) {
	key := c.pki("service-accounts.key")
	if _, err := os.Stat(key); err == nil {
		return key, nil
	}
	files, err := c.ca.Client("service-accounts", "service-accounts")
	return files.Key, err
}

// writeDoors writes the files with which the server calls Proviso, and returns the flags that name them. On a managed cluster there are none,
// and the flags are those that every cluster with RBAC has. Old versions do not know the header for the UID either.
func (s *KubeAPIServer) writeDoors(ctx context.Context) (flags []string, err error) {
	c := s.cluster
	const uid = "--requestheader-uid-headers=X-Remote-Uid"
	switch {
	case c.Managed:
		return []string{"--authorization-mode=Node,RBAC"}, nil
	case c.InnerDoor == nil:
		authorization, err := c.writeAuthorization()
		return []string{uid, "--authorization-config=" + authorization}, err
	default:
		dir := s.InnerDoorFiles()
		return []string{
			uid, "--authorization-config=" + filepath.Join(dir, "authorization.yaml"),
			"--admission-control-config-file=" + filepath.Join(dir, "admission.yaml"),
		}, s.WriteInnerDoor(ctx)
	}
}
