/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package enforcement

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// auditWithheld is the audit annotation for the status code of an answer that the user was not
// shown.
const auditWithheld = "authorization.proviso.dev/withheld-status"

// headerRetryAfter is the header of answers to requests that may be sent again.
const headerRetryAfter = "Retry-After"

// withholding replaces the answer to a request that failed, or was refused, while it depended on
// conditions, if the user may not read the stored object (ADR 21). The handlers apply patches,
// check preconditions and validate before the conditions are evaluated, and their errors quote the
// object. It also replaces the list of objects that a deletecollection returns.
type withholding struct {
	http.ResponseWriter
	request    *http.Request
	slot       *slot
	serializer runtime.NegotiatedSerializer
	// header has the headers that the filters have set, which do not depend on objects. The
	// handlers add warnings, which quote fields, and headers that show how large their answer was.
	header http.Header
	// status is the status code of the handler, and written is true once the handler wrote it.
	status  int
	written bool
	// withheld is true once the handler's answer is not passed on.
	withheld bool
	// compared compares the handler's answer with the refusal that may be shown, if there is one.
	compared *comparing
}

var _ responsewriter.UserProvidedDecorator = &withholding{}

func newWithholding(w http.ResponseWriter, r *http.Request, s *slot, serializer runtime.NegotiatedSerializer) *withholding {
	return &withholding{
		ResponseWriter: w, request: r, slot: s, serializer: serializer,
		header: w.Header().Clone(), status: http.StatusOK,
	}
}

// Unwrap returns the wrapped writer.
func (w *withholding) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serve calls the handler. If an answer of 500 to the request would be withheld, a panic of the handler becomes a withheld
// answer: the broken connection would tell the sender of a patch that tests a value, and then makes the handler panic, whether
// the value was guessed. All other panics are passed on, and so is the one by which a handler ends a connection on purpose.
func (w *withholding) serve(handler http.Handler) {
	defer func() {
		if reason := recover(); reason != nil && (reason == http.ErrAbortHandler || !w.withholdPanic(reason)) { //nolint:errorlint // net/http compares it, too
			panic(reason)
		}
	}()
	handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(w), w.request)
}

// withholdPanic answers in place of a handler that has panicked. It does nothing and returns false if an answer of 500 would not
// be withheld, or if the handler's answer is already on its way to the user.
func (w *withholding) withholdPanic(reason any) bool {
	record, withhold := w.slot.withholds(w.request.Context(), http.StatusInternalServerError)
	if !withhold || w.written && !w.withheld { // what the handler has written is on its way
		return false
	}
	for _, handle := range utilruntime.PanicHandlers {
		handle(w.request.Context(), reason)
	}
	if !w.written {
		w.resetHeader()
		w.status, w.written, w.withheld = http.StatusInternalServerError, true, true
		w.replace(record, w.status)
	}
	return true
}

// WriteHeader writes the status, or another answer in place of the handler's if the answer is withheld. If the handler may
// be writing the one refusal that may be shown, WriteHeader writes nothing yet, and finish decides.
func (w *withholding) WriteHeader(status int) {
	if w.withheld {
		return
	}
	w.status, w.written = status, true
	record, withhold := w.slot.withholds(w.request.Context(), status)
	//guard:enforcement-warnings-refusal
	w.slot.endRequest(w.request.Context(), !withhold && status < http.StatusBadRequest)
	if !withhold {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.withheld = true
	if w.compared = w.compare(w.slot.explained(), status); w.compared == nil {
		w.replace(record, status)
	}
}

// finish writes the answer if it depends on the complete answer of the handler: the refusal that may be shown, if the
// handler wrote exactly this refusal, and otherwise a replacement. It must be called when the handler has returned.
func (w *withholding) finish() {
	switch {
	case w.compared == nil:
	case w.compared.same():
		w.resetHeader()
		responsewriters.ErrorNegotiated(w.compared.refusal, w.serializer, unversioned, w.ResponseWriter, w.request)
	default:
		request, _, _ := w.slot.records()
		w.replace(request, w.status)
	}
}

// replace writes another answer in place of the handler's.
func (w *withholding) replace(record *record, status int) {
	ctx := w.request.Context()
	if !w.slot.isDenied() { // the refusal has annotations of its own
		audit.AddAuditAnnotation(ctx, auditWithheld, strconv.Itoa(status))
	}
	retryAfter := w.Header().Get(headerRetryAfter)
	w.resetHeader()
	if status < http.StatusBadRequest {
		w.writeSuccess(record, status)
		return
	}
	responsewriters.ErrorNegotiated(w.slot.answer(record, status, retryAfter), w.serializer, unversioned, w.ResponseWriter, w.request)
}

// resetHeader removes the headers that the handler has set, and keeps those that the filters set before.
func (w *withholding) resetHeader() {
	header := w.Header()
	clear(header)
	maps.Copy(header, w.header)
}

// unversioned is the group and version of a Status.
var unversioned = schema.GroupVersion{Version: "v1"}

// writeSuccess answers that a collection was deleted, without its objects.
func (w *withholding) writeSuccess(request *record, status int) {
	answer := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: unversioned.Version},
		Status:   metav1.StatusSuccess, Code: int32(status), //nolint:gosec // a status code
		Details: &metav1.StatusDetails{Group: request.attributes.GetAPIGroup(), Kind: request.attributes.GetResource()},
	}
	responsewriters.WriteObjectNegotiated(w.serializer, anyTransform{negotiation.DefaultEndpointRestrictions}, unversioned, w.ResponseWriter, w.request, status, answer, false)
}

