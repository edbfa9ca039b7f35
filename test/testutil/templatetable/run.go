/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package templatetable

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/poll"
	"github.com/proviso-authz/proviso/test/testutil/requests"
)

// Cluster is a cluster on which templates are tried.
type Cluster struct {
	// Kubectl runs kubectl as an administrator.
	Kubectl func(ctx context.Context, input string, args ...string) (string, error)
	// Sender sends requests as any user.
	Sender *requests.Sender
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

// Run applies each template, and sends its requests: with the front door by its Allow policies alone; in Audit, in which no policy refuses one;
// as users whom RBAC allows everything; and as users whom RBAC allows what the role of the template grants.
func Run(t *testing.T, c *Cluster) {
	for _, template := range Templates(t) {
		t.Run(template.Name, func(t *testing.T) { c.run(t, template) })
	}
}

func (c *Cluster) run(t *testing.T, template *Template) {
	c.kubectl(t, template.Manifest(), "apply", "-f", "-")
	if content, err := os.ReadFile(c.file(template, "pods.yaml")); err == nil {
		c.kubectl(t, string(content), "apply", "-n", "keep", "-f", "-")
	}
	if before := template.Rows["before"]; before != nil {
		(&requests.Runner{Sender: c.Sender}).Run(t, before)
	}
	if c.FrontDoor {
		c.doors(t, template)
	}
	c.kubectl(t, everything+subjects(template), "apply", "-f", "-")
	c.enforce(t, template, "Audit")
	c.inAudit(t, template)
	c.enforce(t, template, "Enforce")
	allowed := c.runner(true, true)
	c.wait(t, template, allowed)
	t.Run("whatever RBAC allows", func(t *testing.T) { allowed.Run(t, template.Requests()) })
	hasRole := c.role(t, template)
	granted := c.runner(!hasRole, false)
	c.wait(t, template, granted)
	t.Run("with the role of the template", func(t *testing.T) { granted.Run(t, template.Requests()) })
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
func subjects(template *Template) (text string) {
	for _, name := range slices.Sorted(maps.Keys(template.Users)) {
		text += fmt.Sprintf("- {apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}\n", template.Users[name].Name)
	}
	return text
}

var (
	effect      = regexp.MustCompile(`(?m)^  effect: .*$`)
	enforcement = regexp.MustCompile(`(?m)^  enforcement: .*\n`)
)

// enforce applies the policies of a template with an enforcement. With the front door it waits until kube-apiserver has loaded the barriers: until then, requests
// that pass the condition of a Deny policy are refused.
func (c *Cluster) enforce(t *testing.T, template *Template, value string) {
	t.Helper()
	content, err := os.ReadFile(c.file(template, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := effect.ReplaceAllString(enforcement.ReplaceAllString(string(content), ""), "$0\n  enforcement: "+value)
	c.kubectl(t, manifest, "apply", "-f", "-")
	c.kubectl(t, manifest, "wait", "--for=condition=Ready", "--timeout=30s", "-f", "-")
	if !c.FrontDoor {
		return
	}
	poll.Eventually(t, "kube-apiserver loads the barriers of "+template.Name, func() string {
		stored, err := c.Kubectl(t.Context(), manifest, "get", "-o", "yaml", "-f", "-")
		if err != nil {
			return err.Error()
		}
		if strings.Contains(stored, ": Pending\n") {
			return stored
		}
		return ""
	})
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
	runner := c.runner(false, true)
	c.wait(t, template, runner)
	t.Run("with doors.yaml", func(t *testing.T) { runner.Run(t, template.Requests()) })
	c.kubectl(t, "", "delete", "-f", doors)
}

// inAudit sends all requests as dry runs while the policies are in Audit: no policy refuses one.
func (c *Cluster) inAudit(t *testing.T, template *Template) {
	t.Helper()
	runner := c.runner(true, true)
	runner.Want = func(row *requests.Row) *requests.Outcome {
		return inReview(row, &requests.Outcome{Not: http.StatusForbidden})
	}
	for _, row := range template.Requests() {
		if !row.Is(requests.NoDryRun) {
			runner.Await(t, row) // RBAC may not know the user yet
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

// wait waits until the outcome of the first request of each kind is as it must be, and of each one that impersonates: kube-apiserver remembers for some seconds whom a user
// could impersonate.
func (c *Cluster) wait(t *testing.T, template *Template, runner *requests.Runner) {
	t.Helper()
	seen := map[string]bool{}
	for _, row := range template.Requests() {
		key := Outcome(row, c.FrontDoor) + fmt.Sprint(row.Headers)
		if want := runner.Want(row); !row.Is(byBudget) && !seen[key] && want != nil && want.Not == 0 {
			seen[key] = true
			runner.Await(t, row)
		}
	}
}

// runner sends the requests of a template. everything says that RBAC allows the users everything: then a refusal must name the policy. Of requests that cannot be
// dry runs, those that pass are left out of dry runs.
func (c *Cluster) runner(everything, dryRun bool) *requests.Runner {
	r := &requests.Runner{Sender: c.Sender, Kubectl: c.command, DryRun: dryRun}
	r.As = func(row *requests.Row) *requests.User {
		if row.Is(isReview) {
			return nil
		}
		return row.User
	}
	r.Want = func(row *requests.Row) *requests.Outcome {
		isManaged, want := !c.FrontDoor, row.Outcome
		switch {
		case row.Is(requests.NoDryRun) && dryRun && row.By == "":
			return nil
		case row.Is(byBudget) && (row.By == "" || isManaged):
			want = requests.Outcome{Code: http.StatusTooManyRequests}
		case isManaged && row.Is(byRole) && everything:
			want = requests.Outcome{Not: http.StatusForbidden} // the limit that the document names: only RBAC refuses it
		case row.By != "" && (!everything || isManaged && row.Is(byRole)):
			want.By = ""
		}
		return inReview(row, &want)
	}
	return r
}

// inReview returns the outcome of a review that asks about a request with an outcome.
func inReview(row *requests.Row, want *requests.Outcome) *requests.Outcome {
	const allowed = `"allowed":true`
	switch {
	case !row.Is(isReview):
		return want
	case want.Not == http.StatusForbidden:
		return &requests.Outcome{Code: http.StatusCreated, Says: requests.Texts{allowed}}
	default:
		return &requests.Outcome{Code: http.StatusCreated, By: want.By, Hides: requests.Texts{allowed}}
	}
}

// command runs the command of a row.
func (c *Cluster) command(ctx context.Context, row *requests.Row, args ...string) (string, error) {
	return c.Kubectl(ctx, row.Input, args...)
}
