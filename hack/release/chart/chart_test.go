/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package chart_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/hack/release/archive"
	"github.com/proviso-authz/proviso/hack/release/chart"
)

var repository = filepath.Join("..", "..", "..")

// copyArtifacts copies artifacts, with certificates as `make certs` writes them.
func copyArtifacts(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "artifacts"), os.DirFS(filepath.Join(repository, "artifacts"))); err != nil {
		t.Fatal(err)
	}
	ca := read(t, filepath.Join(root, "artifacts", "inner-door", "serving-ca.crt"))
	for _, folder := range []string{"base", "front-door"} {
		for name, content := range map[string]string{"ca.crt": ca, "tls.crt": ca, "tls.key": "PRIVATE KEY", "client.key": "PRIVATE KEY"} {
			write(t, filepath.Join(root, "artifacts", folder, "certs", name), content)
		}
	}
	return root
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func variants(t *testing.T, root string) []chart.Variant {
	t.Helper()
	folder := filepath.Join(root, "artifacts", "inner-door")
	all, err := chart.Variants(read(t, filepath.Join(folder, "serving-ca.crt")), read(t, filepath.Join(folder, "inner-door.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestVariants compares all objects of the chart with kustomize.
func TestVariants(t *testing.T) {
	t.Parallel()
	root := copyArtifacts(t)
	c, err := chart.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	all := variants(t, root)
	compared := map[string]bool{}
	for _, v := range all {
		if v.Resources == "" {
			continue
		}
		kustomization := map[string]any{"resources": []string{"../../artifacts/" + v.Resources}}
		compared[v.Resources] = true
		var components []string
		for _, component := range v.Components {
			components = append(components, "../../artifacts/"+component)
			compared[component] = true
		}
		kustomization["components"] = components
		text, err := yaml.Marshal(kustomization)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, "variants", v.Name, "kustomization.yaml"), string(text))
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			if err := chart.Compare(c, v.Values, filesys.MakeFsOnDisk(), filepath.Join(root, "variants", v.Name)); err != nil {
				t.Error(err)
			}
		})
	}
	for _, pattern := range []string{"*", "overlays/*"} {
		folders, err := filepath.Glob(filepath.Join(root, "artifacts", pattern, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range folders {
			name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(folder)), filepath.ToSlash(filepath.Join(root, "artifacts"))+"/")
			if !compared[name] {
				t.Errorf("no variant has artifacts/%s", name)
			}
		}
	}
}

