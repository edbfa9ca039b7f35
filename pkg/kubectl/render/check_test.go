/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package render_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// stored is what a kube-apiserver has.
type stored struct {
	policies []admissionregistrationv1.ValidatingAdmissionPolicy
	bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// queries are the requests that it got.
	queries []string
}

// store returns what a kube-apiserver has after kubectl apply of manifests: with its defaults, and what controllers add.
func store(t *testing.T, manifests string) *stored {
	t.Helper()
	s := &stored{}
	for _, object := range decodeAll(t, manifests) {
		if object.GetKind() == "ValidatingAdmissionPolicy" {
			s.policies = append(s.policies, *policyFrom(t, &object))
			continue
		}
		binding := admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
			t.Fatal(err)
		}
		served(&binding.ObjectMeta)
		s.bindings = append(s.bindings, binding)
	}
	return s
}

func policyFrom(t *testing.T, object *unstructured.Unstructured) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
		t.Fatal(err)
	}
	served(&policy.ObjectMeta)
	if policy.Spec.MatchConstraints.NamespaceSelector == nil {
		policy.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{}
	}
	policy.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{}
	for i := range policy.Spec.MatchConstraints.ResourceRules {
		policy.Spec.MatchConstraints.ResourceRules[i].Scope = ptr.To(admissionregistrationv1.AllScopes)
	}
	policy.Status.ObservedGeneration = 1
	return policy
}

// served sets what others set.
func served(meta *metav1.ObjectMeta) {
	meta.UID, meta.ResourceVersion, meta.Generation, meta.CreationTimestamp = "1", "7", 1, metav1.Now()
	meta.Finalizers = []string{"example.com/finalizer"}
	meta.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	meta.Labels["team"] = "security"
}

// ServeHTTP serves both lists, two objects at a time.
func (s *stored) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.queries = append(s.queries, r.Method+" "+r.URL.Path)
	first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	next := func(length int) (end int, meta metav1.ListMeta) {
		if end = min(first+2, length); end < length {
			meta.Continue = strconv.Itoa(end)
		}
		return end, meta
	}
	w.Header().Set("Content-Type", "application/json")
	var list any
	switch r.URL.Path {
	case "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies":
		end, meta := next(len(s.policies))
		list = &admissionregistrationv1.ValidatingAdmissionPolicyList{ListMeta: meta, Items: s.policies[first:end]}
	case "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings":
		end, meta := next(len(s.bindings))
		list = &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{ListMeta: meta, Items: s.bindings[first:end]}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(list)
}

// checkAgainst runs --check against what a kube-apiserver has.
func checkAgainst(t *testing.T, s *stored, input string, args ...string) result {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	return run(t, input, append([]string{"--check", "-f", "-", "--kubeconfig=/dev/null", "--server=" + server.URL}, args...)...)
}

