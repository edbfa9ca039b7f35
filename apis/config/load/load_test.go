/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package load_test

import (
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/apis/config"
	"github.com/proviso-authz/proviso/apis/config/load"
)

const head = "apiVersion: config.proviso.dev/v1alpha1\nkind: InnerDoorConfiguration\n"

func TestDecode(t *testing.T) {
	t.Parallel()
	c, err := load.Decode[*config.InnerDoorConfiguration]([]byte(head + "url: https://a\nresources: [{resource: pods, subresource: status}]\n---\n"))
	if err != nil || c.URL != "https://a" || len(c.Resources) != 1 || c.Resources[0].Subresource != "status" || !c.AskOtherAuthorizers || c.KubeAPIServer.Directory == "" {
		t.Errorf("got %+v: %v, want the configuration with its defaults", c, err)
	}
	for _, tc := range []struct{ name, content, want string }{
		{name: "empty", want: "exactly one"},
		{name: "two documents", content: head + "---\n" + head, want: "exactly one"},
		{name: "an unknown field", content: head + "caBundel: YQ==\n", want: `unknown field "caBundel"`},
		{name: "an unknown field further down", content: head + "resources: [{resource: pods, verbs: [create]}]\n", want: `unknown field "resources[0].verbs"`},
		{name: "a duplicate field", content: head + "url: https://a\nurl: https://b\n", want: `key "url" already set`},
		{name: "two mistakes", content: head + "a: 1\nb: 2\n", want: `unknown field "b"`},
		{name: "another kind", content: "apiVersion: config.proviso.dev/v1alpha1\nkind: AuthorizationConfiguration\n", want: "not the kind"},
		{name: "another group", content: "apiVersion: v1\nkind: Pod\n", want: `no kind "Pod"`},
		{name: "another version", content: strings.Replace(head, "v1alpha1", "v2", 1), want: "no kind"},
		{name: "no kind", content: "url: https://a\n", want: "Object 'Kind' is missing"},
		{name: "not YAML", content: "a: [", want: "yaml"},
		{name: "a number as the URL", content: head + "url: 1\n", want: "url"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := load.Decode[*config.InnerDoorConfiguration]([]byte(tc.content))
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v and the error %v, want %q", got, err, tc.want)
			}
		})
	}
}
