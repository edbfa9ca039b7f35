/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// libraryBlocks are the commands of the section "From an empty folder", and its files with their names before them.
var libraryBlocks = regexp.MustCompile("(?s)(?:`([a-z]+\\.(?:go|yaml))`:\n\n)?```(bash|go|yaml)\n(.*?)```")

// enforcementFaults follow the trial. While the APIService is not the one of the configuration, or not available, and without the
// configuration, conditions are folded, so that carol is refused by the front door, and bob denied whatever he creates.
const enforcementFaults = `
echo '--- faults'
n=0
# until_folded WHAT, until_passes WHAT wait for what happens to things of class dev.
until_folded() {
  for i in $(seq 60); do
    n=$((n+1))
    if ! through carol "f$n" dev 2>refusal && grep -q 'policy=things/dev reason=Error' refusal && ! through bob "g$n" dev 2>refusal && grep -q 'policy=things/no-prod reason=Error' refusal; then
      echo "folded: $1"
      return 0
    fi
    sleep 1
  done
  echo "$1: carol and bob are not refused" >&2; cat refusal >&2
  return 1
}
until_passes() {
  for i in $(seq 60); do
    n=$((n+1))
    if through carol "p$n" dev 2>refusal && through bob "q$n" dev 2>refusal; then echo "passes: $1"; return 0; fi
    sleep 1
  done
  echo "$1: carol and bob are refused" >&2; cat refusal >&2
  return 1
}
enforcement() {
  kubectl --namespace things get authorizationpolicy dev no-prod -o jsonpath='{range .items[*]}{.metadata.name}={.status.enforcement[*].at}={.status.enforcement[*].result} {end}'
}
until_enforcement() {
  for i in $(seq 90); do if [ "$(enforcement)" = "$1" ]; then return 0; fi; sleep 1; done
  echo "got $(enforcement), want $1" >&2
  return 1
}
until_enforcement 'dev=AggregatedServer=Enforced no-prod=AggregatedServer=Enforced '
kubectl get enforcementconfigurations
review() {
  printf 'apiVersion: authorization.k8s.io/v1alpha1\nkind: SubjectAccessReview\nspec: {user: carol, resourceAttributes: {verb: create, group: things.example.com, version: v1, resource: things, namespace: things}, conditionalAuthorization: {mode: HumanReadable}}\n' |
    kubectl create -o yaml -f - 2>&1
}
if review | grep Warning; then echo "a review warns of conditions that the server enforces" >&2; false; fi

# Who may write configurations, and about what.
if kubectl --context carol apply -f configuration.yaml; then echo "carol must not write configurations" >&2; false; fi
if sed 's/things.example.com/apps/' configuration.yaml | kubectl apply -f - 2>refusal; then echo "apps belongs to kube-apiserver" >&2; false; fi
grep 'kube-apiserver serves this group' refusal

# Another Service, although it leads to the same server.
printf 'apiVersion: v1\nkind: Service\nmetadata: {name: other, namespace: things}\nspec: {type: ExternalName, externalName: localhost, ports: [{port: 7443}]}\n' | kubectl apply -f -
kubectl patch apiservice v1.things.example.com --type=merge -p '{"spec": {"service": {"name": "other"}}}'
until_folded 'another Service'
kubectl wait --for=jsonpath='{.status.conditions[?(@.type=="Effective")].reason}'=AnotherService --timeout=2m enforcementconfiguration/things
until_enforcement 'dev=FrontDoor=GrantsNothing no-prod=FrontDoor=DeniesUnconditionally '
review | grep 'Warning: conditions on create things.things.example.com are not evaluated'
kubectl patch apiservice v1.things.example.com --type=merge -p '{"spec": {"service": {"name": "things"}}}'
until_passes 'the Service again'

# Unavailable.
kubectl patch apiservice v1.things.example.com --type=merge -p "{\"spec\": {\"caBundle\": \"$(kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | grep . || base64 < "$(kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority}')" | tr -d '\n')\"}}"
until_folded 'unavailable'
kubectl patch apiservice v1.things.example.com --type=merge -p "{\"spec\": {\"caBundle\": \"$ca\"}}"
until_passes 'available again'

# Without the configuration.
kubectl delete enforcementconfiguration things
until_folded 'deleted'
kubectl apply -f configuration.yaml
until_passes 'the configuration again'
`

// TestLibraryFromAnEmptyFolder follows docs/library.md in an empty folder, block by block, in one shell. Then it takes away, one after
// the other, what lets requests pass on conditions through kube-apiserver.
func TestLibraryFromAnEmptyFolder(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join(stack.Repository, "docs", "library.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(document), "\n## From an empty folder\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("docs/library.md has no section From an empty folder")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	faults := strings.ReplaceAll(enforcementFaults, "7443", port)
	// The server ends with the shell, however this does.
	script := "set -o errexit -o pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
	files, commands := 0, 0
	for i, block := range libraryBlocks.FindAllStringSubmatch(section, -1) {
		name, language, text := block[1], block[2], strings.ReplaceAll(block[3], "7443", port)
		if language == "bash" {
			commands++
			lines := strings.SplitAfter(text, "\n")
			if strings.HasPrefix(text, "export PROVISO=") { // which chooses the cluster of `make demo`
				lines = lines[1:]
			}
			if strings.HasPrefix(text, "kill ") { // the end of the trial
				script += faults
			}
			script += fmt.Sprintf("echo '--- block %d'\n%s", i+1, strings.Join(lines, ""))
			continue
		}
		if name == "" {
			t.Fatalf("block %d has no name of a file before it", i+1)
		}
		files++
		script += fmt.Sprintf("cat >%s <<'END OF FILE'\n%sEND OF FILE\n", name, text)
	}
	if files != 6 || commands != 7 {
		t.Errorf("got %d files and %d blocks of commands", files, commands)
	}
	dir, err := os.MkdirTemp("", "lib") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PROVISO="+stack.Repository, "KUBECONFIG="+stack.Kubeconfig(), "TMPDIR="+dir,
		"PATH="+stack.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*", "things.log"))
		for _, log := range logs {
			content, _ := os.ReadFile(log)
			t.Logf("the log of the server: %s", content)
		}
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{
		`"name":"one"`, `"name":"two"`, `"name":"five"`, "folded: another Service", "passes: the Service again", "folded: unavailable", "folded: deleted", "passes: the configuration again", `"name":"six"`, "carol creates things of class dev only", "bob creates no things of class prod", `"kind":"ThingList"`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output does not have %q:\n%s", want, out)
		}
	}
}