// TestRenderCheck changes one thing in a cluster at a time.
func TestRenderCheck(t *testing.T) {
	t.Parallel()
	input := policyOf("a", "Deny") + "---" + policyOf("b", "Deny") + "---" + policyOf("c", "Deny") + "---" + policyOf("d", "Allow")
	manifests := mustRun(t, input, "-f", "-").out
	const a, b = "a.cluster.policy.proviso.dev", "b.cluster.policy.proviso.dev"
	for _, tc := range []struct {
		name   string
		change func(s *stored)
		args   []string
		code   int
		// want are lines of the table, with their cells separated by one blank, and lines of the diff.
		want []string
		// wantNot are texts that are not printed.
		wantNot []string
	}{
		{name: "nothing", change: func(*stored) {}, want: []string{a + " a same", b + " b same"}, wantNot: []string{"---", "different", "missing"}},
		{name: "everything is missing", change: func(s *stored) { s.policies, s.bindings = nil, nil }, code: 1,
			want: []string{a + " a missing there is no ValidatingAdmissionPolicy; there is no ValidatingAdmissionPolicyBinding"}, wantNot: []string{"same"}},
		{name: "a policy is missing", change: func(s *stored) { s.policies = s.policies[1:] }, code: 1, want: []string{a + " a missing there is no ValidatingAdmissionPolicy", b + " b same"}},
		{name: "a binding is missing", change: func(s *stored) { s.bindings = s.bindings[1:] }, code: 1, want: []string{a + " a missing there is no ValidatingAdmissionPolicyBinding"}},
		{name: "a failure policy", change: func(s *stored) { s.policies[0].Spec.FailurePolicy = ptr.To(admissionregistrationv1.Ignore) }, code: 1,
			want: []string{
				a + " a different the ValidatingAdmissionPolicy differs", "--- LIVE/ValidatingAdmissionPolicy/" + a, "+++ RENDERED/ValidatingAdmissionPolicy/" + a, "- failurePolicy: Ignore", "+ failurePolicy: Fail",
			}, wantNot: []string{"scope", "- objectSelector", "+ objectSelector", "last-applied", "team: security", "finalizer"}},
		{name: "an expression", change: func(s *stored) { s.policies[1].Spec.Variables[0].Expression = "false" }, code: 1, want: []string{b + " b different the ValidatingAdmissionPolicy differs", "- - expression: \"false\""}},
		{name: "an exempt user", change: func(s *stored) {
			s.policies[0].Spec.MatchConditions[0].Expression = "request.userInfo.username != 'eve'"
		}, code: 1, want: []string{a + " a different the ValidatingAdmissionPolicy differs"}},
		{name: "another exempt user in the flags", change: func(*stored) {}, args: []string{"--exempt-user=eve"}, code: 1, want: []string{a + " a different the ValidatingAdmissionPolicy differs"}},
		{name: "the actions of a binding", change: func(s *stored) {
			s.bindings[0].Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
		}, code: 1, want: []string{a + " a different the ValidatingAdmissionPolicyBinding differs", "- - Audit", "+ - Deny"}},
		{name: "a binding for some namespaces", change: func(s *stored) {
			s.bindings[0].Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"barriers": "on"}}}
		}, code: 1, want: []string{a + " a different the ValidatingAdmissionPolicyBinding differs", "- matchResources:"}},
		{name: "a parameter", change: func(s *stored) { s.bindings[0].Spec.ParamRef = &admissionregistrationv1.ParamRef{Name: "x"} }, code: 1, want: []string{"- paramRef:"}},
		{name: "a label is gone", change: func(s *stored) { delete(s.policies[0].Labels, "app.kubernetes.io/managed-by") }, code: 1,
			want: []string{a + " a different the ValidatingAdmissionPolicy differs", "+ app.kubernetes.io/managed-by: proviso"}},
		{name: "the annotation names another policy", change: func(s *stored) { s.bindings[0].Annotations["policy.proviso.dev/policy"] = "z" }, code: 1,
			want: []string{a + " a different the ValidatingAdmissionPolicyBinding differs", "- policy.proviso.dev/policy: z", "+ policy.proviso.dev/policy: a"}},
		{name: "both objects", change: func(s *stored) {
			s.policies[0].Spec.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
			s.bindings[0].Spec.PolicyName = b
		}, code: 1, want: []string{a + " a different the ValidatingAdmissionPolicy differs; the ValidatingAdmissionPolicyBinding differs", "- policyName: " + b}},
		{name: "being deleted", change: func(s *stored) { s.policies[0].DeletionTimestamp = ptr.To(metav1.Now()) }, code: 1,
			want: []string{a + " a different the ValidatingAdmissionPolicy is being deleted"}, wantNot: []string{"---"}},
		{name: "a barrier of another policy", change: func(s *stored) {
			policy, binding := s.policies[0].DeepCopy(), s.bindings[0].DeepCopy()
			policy.Name, binding.Name = "0.ns.namespace.policy.proviso.dev", "0.ns.namespace.policy.proviso.dev"
			policy.Annotations["policy.proviso.dev/policy"], binding.Annotations["policy.proviso.dev/policy"] = "ns/0", "ns/0"
			s.policies, s.bindings = append(s.policies, *policy), append(s.bindings, *binding)
		}, code: 1, want: []string{
			"0.ns.namespace.policy.proviso.dev ns/0 unexpected no barrier of these policies: ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding of " + a, a + " a same",
		}},
		{name: "a binding of another policy, without its name", change: func(s *stored) {
			binding := s.bindings[0].DeepCopy()
			binding.Name, binding.Annotations = "z", nil
			s.bindings = append(s.bindings, *binding)
		}, code: 1, want: []string{"z - unexpected no barrier of these policies: ValidatingAdmissionPolicyBinding of " + a}},
		{name: "a second binding of a barrier, of another tool", change: func(s *stored) {
			binding := s.bindings[1].DeepCopy()
			binding.ObjectMeta = metav1.ObjectMeta{Name: "z"}
			s.bindings = append(s.bindings, *binding)
		}, code: 1, want: []string{"z - unexpected no barrier of these policies: ValidatingAdmissionPolicyBinding of " + b, b + " b same"}},
		{name: "a binding of a policy of another tool", change: func(s *stored) {
			binding := s.bindings[1].DeepCopy()
			binding.ObjectMeta, binding.Spec.PolicyName = metav1.ObjectMeta{Name: "z"}, "other"
			s.bindings = append(s.bindings, *binding)
		}, want: []string{b + " b same"}, wantNot: []string{"z"}},
		{name: "a barrier of another policy, without its label", change: func(s *stored) {
			policy := s.policies[0].DeepCopy()
			policy.ObjectMeta = metav1.ObjectMeta{Name: "z.cluster.policy.proviso.dev"}
			s.policies = append(s.policies, *policy)
		}, code: 1, want: []string{"z.cluster.policy.proviso.dev - unexpected no barrier of these policies: ValidatingAdmissionPolicy"}},
		{name: "a barrier of a policy that allows", change: func(s *stored) {
			policy := s.policies[0].DeepCopy()
			policy.Name = "d.cluster.policy.proviso.dev"
			s.policies = append(s.policies, *policy)
		}, code: 1, want: []string{"d.cluster.policy.proviso.dev a unexpected no barrier of these policies: ValidatingAdmissionPolicy"}},
		{name: "the sentinel, and policies of others", change: func(s *stored) {
			sentinel, other := s.policies[0].DeepCopy(), s.policies[0].DeepCopy()
			sentinel.Name, other.Name, other.Labels = "rollout.barriers.proviso.dev", "other", nil
			s.policies = append(s.policies, *sentinel, *other)
		}, want: []string{a + " a same"}, wantNot: []string{"rollout", "other"}},
		{name: "texts that control a terminal", change: func(s *stored) {
			s.policies[0].Annotations["policy.proviso.dev/policy"] = "\x1b[2J\n\u202e"
			s.policies[0].Spec.Validations[0].Message = "\x1b[2J\n\u202e"
			policy := s.policies[1].DeepCopy()
			policy.Name, policy.Annotations = "\x1b[2J", map[string]string{"policy.proviso.dev/policy": "\u202e\n"}
			s.policies = append(s.policies, *policy)
		}, code: 1, want: []string{a + " a different the ValidatingAdmissionPolicy differs", `\x1b[2J \u202e\n unexpected no barrier of these policies: ValidatingAdmissionPolicy`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := store(t, manifests)
			tc.change(s)
			r := checkAgainst(t, s, input, tc.args...)
			if r.code != tc.code || r.errOut != "" {
				t.Errorf("exit code %d, want %d: %s", r.code, tc.code, r.errOut)
			}
			lines := map[string]bool{}
			for line := range strings.Lines(r.out) {
				lines[strings.Join(strings.Fields(line), " ")] = true
			}
			for _, want := range tc.want {
				if !lines[want] {
					t.Errorf("got %s, want the line %q", r.out, want)
				}
			}
			for _, text := range tc.wantNot {
				if strings.Contains(strings.TrimPrefix(r.out, "BARRIER"), text) {
					t.Errorf("got %s, want no %q", r.out, text)
				}
			}
			if i := strings.IndexFunc(r.out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
				t.Errorf("has a character that cannot be printed at %d: %q", i, r.out)
			}
			for _, query := range s.queries {
				if !strings.HasPrefix(query, "GET ") {
					t.Errorf("sent %s", query)
				}
			}
		})
	}
}

