/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

func TestEnsureSelfMade(t *testing.T) {
	t.Parallel()
	hosts := []string{"localhost", "127.0.0.1", "proviso-apiserver.proviso-system.svc"}
	now := time.Now()

	for _, tc := range []struct {
		name     string
		hosts    []string
		now      time.Time
		damage   func(t *testing.T, files selfMade)
		wantAnew bool
	}{
		{name: "a good one is kept", hosts: hosts, now: now},
		{name: "fewer hosts", hosts: hosts[:1], now: now},
		{name: "another host", hosts: append([]string{"other"}, hosts...), now: now, wantAnew: true},
		{name: "soon at its end", hosts: hosts, now: now.Add(340 * 24 * time.Hour), wantAnew: true},
		{name: "no CA", hosts: hosts, now: now, wantAnew: true, damage: func(t *testing.T, f selfMade) { remove(t, f.CAFile) }},
		{name: "no key", hosts: hosts, now: now, wantAnew: true, damage: func(t *testing.T, f selfMade) { remove(t, f.KeyFile) }},
		{name: "half a certificate", hosts: hosts, now: now, wantAnew: true, damage: func(t *testing.T, f selfMade) { write(t, f.CertFile, "-----BEGIN") }},
		{name: "another's key", hosts: hosts, now: now, wantAnew: true, damage: func(t *testing.T, f selfMade) {
			other, err := ensureSelfMade(t.TempDir(), hosts, now)
			if err != nil {
				t.Fatal(err)
			}
			write(t, f.KeyFile, read(t, other.KeyFile))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "certificates")
			files, err := ensureSelfMade(dir, hosts, now)
			if err != nil {
				t.Fatal(err)
			}
			verify(t, files, hosts)
			before := read(t, files.CertFile)
			if tc.damage != nil {
				tc.damage(t, files)
			}
			again, err := ensureSelfMade(dir, tc.hosts, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			if anew := read(t, again.CertFile) != before; anew != tc.wantAnew {
				t.Errorf("made anew: %v, want %v", anew, tc.wantAnew)
			}
			verify(t, again, tc.hosts)
		})
	}
}

// verify checks that a client which trusts the CA file trusts the certificate for every
// host, and that nobody else can read the key.
func verify(t *testing.T, files selfMade, hosts []string) {
	t.Helper()
	roots, err := cert.NewPool(files.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := cert.CertsFromFile(files.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		if _, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("for %s: %v", host, err)
		}
	}
	if info, err := os.Stat(files.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: got %v, %v, want it readable by its owner only", info, err)
	}
}

func TestEnsureSelfMadeReportsWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	if files, err := ensureSelfMade(filepath.Join(file, "below"), []string{"localhost"}, time.Now()); err == nil {
		t.Errorf("below a file: got %v, want an error", files)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}
