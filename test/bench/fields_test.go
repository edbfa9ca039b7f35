/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/builder3"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	demov1alpha1 "github.com/proviso-authz/proviso/apis/demo/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy"
	generatedopenapi "github.com/proviso-authz/proviso/generated/openapi"
	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/changes"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
)

// fieldKind is a kind whose objects are updated.
type fieldKind struct {
	kind     schema.GroupVersionKind
	resource string
	empty    func() runtime.Object
	object   runtime.Object
	labels   func(runtime.Object) map[string]string
	types    changes.Types
}

func machines(b *testing.B) fieldKind {
	b.Helper()
	config := genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(apiserver.Scheme))
	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(config, openapiutil.GetCanonicalTypeName(&demov1alpha1.VirtualMachine{}))
	if err != nil {
		b.Fatal(err)
	}
	types, err := changes.NewTypes(schemas)
	if err != nil {
		b.Fatal(err)
	}
	return fieldKind{
		kind: demov1alpha1.SchemeGroupVersion.WithKind("VirtualMachine"), resource: "virtualmachines", types: types, object: machine(b),
		empty:  func() runtime.Object { return &demov1alpha1.VirtualMachine{} },
		labels: func(o runtime.Object) map[string]string { return o.(*demov1alpha1.VirtualMachine).Labels },
	}
}

// podSchema is what the comparison needs of the schema of pods.
const podSchema = `{"Pod": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}], "properties": {
	"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	"metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
		"labels": {"type": "object", "additionalProperties": {"type": "string"}}, "annotations": {"type": "object", "additionalProperties": {"type": "string"}}}},
	"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
		"containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {
			"name": {"type": "string"}, "image": {"type": "string"}, "resources": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			"args": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
			"env": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {
				"name": {"type": "string"}, "value": {"type": "string"}}}}}}}}}}}}`

func pods(b *testing.B, size int) fieldKind {
	b.Helper()
	schemas := map[string]*spec.Schema{}
	if err := json.Unmarshal([]byte(podSchema), &schemas); err != nil {
		b.Fatal(err)
	}
	types, err := changes.NewTypes(schemas)
	if err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "n", Labels: map[string]string{"team": "web"}},
	}
	for i := 0; len(encoded(b, pod)) < size; i++ {
		c := corev1.Container{Name: fmt.Sprintf("c-%d", i), Image: "registry.example.com/team/image:v1.2.3", Args: []string{"--one", "--two=three"}}
		for e := range 40 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", e), Value: "the value of a variable"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return fieldKind{
		kind: corev1.SchemeGroupVersion.WithKind("Pod"), resource: "pods", types: types, object: pod,
		empty:  func() runtime.Object { return &corev1.Pod{} },
		labels: func(o runtime.Object) map[string]string { return o.(*corev1.Pod).Labels },
	}
}

func encoded(b *testing.B, object any) []byte {
	b.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// verbs knows the verbs of a user, * at the end of which stands for whatever follows, and
// counts how often it is asked for one that is about fields.
type verbs struct {
	held  []string
	asked int
}

func (v *verbs) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if strings.HasPrefix(a.GetVerb(), mapping.Verb+":") {
		v.asked++
	}
	for _, held := range v.held {
		if prefix, open := strings.CutSuffix(held, "*"); a.GetVerb() == held || open && strings.HasPrefix(a.GetVerb(), prefix) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func (v *verbs) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(v.Authorize(ctx, a))
}

func (v *verbs) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// updates is a server for updates of one kind, through the whole handler chain: it decodes the
// request and what is stored, has admission enforce what was authorized, and encodes what is
// to be stored and the answer. It reaches no store. Without fields, permission on fields is
// off.
func (k fieldKind) updates(b *testing.B, user *verbs, types changes.Types, fields ...policy.FieldPermission) http.Handler {
	b.Helper()
	resource := k.kind.GroupVersion().WithResource(k.resource)
	members := []authorization.Member{{Name: "verbs", Decider: authorization.DeciderOf(user)}}
	if fields != nil {
		of := &policy.FieldPermissionMapping{Spec: policy.FieldPermissionMappingSpec{
			Resources: []policy.FieldPermissionResource{{APIGroup: resource.Group, Resource: resource.Resource}}, Fields: fields,
		}}
		of.Name = "m"
		source := &mapping.Source{}
		source.Publish(of)
		config := granular.Config{Authorizer: user, Types: types, Mappings: source}
		exclude, err := granular.NewExclude(config)
		if err != nil {
			b.Fatal(err)
		}
		include, err := granular.NewInclude(config)
		if err != nil {
			b.Fatal(err)
		}
		members = []authorization.Member{{Name: "exclude", Decider: exclude}, members[0], {Name: "include", Decider: include}}
	}
	chain, err := authorization.NewChain(members...)
	if err != nil {
		b.Fatal(err)
	}
	stored, objects := encoded(b, k.object), admission.NewObjectInterfacesFromScheme(apiserver.Scheme)
	return wholeChain(b, chain, resource, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		before, after := k.empty(), k.empty()
		if err == nil {
			err = utiljson.Unmarshal(body, after)
		}
		if err == nil {
			err = utiljson.Unmarshal(stored, before)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		who, _ := genericapirequest.UserFrom(r.Context())
		attributes := admission.NewAttributesRecord(after, before, k.kind, "n", "web-1", resource, "", admission.Update, &metav1.UpdateOptions{}, false, who)
		if err := enforcement.Enforce(r.Context(), attributes, objects); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		for range 2 {
			if body, err = json.Marshal(after); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = w.Write(body)
	}))
}

// update sends an update with other labels again and again.
func (k fieldKind) update(b *testing.B, handler http.Handler, user *verbs, labels map[string]string, want int) {
	b.Helper()
	changed := k.object.DeepCopyObject()
	for key, value := range labels {
		k.labels(changed)[key] = value
	}
	body := encoded(b, changed)
	path := "/apis/" + k.kind.GroupVersion().String()
	if k.kind.Group == "" {
		path = "/api/" + k.kind.Version
	}
	user.asked = 0
	b.SetBytes(int64(len(body)))
	defer reportCPU(b)()
	for b.Loop() {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(b.Context(), http.MethodPut, path+"/namespaces/n/"+k.resource+"/web-1", bytes.NewReader(body)))
		if recorder.Code != want {
			b.Fatal(recorder.Code, recorder.Body)
		}
	}
	b.ReportMetric(float64(user.asked)/float64(b.N), "checks/op")
}

