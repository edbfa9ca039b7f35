/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package pki

import (
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
)

// installationValidity is the validity of the certificates of an installation.
const installationValidity = 2 * 365 * 24 * time.Hour

// WriteServing writes the serving certificate of proviso-apiserver to a directory that the manifests refer to: ca.crt, tls.crt and tls.key. The key of the CA is not
// kept. An existing certificate is kept. The message says what has been done.
func WriteServing(dir string) (message string, err error) {
	if _, err := os.Stat(filepath.Join(dir, "tls.crt")); err == nil {
		return dir + " has a certificate already, which is kept", nil
	}
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: "proviso-apiserver.proviso-system.svc",
		AlternateDNS: []string{
			"proviso-apiserver", "proviso-apiserver.proviso-system", "proviso-apiserver.proviso-system.svc.cluster.local", "localhost",
		},
		MaxAge: installationValidity,
	})
	if err != nil {
		return "", err
	}
	_, ca := pem.Decode(chain)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"tls.key": key, "ca.crt": ca, "tls.crt": chain} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("wrote ca.crt, tls.crt and tls.key to %s, valid until %s", dir, end()), nil
}

// WriteFrontDoorClient writes the client certificate of kube-apiserver for the front door to a directory that the manifests refer to: ca.crt, client.crt and
// client.key. The key of the CA is not kept. An existing certificate is kept. The message says what has been done.
func WriteFrontDoorClient(dir string) (message string, err error) {
	if _, err := os.Stat(filepath.Join(dir, "client.crt")); err == nil {
		return dir + " has a certificate already, which is kept", nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	ca, err := New(dir, "ca", installationValidity)
	if err != nil {
		return "", err
	}
	if _, err := ca.Client("client", "kube-apiserver"); err != nil {
		return "", err
	}
	return fmt.Sprintf("wrote ca.crt, client.crt and client.key to %s, valid until %s", dir, end()), os.Remove(ca.Files().Key)
}

// end is the day on which a new certificate ends.
func end() string { return time.Now().Add(installationValidity).Format(time.DateOnly) }