// anyTransform accepts every transformation that a client requests, such as a table: the handler
// has accepted it before it deleted the objects. A Status is not transformed.
type anyTransform struct {
	negotiation.EndpointRestrictions
}

// AllowsMediaTypeTransform returns true.
func (anyTransform) AllowsMediaTypeTransform(string, string, *schema.GroupVersionKind) bool {
	return true
}

// Write writes the body of the handler's answer, or drops it if the answer is withheld.
func (w *withholding) Write(body []byte) (int, error) {
	if !w.written {
		w.WriteHeader(http.StatusOK)
	}
	if w.compared != nil {
		w.compared.write(body)
	}
	if w.withheld {
		return len(body), nil
	}
	return w.ResponseWriter.Write(body)
}

// withholds reports whether an answer with this status must not be shown, because it could show a
// stored object to a user who may not read it. If so, it also returns the decision about the request.
func (s *slot) withholds(ctx context.Context, status int) (*record, bool) {
	request, _, _ := s.records()
	if !request.isConditional() || !showsStored(request.attributes, status) || !s.enforcer.readsStored(request.attributes) {
		return nil, false
	}
	return request, !s.enforcer.mayRead(ctx, request)
}

// showsStored reports whether an answer may show stored objects on which no condition was
// evaluated. A successful answer shows none, except the list that a deletecollection returns: the
// store skips objects that are gone by the time it deletes them, but returns the list as it was
// read, with a count of the objects beyond the limit.
func showsStored(a authorizer.Attributes, status int) bool {
	return status >= http.StatusBadRequest || a.GetVerb() == "deletecollection"
}

// readsStored reports whether the handler of a request may read a stored object before conditions are
// evaluated. It returns false for a create without a subresource, and for a connection, which runs
// admission first.
func (e *Enforcer) readsStored(a authorizer.Attributes) bool {
	return !e.classifier.connects(a) && (a.GetVerb() != "create" || a.GetSubresource() != "")
}

// mayRead reports whether the user may read, without conditions, every object that the answer
// could show. It uses the authorizers and the snapshot that decided the request. It returns false if an authorizer
// returns an error or a condition, or if the request has ended.
func (e *Enforcer) mayRead(ctx context.Context, request *record) bool {
	a := request.attributes
	ctx, chain := e.chainFor(ctx, a, request)
	return chain.Decide(request.lazy.Pin(ctx), authorizer.AttributesRecord{
		User: a.GetUser(), Verb: verbToRead(a), Namespace: a.GetNamespace(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
		Resource: a.GetResource(), Name: a.GetName(), ResourceRequest: true,
	}).Fold().IsAllow()
}

// verbToRead returns the verb that a user needs to read the objects of a request: list for deletecollection, otherwise get.
// For a subresource the verb is checked on the whole object, because handlers of subresources read the whole object.
func verbToRead(a authorizer.Attributes) string {
	if a.GetVerb() == "deletecollection" {
		return "list"
	}
	return "get"
}

// answer returns the error that replaces the answer of the handler for a user who may not read the object. It depends only
// on data that was known before the object was read, and on whether the object exists. 404, timeouts of the storage and
// independentCodes keep their code, without details. False conditions, a patch that cannot be applied and a failed
// precondition all get the same 403.
func (s *slot) answer(request *record, status int, retryAfter string) error {
	a := request.attributes
	resource := schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}
	switch {
	case status == http.StatusNotFound:
		return apierrors.NewNotFound(resource, a.GetName())
	case status == http.StatusInternalServerError && retryAfter != "": // the storage did not answer in time
		return apierrors.NewServerTimeout(resource, a.GetVerb(), secondsOf(retryAfter))
	case slices.Contains(independentCodes, status):
		answer := apierrors.NewGenericServerResponse(status, a.GetVerb(), resource, a.GetName(), "details are not shown", 0, false)
		answer.ErrStatus.Details = &metav1.StatusDetails{
			Group: resource.Group, Kind: resource.Resource, Name: a.GetName(), RetryAfterSeconds: int32(secondsOf(retryAfter)), //nolint:gosec // it was an int32 before
		}
		return answer
	}
	return responsewriters.ForbiddenStatusError(a, s.withheldReason(request))
}

// secondsOf parses a Retry-After header, which the handlers write in seconds. It returns 0 if that
// fails.
func secondsOf(retryAfter string) int {
	seconds, err := strconv.Atoi(retryAfter)
	if err != nil {
		return 0
	}
	return seconds
}

// independentCodes are the status codes of refusals that do not depend on the object, and that
// clients react to. 500 is not among them: a patch that tests a value, and then fails in a way
// that the handlers do not expect, would reveal whether the value was guessed.
var independentCodes = []int{
	http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// withheldReason returns a reason with the names of the conditions that the request depended on,
// whether or not they were evaluated.
func (s *slot) withheldReason(request *record) string {
	_, _, create := s.records()
	var names []string
	for _, r := range []*record{request, create} {
		if !r.isConditional() {
			continue
		}
		for _, name := range r.decided.Labels() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	objects := "object"
	if request.attributes.GetVerb() == "deletecollection" {
		objects = "objects"
	}
	return joinBounded("the request is allowed only on conditions, and it is invalid or does not meet them (details are shown to users who may "+
		verbToRead(request.attributes)+" the "+objects+"): "+strings.Join(names, "; "), "")
}
