/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package whocan

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/kubectl/command"
	"github.com/proviso-authz/proviso/pkg/kubectl/policyfile"
	"github.com/proviso-authz/proviso/pkg/kubectl/question"
	"github.com/proviso-authz/proviso/pkg/kubectl/rbac"
	"github.com/proviso-authz/proviso/pkg/kubectl/terminal"
)

// read reads the arguments, and the roles, bindings and policies.
func (o *options) read(ctx context.Context, target string, compiler *partial.Compiler) (*input, error) {
	if len(o.files.Names) > 0 {
		return o.readFiles(ctx, target, compiler)
	}
	clients, err := o.Clients()
	if err != nil {
		return nil, err
	}
	if err := o.Read(&o.Options, target, nil); err != nil {
		return nil, err
	}
	if o.IsClusterScoped {
		o.Namespace = "" // the request has none
	}
	terminal.From(ctx).Progress("reading the roles, bindings and policies of the cluster")
	in, err := o.readCluster(ctx, clients)
	if err != nil {
		return nil, err
	}
	in.isClusterScoped = o.IsClusterScoped
	namespace, err := question.Namespace(ctx, clients.Kube.CoreV1(), o.Namespace)
	if namespace != nil {
		in.namespaces = func(asked string) (map[string]any, bool) { return namespace, asked == o.Namespace }
	}
	return in, err
}

// readFiles reads everything without a server: the resources are those that Kubernetes has.
func (o *options) readFiles(ctx context.Context, target string, compiler *partial.Compiler) (*input, error) {
	o.ReadWithoutServer(&o.Options, target)
	documents, errs := o.files.Read(o.In)
	if len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	objects, others, errs := rbac.Load(documents, o.NamespaceFlag())
	loader := policyfile.NewLoader("", compiler)
	loader.Load(ctx, others...)
	if errs = append(errs, loader.Errs...); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	if objects.IsEmpty() && len(loader.Sorted()) == 0 {
		return nil, errEmpty
	}
	o.WarnOthers(loader.Others)
	return &input{permissions: objects.Permissions(), policies: policyfile.SpecsOf(loader.Sorted())}, nil
}

// warningWithoutProviso is for a cluster that serves no policies.
const warningWithoutProviso = "the server does not serve policy.proviso.dev: this is the answer of RBAC alone"

var (
	errNothing = errors.New("neither bindings nor policies could be read")
	errEmpty   = errors.New("there are no roles, bindings or policies in the files")
)

// readCluster reads the roles, bindings and policies that decide in the namespace of the question, or in all namespaces.
func (o *options) readCluster(ctx context.Context, clients *command.Clients) (*input, error) {
	objects, errs := rbac.Read(ctx, clients.Kube.RbacV1(), o.Namespace)
	in := &input{permissions: objects.Permissions(), policies: map[engine.Key]*policyv1alpha1.AuthorizationPolicySpec{}, stored: map[engine.Key]*stored{}}
	for _, err := range errs {
		in.gaps = append(in.gaps, err.Error())
	}
	policies := clients.Proviso.PolicyV1alpha1()
	cluster := rbac.EachItem(ctx, policies.ClusterAuthorizationPolicies().List, func(p *policyv1alpha1.ClusterAuthorizationPolicy) {
		in.addPolicy(&p.ObjectMeta, &p.Spec, &p.Status)
	})
	namespaced := rbac.EachItem(ctx, policies.AuthorizationPolicies(o.Namespace).List, func(p *policyv1alpha1.AuthorizationPolicy) {
		in.addPolicy(&p.ObjectMeta, &p.Spec, &p.Status)
	})
	if apierrors.IsNotFound(cluster) && apierrors.IsNotFound(namespaced) {
		o.Warn(warningWithoutProviso)
		cluster, namespaced = nil, nil
	}
	for _, err := range []error{cluster, namespaced} {
		if err != nil {
			in.gaps = append(in.gaps, fmt.Sprintf("policies cannot be listed: %v", err))
			errs = append(errs, err)
		}
	}
	if len(errs) == kinds {
		return nil, fmt.Errorf("%w: %w", errNothing, errs[0])
	}
	return in, nil
}

// kinds is the number of kinds that are read: four of RBAC and two of policies.
const kinds = 6

// addPolicy adds a stored policy.
func (in *input) addPolicy(object *metav1.ObjectMeta, spec *policyv1alpha1.AuthorizationPolicySpec, status *policyv1alpha1.AuthorizationPolicyStatus) {
	key := engine.Key{Namespace: object.Namespace, Name: object.Name}
	in.policies[key] = spec
	in.stored[key] = &stored{generation: object.Generation, status: status}
}

// stored is what the server says of a policy.
type stored struct {
	generation int64
	status     *policyv1alpha1.AuthorizationPolicyStatus
}
