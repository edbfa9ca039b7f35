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

	"github.com/proviso-authz/proviso/test/testutil/cluster"
	"github.com/proviso-authz/proviso/test/testutil/requests"
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
	table, conditions := impersonationTable(t)
	values := map[string]string{}
	for name, text := range conditions {
		values[name] = tokens.token(t, "jane", text)
	}
	through, err := own.Client(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := own.Client(cluster.Admin + "-direct")
	if err != nil {
		t.Fatal(err)
	}
	for rows, admin := range map[string]*rest.Config{"tokens, through kube-apiserver": through, "tokens, direct": direct} {
		runner := &requests.Runner{Sender: requests.NewSender(admin, nil), Values: values}
		runner.Await(t, table.Rows[rows][0]) // kube-apiserver reads the keys of the issuer some time later
		runner.Run(t, table.Rows[rows])
	}
}
