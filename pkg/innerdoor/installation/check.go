/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package installation

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// Check compares the files in a directory with the files that Write would write, and returns the differences. Comments and the
// order of fields do not count, nor do other admission plugins. The README and the objects for canaries, which are applied to
// the cluster, are not compared.
func (c *Configuration) Check(dir string) ([]string, error) {
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	var differences []string
	for _, f := range files {
		if f.Name == readmeFile || f.Name == canaryFile {
			continue
		}
		if f.Name == servingCAFile {
			got, problem := read(filepath.Join(dir, f.Name))
			if problem == "" && !bytes.Equal(got, f.Content) {
				problem = "it has not the CA of the configuration"
			}
			if problem != "" {
				differences = append(differences, f.Name+": "+problem)
			}
			continue
		}
		want, err := decode(f.Content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		got, problem := installed(filepath.Join(dir, filepath.FromSlash(f.Name)))
		if problem != "" {
			differences = append(differences, f.Name+": "+problem)
			continue
		}
		if f.Name == admissionFile {
			got = pluginOnly(got)
		}
		for _, difference := range compare("", got, want) {
			differences = append(differences, f.Name+": "+difference)
		}
	}
	return differences, nil
}

// decode decodes one YAML document strictly.
func decode(content []byte) (fields map[string]any, err error) {
	text, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, err
	}
	return fields, json.Unmarshal(text, &fields)
}

// read reads a file, or says why it cannot be compared.
func read(path string) (content []byte, problem string) {
	content, err := readFile(path)
	switch {
	case os.IsNotExist(err):
		return nil, "the file is missing"
	case err != nil:
		return nil, err.Error()
	//guard:installation-empty-file
	case len(content) == 0:
		return nil, "the file is empty"
	}
	return content, ""
}

// installed reads a file of YAML, or says why it cannot be compared.
func installed(path string) (fields map[string]any, problem string) {
	content, problem := read(path)
	if problem != "" {
		return nil, problem
	}
	fields, err := decode(content)
	if err != nil {
		return nil, "the file is not YAML: " + err.Error()
	}
	return fields, ""
}

// pluginOnly returns an AdmissionConfiguration with the plugin of webhooks alone.
func pluginOnly(configuration map[string]any) map[string]any {
	result := maps.Clone(configuration)
	plugins, ok := configuration["plugins"].([]any)
	if !ok {
		return result
	}
	result["plugins"] = slices.DeleteFunc(slices.Clone(plugins), func(plugin any) bool {
		fields, ok := plugin.(map[string]any)
		return ok && fields["name"] != webhookPlugin
	})
	return result
}

// compare returns the differences between two values of JSON.
func compare(path string, got, want any) []string {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return compareFields(path, got, want)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return compareLists(path, got, want)
		}
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %s, want %s", path, shown(got), shown(want))}
}

func compareFields(path string, got, want map[string]any) (differences []string) {
	names := slices.Sorted(maps.Keys(want))
	for _, name := range slices.Sorted(maps.Keys(got)) {
		//guard:installation-fields-not-wanted
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		at := name
		if path != "" {
			at = path + "." + name
		}
		wanted, isWanted := want[name]
		value, isThere := got[name]
		switch {
		case !isThere:
			differences = append(differences, fmt.Sprintf("%s is missing, want %s", at, shown(wanted)))
		case !isWanted:
			differences = append(differences, fmt.Sprintf("%s is %s, want no such field", at, shown(value)))
		default:
			differences = append(differences, compare(at, value, wanted)...)
		}
	}
	return differences
}

func compareLists(path string, got, want []any) (differences []string) {
	for i := range max(len(got), len(want)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(got):
			differences = append(differences, fmt.Sprintf("%s is missing, want %s", at, shown(want[i])))
		case i >= len(want):
			differences = append(differences, fmt.Sprintf("%s is %s, want no such entry", at, shown(got[i])))
		default:
			differences = append(differences, compare(at, got[i], want[i])...)
		}
	}
	return differences
}

// maxShownBytes bounds the text of a value in a difference.
const maxShownBytes = 200

func shown(value any) string {
	text, err := json.Marshal(value)
	if err != nil || len(text) <= maxShownBytes {
		return string(text)
	}
	return string(text[:maxShownBytes]) + "…"
}

// The metrics of kube-apiserver with the hashes of what it has loaded.
var (
	authorizationHash = regexp.MustCompile(`(?m)^apiserver_authorization_config_controller_last_config_info\{.*hash="(sha256:[0-9a-f]+)"\} 1$`)
	manifestHash      = regexp.MustCompile(`(?m)^apiserver_manifest_admission_config_controller_last_config_info\{.*hash="(sha256:[0-9a-f]+)",plugin="` + webhookPlugin + `"\} 1$`)
	// ownersPlugin is the metric of the admission plugin OwnerReferencesPermissionEnforcement. It is there once a write has passed the plugin.
	ownersPlugin = regexp.MustCompile(`(?m)^apiserver_admission_controller_admission_duration_seconds_count\{.*name="OwnerReferencesPermissionEnforcement"`)
)

// CheckServer compares what a kube-apiserver has loaded with the files that Write would write, by the metrics of kube-apiserver, and
// returns the differences. The metrics have hashes of whole files, so that comments count, and so do other files in the directory of the manifest.
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
