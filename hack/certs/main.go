/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command certs creates the certificates for proviso-apiserver in a cluster, in folders that the
// manifests refer to. The first folder gets the serving certificate: ca.crt, tls.crt and tls.key.
// The second one gets the client certificate of kube-apiserver for the front door: ca.crt,
// client.crt and client.key. Existing files are kept. The keys of the CAs are not kept: to renew
// certificates, delete the folders, run the command again and apply the manifests again.
package main

import (
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/proviso-authz/proviso/test/testutil/pki"
)

const validity = 2 * 365 * 24 * time.Hour

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: certs FOLDER FRONT-DOOR-FOLDER")
		os.Exit(2)
	}
	if err := errors.Join(serving(os.Args[1]), frontDoor(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, "certs:", err)
		os.Exit(1)
	}
}

func frontDoor(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "client.crt")); err == nil {
		fmt.Printf("%s has a certificate already, which is kept\n", dir)
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := pki.New(dir, "ca", validity)
	if err != nil {
		return err
	}
	if _, err := ca.Client("client", "kube-apiserver"); err != nil {
		return err
	}
	fmt.Printf("wrote ca.crt, client.crt and client.key to %s, valid until %s\n", dir, time.Now().Add(validity).Format(time.DateOnly))
	return os.Remove(ca.Files().Key)
}

func serving(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "tls.crt")); err == nil {
		fmt.Printf("%s has a certificate already, which is kept\n", dir)
		return nil
	}
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: "proviso-apiserver.proviso-system.svc",
		AlternateDNS: []string{
			"proviso-apiserver", "proviso-apiserver.proviso-system", "proviso-apiserver.proviso-system.svc.cluster.local", "localhost",
		},
		MaxAge: validity,
	})
	if err != nil {
		return err
	}
	_, ca := pem.Decode(chain)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"tls.key": key, "ca.crt": ca, "tls.crt": chain} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	fmt.Printf("wrote ca.crt, tls.crt and tls.key to %s, valid until %s\n", dir, time.Now().Add(validity).Format(time.DateOnly))
	return nil
}
