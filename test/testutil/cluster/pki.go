/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

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

// validity of certificates: longer than any test, shorter than a forgotten dev cluster
// should stay usable.
const validity = 30 * 24 * time.Hour

// authority signs certificates and keeps their files in a directory.
type authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// pair is the files of a certificate and its key.
type pair struct {
	cert, key string
}

func newAuthority(dir, name string) (*authority, error) {
	a := &authority{dir: dir, name: name}
	if a.load() {
		return a, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if err := writePair(a.files(), der, key); err != nil {
		return nil, err
	}
	a.key = key
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

func (a *authority) files() pair {
	return pair{cert: filepath.Join(a.dir, a.name+".crt"), key: filepath.Join(a.dir, a.name+".key")}
}

func (a *authority) load() bool {
	content, err := os.ReadFile(a.files().cert)
	if err != nil {
		return false
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return false
	}
	key, err := keyutil.PrivateKeyFromFile(a.files().key)
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

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

// client makes a client certificate for a user and groups.
func (a *authority) client(file, user string, groups ...string) (pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(file, template)
}

// server makes a serving certificate for DNS names and IP addresses. It also serves as a
// client certificate, which etcd needs of its own.
func (a *authority) server(file string, hosts ...string) (pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: hosts[0]})
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.sign(file, template)
}

func (a *authority) sign(file string, template *x509.Certificate) (pair, error) {
	files := pair{cert: filepath.Join(a.dir, file+".crt"), key: filepath.Join(a.dir, file+".key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	return files, writePair(files, der, key)
}

func writePair(files pair, der []byte, key *ecdsa.PrivateKey) error {
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(files.key, encoded, 0o600); err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(files.cert, content, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	return nil
}
