/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// selfMade is a serving certificate that the server has generated, for trying it out. The key of
// its CA is not stored; the CA is written next to the certificate, for the caBundle of the
// APIService and for clients.
type selfMade struct {
	CertFile, KeyFile, CAFile string
}

// renewBefore is how long before its expiry a self-made certificate is replaced, when the server
// starts. The certificate is valid for a year.
const renewBefore = 30 * 24 * time.Hour

// ensureSelfMade returns the certificate in dir. It generates a new one, with a new CA, if there
// is none, if it expires soon, or if it is not valid for all hosts (names or IP addresses). The
// first host names the certificate.
func ensureSelfMade(dir string, hosts []string, now time.Time) (selfMade, error) {
	files := selfMade{
		CertFile: filepath.Join(dir, "tls.crt"),
		KeyFile:  filepath.Join(dir, "tls.key"),
		CAFile:   filepath.Join(dir, "ca.crt"),
	}
	if files.usable(hosts, now) {
		return files, nil
	}
	var names []string
	var addresses []net.IP
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			addresses = append(addresses, ip)
		} else {
			names = append(names, host)
		}
	}
	chain, key, err := cert.GenerateSelfSignedCertKey(hosts[0], addresses, names)
	if err != nil {
		return selfMade{}, fmt.Errorf("generating a certificate: %w", err)
	}
	return files, files.write(chain, key)
}

// write writes the key before the certificate. If it fails in between, the pair does not match,
// and the next start generates a new one.
func (f selfMade) write(chain, key []byte) error {
	_, ca := pem.Decode(chain)
	if len(ca) == 0 {
		return fmt.Errorf("the generated certificate has no CA")
	}
	if err := os.MkdirAll(filepath.Dir(f.CertFile), 0o700); err != nil {
		return fmt.Errorf("certificate directory: %w", err)
	}
	if err := keyutil.WriteKey(f.KeyFile, key); err != nil {
		return fmt.Errorf("writing the key: %w", err)
	}
	if err := cert.WriteCert(f.CAFile, ca); err != nil {
		return fmt.Errorf("writing the CA: %w", err)
	}
	if err := cert.WriteCert(f.CertFile, chain); err != nil {
		return fmt.Errorf("writing the certificate: %w", err)
	}
	return nil
}

func (f selfMade) usable(hosts []string, now time.Time) bool {
	pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile) // fails if the key does not match
	if err != nil {
		return false
	}
	cas, err := cert.NewPool(f.CAFile)
	if err != nil || now.Add(renewBefore).After(pair.Leaf.NotAfter) {
		return false
	}
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: cas, CurrentTime: now}); err != nil {
			return false
		}
	}
	return true
}
