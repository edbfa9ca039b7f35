/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
)

// applyManager is the field manager of rows that apply and name none.
const applyManager = "table"

// apiRequest is a request as client-go sends it.
type apiRequest struct {
	method, path, contentType string
	query                     url.Values
	header                    map[string]string
	body                      any
}

// send sends the request, and returns the answer of the server.
func (r apiRequest) send(ctx context.Context, client rest.Interface) (map[string]any, error) {
	request := client.Verb(r.method).AbsPath(r.path).SetHeader("Accept", "application/json")
	for key, values := range r.query {
		for _, value := range values {
			request.Param(key, value)
		}
	}
	for key, value := range r.header {
		request.SetHeader(key, value)
	}
	if r.body != nil {
		request.Body(mustJSON(r.body)).SetHeader("Content-Type", r.contentType)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	answer := map[string]any{}
	if r.query.Has("watch") {
		return answer, nil
	}
	return answer, json.Unmarshal(raw, &answer)
}

func mustJSON(value any) []byte {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return content
}

// tableCase is a row on one route.
type tableCase struct {
	*tableRow
	set   *tableSet
	route string
	// of is what it is about, if not machines.
	of *tableResource
	// stored are the machines that were there before.
	stored []map[string]any
}

// tableResource is a resource that rows are about.
type tableResource struct {
	schema.GroupVersionResource
	kind string
	spec map[string]any // of every object, which rows add to
}

var machinesOfRows = &tableResource{
	GroupVersionResource: demov1alpha1.SchemeGroupVersion.WithResource(machines), kind: "VirtualMachine", spec: map[string]any{"image": "debian-12"},
}

func (c *tableCase) about() *tableResource {
	if c.of != nil {
		return c.of
	}
	return machinesOfRows
}

func (c *tableCase) label() string { return "row=" + c.id + "-" + c.route }

// object is the name of the machine that the request is about.
func (c *tableCase) object() string {
	if c.Exact != "" {
		return c.Exact + "-" + c.route
	}
	return c.Prefix + c.id + "-" + c.route
}

// machine is a machine of the row, with what the row says of it.
func (c *tableCase) machine(name string, with any) map[string]any {
	machine := map[string]any{
		"apiVersion": c.about().GroupVersion().String(), "kind": c.about().kind,
		"metadata": map[string]any{"name": name, "namespace": c.set.namespace(), "labels": map[string]any{"row": c.id + "-" + c.route}},
		"spec":     c.about().spec,
	}
	merged := mergeJSON(machine, with).(map[string]any)
	metadata := merged["metadata"].(map[string]any)
	if _, generated := metadata["generateName"]; generated {
		delete(metadata, "name")
	}
	return merged
}

// applied is what a row applies. To an object that is there it has nothing but the body: the manager
// would otherwise begin to manage all fields of the object.
func (c *tableCase) applied() map[string]any {
	machine := c.machine(c.object(), c.Body)
	if c.Old == nil {
		return machine
	}
	names := map[string]any{"name": c.object(), "namespace": c.set.namespace()}
	return mergeJSON(map[string]any{"apiVersion": machine["apiVersion"], "kind": machine["kind"], "metadata": names}, c.Body).(map[string]any)
}

// mergeJSON applies a JSON merge patch (RFC 7396).
func mergeJSON(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result := map[string]any{}
	if object, ok := target.(map[string]any); ok {
		maps.Copy(result, object)
	}
	for key, value := range changes {
		if value == nil {
			delete(result, key)
			continue
		}
		result[key] = mergeJSON(result[key], value)
	}
	return result
}

func (c *tableCase) collection() string {
	root := "/apis/"
	if c.about().Group == "" {
		root = "/api/"
	}
	return fmt.Sprintf("%s%s/namespaces/%s/%s", root, c.about().GroupVersion(), c.set.namespace(), c.about().Resource)
}

// request is what the row sends, or a rehearsal of it.
func (c *tableCase) request(dryRun bool) apiRequest {
	r := apiRequest{path: c.collection() + "/" + c.object(), query: url.Values{}, contentType: "application/json"}
	if c.Sub != "" {
		r.path += "/" + c.Sub
	}
	if dryRun {
		r.query.Set("dryRun", metav1.DryRunAll)
	}
	if c.Options.FieldManager != "" {
		r.query.Set("fieldManager", c.Options.FieldManager)
	}
	if c.Validation != "" {
		r.query.Set("fieldValidation", c.Validation)
	}
	switch c.Do {
	case "create", "client-apply":
		r.method, r.path, r.body = http.MethodPost, c.collection(), c.machine(c.object(), c.Body)
		if c.Do == "client-apply" {
			r.body = mergeJSON(r.body, map[string]any{"metadata": map[string]any{"annotations": map[string]any{lastApplied: "{}"}}})
		}
		if c.Do == "client-apply" && c.Old != nil { // as kubectl applies to what is there
			r.method, r.path, r.contentType = http.MethodPatch, r.path+"/"+c.object(), string(types.MergePatchType)
		}
	case "update":
		r.method, r.body = http.MethodPut, c.replacement()
	case "json", "merge", "strategic", "label", "annotate", "edit":
		r.method, r.body, r.contentType = http.MethodPatch, c.Body, string(map[string]types.PatchType{
			"json": types.JSONPatchType, "strategic": types.StrategicMergePatchType,
		}[c.Do])
		if r.contentType == "" {
			r.contentType = string(types.MergePatchType)
		}
	case "apply":
		r.method, r.body, r.contentType = http.MethodPatch, c.applied(), string(types.ApplyPatchType)
		if c.Options.FieldManager == "" {
			r.query.Set("fieldManager", applyManager)
		}
		if c.Options.Force {
			r.query.Set("force", "true")
		}
	case "delete":
		r.method, r.body, r.query = http.MethodDelete, c.deleteOptions(dryRun), url.Values{}
	case "deletecollection":
		r.method, r.path, r.body = http.MethodDelete, c.collection(), c.deleteOptions(dryRun)
		r.query = url.Values{"labelSelector": {c.label()}}
	case "get":
		r.method = http.MethodGet
	case "list":
		r.method, r.path = http.MethodGet, c.collection()
	case "watch":
		r.method, r.path = http.MethodGet, c.collection()
		r.query = url.Values{"watch": {"true"}, "timeoutSeconds": {"1"}}
	case "console", "open":
		r.method = map[string]string{"console": http.MethodGet, "open": http.MethodPost}[c.Do]
		r.path += "/console"
		r.query = c.connectQuery()
	}
	return r
}

// lastApplied is the annotation in which kubectl keeps what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// replacement is what an update sends: what is there with the changes of the row.
func (c *tableCase) replacement() map[string]any {
	if len(c.stored) == 0 {
		return c.machine(c.object(), c.Body)
	}
	changed := mergeJSON(c.stored[0], c.Body).(map[string]any)
	if c.Stale {
		changed = mergeJSON(changed, map[string]any{"metadata": map[string]any{"resourceVersion": "1"}}).(map[string]any)
	}
	return changed
}

func (c *tableCase) connectQuery() url.Values {
	query, err := url.ParseQuery(c.Query)
	if err != nil {
		panic(err)
	}
	return query
}

func (c *tableCase) deleteOptions(dryRun bool) map[string]any {
	options := map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"}
	if dryRun {
		options["dryRun"] = []any{metav1.DryRunAll}
	}
	if c.Options.GracePeriodSeconds != nil {
		options["gracePeriodSeconds"] = *c.Options.GracePeriodSeconds
	}
	if c.Options.PropagationPolicy != "" {
		options["propagationPolicy"] = c.Options.PropagationPolicy
	}
	return options
}

// kubectl is the command line of the row, and its input.
func (c *tableCase) kubectl() (args []string, input string) {
	args = []string{"--namespace", c.set.namespace()}
	rehearse := []string(nil)
	if c.DryRun {
		rehearse = []string{"--dry-run=server"}
	}
	switch c.Do {
	case "create":
		return append(append(args, "create", "-f", "-"), rehearse...), string(mustJSON(c.machine(c.object(), c.Body)))
	case "client-apply":
		return append(args, "apply", "-f", "-"), string(mustJSON(c.machine(c.object(), c.Body)))
	case "apply":
		args = append(append(args, "apply", "--server-side", "-f", "-"), rehearse...)
		if c.Options.Force {
			args = append(args, "--force-conflicts")
		}
		if c.Sub != "" {
			args = append(args, "--subresource", c.Sub)
		}
		return args, string(mustJSON(c.applied()))
	case "update":
		args = append(append(args, "replace", "-f", "-"), rehearse...)
		if c.Sub != "" {
			args = append(args, "--subresource", c.Sub)
		}
		return args, string(mustJSON(c.replacement()))
	case "json", "merge", "strategic":
		args = append(args, "patch", machines, c.object(), "--type", c.Do, "--patch", string(mustJSON(c.Body)))
		if c.Sub != "" {
			args = append(args, "--subresource", c.Sub)
		}
		return args, ""
	case "label", "annotate":
		return append(append(append(args, c.Do, machines, c.object()), c.assignments()...), rehearse...), ""
	case "edit":
		args = append(args, "edit", machines, c.object())
		if c.Sub != "" {
			args = append(args, "--subresource", c.Sub)
		}
		return args, ""
	case "delete":
		args = append(args, "delete", "--wait=false", machines, c.object())
		if grace := c.Options.GracePeriodSeconds; grace != nil {
			args = append(args, fmt.Sprintf("--grace-period=%d", *grace), "--force")
		}
		return args, ""
	}
	r := c.request(c.DryRun)
	path := r.path
	if len(r.query) > 0 {
		path += "?" + r.query.Encode()
	}
	switch c.Do {
	case "deletecollection":
		return []string{"delete", "--raw", path}, ""
	case "open":
		return []string{"create", "--raw", path, "-f", "-"}, "{}"
	default:
		return []string{"get", "--raw", path}, ""
	}
}

// assignments are the changes of labels or annotations as kubectl wants them.
func (c *tableCase) assignments() []string {
	metadata := c.Body.(map[string]any)["metadata"].(map[string]any)
	changes, _ := metadata[map[string]string{"label": "labels", "annotate": "annotations"}[c.Do]].(map[string]any)
	var args []string
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if changes[key] == nil {
			args = append(args, key+"-")
			continue
		}
		args = append(args, fmt.Sprintf("%s=%v", key, changes[key]))
	}
	return args
}

