/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/proviso-authz/proviso/test/testutil/pki"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// StartControllerManager starts kube-controller-manager, if it does not run, and waits until it is healthy. Each of its controllers
// has a ServiceAccount of its own.
func (c *Cluster) StartControllerManager(ctx context.Context) error {
	if c.controllerManager.find() {
		return nil
	}
	const name = "kube-controller-manager"
	identity, err := c.ca.Client(name, "system:"+name)
	if err != nil {
		return err
	}
	serving, err := c.ca.Server(name+"-serving", "localhost", "127.0.0.1")
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.KubeAPIServerURL(), CertificateAuthority: c.CAFile()}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: identity.Cert, ClientKey: identity.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	kubeconfig := filepath.Join(c.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return err
	}
	key, err := c.serviceAccountKey()
	if err != nil {
		return err
	}
	err = c.controllerManager.start(c.binary(name), []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.ports.ControllerManager),
		"--tls-cert-file=" + serving.Cert, "--tls-private-key-file=" + serving.Key,
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--use-service-account-credentials", "--service-account-private-key-file=" + key, "--root-ca-file=" + c.CAFile(),
		"--leader-elect=false",
	}, nil)
	if err != nil {
		return err
	}
	return c.waitFor(ctx, c.controllerManager, fmt.Sprintf("https://127.0.0.1:%d/healthz", c.ports.ControllerManager), c.CAFile(), pki.Pair{})
}
