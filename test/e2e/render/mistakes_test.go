/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
)

// The kinds of bad input. The cluster of the test has no Proviso.
const (
	missingFile    = "a missing file"
	wrongKind      = "a file of another kind"
	unreachable    = "a server that cannot be reached"
	noPermission   = "no permission"
	withoutProviso = "a server without Proviso"
)

// badInput is a command with bad input. If it fails, it must print one line, with want in it, and end with the exit code 2.
type badInput struct {
	args, want string
	// works says why the command works nevertheless. Then want is in its one warning; if want is empty, there is none.
	works string
	// never says why the command cannot have such input.
	never string
}

const (
	volume   = "artifacts/demo/claim-dev.yaml"
	policies = "artifacts/render/policies"
	claim    = "artifacts/examples/storage-class/review.yaml"
	nowhere  = " --server=https://127.0.0.1:1"
	// nowhereError is the error for a server that cannot be reached.
	nowhereError = "the server https://127.0.0.1:1 cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused; see --server, --context and --kubeconfig"
	// RBAC allows everything to all users of the cluster but the anonymous one.
	stranger      = " --as=system:anonymous"
	strangerError = `is forbidden: User "system:anonymous" cannot `
	absent        = `the path "missing.yaml" does not exist`
	noPolicy      = `kind "PersistentVolumeClaim" of apiVersion "v1" is not a policy: want `
)

var badInputs = map[string]map[string]badInput{
	"can-i": {
		missingFile:    {args: "create -f missing.yaml", want: absent},
		wrongKind:      {args: "create -f artifacts/enforcement/dev.yaml", want: `no matches for kind "VirtualMachine"`},
		unreachable:    {args: "get pods" + nowhere, want: nowhereError},
		noPermission:   {args: "get pods" + stranger, want: "forbidden"},
		withoutProviso: {args: "get pods", want: "the server does not serve authorization.proviso.dev: ", works: "it has the answer of kube-apiserver"},
	},
	"can-impersonate": {
		missingFile:    {never: "it reads no file"},
		wrongKind:      {never: "it reads no file"},
		unreachable:    {args: "alice get pods" + nowhere, want: nowhereError},
		noPermission:   {args: "alice get /version" + stranger, want: "forbidden"},
		withoutProviso: {args: "alice get pods", want: "the server does not serve ImpersonationReviews of authorization.proviso.dev: Proviso is not installed"},
	},
	"convert rbac": {
		missingFile:    {args: "-f missing.yaml", want: absent},
		wrongKind:      {args: "-f " + volume, want: "there are no roles and bindings in the files"},
		unreachable:    {args: nowhere, want: "ClusterRoleBindings cannot be listed: " + nowhereError},
		noPermission:   {args: stranger, want: "ClusterRoleBindings cannot be listed: clusterrolebindings.rbac.authorization.k8s.io " + strangerError},
		withoutProviso: {args: "2>/dev/null", works: "it reads RBAC only"},
	},
	"explain": {
		missingFile:    {args: "-f missing.yaml", want: absent},
		wrongKind:      {args: "-f " + volume, want: noPolicy},
		unreachable:    {args: "-f " + claim + nowhere, want: "listing the policies of the cluster: " + nowhereError},
		noPermission:   {args: "-f " + claim + stranger, want: "listing the policies of the cluster: "},
		withoutProviso: {args: "-f " + claim, want: "the cluster has no policies of Proviso: it does not serve policy.proviso.dev/v1alpha1; name files with policies with -f"},
	},
	"lint": {
		missingFile:    {args: "-f missing.yaml", want: absent},
		wrongKind:      {args: "-f " + volume, want: noPolicy},
		unreachable:    {args: "--cluster -f " + policies + nowhere, want: "the schemas of the cluster cannot be read: " + nowhereError},
		noPermission:   {args: "--cluster -f " + policies + stranger, want: "forbidden"},
		withoutProviso: {args: "--cluster -f " + policies, works: "it needs the schemas of the resources only"},
	},
	"playground": {
		missingFile:    {never: "it reads no file"},
		wrongKind:      {never: "it reads no file"},
		unreachable:    {never: "it calls no server"},
		noPermission:   {never: "it calls no server"},
		withoutProviso: {never: "it calls no server"},
	},
	"render": {
		missingFile:    {args: "-f missing.yaml", want: absent},
		wrongKind:      {args: "-f " + volume, want: noPolicy},
		unreachable:    {args: "--check -f " + policies + nowhere, want: nowhereError},
		noPermission:   {args: "--check -f " + policies + stranger, want: "validatingadmissionpolicies.admissionregistration.k8s.io " + strangerError},
		withoutProviso: {never: "it is for such a server"},
	},
	"test": {
		missingFile:    {args: "missing.yaml", want: absent},
		wrongKind:      {args: volume, want: "has no suite: no document of kind PolicyTest of test.proviso.dev/v1alpha1"},
		unreachable:    {never: "it calls no server"},
		noPermission:   {never: "it calls no server"},
		withoutProviso: {never: "it calls no server"},
	},
	"version": {
		missingFile:    {never: "it reads no file"},
		wrongKind:      {never: "it reads no file"},
		unreachable:    {never: "it calls no server"},
		noPermission:   {never: "it calls no server"},
		withoutProviso: {never: "it calls no server"},
	},
	"who-can": {
		missingFile:    {args: "get pods -n a -f missing.yaml", want: absent},
		wrongKind:      {args: "get pods -n a -f " + volume, want: "there are no roles, bindings or policies in the files"},
		unreachable:    {args: "get pods" + nowhere, want: nowhereError},
		noPermission:   {args: "get /version" + stranger, want: "neither bindings nor policies could be read: ClusterRoleBindings cannot be listed: clusterrolebindings.rbac.authorization.k8s.io " + strangerError},
		withoutProviso: {args: "get /version", want: "the server does not serve policy.proviso.dev: this is the answer of RBAC alone", works: "it has the answer of RBAC"},
	},
}

