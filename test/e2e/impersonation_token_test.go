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
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// issuer issues tokens whose claims kube-apiserver turns into extra. configuration is a file that has kube-apiserver accept the tokens.
type issuer struct {
	*httptest.Server
	key           *rsa.PrivateKey
	configuration string
}

func newIssuer() (*issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
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
	file, err := os.CreateTemp("", "proviso-e2e-authentication-")
	if err != nil {
		return nil, err
	}
	i.configuration = file.Name()
	_, err = file.WriteString(i.authentication())
	return i, errors.Join(err, file.Close())
}

// token returns a token for a user, whose extra has the conditions if they are not empty.
func (i *issuer) token(t *testing.T, user, conditions string) string {
	t.Helper()
	claims := map[string]any{"iss": i.URL, "aud": "proviso-test", "sub": user, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	if conditions != "" {
		claims["conditions"] = conditions
	}
	part := func(v any) string {
		text, err := json.Marshal(v)
		must(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]string{"alg": "RS256", "typ": "JWT", "kid": "one"}) + "." + part(claims)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	must(t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// authentication returns the content of the configuration.
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

// testTokens sends tokens for which kube-apiserver says about their user what only a front proxy may say. Proviso refuses them; through kube-apiserver, which is a front proxy,
// the extra restricts the request.
func (i *impersonationTests) testTokens(t *testing.T) {
	values := map[string]string{}
	for name, conditions := range i.tokens {
		values[name] = tokens.token(t, "jane", conditions)
	}
	for rows, admin := range map[string]string{"tokens, through kube-apiserver": "admin", "tokens, direct": "admin-direct"} {
		runner := &requests.Runner{Sender: requests.NewSender(config(t, admin), nil), Values: values}
		runner.Await(t, i.Rows[rows][0]) // kube-apiserver reads the keys of the issuer some time later
		runner.Run(t, i.Rows[rows])
	}
}
