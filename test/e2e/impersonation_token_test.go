/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/test/testutil/cluster"
)

// issuer makes tokens whose claims kube-apiserver turns into extra.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	encode := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token is for a user, whose extra has the conditions if they are not empty.
func (i *issuer) token(t *testing.T, user, conditions string) string {
	t.Helper()
	claims := map[string]any{"iss": i.URL, "aud": "proviso-test", "sub": user, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	if conditions != "" {
		claims["conditions"] = conditions
	}
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]string{"alg": "RS256", "typ": "JWT", "kid": "one"}) + "." + part(claims)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// authentication is the configuration by which kube-apiserver believes the tokens.
func (i *issuer) authentication() string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	return fmt.Sprintf(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [proviso-test]
    certificateAuthority: |
      %s
  claimMappings:
    username: {claim: sub, prefix: ""}
    extra:
    - key: authorization.proviso.dev/impersonation-conditions
      valueExpression: "has(claims.conditions) ? [claims.conditions] : []"
`, i.URL, strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n      "))
}

// TestTokensDoNotNarrow has kube-apiserver say about the user of a token what only a front
// proxy may say. Proviso refuses it; through kube-apiserver, which is one, it restricts the request.
func TestTokensDoNotNarrow(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "tn") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tokens := newIssuer(t)
	file := filepath.Join(dir, "authentication.yaml")
	if err := os.WriteFile(file, []byte(tokens.authentication()), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := cluster.New(cluster.Config{Dir: dir, Bin: stack.Bin, Manifests: stack.Manifests, KubeAPIServerArgs: []string{"--authentication-config=" + file}})
	if err != nil {
		t.Fatal(err)
	}
	own.StopAfter(t)
	if err := own.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	// review asks something that everybody may ask, and that has an object.
	review := func(server, caFile, serverName, token string) error {
		client, err := versioned.NewForConfig(&rest.Config{
			Host: server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: caFile, ServerName: serverName},
		})
		if err != nil {
			return err
		}
		_, err = client.AuthorizationV1alpha1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1alpha1.SelfSubjectAccessReview{
			Spec: authorizationv1alpha1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "pods"}},
		}, metav1.CreateOptions{})
		return err
	}
	direct := func(token string) error {
		return review(own.ProvisoURL(), own.ProvisoCAFile(), cluster.ServerName, token)
	}
	through := func(token string) error { return review(own.KubeAPIServerURL(), own.CAFile(), "", token) }
	retry(t, func() error { return direct(tokens.token(t, "jane", "")) }) // kube-apiserver reads the keys in its own time

	const denying = `[{"authorizerName":"x","conditions":[{"id":"example.com/x","effect":"Deny","type":"k8s.io/authorization-cel","condition":"object.spec.resourceAttributes.verb == 'get'","description":"jane gets nothing"}]}]`
	for _, tc := range []struct {
		name       string
		do         func(string) error
		conditions string
		want       string // empty if it is allowed
	}{
		{"through kube-apiserver", through, "", ""},
		{"direct, with conditions that would not deny", direct, strings.Replace(denying, "'get'", "'list'", 1), "Unauthorized"},
		{"direct, with conditions that would", direct, denying, "Unauthorized"},
		{"direct, with what nobody can read", direct, "x", "Unauthorized"},
		{"through kube-apiserver, with conditions that do not deny", through, strings.Replace(denying, "'get'", "'list'", 1), ""},
		{"through kube-apiserver, with conditions that do", through, denying, "jane gets nothing"},
		{"through kube-apiserver, with what nobody can read", through, "x", "cannot be read"},
	} {
		err := tc.do(tokens.token(t, "jane", tc.conditions))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}
