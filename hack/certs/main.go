/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command certs makes a CA and a serving certificate for proviso-apiserver in a cluster:
// ca.crt, tls.crt and tls.key in the given folder, from which the manifests take them.
// Files that are there are kept. The key of the CA is not kept: to renew, delete the
// folder, run it again and apply the manifests again.
package main

import (
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
)

const validity = 2 * 365 * 24 * time.Hour

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: certs FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "certs:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "tls.crt")); err == nil {
		fmt.Printf("%s holds a certificate already, which is kept\n", dir)
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
