//go:build incidents

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/monitoring"
	"github.com/proviso-authz/proviso/test/testutil/pki"
	"github.com/proviso-authz/proviso/test/testutil/plane"
	"github.com/proviso-authz/proviso/test/testutil/poll"
)

// site is a control plane of an administrator: its processes can be restarted, and its files can be changed.
type site struct {
	*watched
	store     *cluster.Instance
	processes []*restartable
}

// incident is a cause that makes alerts fire, and the cure of the runbook.
type incident struct {
	alerts      []string
	cause, cure func(*testing.T, *site)
}

// TestIncidents causes each incident on a control plane of its own, waits for its alerts, applies the cure of the runbook, and waits until no alert fires and the
// main job works. With PROVISO_READER, a reader finds the cause and applies the cure: docs/runbook.md must be enough for that.
func TestIncidents(t *testing.T) {
	program := monitoring.Program(t, "prometheus")
	for i, in := range incidents {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			s := newSite(t)
			s.startPrometheus(t, program)
			time.Sleep(2 * shortened)
			poll.Eventually(t, "all is well before the incident", func() string { return s.problem(t) })
			began := time.Now()
			in.cause(t, s)
			poll.Eventually(t, "the alerts", func() string { return lacks(strings.Join(s.firing(t, "last_over_time"), " "), in.alerts) })
			caused := time.Since(began)
			if os.Getenv("PROVISO_READER") != "" {
				s.awaitReader(t)
				return
			}
			began = time.Now()
			in.cure(t, s)
			poll.Eventually(t, "the incident is over", func() string { return s.problem(t) })
			t.Logf("%v after %s, over %s after the cure", in.alerts, caused.Round(time.Second), time.Since(began).Round(time.Second))
		})
	}
}

// newSite starts a control plane without proxies, whose store is a process of its own, in a file system of its own if the test may mount one.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	own := plane.Prepare(t, cluster.Config{InnerDoor: &cluster.InnerDoor{Configuration: plane.TestData(t, "inner-door.yaml")}})
	s.watched = &watched{pair: &pair{rig: &rig{Own: own}}, policies: map[string]string{}}
	plane.ReadYAML(t, "alerts.yaml", &s.policies)
	own.InnerDoor.Servers = []string{own.KubeAPIServerURL()}
	var err error
	s.store, err = own.NewInstance("store")
	mustBeNil(t, err)
	disk := s.disk()
	mustBeNil(t, os.Mkdir(disk, 0o700))
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=192m,mode=0700"); err == nil {
		t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	}
	t.Cleanup(s.store.Stop)
	mustBeNil(t, s.store.StartEtcd(t.Context()))
	authorizers := filepath.Join(own.Dir, "authorizers.yaml")
	s.writeHook(t, own.Dir, s.startHook(t))
	own.Args = []string{"--barriers", "--etcd-servers=" + s.store.EtcdURL(), "--policy-staleness-bound=3s", "--authorization-config=" + authorizers, "--feature-gates=WebhooksAtFrontDoor=false"}
	s.Start(t, s.Up)
	s.add(t, own.Dir, "kube-apiserver", own.KillKubeAPIServer)
	s.add(t, own.Dir, "proviso-apiserver", own.Kill)
	s.add(t, filepath.Dir(disk), "etcd", s.store.KillEtcd)
	s.MustApply(t, s.policies["healthy"])
	s.awaitHealthy(t)
	repeat(t, s.write)
	repeat(t, s.reads(s.as("hooked")))
	s.watchRestarts(t)
	return s
}

// disk returns the directory with the data of the store.
func (s *site) disk() string { return filepath.Join(s.Dir, "instance-store", "etcd") }

