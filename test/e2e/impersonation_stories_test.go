/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// story is a group of rows, with the policies and roles of the file with its name: an example in artifacts/impersonation, or a file in testdata.
type story struct {
	name, prefix string
	*requests.Table
	// manifest has the policies and roles, and the namespaces of the machines.
	manifest string
}

// readStories reads the stories.
func readStories(t *testing.T) (stories []*story) {
	t.Helper()
	text := readText(t, filepath.Join("testdata", "impersonation-stories.yaml"))
	groups := requests.ReadFile(t, filepath.Join("testdata", "impersonation-stories.yaml"), nil, impersonationMarks...).Rows
	delete(groups, "before")
	for i, name := range slices.Sorted(maps.Keys(groups)) {
		s := &story{name: name, prefix: fmt.Sprintf("is%d", i)}
		var err error
		if s.Table, err = requests.Read([]byte(s.own(text)), nil, impersonationMarks...); err != nil {
			t.Fatal(err)
		}
		s.manifest = s.Manifest() + "---\n" + s.own(readRoles(t)+readText(t, exampleFile("targets.yaml"))+"---\n"+readText(t, exampleFile(name)))
		stories = append(stories, s)
	}
	return stories
}

// readRoles returns the roles of the users of the dev cluster, to which examples bind their users.
func readRoles(t *testing.T) (roles string) {
	t.Helper()
	for _, document := range strings.Split(readText(t, filepath.Join(stack.Repository, "artifacts", "dev", "users.yaml")), "---\n") {
		if strings.Contains(document, "kind: Role\n") {
			roles += document + "---\n"
		}
	}
	return roles
}

func exampleFile(name string) string {
	if strings.HasPrefix(name, "testdata/") {
		return name
	}
	return filepath.Join(stack.Repository, "artifacts", "impersonation", name)
}

var storyNames = regexp.MustCompile(`demo\.proviso\.dev|lucas-impersonated|\b(?:agent|alice|bob|carol|lucas|demo|elsewhere|own|other)\b`)

// own gives the users, nodes and namespaces of a story names of their own, because other tests decide about theirs at the same time.
func (s *story) own(text string) string {
	return storyNames.ReplaceAllStringFunc(text, func(name string) string {
		if name == "demo.proviso.dev" || name == "lucas-impersonated" {
			return name
		}
		return s.prefix + "-" + name
	})
}

// test sends the requests of a story, once its policies are in effect.
func (s *story) test(t *testing.T, i *impersonator) {
	runner, rows := i.runner(""), s.Rows[s.own(s.name)]
	if s.name == "node-agent.yaml" {
		runner.Values["token"] = s.nodeToken(t)
	}
	runner.Await(t, s.Rows["before"][0]) // the replica knows the namespace
	runner.Run(t, s.Rows["before"])
	i.run(t, runner, rows)
}

// nodeToken returns a token of the node agent, which runs on its own node.
func (s *story) nodeToken(t *testing.T) string {
	t.Helper()
	kube, _ := clients(t, "admin")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.own("own")}}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := podToken(t.Context(), kube, s.own("demo"), s.own("node-agent"), node.Name)
	must(t, err)
	return token
}

// podToken creates a service account, a pod of it with the same name if it has a node, and a token.
func podToken(ctx context.Context, kube kubernetes.Interface, namespace, name, node string) (string, error) {
	meta, accounts := metav1.ObjectMeta{Name: name, Namespace: namespace}, kube.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod, err := kube.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			ServiceAccountName: name, NodeName: node, Containers: []corev1.Container{{Name: "agent", Image: "agent"}},
		}}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := accounts.CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}
