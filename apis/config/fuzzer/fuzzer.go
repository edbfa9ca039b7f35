/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package fuzzer fills objects of config.proviso.dev with random content that survives a
// round trip through every version.
package fuzzer

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/randfill"

	"github.com/proviso-authz/proviso/apis/config"
)

// Funcs returns the functions for fields whose content must not be completely random.
func Funcs(_ runtimeserializer.CodecFactory) []any {
	return []any{
		func(w *config.WebhookConfiguration, c randfill.Continue) {
			c.FillNoCustom(w)
			w.AuthorizedTTL, w.UnauthorizedTTL = duration(c), duration(c)
		},
		func(i *config.InnerDoorConfiguration, c randfill.Continue) {
			c.FillNoCustom(i)
			i.Namespace += "x" // an empty one would be defaulted
		},
		func(k *config.KubeAPIServerConfiguration, c randfill.Continue) {
			c.FillNoCustom(k)
			for _, text := range []*string{&k.Directory, &k.ClientCertificate, &k.ClientKey, (*string)(&k.FrontDoorFailurePolicy)} {
				*text += "x" // an empty one would be defaulted
			}
			if len(k.AuthorizersAfter) == 0 {
				k.AuthorizersAfter = []apiserverv1.AuthorizerConfiguration{{Type: "AlwaysDeny", Name: "no"}}
			}
		},
	}
}

// duration returns a duration that is not zero, because zero would be defaulted.
func duration(c randfill.Continue) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(1 + c.Int63n(int64(time.Hour)))}
}
