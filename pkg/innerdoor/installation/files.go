/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package installation

import (
	_ "embed" // for canaries
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
)

// The names of the written files. The manifest has a directory of its own, because kube-apiserver loads every file there.
const (
	authorizationFile       = "authorization.yaml"
	frontDoorKubeconfigFile = "front-door.kubeconfig"
	admissionFile           = "admission.yaml"
	admissionKubeconfigFile = "admission.kubeconfig"
	manifestsDirectory      = "manifests"
	manifestFile            = manifestsDirectory + "/inner-door.yaml"
	readmeFile              = "README.txt"
	canaryFile              = "canary.yaml"
	servingCAFile           = "serving-ca.crt"
)

// canaries are the objects that Proviso needs for its canaries, in the default namespace.
//
//go:embed canary.yaml
var canaries string

// namespaceOfCanaries is the namespace in canaries.
const namespaceOfCanaries = "proviso-system"

// webhookPlugin is the admission plugin of kube-apiserver that calls the inner door.
const webhookPlugin = "ValidatingAdmissionWebhook"

// File is a file of kube-apiserver's configuration.
type File struct {
	// Name is the path of the file in the directory, with slashes.
	Name string
	// Content is the content of the file.
	Content []byte
}

// path returns the path of a file on a control-plane node.
func (c *Configuration) path(name string) string {
	return path.Join(c.config.KubeAPIServer.Directory, name)
}

// Files returns all files.
func (c *Configuration) Files() ([]File, error) {
	webhooks, err := manifest.New(c.manifest)
	if err != nil {
		return nil, err
	}
	frontDoor, err := c.frontDoorKubeconfig()
	if err != nil {
		return nil, err
	}
	admission, err := c.admissionKubeconfig()
	if err != nil {
		return nil, err
	}
	files := []File{
		{Name: servingCAFile, Content: c.manifest.CABundle},
		{Name: frontDoorKubeconfigFile, Content: frontDoor},
		{Name: admissionKubeconfigFile, Content: admission},
	}
	for _, f := range []struct {
		name, comment string
		object        any
	}{
		{name: authorizationFile, object: c.authorization(),
			comment: "kube-apiserver --authorization-config=" + c.path(authorizationFile) + ", in place of --authorization-mode"},
		{name: admissionFile, object: c.admission(), comment: "kube-apiserver --admission-control-config-file=" + c.path(admissionFile)},
		{name: manifestFile, object: webhooks,
			comment: "The inner door. Replace this file by a rename, never in place: an empty or truncated file opens everything that the front door allows on conditions"},
	} {
		content, err := encode(f.object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		files = append(files, File{Name: f.name, Content: append([]byte("# "+f.comment+".\n"), content...)})
	}
	readme, err := c.readme()
	if err != nil {
		return nil, err
	}
	return append(files,
		File{Name: canaryFile, Content: []byte(strings.ReplaceAll(canaries, namespaceOfCanaries, c.manifest.Namespace))},
		File{Name: readmeFile, Content: readme}), nil
}

// encode writes an object in YAML, without the fields that are zero although their types do not leave them out.
func encode(object any) ([]byte, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, err
	}
	return yaml.Marshal(withoutZeros(fields))
}

func withoutZeros(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if field == nil || field == "0s" {
				delete(v, name)
				continue
			}
			v[name] = withoutZeros(field)
		}
	case []any:
		for i := range v {
			v[i] = withoutZeros(v[i])
		}
	}
	return value
}

// admission returns kube-apiserver's AdmissionConfiguration.
func (c *Configuration) admission() map[string]any {
	return map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
		"plugins": []any{map[string]any{"name": webhookPlugin, "configuration": map[string]any{
			"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
			"kubeConfigFile": c.path(admissionKubeconfigFile), "staticManifestsDir": c.path(manifestsDirectory),
		}}},
	}
}

func (c *Configuration) credentials() *clientcmdapi.AuthInfo {
	return &clientcmdapi.AuthInfo{ClientCertificate: c.config.KubeAPIServer.ClientCertificate, ClientKey: c.config.KubeAPIServer.ClientKey}
}

// frontDoorPath is the path of the front door on the listener, package frontdoor's AuthorizePath.
const frontDoorPath = "/webhooks/authorize"

func (c *Configuration) frontDoorKubeconfig() ([]byte, error) {
	const name = "proviso"
	k := clientcmdapi.NewConfig()
	// kube-apiserver reads the file again, but not a CA in the kubeconfig.
	k.Clusters[name] = &clientcmdapi.Cluster{Server: strings.TrimRight(c.manifest.URL, "/") + frontDoorPath, CertificateAuthority: c.path(servingCAFile)}
	k.AuthInfos[name] = c.credentials()
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	return clientcmd.Write(*k)
}

// admissionKubeconfig returns the credentials of kube-apiserver for admission webhooks. It finds them by the host and the port.
func (c *Configuration) admissionKubeconfig() ([]byte, error) {
	address, err := url.Parse(c.manifest.URL)
	if err != nil {
		return nil, err
	}
	host := address.Host
	if address.Port() == "" {
		host = net.JoinHostPort(address.Hostname(), "443")
	}
	k := clientcmdapi.NewConfig()
	k.AuthInfos[host] = c.credentials()
	return clientcmd.Write(*k)
}

// The permissions of the written files. They have no secrets, and kube-apiserver may run as any user.
const (
	fileMode      = 0o644
	directoryMode = 0o755
)

// Write writes all files into a directory. Each file is replaced by a rename.
func (c *Configuration) Write(dir string) error {
	files, err := c.Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, manifestsDirectory), directoryMode); err != nil {
		return err
	}
	for _, f := range files {
		if err := replace(dir, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// replace writes a file under another name, which is not one of a manifest, and renames it.
func replace(dir string, f File) (err error) {
	temporary, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	defer temporary.Close()
	if _, err := temporary.Write(f.Content); err != nil {
		return err
	}
	if err := temporary.Chmod(fileMode); err != nil {
		return err
	}
	// The content must be on the disk before the name is: after a crash the file would be empty otherwise.
	if err := temporary.Sync(); err != nil {
		return err
	}
	//guard:installation-files-written-place
	return os.Rename(temporary.Name(), filepath.Join(dir, filepath.FromSlash(f.Name)))
}
