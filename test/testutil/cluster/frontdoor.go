/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// frontDoorClient is the name under which kube-apiserver comes to the front door.
const frontDoorClient = "kube-apiserver"

// FrontDoorURL is where the front door listens.
func (c *Cluster) FrontDoorURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.ports.FrontDoor)
}

// FrontDoorCertificate is the client certificate with which kube-apiserver comes to the
// front door.
func (c *Cluster) FrontDoorCertificate() (certFile, keyFile string, err error) {
	if c.Deployment {
		dir := filepath.Join(c.Manifests, "front-door", "certs")
		return filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"), nil
	}
	files := pki.Pair{Cert: c.pki("front-door.crt"), Key: c.pki("front-door.key")}
	if _, err := os.Stat(files.Cert); err == nil {
		return files.Cert, files.Key, nil
	}
	files, err = c.frontDoorCA.Client("front-door", frontDoorClient)
	return files.Cert, files.Key, err
}

// writeAuthorization writes the AuthorizationConfiguration of kube-apiserver, and returns its
// file. It is that of artifacts/, as is the kubeconfig beside it, but for where files are
// on this machine. Proviso need not run.
func (c *Cluster) writeAuthorization() (string, error) {
	certFile, keyFile, err := c.FrontDoorCertificate()
	if err != nil {
		return "", err
	}
	const dir = "/etc/kubernetes/proviso/"
	kubeconfig, authorization := filepath.Join(c.Dir, "front-door.kubeconfig"), filepath.Join(c.Dir, "authorization.yaml")
	err = c.adapt("kubeconfig.yaml", kubeconfig, map[string]string{
		"https://127.0.0.1:8444": c.FrontDoorURL(), dir + "serving-ca.crt": c.ProvisoCAFile(),
		dir + "client.crt": certFile, dir + "client.key": keyFile,
	})
	if err != nil {
		return "", err
	}
	return authorization, c.adapt("authorization.yaml", authorization, map[string]string{"kubeConfigFile: " + dir + "kubeconfig.yaml": "kubeConfigFile: " + kubeconfig})
}

// adapt copies a file of artifacts/front-door with replacements, each of which must be there.
func (c *Cluster) adapt(name, file string, replacements map[string]string) error {
	content, err := os.ReadFile(filepath.Join(c.Manifests, "front-door", name))
	if err != nil {
		return err
	}
	text := string(content)
	for old, replacement := range replacements {
		if !strings.Contains(text, old) {
			return fmt.Errorf("%s does not say %s", name, old)
		}
		text = strings.ReplaceAll(text, old, replacement)
	}
	return os.WriteFile(file, []byte(text), 0o600)
}
