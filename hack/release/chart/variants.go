/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package chart

import (
	_ "embed"

	"helm.sh/helm/v4/pkg/chart/common/util"
	"sigs.k8s.io/yaml"
)

//go:embed variants.yaml
var variants []byte

// Variant is a way to install Proviso: values, and the kustomization with the same objects.
type Variant struct {
	Name string `json:"name"`
	// Resources and Components are folders in artifacts. A variant without them has objects that no kustomization has.
	Resources  string         `json:"resources"`
	Components []string       `json:"components"`
	Values     map[string]any `json:"values"`
}

// Variants returns variants that have all kustomizations and components between them. ca is a certificate, and configuration an
// InnerDoorConfiguration.
func Variants(ca, configuration string) (all []Variant, err error) {
	if err := yaml.UnmarshalStrict(variants, &all); err != nil {
		return nil, err
	}
	for i := range all {
		replace(all[i].Values, map[string]string{"CA": ca, "CONFIGURATION": configuration})
		all[i].Values = util.CoalesceTables(all[i].Values, map[string]any{"tls": map[string]any{"ca": ca}})
	}
	return all, nil
}

// replace replaces texts in values.
func replace(values map[string]any, texts map[string]string) {
	for field, value := range values {
		switch value := value.(type) {
		case string:
			if text, found := texts[value]; found {
				values[field] = text
			}
		case map[string]any:
			replace(value, texts)
		}
	}
}
