/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package installation

import (
	"bytes"
	"net"
	"net/url"
	"path"
	"text/template"
)

var readmeTemplate = template.Must(template.New(readmeFile).Parse(`Files for kube-apiserver: the front door and the inner door of Proviso
=======================================================================

proviso-apiserver inner-door-config wrote these files. The manifest has the digest {{.Digest}}.

  {{.Authorization}}          --authorization-config: when kube-apiserver calls the front door
  {{.FrontDoorKubeconfig}}      the address of the front door, and the credentials for it
  {{.ServingCA}}             the CA of Proviso's serving certificate
  {{.Admission}}              --admission-control-config-file: where the manifest is
  {{.AdmissionKubeconfig}}       the credentials for the inner door
  {{.Manifest}}  the static admission webhooks of the inner door
  {{.Canary}}                objects in the cluster, with which Proviso finds out whether a kube-apiserver calls the inner door

1. Certificates
---------------

A CA for the clients of Proviso's webhook port. It must sign nothing else: a client with one of its certificates can query the decisions
of policies about all users.

    openssl ecparam -name prime256v1 -genkey -noout -out front-door-ca.key
    openssl req -x509 -new -sha256 -days 730 -key front-door-ca.key -subj /CN=proviso-front-door-ca -out front-door-ca.crt

A client certificate for each kube-apiserver, with a name of its own. Repeat this for each control-plane node:

    NODE=control-plane-1
    openssl ecparam -name prime256v1 -genkey -noout -out "$NODE.key"
    openssl req -new -sha256 -key "$NODE.key" -subj "/CN=kube-apiserver-$NODE" -out "$NODE.csr"
    printf 'extendedKeyUsage=clientAuth\nkeyUsage=critical,digitalSignature\n' > client.ext
    openssl x509 -req -sha256 -days 730 -in "$NODE.csr" -CA front-door-ca.crt -CAkey front-door-ca.key -CAcreateserial -extfile client.ext -out "$NODE.crt"

The serving certificate of Proviso must be valid for {{.Host}}. kube-apiserver verifies it with the caBundle of the configuration. To make
one that is its own CA, if you have no CA for it:

    openssl ecparam -name prime256v1 -genkey -noout -out tls.key
    openssl req -x509 -new -sha256 -days 730 -key tls.key -subj /CN=proviso-apiserver -addext subjectAltName={{.SAN}},DNS:localhost,DNS:proviso-apiserver.{{.Namespace}}.svc -out tls.crt

2. Proviso
----------

Start every replica with the same configuration before kube-apiserver calls the inner door:

    --webhook-secure-port={{.Port}}
    --webhook-client-ca-file=front-door-ca.crt
    --webhook-allowed-names=kube-apiserver-control-plane-1     (the name of each kube-apiserver)
    --inner-door-config=FILE                                   (the file from which these files were written)
    --kube-apiserver-servers=https://HOST:PORT,...             (each kube-apiserver; by default the endpoints of the Service kubernetes)

Create the objects for Proviso's canaries:

    kubectl apply -f {{.Canary}}

3. Each control-plane node
--------------------------

Copy the client certificate to {{.ClientCertificate}}, its key to {{.ClientKey}}, and these
files to {{.Directory}}. Replace files by a rename, never in place. On the node this command does it:

    proviso-apiserver inner-door-config --config FILE --output {{.Directory}}

Start kube-apiserver with these flags, and without --authorization-mode and --authorization-webhook-*. If it is a static pod, mount the
directory. If it has an AdmissionConfiguration already, add the plugin and the user of the kubeconfig to it.

    --authorization-config={{.Directory}}/{{.Authorization}}
    --admission-control-config-file={{.Directory}}/{{.Admission}}

4. Check
--------

    proviso-apiserver inner-door-config --config FILE --output {{.Directory}} --check

It prints each difference, and exits with 1 if there is one. Proviso's path /readyz/inner-door says which kube-apiservers call the inner
door, and why another one does not.
`))

// readme returns what an administrator does with the files.
func (c *Configuration) readme() ([]byte, error) {
	address, err := url.Parse(c.manifest.URL)
	if err != nil {
		return nil, err
	}
	san, port := "DNS:"+address.Hostname(), address.Port()
	if net.ParseIP(address.Hostname()) != nil {
		san = "IP:" + address.Hostname()
	}
	if port == "" {
		port = "443"
	}
	var b bytes.Buffer
	err = readmeTemplate.Execute(&b, map[string]string{
		"Digest": c.digest, "Authorization": authorizationFile, "FrontDoorKubeconfig": frontDoorKubeconfigFile, "ServingCA": servingCAFile, "Admission": admissionFile,
		"AdmissionKubeconfig": admissionKubeconfigFile, "Manifest": manifestFile, "Canary": canaryFile, "Namespace": c.manifest.Namespace, "Host": address.Hostname(), "SAN": san, "Port": port,
		"ClientCertificate": c.config.KubeAPIServer.ClientCertificate, "ClientKey": c.config.KubeAPIServer.ClientKey, "Directory": path.Clean(c.config.KubeAPIServer.Directory),
	})
	return b.Bytes(), err
}