// TestCheckReport writes the report to a file only.
// TestRenderGroup renders policies as groups: those with the same rules share objects, and --check compares groups with --group alone.
func TestRenderGroup(t *testing.T) {
	t.Parallel()
	input := policyOf("a", "Deny") + "---" + policyOf("b", "Deny") + "---" + policyOf("c", "Allow")
	manifests := mustRun(t, input, "-f", "-", "--group").out
	objects := decodeAll(t, manifests)
	if len(objects) != 2 || objects[0].GetAnnotations()["policy.proviso.dev/policies"] != "a,b" {
		t.Fatalf("got %s", manifests)
	}
	if r := checkAgainst(t, store(t, manifests), input, "--group"); r.code != 0 || !strings.Contains(strings.Join(strings.Fields(r.out), " "), objects[0].GetName()+" a,b same") {
		t.Errorf("with --group: %+v", r)
	}
	if r := checkAgainst(t, store(t, manifests), input); r.code != 1 || !strings.Contains(r.out, "missing") || !strings.Contains(r.out, "unexpected") {
		t.Errorf("without --group: %+v", r)
	}
}

func TestCheckReport(t *testing.T) {
	t.Parallel()
	input := policyOf("a", "Deny")
	s := store(t, mustRun(t, input, "-f", "-").out)
	if r := checkAgainst(t, s, input, "--report="+t.TempDir()+"/report"); r.code != 0 || r.errOut != "" {
		t.Errorf("got %+v", r)
	}
}

// TestCheckErrors checks that an error is not taken for a difference.
func TestCheckErrors(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"forbidden": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not \x1b[2J you"})
		},
		"an old cluster": http.NotFound,
		"the second list": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "bindings") {
				http.NotFound(w, r)
				return
			}
			(&stored{}).ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			defer server.Close()
			r := run(t, policyOf("a", "Deny"), "--check", "-f", "-", "--kubeconfig=/dev/null", "--server="+server.URL)
			if r.code != 2 || r.out != "" || !strings.HasPrefix(r.errOut, "error: ") || strings.Contains(r.errOut, "\x1b") {
				t.Errorf("got %+v", r)
			}
		})
	}
}
