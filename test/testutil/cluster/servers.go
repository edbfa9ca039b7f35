/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/pki"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	startTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
	probeTimeout = 10 * time.Second
)

// EtcdCertificate returns a client certificate for etcd.
func (c *Cluster) EtcdCertificate() (certFile, keyFile string) {
	return c.pki("etcd-client.crt"), c.pki("etcd-client.key")
}

// storeArgs returns the arguments of a server that stores its objects in the cluster's etcd. url is the URL of etcd or of a proxy.
func (c *Cluster) storeArgs(url string) []string {
	return []string{"--etcd-servers=" + url, "--etcd-cafile=" + c.CAFile(), "--etcd-certfile=" + c.pki("etcd-client.crt"), "--etcd-keyfile=" + c.pki("etcd-client.key")}
}

// ServerName is the DNS name in Proviso's certificate, as kube-apiserver expects it.
const ServerName = Service + "." + Namespace + ".svc"

// StartProviso starts proviso-apiserver, if it does not run, and waits until it is ready. It runs
// as the ServiceAccount in artifacts/.
func (c *Cluster) StartProviso(ctx context.Context) error {
	if c.Proviso.find() {
		if !c.Proviso.outdated() {
			return nil
		}
		if err := c.Proviso.stop(syscall.SIGTERM, startTimeout); err != nil {
			return err
		}
	}
	if c.Deployment {
		if err := c.startDeployment(ctx); err != nil {
			return err
		}
		return c.waitFor(ctx, c.Proviso, c.ProvisoURL()+"/readyz", c.ProvisoCAFile(), pki.Pair{})
	}
	serving, err := c.ca.Server("proviso-serving", ServerName, "localhost", "127.0.0.1")
	if err != nil {
		return err
	}
	args := []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.ports.Proviso),
		"--tls-cert-file=" + serving.Cert, "--tls-private-key-file=" + serving.Key,
		"--kubeconfig=" + c.provisoKubeconfig(),
	}
	if c.Managed && !slices.Contains(c.Args, "--barriers=false") {
		args = append(args, "--barriers", c.serversArg())
	}
	if !c.Managed {
		args = append(args,
			"--webhook-bind-address=127.0.0.1", fmt.Sprintf("--webhook-secure-port=%d", c.ports.FrontDoor),
			"--webhook-client-ca-file="+c.frontDoorCA.Files().Cert, "--webhook-allowed-names="+frontDoorClients,
			"--enable-demo-api", "--feature-gates=ConditionalImpersonation=true",
		)
	}
	if c.SharedStore {
		args = append(args, c.storeArgs(c.EtcdURL())...)
	} else {
		args = append(args, "--data-dir="+filepath.Join(c.Dir, "proviso"))
	}
	if c.Token {
		if err := c.useToken(ctx); err != nil {
			return err
		}
	}
	args = slices.Concat(args, c.innerDoorArgs(), c.answersArgs(), c.Args)
	if err := c.Proviso.start(c.provisoBinary(), args, nil); err != nil {
		return err
	}
	return c.waitFor(ctx, c.Proviso, c.ProvisoURL()+"/readyz", c.ProvisoCAFile(), pki.Pair{})
}

// UncachedArgs are the arguments with which proviso-apiserver reuses no answer of kube-apiserver.
var UncachedArgs = []string{"--authorization-webhook-cache-authorized-ttl=0s", "--authorization-webhook-cache-unauthorized-ttl=0s"}

// answersArgs returns the arguments that say how long a server reuses the answers of kube-apiserver.
func (c *Cluster) answersArgs() []string {
	if c.Uncached {
		return UncachedArgs
	}
	return nil
}

// serversArg returns the argument of a Proviso with barriers that names the kube-apiservers. Proviso would list the endpoints of the Service
// kubernetes, but it has none here: endpoints cannot be loopback addresses.
func (c *Cluster) serversArg() string {
	urls := make([]string, 0, len(c.Servers))
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	return "--kube-apiserver-servers=" + strings.Join(urls, ",")
}

// Replicas starts n additional servers that share the cluster's etcd, and returns their URLs. They
// stop with this process, or when stop is called.
func (c *Cluster) Replicas(ctx context.Context, n int) (urls []string, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for range n {
		url, stopOne, err := c.Replica(ctx)
		stops = append(stops, stopOne)
		if err != nil {
			return nil, stop, err
		}
		urls = append(urls, url)
	}
	return urls, stop, nil
}

