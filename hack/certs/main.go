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
	"fmt"
	"os"

	"github.com/proviso-authz/proviso/test/testutil/pki"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: certs FOLDER FRONT-DOOR-FOLDER")
		os.Exit(2)
	}
	for i, write := range []func(string) (string, error){pki.WriteServing, pki.WriteFrontDoorClient} {
		message, err := write(os.Args[i+1])
		if err != nil {
			fmt.Fprintln(os.Stderr, "certs:", err)
			os.Exit(1)
		}
		fmt.Println(message)
	}
}
