/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package installation

import (
	"crypto/sha256"
	"fmt"
	"regexp"
)

// The metrics of kube-apiserver with the hashes of what it has loaded.
var (
	authorizationHash = regexp.MustCompile(`(?m)^apiserver_authorization_config_controller_last_config_info\{.*hash="(sha256:[0-9a-f]+)"\} 1$`)
	manifestHash      = regexp.MustCompile(`(?m)^apiserver_manifest_admission_config_controller_last_config_info\{.*hash="(sha256:[0-9a-f]+)",plugin="` + webhookPlugin + `"\} 1$`)
	// ownersPlugin is the metric of the admission plugin OwnerReferencesPermissionEnforcement. It is there once a write has passed the plugin.
	ownersPlugin = regexp.MustCompile(`(?m)^apiserver_admission_controller_admission_duration_seconds_count\{.*name="OwnerReferencesPermissionEnforcement"`)
)

// CheckServer compares what a kube-apiserver has loaded with the files that Write would write, by the metrics of kube-apiserver, and
// returns the differences. The hashes are those of whole files: comments count, and other files in the directory of the manifest.
func (c *Configuration) CheckServer(metrics []byte) ([]string, error) {
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	var differences []string
	for _, f := range files {
		switch f.Name {
		case authorizationFile:
			differences = append(differences, loaded(metrics, authorizationHash, "--authorization-config", f.Content)...)
		case manifestFile:
			// kube-apiserver ends each file with a zero.
			differences = append(differences, loaded(metrics, manifestHash, "the manifests of "+webhookPlugin, append(f.Content, 0))...)
		}
	}
	if !c.manifest.OwnerReferences && ownersPlugin.Match(metrics) {
		differences = append(differences, "kube-apiserver: the admission plugin OwnerReferencesPermissionEnforcement is on, and ownerReferencesPermissionEnforcement is false")
	}
	return differences, nil
}

func loaded(metrics []byte, metric *regexp.Regexp, what string, content []byte) []string {
	want := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	found := metric.FindSubmatch(metrics)
	switch {
	case found == nil:
		//guard:installation-no-manifest-server
		return []string{fmt.Sprintf("kube-apiserver: it has not loaded %s", what)}
	//guard:installation-another-manifest-server
	case string(found[1]) != want:
		return []string{fmt.Sprintf("kube-apiserver: the hash of %s is %s, want %s", what, found[1], want)}
	}
	return nil
}