// problem says which alerts fire, or what of the main job does not work.
func (s *site) problem(t *testing.T) string {
	t.Helper()
	if alerts := s.firing(t, "last_over_time"); len(alerts) > 0 {
		return fmt.Sprintf("the alerts %v fire", alerts)
	}
	for name, want := range map[string]int{"map-job": http.StatusCreated, "secret-job": http.StatusForbidden} {
		body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}}`, name)
		code, answer, err := s.as("dana").send(t.Context(), http.MethodPost, maps+"?dryRun=All", jsonType, strings.NewReader(body))
		if err != nil || code != want {
			return fmt.Sprintf("dana creates a ConfigMap %s: got %d %.300s %v, want %d", name, code, answer, err, want)
		}
	}
	if output, err := s.Kubectl(t.Context(), "", "get", "clusterauthorizationpolicies"); err != nil {
		return output
	}
	return ""
}

// awaitReader prints what an administrator on call has, and waits until the reader says that the incident is over, and it is.
func (s *site) awaitReader(t *testing.T) {
	t.Helper()
	time.Sleep(30 * time.Second) // until all alerts fire, and kube-apiserver has noticed which APIServices do not answer
	said := filepath.Join(s.Dir, "over")
	fmt.Println(s.sheet(t, said))
	for {
		for _, err := os.Stat(said); err != nil; _, err = os.Stat(said) {
			time.Sleep(time.Second)
		}
		last := ""
		if poll.Until(t.Context(), time.Minute, func() bool { last = s.problem(t); return last == "" }) {
			fmt.Println("The incident is over.")
			return
		}
		fmt.Println("The incident is not over:", last)
		mustBeNil(t, os.Remove(said))
	}
}

// sheet returns what an administrator on call has: the alerts, and where everything is. It does not depend on the incident otherwise.
func (s *site) sheet(t *testing.T, said string) string {
	t.Helper()
	text := &strings.Builder{}
	fmt.Fprintf(text, `
================================================================================
The alerts below are firing. Their rules are in artifacts/monitoring, but each
period in them is %s here. Each runbook_url is a section of docs/runbook.md.

%s
kubectl   %s/kubectl --kubeconfig=%s
          The context admin is kube-apiserver, admin-direct Proviso's own port.
          Other programs, such as proviso-apiserver, are beside kubectl.
Prometheus %s
Files     %s
          pki              the certificates and keys of all servers and CAs
          inner-door       the files of kube-apiserver for both doors
          inner-door.yaml  the InnerDoorConfiguration
          artifacts        the manifests of the installation
Store     %s, without TLS: an etcd of Proviso alone, whose data are in %s

The servers are processes of this machine, not pods. To start one again, touch its file restart: it gets the arguments in its
file of arguments.