// TestValues renders each value that no variant has, beside what it leaves out.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, values string
		want, gone   []string
	}{
		{name: "a tag", values: "image: {repository: registry.example.com/x, tag: v1}", want: []string{"image: registry.example.com/x:v1\n"}},
		{name: "a digest", values: "image: {tag: v1, digest: DIGEST}", want: []string{"image: proviso-apiserver@DIGEST\n"}},
		{name: "replicas", values: "ha: {enabled: true, replicas: 5, etcdServers: ['https://a:2379', 'https://b:2379'], etcdSecretName: mine}",
			want: []string{"replicas: 5\n", "value: https://a:2379,https://b:2379\n", "secretName: mine\n"}, gone: []string{"kind: PersistentVolumeClaim\n", "--data-dir"}},
		{name: "a claim", values: "persistence: {storageClassName: fast, size: 20Gi, annotations: {a: b}}",
			want: []string{"storageClassName: fast\n", "storage: 20Gi\n", "a: b\n"}},
		{name: "a claim that stays", want: []string{"helm.sh/resource-policy: keep\n"}},
		{name: "a namespace that stays", values: "createNamespace: true", want: []string{"kind: Namespace\nmetadata:\n  annotations:\n    helm.sh/resource-policy: keep\n"}},
		{name: "a namespace that goes", values: "{createNamespace: true, persistence: {annotations: {helm.sh/resource-policy: null}}}", want: []string{"kind: Namespace\nmetadata:\n  labels:\n"}, gone: []string{"helm.sh/resource-policy"}},
		{name: "no annotations", values: "{createNamespace: true, persistence: {annotations: null}}", gone: []string{"annotations:\n    helm.sh/resource-policy"}},
		{name: "names of kube-apiservers", values: "frontDoor: {enabled: true, clientCA: CA, allowedNames: [a, b]}", want: []string{"- --webhook-allowed-names=a,b\n"}, gone: []string{"--webhook-allowed-names=kube-apiserver"}},
		{name: "flags", values: "extraArgs: [--v=4]", want: []string{"- --profiling=false\n        - --v=4\n"}},
		{name: "resources", values: "resources: {limits: {memory: 2Gi}}", want: []string{"memory: 2Gi\n"}, gone: []string{"memory: 1Gi\n"}},
		{name: "another class", values: "priorityClassName: mine", want: []string{"priorityClassName: mine\n"}},
		{name: "no class", values: "priorityClassName: ''", gone: []string{"priorityClassName"}},
		{name: "nodes", values: "{nodeSelector: {disk: ssd}, tolerations: [{key: x, operator: Exists}]}", want: []string{"nodeSelector:\n        disk: ssd\n", "tolerations:\n      - key: x\n        operator: Exists\n"}},
		{name: "no network policy", values: "networkPolicy: {enabled: false}", gone: []string{"kind: NetworkPolicy\n"}},
		{name: "egress", values: "networkPolicy: {egress: [{to: [{ipBlock: {cidr: 10.0.0.1/32}}]}]}", want: []string{"cidr: 10.0.0.1/32\n"}, gone: []string{"port: 6443\n"}},
		{name: "no namespace", gone: []string{"kind: Namespace\n"}},
		{name: "a Secret", values: "tls: {secretName: mine}", want: []string{"secretName: mine\n"}, gone: []string{"secretName: proviso-apiserver-tls\n"}},
		{name: "cert-manager", values: "tls: {ca: '', certManager: {enabled: true}}",
			want: []string{"cert-manager.io/inject-ca-from: proviso-system/proviso-apiserver\n", "secretName: proviso-apiserver-ca\n", "  - proviso-apiserver.proviso-system.svc\n"}, gone: []string{"caBundle"}},
		{name: "an issuer", values: "tls: {ca: '', certManager: {enabled: true, issuerRef: {kind: ClusterIssuer, name: ours}}}", want: []string{"kind: ClusterIssuer\n    name: ours\n"}, gone: []string{"kind: Issuer\n", "isCA"}},
		{name: "the configuration of the inner door", values: "{frontDoor: {enabled: true, clientCA: CA}, innerDoor: {enabled: true, configuration: 'kind: Mine'}}", want: []string{"inner-door.yaml: 'kind: Mine'\n"}, gone: []string{"serving-ca.crt"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			manifest, err := rendered(t, tc.values)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if want = strings.ReplaceAll(want, "DIGEST", digest); !strings.Contains(manifest, want) {
					t.Errorf("there is no %q in\n%s", want, manifest)
				}
			}
			for _, gone := range tc.gone {
				if strings.Contains(manifest, gone) {
					t.Errorf("there is %q", gone)
				}
			}
			if strings.Contains(manifest, "kind: Secret\n") {
				t.Error("there is a Secret")
			}
		})
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// rendered renders the chart of the repository with values and a CA.
func rendered(t *testing.T, text string) (string, error) {
	t.Helper()
	c, err := chart.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := json.Marshal(read(t, filepath.Join(repository, "artifacts", "inner-door", "serving-ca.crt")))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(strings.NewReplacer("DIGEST", digest, " CA", " "+string(ca)).Replace(text)), &values); err != nil {
		t.Fatal(err)
	}
	return chart.Render(c, util.CoalesceTables(values, map[string]any{"tls": map[string]any{"ca": read(t, filepath.Join(repository, "artifacts", "inner-door", "serving-ca.crt"))}}))
}

// TestRefusals tries values that are wrong.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replicas: 3":                                  "additional properties 'replicas' not allowed",
		"image: {digset: x}":                           "at '/image': additional properties 'digset' not allowed",
		"image: {digest: sha256:0123}":                 "at '/image/digest': 'sha256:0123' does not match pattern",
		"image: {repository: x@sha256:0123}":           "at '/image/repository'",
		"ha: {enabled: true}":                          "at '/ha/etcdServers': minItems: got 0, want 1",
		"ha: {etcdServers: ['http://a:2379']}":         "at '/ha/etcdServers/0': 'http://a:2379' does not match pattern '^https://",
		"ha: {replicas: 0}":                            "at '/ha/replicas': minimum: got 0, want 1",
		"frontDoor: {enabled: true}":                   "at '/frontDoor/clientCA': minLength: got 0, want 1",
		"innerDoor: {enabled: true, configuration: x}": "at '/frontDoor/enabled': value must be true",
		"{innerDoor: {enabled: true}, frontDoor: {enabled: true, clientCA: CA}}": "at '/innerDoor/configuration': minLength: got 0, want 1",
		"monitoring: {enabled: maybe}":                                           "at '/monitoring/enabled': got string, want boolean",
		"extraArgs: --v=4":                                                       "at '/extraArgs': got string, want array",
		"extraArgs: [v=4]":                                                       "at '/extraArgs/0': 'v=4' does not match pattern",
		"persistence: {size: much}":                                              "at '/persistence/size': 'much' does not match pattern",
		"resources: {limits: {memory: much}}":                                    "at '/resources/limits/memory': 'much' does not match pattern",
		"tolerations: [{operator: Never}]":                                       "at '/tolerations/0/operator': value must be one of 'Exists', 'Equal'",
		"tls: {ca: ''}":                                                          "tls.ca must have the CA of the serving certificate, unless tls.certManager.enabled is true",
		"tls: {ca: \"-----BEGIN EC PRIVATE KEY-----\\nAAAA\\n-----END EC PRIVATE KEY-----\\n\"}": "at '/tls/ca'",
		"tls: {ca: ca.crt}": "at '/tls/ca': 'ca.crt' does not match pattern",
	} {
		if _, err := rendered(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", values, err, want)
		}
	}
}

