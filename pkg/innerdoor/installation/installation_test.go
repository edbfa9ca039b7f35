/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package installation_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	webhookconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/manifest/loader"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	authorizationload "k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/installation"
	"github.com/proviso-authz/proviso/test/testutil/golden"
)

var artifacts = filepath.Join("..", "..", "..", "artifacts", "inner-door")

const exampleFile = "inner-door.yaml"

// example loads the example with changes.
func example(t *testing.T, replacements ...string) (*installation.Configuration, error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{exampleFile, "serving-ca.crt"} {
		content, err := os.ReadFile(filepath.Join(artifacts, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		for i := 0; i < len(replacements) && name == exampleFile; i += 2 {
			if !strings.Contains(text, replacements[i]) {
				t.Fatalf("the example has no %q", replacements[i])
			}
			text = strings.ReplaceAll(text, replacements[i], replacements[i+1])
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return installation.Load(filepath.Join(dir, exampleFile))
}

func mustLoad(t *testing.T, replacements ...string) *installation.Configuration {
	t.Helper()
	c, err := example(t, replacements...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestInstallationExample compares artifacts/inner-door with what the command writes. A file that it does not write is an error.
func TestInstallationExample(t *testing.T) {
	t.Parallel()
	c, err := installation.Load(filepath.Join(artifacts, exampleFile))
	if err != nil {
		t.Fatal(err)
	}
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	known := []string{exampleFile, "serving-ca.crt", "kustomization.yaml"}
	for _, f := range files {
		known = append(known, f.Name)
		golden.Compare(t, filepath.Join(artifacts, filepath.FromSlash(f.Name)), string(f.Content))
	}
	err = filepath.WalkDir(artifacts, func(path string, entry os.DirEntry, err error) error {
		if name, _ := filepath.Rel(artifacts, path); err == nil && !entry.IsDir() && !slices.Contains(known, filepath.ToSlash(name)) {
			t.Errorf("%s is not written by the command", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestKubeAPIServerReadsThem reads the files with the functions with which kube-apiserver reads them.
func TestKubeAPIServerReadsThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := mustLoad(t, "/etc/kubernetes/proviso", dir)
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	authorization, err := authorizationload.LoadFromFile(filepath.Join(dir, "authorization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(authorization.Authorizers) != 3 || authorization.Authorizers[0].Name != "proviso.front-door" || authorization.Authorizers[1].Type != "Node" || authorization.Authorizers[2].Type != "RBAC" {
		t.Fatalf("got the authorizers %+v", authorization.Authorizers)
	}
	hook := authorization.Authorizers[0].Webhook
	if hook.CacheAuthorizedRequests || hook.CacheUnauthorizedRequests || len(hook.MatchConditions) != 2 || hook.FailurePolicy != apiserver.FailurePolicyNoOpinion || hook.Timeout.Seconds() != 3 {
		t.Errorf("got the webhook %+v", hook)
	}
	kubeconfig, err := clientcmd.LoadFromFile(*hook.ConnectionInfo.KubeConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	if cluster := kubeconfig.Clusters["proviso"]; cluster == nil || cluster.Server != "https://10.0.0.10:8444"+frontdoor.AuthorizePath || cluster.CertificateAuthority != filepath.Join(dir, "serving-ca.crt") || len(cluster.CertificateAuthorityData) > 0 || cluster.InsecureSkipTLSVerify {
		t.Errorf("got the cluster %+v", cluster)
	}

	scheme := runtime.NewScheme()
	apiserverinstall.Install(scheme)
	plugins, err := admission.ReadAdmissionConfiguration([]string{"ValidatingAdmissionWebhook"}, filepath.Join(dir, "admission.yaml"), scheme)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := plugins.ConfigFor("ValidatingAdmissionWebhook")
	if err != nil {
		t.Fatal(err)
	}
	webhooks, err := webhookconfig.LoadConfig(reader)
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := webhook.NewDefaultAuthenticationInfoResolver(webhooks.KubeConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"10.0.0.10:8444": filepath.Join(dir, "client.crt"), "10.0.0.11:8444": ""} {
		if got, err := resolver.ClientConfigFor(host); err != nil || got.CertFile != want {
			t.Errorf("%s: got the certificate %v: %v, want %q", host, got, err, want)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(webhooks.StaticManifestsDir, "inner-door.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(manifest, configuration); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(configuration.Name, ".static.k8s.io") {
		t.Errorf("got the name %s", configuration.Name)
	}
	for _, w := range configuration.Webhooks {
		if err := loader.ValidateWebhookClientConfig(w.Name, configuration.Name, "", w.ClientConfig); err != nil || !strings.HasSuffix(*w.ClientConfig.URL, "/"+c.Digest()) {
			t.Errorf("%s: %s: %v", w.Name, *w.ClientConfig.URL, err)
		}
	}
}

// TestInstallationMistakes has configurations that are refused. All mistakes of a file are in one error.
func TestInstallationMistakes(t *testing.T) {
	t.Parallel()
	const authorizers = "  - {type: Node, name: node}\n"
	for _, tc := range []struct {
		name         string
		replacements []string
		want         []string
	}{
		{name: "an unknown field", replacements: []string{"\nurl:", "\nurls:"}, want: []string{`unknown field "urls"`}},
		{name: "many mistakes", replacements: []string{"https://10.0.0.10:8444", "http://10.0.0.10", "caFile: serving-ca.crt", "caFile: missing.crt", "resource: pods", "resource: nodes, subresource: status", "- resource: nodes, subresource: status", "- {resource: nodes, subresource: status}", "directory: /etc", "directory: etc", "type: RBAC", "type: Rbac"},
			want: []string{"url: Invalid value", "caFile: Invalid value", "resources[1]: Forbidden", "kubeAPIServer.directory: Invalid value", `kubeAPIServer.authorizersAfter[1].type: Unsupported value: "Rbac"`}},
		{name: "no certificates in the file", replacements: []string{"caFile: serving-ca.crt", "caFile: " + exampleFile}, want: []string{"caFile: Invalid value"}},
		{name: "the bundle has no certificates", replacements: []string{"caFile: serving-ca.crt", "caBundle: YWJj"}, want: []string{"caBundle: Invalid value"}},
		{name: "no bundle", replacements: []string{"caFile: serving-ca.crt", ""}, want: []string{"caBundle: Required value"}},
		{name: "an authorizer of the same name", replacements: []string{"name: node", "name: proviso.front-door"}, want: []string{`kubeAPIServer.authorizersAfter[0].name: Duplicate value: "proviso.front-door"`}},
		{name: "one type twice", replacements: []string{authorizers, authorizers + "  - {type: Node, name: node2}\n"}, want: []string{`kubeAPIServer.authorizersAfter[1].type: Duplicate value: "Node"`}},
		{name: "a webhook without its configuration", replacements: []string{"  authorizersAfter:", "  authorizersBefore: [{type: Webhook, name: w}]\n  authorizersAfter:"}, want: []string{"kubeAPIServer.authorizersBefore[0].webhook: Required value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := example(t, tc.replacements...)
			if err == nil || c != nil {
				t.Fatalf("got %+v, want an error", c)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if got := strings.Count(err.Error(), "value") + strings.Count(err.Error(), "Forbidden"); got > 3*len(tc.want) {
				t.Errorf("got %v, want %q alone", err, tc.want)
			}
		})
	}
	if _, err := installation.Load(filepath.Join(t.TempDir(), "missing")); !os.IsNotExist(err) {
		t.Errorf("got %v, want that the file is missing", err)
	}
	long := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(long, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := installation.Load(long); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("got %v, want that the file is too long", err)
	}
}

// TestInstallationCheck changes installed files, one at a time, and says what the check prints.
func TestInstallationCheck(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	edit := func(old, with string) func(string) string {
		return func(text string) string {
			if !strings.Contains(text, old) {
				panic(old)
			}
			return strings.Replace(text, old, with, 1)
		}
	}
	const manifest = "manifests/inner-door.yaml"
	for _, tc := range []struct {
		name, file string
		edit       func(string) string
		want       []string
	}{
		{name: "nothing", file: "README.txt", edit: func(string) string { return "" }},
		{name: "a comment", file: manifest, edit: func(text string) string { return "# mine\n" + text }},
		{name: "another plugin", file: "admission.yaml", edit: edit("plugins:\n", "plugins:\n- name: PodSecurity\n  configuration: {}\n")},
		{name: "cached answers", file: "authorization.yaml", edit: edit("cacheAuthorizedRequests: false", "cacheAuthorizedRequests: true"),
			want: []string{"authorization.yaml: authorizers[0].webhook.cacheAuthorizedRequests is true, want false"}},
		{name: "no line about cached answers", file: "authorization.yaml", edit: edit("    cacheAuthorizedRequests: false\n", ""),
			want: []string{"authorization.yaml: authorizers[0].webhook.cacheAuthorizedRequests is missing, want false"}},
		{name: "an authorizer more", file: "authorization.yaml", edit: edit("- name: rbac\n  type: RBAC\n", "- name: rbac\n  type: RBAC\n- {type: AlwaysAllow, name: all}\n"),
			want: []string{`authorization.yaml: authorizers[3] is {"name":"all","type":"AlwaysAllow"}, want no such entry`}},
		{name: "an authorizer less", file: "authorization.yaml", edit: edit("- name: rbac\n  type: RBAC\n", ""),
			want: []string{`authorization.yaml: authorizers[2] is missing, want {"name":"rbac","type":"RBAC"}`}},
		{name: "a webhook that fails open", file: manifest, edit: edit("failurePolicy: Fail", "failurePolicy: Ignore"),
			want: []string{`manifests/inner-door.yaml: webhooks[0].failurePolicy is "Ignore", want "Fail"`}},
		{name: "a selector", file: manifest, edit: edit("  failurePolicy: Fail\n", "  failurePolicy: Fail\n  objectSelector: {matchLabels: {a: b}}\n"),
			want: []string{`manifests/inner-door.yaml: webhooks[0].objectSelector is {"matchLabels":{"a":"b"}}, want no such field`}},
		{name: "no plugin", file: "admission.yaml", edit: edit("name: ValidatingAdmissionWebhook", "name: PodSecurity"),
			want: []string{"admission.yaml: plugins[0] is missing"}},
		{name: "an empty manifest", file: manifest, edit: func(string) string { return "" }, want: []string{"manifests/inner-door.yaml: the file is empty"}},
		{name: "half of a manifest", file: manifest, edit: edit("webhooks:\n", "webhooks: [\n"), want: []string{"manifests/inner-door.yaml: the file is not YAML"}},
		{name: "a manifest without its last webhook", file: manifest, edit: func(text string) string { return text[:strings.LastIndex(text, "- admissionReviewVersions:")] },
			want: []string{"manifests/inner-door.yaml: webhooks[4] is missing"}},

		{name: "a field that is there twice", file: manifest, edit: func(text string) string { return text + "kind: List\n" }, want: []string{"manifests/inner-door.yaml: the file is not YAML"}},
		{name: "another key", file: "admission.kubeconfig", edit: edit("client.key", "other.key"), want: []string{`admission.kubeconfig: users[0].user.client-key is "/etc/kubernetes/proviso/other.key", want "/etc/kubernetes/proviso/client.key"`}},
		{name: "another CA", file: "serving-ca.crt", edit: edit("BEGIN", "BEGIN OTHER"), want: []string{"serving-ca.crt: it has not the CA of the configuration"}},
		{name: "another server", file: "front-door.kubeconfig", edit: edit("10.0.0.10", "10.0.0.11"), want: []string{`front-door.kubeconfig: clusters[0].cluster.server is "https://10.0.0.11:8444/webhooks/authorize"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := c.Write(dir); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, filepath.FromSlash(tc.file))
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tc.edit(string(content))), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := c.Check(dir)
			if err != nil || len(got) != len(tc.want) {
				t.Fatalf("got %q: %v, want %q", got, err, tc.want)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if got, _ := c.Check(dir); (len(got) == 0) != (tc.file == "README.txt") {
				t.Errorf("without the file: got %q", got)
			}
		})
	}
	dir := t.TempDir()
	if err := mustLoad(t, "- resource: secrets\n", "").Write(dir); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Check(dir); !slices.ContainsFunc(got, func(d string) bool { return strings.Contains(d, "clientConfig.url is ") }) {
		t.Errorf("another list of resources: got %q, want another digest", got)
	}
}

// TestFilesAreRenamed keeps the replaced file open: it must not change, because kube-apiserver may be reading it.
func TestFilesAreRenamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := mustLoad(t).Write(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "manifests", "inner-door.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	if err := mustLoad(t, "- resource: secrets\n", "").Write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reading); err != nil || string(got) != string(before) {
		t.Errorf("the file has been written in place: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) == string(before) {
		t.Errorf("the file has not been replaced: %v", err)
	}
	for folder, want := range map[string]int{dir: 8, filepath.Dir(path): 1} {
		if entries, err := os.ReadDir(folder); err != nil || len(entries) != want {
			t.Errorf("%s has %v: %v, want %d entries", folder, entries, err, want)
		}
	}
}

// TestNamespace: no file names another namespace than Proviso's own. Otherwise kube-apiserver would ask Proviso about Proviso itself.
func TestNamespace(t *testing.T) {
	t.Parallel()
	files, err := mustLoad(t, "kind: InnerDoorConfiguration\n", "kind: InnerDoorConfiguration\nnamespace: authz\n").Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.Contains(string(f.Content), "proviso-system") {
			t.Errorf("%s names the namespace proviso-system", f.Name)
		}
		if named := strings.Contains(string(f.Content), "system:serviceaccount:authz:proviso-apiserver"); (f.Name == "authorization.yaml" || f.Name == "manifests/inner-door.yaml") && !named {
			t.Errorf("%s does not leave out the ServiceAccount of Proviso", f.Name)
		}
	}
}

// TestHostOfCredentials: kube-apiserver finds the credentials of a webhook by its host and port.
func TestHostOfCredentials(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://10.0.0.10:8444": "10.0.0.10:8444", "https://10.0.0.10": "10.0.0.10:443", "https://a.example.com": "a.example.com:443",
		"https://[fd00::1]": "[fd00::1]:443", "https://[fd00::1]:8444": "[fd00::1]:8444",
	} {
		files, err := mustLoad(t, "https://10.0.0.10:8444", address).Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Name == "admission.kubeconfig" && !strings.Contains(strings.ReplaceAll(string(f.Content), "'", ""), "- name: "+want+"\n") {
				t.Errorf("%s: got %s, want credentials for %s", address, f.Content, want)
			}
		}
	}
}

// command is a line of a README that is to be run in a shell.
var command = regexp.MustCompile(`(?m)^    (\S.*)$`)

// TestCertificates runs the commands for certificates of the README, and verifies the certificates.
func TestCertificates(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Fatal("the commands of the README need openssl: install it (Debian: apt-get install openssl)")
	}
	files, err := mustLoad(t).Files()
	if err != nil {
		t.Fatal(err)
	}
	readme := string(files[len(files)-1].Content)
	section, _, ok := strings.Cut(readme, "\n2. ")
	if !ok {
		t.Fatal("the README has no section 2")
	}
	var script strings.Builder
	for _, line := range command.FindAllStringSubmatch(section, -1) {
		script.WriteString(line[1] + "\n")
	}
	script.WriteString(`openssl verify -purpose sslclient -CAfile front-door-ca.crt "$NODE.crt"
openssl verify -purpose sslserver -CAfile tls.crt -verify_ip 10.0.0.10 tls.crt
openssl x509 -in "$NODE.crt" -noout -subject
`)
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", script.String())
	cmd.Dir = t.TempDir()
	output, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(output), ": OK") != 2 || !strings.Contains(string(output), "CN = kube-apiserver-control-plane-1") {
		t.Errorf("%v: %s", err, output)
	}
	if openssl := strings.Count(script.String(), "openssl"); openssl != 10 {
		t.Errorf("got %d commands of openssl in\n%s", openssl, script.String())
	}
}

// TestCheckServer has metrics as a kube-apiserver shows them.
func TestCheckServer(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	files, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, f := range files {
		sums[f.Name] = fmt.Sprintf("%x", sha256.Sum256(f.Content))
		sums[f.Name+"\x00"] = fmt.Sprintf("%x", sha256.Sum256(append(f.Content, 0)))
	}
	authorization := `apiserver_authorization_config_controller_last_config_info{apiserver_id_hash="sha256:0",hash="sha256:` + sums["authorization.yaml"] + "\"} 1\n"
	manifest := `apiserver_manifest_admission_config_controller_last_config_info{apiserver_id_hash="sha256:0",hash="sha256:` + sums["manifests/inner-door.yaml\x00"] + "\",plugin=\"ValidatingAdmissionWebhook\"} 1\n"
	owners := `apiserver_admission_controller_admission_duration_seconds_count{name="OwnerReferencesPermissionEnforcement",operation="UPDATE",rejected="false",type="validate"} 1` + "\n"
	for _, tc := range []struct {
		name, metrics string
		want          []string
	}{
		{name: "what is wanted", metrics: "# HELP a\n" + authorization + manifest},
		{name: "nothing", want: []string{"it has not loaded --authorization-config", "it has not loaded the manifests"}},
		{name: "no manifest", metrics: authorization, want: []string{"it has not loaded the manifests"}},
		{name: "the manifest of another plugin", metrics: authorization + strings.Replace(manifest, "Validating", "Mutating", 1), want: []string{"it has not loaded the manifests"}},
		{name: "another manifest", metrics: authorization + strings.Replace(manifest, sums["manifests/inner-door.yaml\x00"], strings.Repeat("0", 64), 1), want: []string{"the hash of the manifests of ValidatingAdmissionWebhook is sha256:0000"}},
		{name: "another AuthorizationConfiguration", metrics: strings.Replace(authorization, sums["authorization.yaml"], strings.Repeat("0", 64), 1) + manifest, want: []string{"the hash of --authorization-config is sha256:0000"}},
		{name: "the plugin of owners", metrics: authorization + manifest + owners, want: []string{"OwnerReferencesPermissionEnforcement is on"}},
	} {
		got, err := c.CheckServer([]byte(tc.metrics))
		if err != nil || len(got) != len(tc.want) {
			t.Errorf("%s: got %q: %v, want %q", tc.name, got, err, tc.want)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: got %q, want %q", tc.name, got[i], want)
			}
		}
	}
}