// The mappings of the benchmarks.
var (
	notExcluded = policy.FieldPermission{Path: "spec.secret", Permission: "secrets"}
	excluded    = policy.FieldPermission{Path: "spec.secret", Permission: "secrets", Exclusion: &policy.FieldExclusion{}}
)

// BenchmarkFields is an update of one label: plain, by who may write the object; with a field
// of the kind excluded, so that its fields are compared; and by who has permission on the
// label only, which is checked after two more general permissions.
func BenchmarkFields(b *testing.B) {
	for _, o := range []struct {
		name string
		fieldKind
	}{{"machine-2KiB", machines(b)}, {"pod-100KiB", pods(b, 100<<10)}} {
		b.Run("object="+o.name, func(b *testing.B) {
			label := map[string]string{"example.com/label-1": "other"}
			b.Run("by=plain", func(b *testing.B) {
				user := &verbs{held: []string{"update"}}
				o.update(b, o.updates(b, user, nil), user, label, http.StatusOK)
			})
			for _, t := range []struct {
				name  string
				types changes.Types
			}{{"schema", o.types}, {"none", nil}} {
				b.Run("by=exclude/types="+t.name, func(b *testing.B) {
					user := &verbs{held: []string{"update"}}
					o.update(b, o.updates(b, user, t.types, excluded), user, label, http.StatusOK)
				})
				b.Run("by=include/types="+t.name, func(b *testing.B) {
					user := &verbs{held: []string{"granular", "granular:label(example.com)"}}
					o.update(b, o.updates(b, user, t.types, notExcluded), user, label, http.StatusOK)
				})
			}
		})
	}
}

// BenchmarkFieldChecks is how many checks an update of labels causes, by how many different
// permissions it needs: that on labels of each domain. The last are an attack.
func BenchmarkFieldChecks(b *testing.B) {
	k := machines(b)
	for _, tc := range []struct {
		name            string
		labels, domains int
		held            string
		want            int
	}{
		{"labels=1/held=each", 1, 1, "granular:label(*", http.StatusOK},
		{"labels=8/held=each", 8, 8, "granular:label(*", http.StatusOK},
		{"labels=62/held=each", 62, 62, "granular:label(*", http.StatusOK},
		{"labels=62/held=labels", 62, 62, "granular:labels", http.StatusOK},
		{"labels=5000/held=labels", 5000, 5000, "granular:labels", http.StatusOK},
		{"labels=5000/domains=1/held=each", 5000, 1, "granular:label(*", http.StatusOK},
		{"labels=5000/held=none", 5000, 5000, "", http.StatusForbidden},
		{"labels=5000/held=each", 5000, 5000, "granular:label(*", http.StatusForbidden},
	} {
		b.Run(tc.name, func(b *testing.B) {
			labels := map[string]string{}
			for i := range tc.labels {
				labels[fmt.Sprintf("d%d.example.com/label-%d", i%tc.domains, i)] = "x"
			}
			user := &verbs{held: []string{"granular", tc.held}}
			k.update(b, k.updates(b, user, k.types, notExcluded), user, labels, tc.want)
		})
	}
}
