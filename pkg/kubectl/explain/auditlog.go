/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	kjson "sigs.k8s.io/json"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/excerpt"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
)

const (
	// maxEventBytes bounds one event of an audit log. Objects have at most some 3 MiB.
	maxEventBytes = 16 << 20
	// maxAnnotations and maxAnnotationBytes bound the annotations that are shown.
	maxAnnotations     = 16
	maxAnnotationBytes = 2048
)

// The annotations in which kube-apiserver records its decision.
const (
	annotationDecision = "authorization.k8s.io/decision"
	annotationReason   = "authorization.k8s.io/reason"
)

// The errors of audit logs.
var (
	errNoEvent   = errors.New("has no refused request: no event of the stage ResponseComplete with the code 403")
	errNotAudit  = errors.New("is not an audit log: want one event of audit.k8s.io/v1 in each line, as JSON")
	noteNoObject = "the audit event has no object, because the audit policy has not the level Request for it: give the object with -f"
	noteNoStored = "the audit event does not have the stored object: give it with -f"
)

// readAuditLog finds the event, and reads its request.
func (in *input) readAuditLog() error {
	name, from := in.auditLog, in.In
	if name == document.Stdin {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		from = file
	}
	event, err := findEvent(from, in.auditID)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	in.request.Spec = specOf(event)
	in.readEventData(event)
	in.readAnnotations(event)
	return nil
}

// findEvent returns the last event of a refused request, or the one with an ID.
func findEvent(from io.Reader, id string) (*auditv1.Event, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxEventBytes)
	var found *auditv1.Event
	for number := 1; lines.Scan(); number++ {
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		event := &auditv1.Event{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(lines.Bytes(), event); err != nil || event.Kind != "Event" || event.APIVersion != auditv1.SchemeGroupVersion.String() {
			//guard:explain-quoted-audit-logs
			return nil, fmt.Errorf("line %d: %w", number, errNotAudit) // err quotes the line, which may have secrets
		}
		if event.Stage != auditv1.StageResponseComplete {
			continue
		}
		if id != "" && string(event.AuditID) == id || id == "" && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusForbidden {
			found = event
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, err
	case found == nil && id != "":
		return nil, fmt.Errorf("has no event of the stage ResponseComplete with the ID %q", id)
	case found == nil:
		return nil, errNoEvent
	}
	return found, nil
}

// specOf returns the user and the request of an event.
func specOf(event *auditv1.Event) *authorizationv1alpha1.SubjectAccessReviewSpec {
	who := event.User
	if event.ImpersonatedUser != nil {
		who = *event.ImpersonatedUser
	}
	spec := question.SpecOf(&who)
	uri, _ := url.ParseRequestURI(event.RequestURI)
	if uri == nil {
		uri = &url.URL{}
	}
	ref := event.ObjectRef
	if ref == nil || ref.Resource == "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: event.Verb, Path: uri.Path}
		return spec
	}
	a := &authorizationv1.ResourceAttributes{
		Verb: event.Verb, Group: ref.APIGroup, Version: ref.APIVersion, Resource: ref.Resource, Subresource: ref.Subresource, Namespace: ref.Namespace, Name: ref.Name,
	}
	if event.Verb == "create" && ref.Subresource == "" {
		a.Name = "" // kube-apiserver authorizes before it reads the name, and records it later
	}
	question.SetSelectors(a, uri.Query().Get("labelSelector"), uri.Query().Get("fieldSelector"))
	spec.ResourceAttributes = a
	return spec
}

// readEventData reads the object of an event.
func (in *input) readEventData(event *auditv1.Event) {
	operation := map[string]authorizationv1alpha1.Operation{"create": authorizationv1alpha1.OperationCreate, "update": authorizationv1alpha1.OperationUpdate}[event.Verb]
	if in.request.Spec.ResourceAttributes == nil {
		return
	}
	switch {
	case operation == "":
		if event.Verb == "patch" || event.Verb == "delete" || event.Verb == "deletecollection" {
			in.notes = append(in.notes, noteNoStored)
		}
		return
	case event.RequestObject == nil || len(event.RequestObject.Raw) == 0:
		in.notes = append(in.notes, noteNoObject)
		return
	}
	in.request.Data = &authorizationv1alpha1.AuthorizationConditionsRequest{
		Operation: operation, Object: &runtime.RawExtension{Raw: event.RequestObject.Raw}, DryRun: strings.Contains(event.RequestURI, "dryRun=All"),
	}
	in.request.Absent = []cel.Variable{cel.Options, cel.NamespaceObject}
	if operation == authorizationv1alpha1.OperationUpdate {
		in.request.Absent = append(in.request.Absent, cel.OldObject)
		in.notes = append(in.notes, noteNoStored)
	}
	in.notes = append(in.notes, noteMutations)
}

// readAnnotations reads what the servers have recorded. The message of the answer is not read: it may quote the object.
func (in *input) readAnnotations(event *auditv1.Event) {
	in.recorded = map[string]string{}
	for key, text := range event.Annotations {
		_, word, _ := strings.Cut(key, "/")
		if word != "decision" && word != "reason" && word != "condition" || len(in.recorded) == maxAnnotations {
			continue
		}
		in.recorded[key] = excerpt.Of(text, maxAnnotationBytes)
	}
	reason := event.Annotations[annotationReason]
	if event.Annotations[annotationDecision] == "allow" && strings.HasPrefix(reason, byRBAC) {
		in.permit()
	}
}
