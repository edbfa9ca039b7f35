/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/pki"
)

// client talks to Proviso's own port.
func client(t *testing.T, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	ca := readText(t, stack.ProvisoCAFile())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: cluster.ServerName, Certificates: certificates, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// insisting sends its certificate even though the server says that it knows no CA of it.
func insisting(t *testing.T, certificate tls.Certificate) *http.Client {
	t.Helper()
	c := client(t)
	c.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &certificate, nil
	}
	return c
}

func anonymous(t *testing.T) *http.Client { return client(t) }

func withCertificate(t *testing.T, certFile, keyFile string) *http.Client {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	must(t, err)
	return client(t, certificate)
}

// sent sends a request, and returns the code and the body of the answer.
func sent(t *testing.T, c *http.Client, request *http.Request) (int, string) {
	t.Helper()
	response, err := c.Do(request)
	must(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(content)
}

func request(t *testing.T, c *http.Client, method, path string, headers map[string]string, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, stack.ProvisoURL()+path, strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	response, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(content)
}

const (
	selfReviews = "/apis/authorization.k8s.io/v1alpha1/selfsubjectaccessreviews"
	mayIReadAll = `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","group":"*","resource":"*"}}}`
)

// TestWhoAmI sends requests straight to Proviso's port. What the answer to "may I read
// everything" is tells whom the server took the client for.
func TestWhoAmI(t *testing.T) {
	t.Parallel()
	proxyCert, proxyKey, err := stack.FrontProxy("front-proxy-client")
	must(t, err)
	otherCert, otherKey, err := stack.FrontProxy("somebody-else")
	must(t, err)
	aliceCert, aliceKey := stack.UserCertificate("alice")
	adminCert, adminKey := stack.UserCertificate("admin")
	forged := map[string]string{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
	token := serviceAccountToken(t)

	for _, tc := range []struct {
		name     string
		client   *http.Client
		headers  map[string]string
		wantCode int
		want     string
	}{
		{"nobody", anonymous(t), nil, 403, `User \"system:anonymous\" cannot create resource`},
		{"nobody, with forged headers", anonymous(t), forged, 403, `User \"system:anonymous\" cannot create resource`},
		{"alice", withCertificate(t, aliceCert, aliceKey), nil, 201, `"allowed":false`},
		{"alice, with forged headers", withCertificate(t, aliceCert, aliceKey), forged, 201, `"allowed":false`},
		{"admin", withCertificate(t, adminCert, adminKey), nil, 201, `"allowed":true`},
		{"a token of kube-apiserver", anonymous(t), map[string]string{"Authorization": "Bearer " + token}, 201, `"allowed":true`},
		{"a forged token", anonymous(t), map[string]string{"Authorization": "Bearer " + token + "x"}, 401, "Unauthorized"},
		{"the front proxy, for admin", withCertificate(t, proxyCert, proxyKey), forged, 201, `"allowed":true`},
		{"the front proxy, for alice", withCertificate(t, proxyCert, proxyKey), map[string]string{"X-Remote-User": "alice", "X-Remote-Group": "system:authenticated"}, 201, `"allowed":false`},
		{"a certificate of the front proxy's CA with another name", withCertificate(t, otherCert, otherKey), forged, 401, "Unauthorized"},
		{"a certificate of nobody's CA", insisting(t, foreign(t, "admin", "system:masters")), nil, 401, "Unauthorized"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, body := request(t, tc.client, http.MethodPost, selfReviews, tc.headers, mayIReadAll)
			if code != tc.wantCode || !strings.Contains(body, tc.want) {
				t.Errorf("got %d %s\nwant %d with %s", code, body, tc.wantCode, tc.want)
			}
		})
	}
}

// serviceAccountToken makes a ServiceAccount that may read everything, and a token.
func serviceAccountToken(t *testing.T) string {
	t.Helper()
	apply(t, readText(t, "testdata/service-account.yaml"))
	kube, _ := clients(t, "admin")
	token, err := kube.CoreV1().ServiceAccounts("demo").CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return token.Status.Token
}

// foreign makes a client certificate that no CA of the cluster signed.
func foreign(t *testing.T, name, group string) tls.Certificate {
	t.Helper()
	ca, err := pki.New(t.TempDir(), "foreign", time.Hour)
	must(t, err)
	pair, err := ca.Client(name, name, group)
	must(t, err)
	certificate, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	must(t, err)
	return certificate
}
