//go:build soak

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/proviso-authz/proviso/test/testutil/documents"
	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

const (
	// settle is how long the writers go on after a step. Servers that watch a file have read it again by then.
	settle = 20 * time.Second
	// readAgain is how long kube-apiserver and Proviso, as clients, may use a certificate or a CA whose file has been replaced: five minutes, and some seconds.
	readAgain = 5*time.Minute + settle
)

// distrust finds the causes of refusals that certificates have.
var distrust = regexp.MustCompile(`x509|certificate|Unauthorized|tls: |^401 `)

// rotation replaces the certificates of a soak.
type rotation struct {
	*soak
	// dir has the certificates in use, and old those from the beginning.
	dir, old string
	// next are the authorities that replace those from the beginning, by name.
	next map[string]*pki.Authority
}

// step does something while users write, and lets them go on for some time.
func (r *rotation) step(t *testing.T, what string, pause time.Duration, do func()) {
	t.Helper()
	mustBeNil(t, r.chaos.cause(what, r.replicas[0], func() error { do(); return nil }, func() error { time.Sleep(pause); return nil }))
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	for name, lasted := range r.tally.outages {
		if t.Logf("%s: writes of %s were refused for %s", what, name, lasted.Round(10*time.Millisecond)); lasted > recovery {
			t.Errorf("that is longer than %s", recovery)
		}
	}
	clear(r.tally.outages)
}

// authority writes the file of an authority: the new one, with the old one if it still counts.
func (r *rotation) authority(t *testing.T, name string, withOld bool) {
	t.Helper()
	content, err := os.ReadFile(r.next[name].Files().Cert)
	mustBeNil(t, err)
	if withOld {
		old, err := os.ReadFile(filepath.Join(r.old, name+".crt"))
		mustBeNil(t, err)
		content = append(old, content...)
	}
	temporary := filepath.Join(r.dir, "new")
	mustBeNil(t, errors.Join(os.WriteFile(temporary, content, 0o600), os.Rename(temporary, filepath.Join(r.dir, name+".crt"))))
}

// reissue replaces certificates in use, which match patterns, by certificates of the new authorities.
func (r *rotation) reissue(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(r.dir, pattern+".crt"))
		mustBeNil(t, err)
		if len(files) == 0 {
			t.Fatalf("there is no certificate %s", pattern)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "-client.crt") {
				r.reissueOne(t, strings.TrimSuffix(filepath.Base(file), ".crt"))
			}
		}
	}
}

func (r *rotation) reissueOne(t *testing.T, name string) {
	t.Helper()
	found, err := cert.CertsFromFile(filepath.Join(r.dir, name+".crt"))
	mustBeNil(t, err)
	old, hosts, pair := found[0], found[0].DNSNames, pki.Pair{}
	for _, address := range old.IPAddresses {
		hosts = append(hosts, address.String())
	}
	if authority := r.next[old.Issuer.CommonName]; slices.Contains(old.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		pair, err = authority.Server(name, hosts...)
	} else {
		pair, err = authority.Client(name, old.Subject.CommonName, old.Subject.Organization...)
	}
	mustBeNil(t, errors.Join(err, os.Rename(pair.Key, filepath.Join(r.dir, name+".key")), os.Rename(pair.Cert, filepath.Join(r.dir, name+".crt"))))
}

// tell writes the CA of Proviso's serving certificate into the APIServices and into the files of each kube-apiserver, and waits until each kube-apiserver has loaded them.
func (r *rotation) tell(t *testing.T) {
	t.Helper()
	mustBeNil(t, r.RegisterVersions(t.Context(), "v1alpha1.authorization.k8s.io", "v1alpha1.authorization.proviso.dev", "v1alpha1.policy.proviso.dev", "v1alpha1.demo.proviso.dev"))
	admin, err := os.ReadFile(r.Kubeconfig())
	mustBeNil(t, err)
	for i, server := range r.Servers {
		mustBeNil(t, server.WriteInnerDoor(t.Context()))
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		mustBeNil(t, os.WriteFile(kubeconfig, bytes.ReplaceAll(admin, []byte(r.Servers[0].URL()), []byte(server.URL())), 0o600))
		took := poll.Eventually(t, "kube-apiserver loads the files of the doors", func() string {
			output, err := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "proviso-apiserver"), "inner-door-config", "--check",
				"--config", server.InnerDoorConfig(), "--output", server.InnerDoorFiles(), "--kubeconfig", kubeconfig).CombinedOutput()
			if err != nil {
				return fmt.Sprintf("%v: %s", err, output)
			}
			return ""
		})
		t.Logf("kube-apiserver %d has loaded the files of the doors after %s", i+1, took)
	}
}

