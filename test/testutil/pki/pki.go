/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package pki creates certificate authorities and certificates, as files in a directory, for tests
// and demonstrations.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// Authority signs certificates and writes them to a directory.
type Authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// validity is the validity of new certificates.
	validity time.Duration
}

// Pair has the paths of a certificate and its key.
type Pair struct {
	Cert, Key string
}

// New returns the authority with this name in the directory, and creates it if it does not exist.
// validity applies to the certificates that it signs.
func New(dir, name string, validity time.Duration) (*Authority, error) {
	a := &Authority{dir: dir, name: name, validity: validity}
	if a.load() {
		return a, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := a.newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if err := writePair(a.Files(), der, key); err != nil {
		return nil, err
	}
	a.key = key
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// Files returns the paths of the authority's certificate and key.
func (a *Authority) Files() Pair {
	return Pair{Cert: filepath.Join(a.dir, a.name+".crt"), Key: filepath.Join(a.dir, a.name+".key")}
}

func (a *Authority) load() bool {
	content, err := os.ReadFile(a.Files().Cert)
	if err != nil {
		return false
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return false
	}
	key, err := keyutil.PrivateKeyFromFile(a.Files().Key)
	if err != nil {
		return false
	}
	var ok bool
	if a.key, ok = key.(*ecdsa.PrivateKey); !ok {
		return false
	}
	a.cert, err = x509.ParseCertificate(block.Bytes)
	return err == nil
}

func (a *Authority) newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(a.validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

// Client creates a client certificate for a user and groups.
func (a *Authority) Client(file, user string, groups ...string) (Pair, error) {
	template, err := a.newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(file, template)
}

// Server creates a serving certificate for DNS names and IP addresses. It is also valid as a
// client certificate, because etcd uses its own certificate as one.
func (a *Authority) Server(file string, hosts ...string) (Pair, error) {
	return a.server(file, hosts, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

// ServerOnly creates a serving certificate that is not valid as a client certificate.
func (a *Authority) ServerOnly(file string, hosts ...string) (Pair, error) {
	return a.server(file, hosts, x509.ExtKeyUsageServerAuth)
}

func (a *Authority) server(file string, hosts []string, usages ...x509.ExtKeyUsage) (Pair, error) {
	template, err := a.newTemplate(pkix.Name{CommonName: hosts[0]})
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = usages
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.sign(file, template)
}

func (a *Authority) sign(file string, template *x509.Certificate) (Pair, error) {
	files := Pair{Cert: filepath.Join(a.dir, file+".crt"), Key: filepath.Join(a.dir, file+".key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	return files, writePair(files, der, key)
}

func writePair(files Pair, der []byte, key *ecdsa.PrivateKey) error {
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(files.Key, encoded, 0o600); err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(files.Cert, content, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	return nil
}