// leaves returns the names of the commands that have no commands below them.
func leaves(command *cobra.Command, prefix string) (names []string) {
	if !command.HasSubCommands() {
		return []string{strings.TrimSpace(prefix)}
	}
	for _, below := range command.Commands() {
		names = append(names, leaves(below, prefix+" "+below.Name())...)
	}
	return names
}

// testBadInput runs each command with each kind of bad input.
func testBadInput(t *testing.T, r *rig) {
	t.Parallel()
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	commands := leaves(kubectl.NewCommand(streams), "")
	if len(commands) != len(badInputs) {
		t.Errorf("there are the commands %q, and %d rows", commands, len(badInputs))
	}
	for _, command := range commands {
		for _, kind := range []string{missingFile, wrongKind, unreachable, noPermission, withoutProviso} {
			tc, found := badInputs[command][kind]
			if tc.never != "" {
				continue
			}
			if !found {
				t.Errorf("%s: %s: not in the table", command, kind)
				continue
			}
			out, errOut, code := r.shell(t, "kubectl proviso "+command+" "+tc.args)
			lines := strings.Count(errOut, "\n")
			switch {
			case tc.works != "" && (code != 0 || out == "" && command != "lint" || !strings.Contains(errOut, tc.want) || (lines > 0) != (tc.want != "") || lines > 1):
				t.Errorf("%s: %s: %s, but got exit code %d, %d bytes and %s", command, kind, tc.works, code, len(out), errOut)
			case tc.works == "" && (code != 2 || out != "" || lines != 1 || !strings.HasPrefix(errOut, "error: ") || !strings.Contains(errOut, tc.want)):
				t.Errorf("%s: %s: got exit code %d, %d bytes and %s, want one line with %s", command, kind, code, len(out), errOut, tc.want)
			}
		}
	}
}
