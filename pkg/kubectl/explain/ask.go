/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package explain

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/cel"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/simulation"
)

// The errors of requests in arguments.
var (
	errNoUser   = errors.New("with policies in files, --as must name the user: no kubeconfig is read")
	errNoObject = errors.New("must specify TYPE, or a file with the object of the request")
)

// The notes about requests in arguments.
const (
	noteNameless  = "the request has no name, and every request with the verb has one: policies can also depend on it"
	noteStored    = "the stored object is not known: give it with -f, after the new one"
	noteNamespace = "the namespace of the request is not known without a cluster"
)

// isAsked reports whether the request is in the arguments.
func (in *input) isAsked() bool { return in.asked.Verb != "" }

// readQuestion reads the request in the arguments, with the plain objects in files. If the files have policies, no server is called.
func (in *input) readQuestion(ctx context.Context, objects []document.Document, hasPolicies bool) error {
	q := &in.asked
	if in.target == "" && len(objects) == 0 {
		return errNoObject
	}
	checked := *q
	checked.AllNamespaces = q.AllNamespaces && !hasPolicies // without a cluster, the flag says that the object has no namespace
	if err := checked.Check(in.args, len(objects) > 0); err != nil {
		return err
	}
	var read []*unstructured.Unstructured
	readObjects := func(mapper meta.RESTMapper) error {
		for _, d := range objects {
			object, err := q.ReadObject(d, mapper, in.NamespaceFlag())
			if err != nil {
				return err
			}
			read = append(read, object)
		}
		return nil
	}
	if hasPolicies {
		if err := in.readWithoutServer(readObjects); err != nil {
			return err
		}
	} else if err := in.readWithServer(ctx, readObjects); err != nil {
		return err
	}
	in.request.Spec.ResourceAttributes, in.request.Spec.NonResourceAttributes = q.Attributes(q.Resource.Version)
	if q.IsNameless() {
		in.notes = append(in.notes, noteNameless)
	}
	if len(read) == 0 {
		return nil
	}
	if !hasPolicies && len(read) == 1 && simulation.Operations[q.Verb] == authorizationv1alpha1.OperationUpdate {
		stored, err := in.clients.Dynamic.Resource(q.Resource).Namespace(q.Namespace).Get(ctx, q.Name, metav1.GetOptions{})
		if err != nil {
			in.notes = append(in.notes, "the stored object is not known: "+err.Error())
		} else {
			read = append(read, stored)
		}
	}
	return in.setData(read, hasPolicies)
}

// readWithoutServer reads the request and its user without a cluster.
func (in *input) readWithoutServer(readObjects func(meta.RESTMapper) error) error {
	q, subject := &in.asked, question.SubjectWithoutServer(in.Flags)
	if subject == nil {
		return errNoUser
	}
	in.request.Spec = question.SpecOf(subject)
	if q.ReadWithoutServer(&in.Options, in.target); q.NonResourceURL != "" {
		return nil
	}
	if err := readObjects(question.WithoutServer(in.WarnOnce)); err != nil {
		return err
	}
	if q.Namespace == "" && !q.AllNamespaces && !q.IsClusterScoped {
		return question.ErrNamespace
	}
	return nil
}

// readWithServer reads the request with the resources of a cluster. The user is the one of --as, about whom the caller asks, or the caller.
func (in *input) readWithServer(ctx context.Context, readObjects func(meta.RESTMapper) error) error {
	if err := in.connect(); err != nil {
		return err
	}
	if in.request.Spec == nil {
		self, err := question.Self(ctx, in.clients.Kube.AuthenticationV1())
		if err != nil {
			return fmt.Errorf("who you are is not known: %w", err)
		}
		in.request.Spec, in.isSelf = question.SpecOf(self), true
	}
	if err := in.asked.Read(&in.Options, in.target, readObjects); err != nil {
		return err
	}
	switch {
	case in.asked.IsClusterScoped:
		in.asked.Namespace = ""
	case in.asked.IsOfNamespaces():
		in.asked.Namespace = in.asked.Name // a Namespace is in itself
	}
	return nil
}

// connect sets the clients of the caller, and the user of --as if the request is in the arguments.
func (in *input) connect() error {
	if in.clients != nil {
		return nil
	}
	config, err := in.Config()
	if err != nil {
		return err
	}
	if in.isAsked() {
		var subject *authenticationv1.UserInfo
		if config, subject = question.AsCaller(in.Flags, config); subject != nil {
			in.request.Spec = question.SpecOf(subject)
		}
	}
	in.clients, err = command.NewClients(config)
	return err
}

// setData sets the data of the request from plain objects.
func (in *input) setData(objects []*unstructured.Unstructured, isOffline bool) error {
	data, err := question.DataOf(in.asked.Verb, objects...)
	if err != nil {
		return err
	}
	in.request.Data, in.notes = data, append(in.notes, noteMutations)
	if data.Operation == authorizationv1alpha1.OperationUpdate && data.OldObject == nil {
		in.request.Absent = append(in.request.Absent, cel.OldObject)
		if isOffline {
			in.notes = append(in.notes, noteStored)
		}
	}
	if isOffline && in.asked.Namespace != "" {
		in.request.Absent, in.notes = append(in.request.Absent, cel.NamespaceObject), append(in.notes, noteNamespace)
	}
	return nil
}
