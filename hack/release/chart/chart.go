/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package chart renders the Helm chart, and writes and verifies its archive. The chart applies the kustomizations in artifacts itself: kustomize
// must give the same objects.
package chart

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const namespace = "proviso-system"

// Dir returns the folder of the chart in a repository.
func Dir(root string) string { return filepath.Join(root, "artifacts", "chart", "proviso") }

// Load loads the chart of a repository.
func Load(root string) (*chart.Chart, error) { return loader.LoadDir(Dir(root)) }

// Render returns the manifest that `helm template` prints.
func Render(c *chart.Chart, values map[string]any) (string, error) {
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: c.Name(), Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var manifest strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".yaml" {
			manifest.WriteString("---\n" + files[name] + "\n")
		}
	}
	return manifest.String(), nil
}

// Compare returns an error if the chart and a kustomization give different objects. The chart has no Secret with the serving certificate: its
// values get the name of the Secret, and the CA in it.
func Compare(c *chart.Chart, values map[string]any, fs filesys.FileSystem, kustomization string) error {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, kustomization)
	if err != nil {
		return err
	}
	wanted, err := resources.AsYaml()
	if err != nil {
		return err
	}
	want, err := objectsIn(string(wanted))
	if err != nil {
		return err
	}
	tls := map[string]any{}
	for key, object := range want {
		if object["type"] != "kubernetes.io/tls" {
			continue
		}
		ca, err := base64.StdEncoding.DecodeString(object["data"].(map[string]any)["ca.crt"].(string))
		if err != nil {
			return err
		}
		tls["secretName"], tls["ca"] = object["metadata"].(map[string]any)["name"], string(ca)
		delete(want, key)
	}
	if len(tls) == 0 {
		return errors.New("the kustomization has no serving certificate")
	}
	values = util.CoalesceTables(map[string]any{"createNamespace": true, "tls": tls}, values)
	values["persistence"] = map[string]any{"annotations": map[string]any{"helm.sh/resource-policy": nil}} // kustomize deletes nothing
	manifest, err := Render(c, values)
	if err != nil {
		return err
	}
	got, err := objectsIn(manifest)
	if err != nil {
		return err
	}
	var differences []error
	for _, key := range keys(want, got) {
		if difference := cmp.Diff(want[key], got[key]); difference != "" {
			differences = append(differences, fmt.Errorf("%s differs between kustomize (-) and the chart (+):\n%s", key, difference))
		}
	}
	return errors.Join(differences...)
}

// keys returns the keys of several maps in order.
func keys(objects ...map[string]map[string]any) (all []string) {
	for _, o := range objects {
		all = slices.AppendSeq(all, maps.Keys(o))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// objectsIn returns the objects of a manifest by kind, namespace and name.
func objectsIn(manifest string) (map[string]map[string]any, error) {
	objects := map[string]map[string]any{}
	for text := range strings.SplitSeq("\n"+manifest, "\n---\n") {
		object := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, text)
		}
		if len(object) == 0 {
			continue
		}
		metadata, _ := object["metadata"].(map[string]any)
		key := fmt.Sprint(object["apiVersion"], " ", object["kind"], " ", metadata["namespace"], "/", metadata["name"])
		if objects[key] != nil {
			return nil, fmt.Errorf("%s is there twice", key)
		}
		if spec, isMap := object["spec"].(map[string]any); isMap && spec["caBundle"] != nil {
			spec["caBundle"] = strings.ReplaceAll(fmt.Sprint(spec["caBundle"]), "\n", "") // kustomize breaks the lines of base64
		}
		objects[key] = object
	}
	return objects, nil
}