// Replica starts an additional server that shares the cluster's etcd. args are additional
// arguments of proviso-apiserver.
func (c *Cluster) Replica(ctx context.Context, args ...string) (url string, stop func(), err error) {
	stop = func() {}
	ports, err := reservePorts(1)
	if err != nil {
		return "", stop, err
	}
	// Tests start replicas concurrently, so each one needs its own certificate.
	serving, err := c.ca.Server(fmt.Sprintf("replica-%d", ports[0]), ServerName, "localhost", "127.0.0.1")
	if err != nil {
		return "", stop, err
	}
	dir, err := os.MkdirTemp(c.Dir, "replica-")
	if err != nil {
		return "", stop, err
	}
	p := &process{name: "proviso-apiserver", dir: dir}
	stop = func() { _ = p.stop(syscall.SIGTERM, startTimeout) }
	err = p.start(c.binary("proviso-apiserver"), slices.Concat([]string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
		"--tls-cert-file=" + serving.Cert, "--tls-private-key-file=" + serving.Key,
		"--kubeconfig=" + filepath.Join(c.Dir, "proviso.kubeconfig"),
		"--data-dir=" + filepath.Join(dir, "must-not-be-made"), "--enable-demo-api",
		"--ignore-field-exclusions", // tests share the store, and some store exclusions
	}, c.storeArgs(c.EtcdURL()), c.answersArgs(), args), nil)
	url = fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	if err == nil {
		err = c.waitFor(ctx, p, url+"/readyz", c.CAFile(), pki.Pair{})
	}
	return url, stop, err
}

// once makes a certificate that several servers read, also while another one starts again. Only a cluster that outlives this process makes it again.
func (c *Cluster) once(name string, sign func() (pki.Pair, error)) (pki.Pair, error) {
	files := pki.Pair{Cert: c.pki(name + ".crt"), Key: c.pki(name + ".key")}
	if _, err := os.Stat(files.Cert); err == nil && !c.Detached {
		return files, nil
	}
	return sign()
}

// userPair returns the client certificate of a user.
func (c *Cluster) userPair(name string) pki.Pair {
	return pki.Pair{Cert: c.pki("user-" + name + ".crt"), Key: c.pki("user-" + name + ".key")}
}

func (c *Cluster) writeKubeconfig() error {
	config := clientcmdapi.NewConfig()
	config.Clusters["kube-apiserver"] = &clientcmdapi.Cluster{Server: c.KubeAPIServerURL(), CertificateAuthority: c.CAFile()}
	config.Clusters["proviso"] = &clientcmdapi.Cluster{Server: c.ProvisoURL(), CertificateAuthority: c.ProvisoCAFile(), TLSServerName: ServerName}
	config.CurrentContext = Admin
	for name, groups := range Users {
		files := c.userPair(name)
		if _, err := os.Stat(files.Cert); err != nil {
			if _, err := c.ca.Client("user-"+name, name, groups...); err != nil {
				return err
			}
		}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: files.Cert, ClientKey: files.Key}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: "kube-apiserver", AuthInfo: name}
		config.Contexts[name+"-direct"] = &clientcmdapi.Context{Cluster: "proviso", AuthInfo: name}
	}
	if err := clientcmd.WriteToFile(*config, c.Kubeconfig()); err != nil {
		return err
	}
	return c.writeProvisoKubeconfig()
}

func (c *Cluster) writeProvisoKubeconfig() error {
	identity, err := c.once("proviso", func() (pki.Pair, error) {
		return c.ca.Client("proviso", "system:serviceaccount:"+Namespace+":"+Service, "system:serviceaccounts", "system:serviceaccounts:"+Namespace)
	})
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["kube-apiserver"] = &clientcmdapi.Cluster{Server: cmp.Or(c.KubeAPIServers, c.KubeAPIServerURL()), CertificateAuthority: c.CAFile()}
	config.AuthInfos["proviso"] = &clientcmdapi.AuthInfo{ClientCertificate: identity.Cert, ClientKey: identity.Key}
	config.Contexts["proviso"] = &clientcmdapi.Context{Cluster: "kube-apiserver", AuthInfo: "proviso"}
	config.CurrentContext = "proviso"
	return clientcmd.WriteToFile(*config, c.provisoKubeconfig())
}

func (c *Cluster) provisoKubeconfig() string {
	return filepath.Join(c.Dir, "proviso.kubeconfig")
}

// waitFor waits until a URL answers 200. It returns an error if the process ends.
func (c *Cluster) waitFor(ctx context.Context, p *process, url, caFile string, client pki.Pair) error {
	return c.poll(ctx, p, probe{url: url, caFile: caFile, client: client})
}

// poll repeats the probe until it succeeds. It returns an error if the process ends.
func (c *Cluster) poll(ctx context.Context, p *process, probe probe) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var last error
	for {
		if last = probe.do(ctx); last == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended at its start; the end of its log:\n%s", p.name, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w; the end of its log:\n%s", p.name, last, p.tail())
		case <-time.After(pollInterval):
		}
	}
}

// probe is a GET that must answer 200. If check is set, the answer must also pass it.
type probe struct {
	url, caFile string
	client      pki.Pair
	accept      string
	check       func(*http.Response) error
}

func (p probe) do(ctx context.Context) error {
	ca, err := os.ReadFile(p.caFile)
	if err != nil {
		return err
	}
	// The certificates of all servers here are valid for localhost.
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12, ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM(ca)
	if p.client.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(p.client.Cert, p.client.Key)
		if err != nil {
			return err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return err
	}
	if p.accept != "" {
		request.Header.Set("Accept", p.accept)
	}
	response, err := (&http.Client{Transport: transport, Timeout: probeTimeout}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", p.url, response.Status)
	}
	if p.check != nil {
		return p.check(response)
	}
	return nil
}
