/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package templatetable

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/proviso-authz/proviso/test/testutil/barriertable"
)

// Cluster is a cluster on which templates are tried.
type Cluster struct {
	// Kubectl runs kubectl as an administrator.
	Kubectl func(ctx context.Context, input string, args ...string) (string, error)
	// Sender sends requests as any user.
	Sender *barriertable.Sender
	// Folder is artifacts/templates.
	Folder string
	// FrontDoor says that kube-apiserver asks the front door.
	FrontDoor bool
}

// everything lets users do everything by RBAC.
const everything = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: templates-everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
`

// patience is how long a change may take until requests show it.
const patience = time.Minute

// Run applies each template, and sends its requests: with the front door by its Allow policies alone; in Audit, in which no policy refuses one;
// as users whom RBAC allows everything; and as users whom RBAC allows what the role of the template grants.
func Run(t *testing.T, c *Cluster) {
	for i := range Templates {
		t.Run(Templates[i].Name, func(t *testing.T) {
			c.run(t, &Templates[i])
		})
	}
}

func (c *Cluster) run(t *testing.T, template *Template) {
	c.kubectl(t, template.Setup, "apply", "-f", "-")
	if content, err := os.ReadFile(c.file(template, "pods.yaml")); err == nil {
		c.kubectl(t, string(content), "apply", "-n", "keep", "-f", "-")
	}
	for i := range template.Steps {
		if code, answer := c.send(t, &template.Steps[i], nil, false); code >= http.StatusMultipleChoices {
			t.Fatalf("%s: %d %s", template.Steps[i].What, code, answer)
		}
	}
	if c.FrontDoor {
		c.doors(t, template)
	}
	c.kubectl(t, everything+subjects(template), "apply", "-f", "-")
	c.enforce(t, template, "Audit")
	c.inAudit(t, template)
	c.enforce(t, template, "Enforce")
	c.wait(t, template, true)
	for i := range template.Rows {
		row := &template.Rows[i]
		if problem := c.try(t, template, row, true, true); problem != "" {
			t.Errorf("whatever RBAC allows: %s: %s", row.What, problem)
		}
	}
	hasRole := c.role(t, template)
	c.wait(t, template, !hasRole)
	sent := 0
	for i := range template.Rows {
		row := &template.Rows[i]
		if problem := c.try(t, template, row, false, !hasRole); problem != "" {
			t.Errorf("with the role of the template: %s: %s", row.What, problem)
		}
		sent++
	}
	t.Logf("%d requests", sent)
	c.kubectl(t, "", "delete", "--wait=false", "-f", c.file(template, "policy.yaml"))
	if !hasRole {
		c.kubectl(t, "", "delete", "clusterrolebinding", "templates-everything")
	}
}

func (c *Cluster) file(template *Template, name string) string {
	return filepath.Join(c.Folder, template.Name, name)
}

func (c *Cluster) kubectl(t *testing.T, input string, args ...string) {
	t.Helper()
	if _, err := c.Kubectl(t.Context(), input, args...); err != nil {
		t.Fatal(err)
	}
}

// subjects returns all users of a template.
func subjects(template *Template) string {
	names := map[string]bool{template.As.Name: true}
	for i := range template.Rows {
		if as := template.Rows[i].As; as != nil {
			names[as.Name] = true
		}
	}
	text := ""
	for name := range names {
		text += fmt.Sprintf("- {apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}\n", name)
	}
	return text
}

var (
	effect      = regexp.MustCompile(`(?m)^  effect: .*$`)
	enforcement = regexp.MustCompile(`(?m)^  enforcement: .*\n`)
)

// enforce applies the policies of a template with an enforcement.
func (c *Cluster) enforce(t *testing.T, template *Template, value string) {
	t.Helper()
	content, err := os.ReadFile(c.file(template, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := effect.ReplaceAllString(enforcement.ReplaceAllString(string(content), ""), "$0\n  enforcement: "+value)
	c.kubectl(t, manifest, "apply", "-f", "-")
	c.kubectl(t, manifest, "wait", "--for=condition=Ready", "--timeout=30s", "-f", "-")
}

// doors sends the requests as dry runs of users whom RBAC allows nothing, while the Allow policies of the template are stored, if it has some.
func (c *Cluster) doors(t *testing.T, template *Template) {
	t.Helper()
	doors := c.file(template, "doors.yaml")
	if _, err := os.Stat(doors); err != nil {
		return
	}
	c.kubectl(t, "", "apply", "-f", doors)
	c.kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=30s", "-f", doors)
	c.wait(t, template, false)
	for i := range template.Rows {
		row := &template.Rows[i]
		if problem := c.try(t, template, row, true, false); problem != "" {
			t.Errorf("with doors.yaml: %s: %s", row.What, problem)
		}
	}
	c.kubectl(t, "", "delete", "-f", doors)
}

// inAudit sends all requests as dry runs while the policies are in Audit: no policy refuses one.
func (c *Cluster) inAudit(t *testing.T, template *Template) {
	t.Helper()
	for i := range template.Rows {
		row := &template.Rows[i]
		if row.once {
			continue
		}
		deadline := time.Now().Add(patience)
		code, answer := c.send(t, row, row.user(template), true)
		for code == http.StatusForbidden && time.Now().Before(deadline) { // RBAC may not know the user yet
			time.Sleep(100 * time.Millisecond)
			code, answer = c.send(t, row, row.user(template), true)
		}
		if code == http.StatusForbidden {
			t.Errorf("in Audit: %s: %d %.600s", row.What, code, answer)
		}
	}
}

// role takes from the users what they may do by RBAC, and applies the role of the template, if it has one.
func (c *Cluster) role(t *testing.T, template *Template) bool {
	t.Helper()
	role := c.file(template, "role.yaml")
	if managed := c.file(template, "role-managed.yaml"); !c.FrontDoor {
		if _, err := os.Stat(managed); err == nil {
			role = managed
		}
	}
	if _, err := os.Stat(role); err != nil {
		return false
	}
	c.kubectl(t, "", "delete", "clusterrolebinding", "templates-everything")
	c.kubectl(t, "", "apply", "-f", role)
	return true
}

// wait waits until the outcome of the first request of each kind is as it must be.
func (c *Cluster) wait(t *testing.T, template *Template, everything bool) {
	t.Helper()
	seen := map[string]bool{}
	for i := range template.Rows {
		row := &template.Rows[i]
		key := row.Outcome(c.FrontDoor)
		if row.Budget || seen[key] || row.Role && !c.FrontDoor && everything {
			continue
		}
		seen[key] = true
		problem, deadline := "", time.Now().Add(patience)
		for problem = c.try(t, template, row, true, everything); problem != "" && time.Now().Before(deadline); problem = c.try(t, template, row, true, everything) {
			time.Sleep(100 * time.Millisecond)
		}
		if problem != "" {
			t.Fatalf("not in time: %s: %s", row.What, problem)
		}
	}
}

// try sends the request of a row, and returns what is wrong with the answer, or an empty string. A request that policies refuse is no dry run,
// so that nothing of it depends on that. everything says that RBAC allows the user everything.
func (c *Cluster) try(t *testing.T, template *Template, row *Row, dryRun, everything bool) string {
	t.Helper()
	if row.once && dryRun && row.By == "" {
		return ""
	}
	dryRun = dryRun && !row.once
	code, answer := c.send(t, row, row.user(template), dryRun)
	problem := fmt.Sprintf("got %d %.700s", code, answer)
	isManaged := !c.FrontDoor
	switch {
	case row.Budget && (row.By == "" || isManaged):
		if code == http.StatusTooManyRequests {
			return ""
		}
	case row.By == "":
		if code < http.StatusMultipleChoices {
			return ""
		}
	case isManaged && row.Role && everything:
		// The limit that the document names: only RBAC refuses it.
		if code != http.StatusForbidden {
			return ""
		}
	case code != http.StatusForbidden:
	case !everything || isManaged && row.Role || namesPolicy(answer, row.By):
		return ""
	}
	return problem + "\nwant: " + row.Outcome(c.FrontDoor)
}

// namesPolicy reports whether a refusal names a policy.
func namesPolicy(answer, policy string) bool {
	return regexp.MustCompile(`policy=([a-z0-9-]+/)?` + regexp.QuoteMeta(policy) + ` `).MatchString(answer)
}

func (r *Row) user(template *Template) *user.DefaultInfo {
	if r.As != nil {
		return r.As
	}
	return template.As
}

// storedVersion stands for the resourceVersion of the stored object in a body.
const storedVersion = "{rv}"

var resourceVersion = regexp.MustCompile(`"resourceVersion":\s*"(\d+)"`)

// send sends the request of a row, as an administrator if the user is nil.
func (c *Cluster) send(t *testing.T, row *Row, as *user.DefaultInfo, dryRun bool) (int, string) {
	t.Helper()
	if row.command != nil {
		return c.runCommand(t, row, as, dryRun)
	}
	path, body := row.path, row.body
	if strings.Contains(body, storedVersion) {
		_, stored, err := c.Sender.SendAs(t.Context(), nil, http.MethodGet, path, "", "")
		version := resourceVersion.FindStringSubmatch(stored)
		if err != nil || version == nil {
			t.Fatalf("%s: %s %v", path, stored, err)
		}
		body = strings.Replace(body, storedVersion, version[1], 1)
	}
	if dryRun && row.method.name != http.MethodGet {
		path = withQuery(path, "dryRun=All")
	}
	if row.method == apply {
		path = withQuery(path, "fieldManager=templates&force=true")
	}
	var sender user.Info
	if as != nil && !row.review {
		sender = as
	}
	code, answer, err := c.Sender.SendAs(t.Context(), sender, row.method.name, path, row.method.contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	if row.review && !strings.Contains(answer, `"allowed":true`) {
		code = http.StatusForbidden
	}
	return code, answer
}

// runCommand runs the command of a row, and returns the status code that its outcome stands for.
func (c *Cluster) runCommand(t *testing.T, row *Row, as user.Info, dryRun bool) (int, string) {
	t.Helper()
	args := append(slices.Clone(row.command), "--as="+as.GetName())
	for _, group := range as.GetGroups() {
		args = append(args, "--as-group="+group)
	}
	if dryRun {
		args = append(args, "--dry-run=server")
	}
	output, err := c.Kubectl(t.Context(), "", args...)
	switch {
	case err == nil:
		return http.StatusOK, output
	case strings.Contains(strings.ToLower(err.Error()), "forbidden"), strings.Contains(err.Error(), "denied the request"): // some commands leave out the status
		return http.StatusForbidden, err.Error()
	default:
		return http.StatusInternalServerError, err.Error()
	}
}

func withQuery(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}