// TestLint lints the chart, with the values of all variants.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, v := range append(variants(t, repository), chart.Variant{Name: "no values"}) {
		result := lint.RunAll(chart.Dir(repository), v.Values, "proviso-system")
		for _, message := range result.Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%s: %v", v.Name, message)
			}
		}
	}
}

// TestDocumented compares values.yaml with its schema and with the options that documents show. Each value has a comment as helm-docs reads it.
func TestDocumented(t *testing.T) {
	t.Parallel()
	c, err := chart.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{}
	if err := json.Unmarshal(c.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	document, err := kyaml.Parse(read(t, filepath.Join(chart.Dir(repository), "values.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	var walk func(path string, node *kyaml.Node)
	walk = func(path string, node *kyaml.Node) {
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			switch name := path + key.Value; {
			case strings.HasPrefix(key.HeadComment, "# -- "):
				described = append(described, name)
			case value.Kind == kyaml.MappingNode && len(value.Content) > 0:
				walk(name+".", value)
			default:
				t.Errorf("%s has no comment", name)
			}
		}
	}
	walk("", document.YNode())
	var allowed []string
	var properties func(path string, schema map[string]any)
	properties = func(path string, schema map[string]any) {
		for name, property := range schema["properties"].(map[string]any) {
			if property := property.(map[string]any); property["properties"] != nil && !slices.Contains(described, path+name) {
				properties(path+name+".", property)
			} else if name != "global" {
				allowed = append(allowed, path+name)
			}
		}
	}
	properties("", schema)
	slices.Sort(described)
	slices.Sort(allowed)
	if difference := cmp.Diff(described, allowed); difference != "" {
		t.Errorf("values.yaml (-) and its schema (+) differ:\n%s", difference)
	}
	shown := regexp.MustCompile(`--set(?:-file|-json|-string)? '?([A-Za-z.0-9]+)=`).FindAllStringSubmatch(read(t, filepath.Join(repository, "docs", "operations.md")), -1)
	if len(shown) == 0 {
		t.Error("docs/operations.md shows no values")
	}
	for _, option := range shown {
		if !slices.Contains(described, option[1]) {
			t.Errorf("docs/operations.md shows %s, which is not a value", option[1])
		}
	}
}

// TestArchive writes the archive twice, with certificates in the tree and without, with the same bytes.
func TestArchive(t *testing.T) {
	t.Parallel()
	created, image := time.Unix(1800000000, 0), "registry.example.com/proviso-apiserver@"+digest
	var contents []string
	for _, root := range []string{copyArtifacts(t), repository} {
		dir := t.TempDir()
		if err := chart.Write(root, dir, "v0.1.0", image, created); err != nil {
			t.Fatal(err)
		}
		contents = append(contents, read(t, filepath.Join(dir, "proviso-0.1.0.tgz")))
	}
	if contents[0] != contents[1] {
		t.Error("the archive differs the second time")
	}
	files, err := archive.Uncompress([]byte(contents[0]))
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile(`^proviso/(\.helmignore|Chart\.yaml|values\.yaml|values\.schema\.json|templates/[a-zA-Z_.]+|manifests/([a-z0-9.-]+/){1,2}[a-z-]+\.(yaml|json))$`)
	var values string
	for _, file := range files {
		if !known.MatchString(file.Name) || strings.Contains(string(file.Content), "PRIVATE KEY") {
			t.Errorf("the archive has %s", file.Name)
		}
		if file.Name == "proviso/values.yaml" {
			values = string(file.Content)
		}
	}
	if !strings.Contains(values, "\n  repository: \"registry.example.com/proviso-apiserver\"\n") || !strings.Contains(values, "\n  digest: \""+digest+"\"\n") || !strings.Contains(values, "\n\ntls:\n  # -- ") {
		t.Errorf("got the values\n%s", values)
	}
}