// make makes the request, and returns how it ended and what the server said.
func (c *tableCase) make(t *testing.T, client rest.Interface, context string) (outcome, message string) {
	t.Helper()
	if c.By == "" {
		_, err := c.request(c.DryRun).send(t.Context(), client)
		return outcomeOf(err), fmt.Sprint(err)
	}
	args, input := c.kubectl()
	_, errs, err := kubectlWithEditor(t, context, "sed -i -e '"+c.Editor+"'", input, args...)
	if err == nil {
		return outcomeAllowed, ""
	}
	for text, outcome := range map[string]string{
		"(Forbidden)": outcomeForbidden, "(NotFound)": "not found", "(Conflict)": "conflict", "(AlreadyExists)": "exists", "is invalid:": "invalid",
		"is forbidden: User":    outcomeForbidden, // as `kubectl edit` prints it
		"strict decoding error": "BadRequest",
	} {
		if strings.Contains(errs, text) {
			return outcome, errs
		}
	}
	return "failed", errs
}

func outcomeOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return outcomeAllowed
	case !errors.As(err, &status):
		return "failed"
	case apierrors.IsForbidden(err):
		return outcomeForbidden
	case apierrors.IsNotFound(err):
		return "not found"
	case apierrors.IsAlreadyExists(err):
		return "exists"
	case apierrors.IsConflict(err):
		return "conflict"
	case apierrors.IsInvalid(err):
		return "invalid"
	}
	return string(status.Status().Reason)
}