// told waits until kube-apiserver has published the new CAs, by which Proviso knows clients of its own port.
func (r *rotation) told(t *testing.T) {
	t.Helper()
	took := poll.Eventually(t, "kube-apiserver publishes the CAs", func() string {
		published := strings.Join(strings.Fields(r.MustKubectl(t, "get", "configmap", "extension-apiserver-authentication", "-n=kube-system", "-o=jsonpath={.data.client-ca-file}{.data.requestheader-client-ca-file}")), "")
		for _, name := range []string{"ca", "front-proxy-ca"} {
			content, err := os.ReadFile(r.next[name].Files().Cert)
			mustBeNil(t, err)
			if !strings.Contains(published, strings.Join(strings.Fields(string(content)), "")) {
				return name + " is not published"
			}
		}
		return ""
	})
	t.Logf("kube-apiserver has published the CAs after %s", took)
}

// credential is a client certificate with what it is good for.
type credential struct {
	what, name, url string
	header          http.Header
	client          *http.Client
}

// credentials are the client certificates of a directory that servers accept, each with a client that keeps its connection.
func (r *rotation) credentials(t *testing.T, dir string) []*credential {
	t.Helper()
	const list = "/apis/policy.proviso.dev/v1alpha1/clusterauthorizationpolicies"
	all := []*credential{
		{what: "an administrator at kube-apiserver", name: "user-admin", url: r.Servers[0].URL() + "/api/v1/namespaces/default"},
		{what: "an administrator at Proviso", name: "user-admin", url: r.ProvisoURL() + list},
		{what: "a front proxy at Proviso", name: "front-proxy", url: r.ProvisoURL() + list, header: http.Header{"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}}},
		{what: "kube-apiserver at the doors", name: "front-door", url: r.FrontDoorURL() + "/readyz"},
	}
	for _, c := range all {
		c.client = clientWith(t, r.Cluster, filepath.Join(dir, c.name+".crt"), filepath.Join(dir, c.name+".key"))
	}
	return all
}

// code returns the answer to a request with a client certificate, or 0 with the error if there is none.
func (c *credential) code(t *testing.T) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, http.NoBody)
	mustBeNil(t, err)
	request.Header = c.header.Clone()
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// become waits until all credentials have an answer.
func (r *rotation) become(t *testing.T, when string, want int, all []*credential) {
	t.Helper()
	for _, c := range all {
		took := poll.Eventually(t, when+": "+c.what, func() string {
			if got, err := c.code(t); got != want {
				return fmt.Sprintf("%d %v, want %d", got, err, want)
			}
			return ""
		})
		t.Logf("%s: %s has %d after %s", when, c.what, want, took)
	}
}

// TestRotation replaces every certificate and every CA of a control plane except etcd's while users write and policies change. It has three steps: bundles with the old and
// the new CAs, new certificates, and the new CAs alone. It fails if a process restarts, or if a write that must pass is refused for longer than the canaries take.
func TestRotation(t *testing.T) {
	s := newSoak(t, "")
	r := &rotation{soak: s, dir: filepath.Dir(s.CAFile()), old: filepath.Join(s.Dir, "pki-old"), next: map[string]*pki.Authority{}}
	mustBeNil(t, errors.Join(os.CopyFS(r.old, os.DirFS(r.dir)), os.Mkdir(filepath.Join(s.Dir, "pki-next"), 0o700)))
	for _, name := range []string{"ca", "front-proxy-ca", "front-door-ca"} {
		authority, err := pki.New(filepath.Join(s.Dir, "pki-next"), name, time.Hour)
		mustBeNil(t, err)
		r.next[name] = authority
	}
	pids := map[string]string{}
	for _, server := range s.servers {
		pids[server.Name] = server.Pid()
	}
	s.run(t, func() {
		time.Sleep(settle)
		clear(s.tally.outages) // the beginning
		r.rotate(t)
		time.Sleep(settle) // without a fault, which would excuse a refusal
	})
	for _, server := range s.servers {
		if pid := server.Pid(); pid == "" || pid != pids[server.Name] {
			t.Errorf("%s has the pid %s, and had %s", server.Name, pid, pids[server.Name])
		}
	}
	s.verify(t, "at the end")
	s.report(t)
	for cause := range s.tally.causes {
		if distrust.MatchString(cause) {
			t.Errorf("a client or a server did not trust the other one: %s", cause)
		}
	}
	if s.tally.passed < 1000 {
		t.Errorf("%d writes passed: too few to say anything", s.tally.passed)
	}
}

func (r *rotation) rotate(t *testing.T) {
	t.Helper()
	for _, withOld := range []bool{true, false} {
		if !withOld {
			r.certificates(t)
		}
		old := r.credentials(t, r.old)
		r.become(t, "with both CAs", http.StatusOK, old)
		what := map[bool]string{true: "both CAs", false: "the new CA alone"}[withOld]
		r.step(t, what+" of clients of the doors", settle, func() { r.authority(t, "front-door-ca", withOld) })
		r.step(t, what+" of front proxies", settle, func() { r.authority(t, "front-proxy-ca", withOld) })
		r.step(t, what+" of users and of serving certificates", settle, func() {
			r.authority(t, "ca", withOld)
			r.tell(t)
			r.told(t)
		})
		if withOld {
			r.step(t, "clients read CAs again", readAgain, func() {})
			continue
		}
		r.become(t, "after the rotation", http.StatusOK, r.credentials(t, r.dir))
		r.become(t, "after the rotation", http.StatusUnauthorized, []*credential{old[0], old[3]})
		// kube-apiserver adds to the CAs that it publishes, and takes away only those that have expired.
		r.become(t, "while kube-apiserver publishes the old CAs", http.StatusOK, old[1:3])
		r.step(t, "without the CAs that kube-apiserver has published", settle, func() {
			document, err := os.ReadFile(filepath.Join(r.Repository, "docs", "operations.md"))
			mustBeNil(t, err)
			commands, err := documents.Console(string(document), "published CAs")
			mustBeNil(t, err)
			output, err := r.Shell(t.Context(), commands).CombinedOutput()
			t.Logf("%s", output)
			mustBeNil(t, err)
			r.told(t)
			r.become(t, "after the rotation", http.StatusUnauthorized, old[1:3])
		})
		r.become(t, "after the rotation", http.StatusOK, r.credentials(t, r.dir))
	}
}

// certificates replaces the serving and client certificates, one kind after the other. It leaves out etcd's.
func (r *rotation) certificates(t *testing.T) {
	t.Helper()
	for _, step := range []struct {
		what     string
		patterns []string
	}{
		{"the serving certificates of Proviso", []string{"proviso-serving", "alone-*"}},
		{"the serving certificate of one kube-apiserver", []string{"kube-apiserver"}},
		{"the serving certificate of the other kube-apiserver", []string{"kube-apiserver-2"}},
		{"the proxy certificates of kube-apiservers", []string{"front-proxy", "front-proxy-2"}},
		{"the client certificate of one kube-apiserver for the doors", []string{"front-door"}},
		{"the client certificate of the other kube-apiserver for the doors", []string{"front-door-2"}},
		{"the certificate of Proviso for kube-apiserver", []string{"proviso"}},
		{"the certificates of users", []string{"user-*"}},
	} {
		r.step(t, step.what, settle, func() { r.reissue(t, step.patterns...) })
	}
	r.step(t, "clients read certificates again", readAgain, func() {})
}