`, shortened, s.alerts(t), s.Bin, s.Kubeconfig(), s.prometheus, s.Dir, s.store.EtcdURL(), s.disk())
	for _, p := range s.processes {
		fmt.Fprintf(text, "%s\n          log        %s\n          arguments  %s\n          restart    %s\n", p.name, p.file("log"), p.file("args"), p.file("restart"))
	}
	fmt.Fprintf(text, "\nWhen the incident is over, touch %s\n================================================================================\n", said)
	return text.String()
}

// alerts returns the alerts that fire, as Alertmanager shows them.
func (s *site) alerts(t *testing.T) string {
	t.Helper()
	answer, err := s.get(t.Context(), "alerts", nil)
	mustBeNil(t, err)
	var data struct {
		Alerts []map[string]any `json:"alerts"`
	}
	mustBeNil(t, json.Unmarshal(answer, &data))
	firing := slices.DeleteFunc(data.Alerts, func(alert map[string]any) bool { return alert["state"] != "firing" })
	for _, alert := range firing {
		alert["status"], alert["startsAt"] = alert["state"], alert["activeAt"]
		for _, name := range []string{"state", "activeAt", "value"} {
			delete(alert, name)
		}
	}
	text, err := yaml.Marshal(firing)
	mustBeNil(t, err)
	return string(text)
}

// restartable is a process that an administrator may restart, with other arguments if its file of arguments is changed.
type restartable struct {
	dir, name string
	kill      func() error
	start     func(args []string) error
}

// file returns the path of a file of the process: log, args or restart.
func (p *restartable) file(suffix string) string { return filepath.Join(p.dir, p.name+"."+suffix) }

// restart kills the process, if it runs, and starts it with the arguments in its file.
func (p *restartable) restart() error {
	args, err := os.ReadFile(p.file("args"))
	if err != nil {
		return err
	}
	if err := p.kill(); err != nil {
		return err
	}
	return p.start(strings.Split(strings.TrimSpace(string(args)), "\n"))
}

// add makes a process of the cluster restartable. kill kills the process that the cluster has started.
func (s *site) add(t *testing.T, dir, name string, kill func() error) {
	t.Helper()
	p := &restartable{dir: dir, name: name, kill: kill}
	pid, err := os.ReadFile(p.file("pid"))
	mustBeNil(t, err)
	args, err := os.ReadFile(filepath.Join("/proc", string(pid), "cmdline"))
	mustBeNil(t, err)
	mustBeNil(t, os.WriteFile(p.file("args"), []byte(strings.ReplaceAll(string(args), "\x00", "\n")), 0o600))
	p.start = func(args []string) error {
		cmd := exec.Command(args[0], args[1:]...)
		log, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		p.kill = func() error {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return nil
		}
		return nil
	}
	s.processes = append(s.processes, p)
	t.Cleanup(func() { _ = p.kill() })
}

// mustRestart restarts a process as a reader does.
func (s *site) mustRestart(t *testing.T, name string) {
	t.Helper()
	p := s.process(name)
	mustBeNil(t, os.WriteFile(p.file("restart"), nil, 0o600))
	poll.Holds(t, name+" restarts", func() bool {
		_, err := os.Stat(p.file("restart"))
		return err != nil
	})
}

func (s *site) process(name string) *restartable {
	return s.processes[slices.IndexFunc(s.processes, func(p *restartable) bool { return p.name == name })]
}

// watchRestarts restarts processes whose file restart appears, until the test ends.
func (s *site) watchRestarts(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
			}
			for _, p := range s.processes {
				if _, err := os.Stat(p.file("restart")); err != nil {
					continue
				}
				if err := p.restart(); err != nil {
					fmt.Println(p.name, "does not start:", err)
				}
				_ = os.Remove(p.file("restart"))
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		group.Wait()
	})
}

// closedAddress returns an address on which no server listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	port, err := cluster.ReservePort()
	mustBeNil(t, err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// startHook starts the authorization webhook, and returns its URL. It listens in this process, and can be restarted like the others.
func (s *site) startHook(t *testing.T) string {
	t.Helper()
	certFile, keyFile, err := s.ServingCertificate("hook")
	mustBeNil(t, err)
	address := closedAddress(t)
	p := &restartable{dir: s.Dir, name: "hook.example.com"}
	file, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	mustBeNil(t, err)
	logger := log.New(file, "", log.LstdFlags)
	p.kill = func() error { return nil }
	p.start = func(args []string) error {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", strings.TrimPrefix(args[0], "--listen="))
		if err != nil {
			return err
		}
		server := &http.Server{
			Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, hookAnswer) }),
			ReadHeaderTimeout: time.Minute, ErrorLog: logger,
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		}
		logger.Println("listening on", listener.Addr())
		go func() { _ = server.ServeTLS(listener, "", "") }()
		p.kill = func() error {
			logger.Println("stopped")
			return server.Close()
		}
		return nil
	}
	mustBeNil(t, os.WriteFile(p.file("args"), []byte("--listen="+address), 0o600))
	mustBeNil(t, p.restart())
	s.processes = append(s.processes, p)
	t.Cleanup(func() {
		_ = p.kill()
		_ = file.Close()
	})
	return "https://" + address
}

// sign signs certificates with a CA of the site, as an administrator does by openssl. The validity may be negative.
func (s *site) sign(t *testing.T, ca string, validity time.Duration) *pki.Authority {
	t.Helper()
	authority, err := pki.New(filepath.Join(s.Dir, "pki"), ca, validity)
	mustBeNil(t, err)
	return authority
}
