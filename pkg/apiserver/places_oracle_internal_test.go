/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiserver

import (
	"context"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	authorizationapi "github.com/proviso-authz/proviso/apis/authorization"
	authorizationv1alpha1 "github.com/proviso-authz/proviso/apis/authorization/v1alpha1"
	demoapi "github.com/proviso-authz/proviso/apis/demo"
	policyapi "github.com/proviso-authz/proviso/apis/policy"
	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/apis/policy/validation"
	"github.com/proviso-authz/proviso/generated/clientset/versioned/fake"
	"github.com/proviso-authz/proviso/generated/informers/externalversions"
	"github.com/proviso-authz/proviso/pkg/aggregated"
	"github.com/proviso-authz/proviso/pkg/authorization"
	"github.com/proviso-authz/proviso/pkg/authorization/engine"
	"github.com/proviso-authz/proviso/pkg/barrier"
	"github.com/proviso-authz/proviso/pkg/barrier/barriercontroller"
	"github.com/proviso-authz/proviso/pkg/cel/partial"
	"github.com/proviso-authz/proviso/pkg/enforcement"
	"github.com/proviso-authz/proviso/pkg/frontdoor"
	"github.com/proviso-authz/proviso/pkg/granular"
	"github.com/proviso-authz/proviso/pkg/granular/mapping"
	"github.com/proviso-authz/proviso/pkg/innerdoor"
	"github.com/proviso-authz/proviso/pkg/innerdoor/manifest"
	"github.com/proviso-authz/proviso/pkg/policy"
	"github.com/proviso-authz/proviso/pkg/registry/demo/virtualmachine"
	"github.com/proviso-authz/proviso/pkg/registry/stored"
	oracle "github.com/proviso-authz/proviso/test/places"
	"github.com/proviso-authz/proviso/test/testutil/clientstore"
)

// TestPlaces compares who evaluates which condition with what was recorded. See package places.
func TestPlaces(t *testing.T) { oracle.Run(t, answerCase) }

// answerCase is the adapter of the oracle: it asks the code of this commit.
func answerCase(t *testing.T, c *oracle.Case) (answers oracle.Answers) {
	compilers := sharedCompilers()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := &oracleServer{Case: c, t: t, policies: fake.NewSimpleClientset(), kube: kubefake.NewSimpleClientset()}
		defer s.running.Wait()
		defer stop()
		s.compose(compilers)
		s.begin(ctx)
		s.ask(ctx, &answers)
	})
	return answers
}

// compilersOfPolicies are made once, because that takes longer than a case.
type compilersOfPolicies struct {
	Compilers
	policies *partial.Compiler
}

var sharedCompilers = sync.OnceValue(func() (made compilersOfPolicies) {
	var err error
	if made.Compilers, err = NewCompilers(); err == nil {
		made.policies, err = partial.NewPolicyCompiler(made.Conditions)
	}
	if err != nil {
		panic(err)
	}
	return made
})

// oracleServer is a server for one case.
type oracleServer struct {
	*oracle.Case

	t        *testing.T
	running  sync.WaitGroup
	policies *fake.Clientset
	kube     *kubefake.Clientset
	cluster  *oracle.Cluster

	config    CompletedConfig
	others    *otherServers
	barriers  *barriers
	places    *statusPlaces
	evaluated evaluated
	door      http.Handler
}

func (s *oracleServer) must(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatal(err)
	}
}

// run runs a function until the end of the case.
func (s *oracleServer) run(ctx context.Context, f func(context.Context)) {
	s.running.Go(func() { f(ctx) })
}

// compose makes the server as New does, without its listeners.
func (s *oracleServer) compose(compilers compilersOfPolicies) {
	oracle.NewStore(s.policies, "")
	s.cluster = oracle.NewCluster(s.Case, oracle.NewStore(s.kube, s.Facts.Barriers))
	extra := ExtraConfig{
		Policies: &engine.Source{}, PolicyStalenessBound: time.Hour, End: func(error) {}, EnableDemoAPI: s.Facts.Gates.Demo, Compilers: compilers.Compilers,
		UpstreamDecisions: s.Facts.LeavesConditions, KubeAPIServers: s.servers(),
	}
	extra.Mappings = s.mappings()
	extra.FrontDoor = s.frontDoor()
	extra.Barriers = s.barriersConfig(extra.FrontDoor)
	extra.Chains = *s.chains(&extra)
	var err error
	extra.Enforcer, err = enforcement.New(enforcement.Config{
		Chain: extra.Chains.Requests, Checks: extra.Chains.Checks, Conditional: s.Facts.Gates.Conditional, ConnectWithCreate: s.Facts.Gates.ConnectWithCreate,
		Conditions: compilers.Conditions, Bound: compilers.Bound,
	})
	s.must(err)
	extra.Enforcer.MarkEnforced()
	generic := genericapiserver.NewRecommendedConfig(Codecs)
	generic.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	generic.ExternalAddress, generic.SharedInformerFactory = "proviso.example:443", informers.NewSharedInformerFactory(s.kube, 0)
	s.config = CompletedConfig{&completedConfig{
		extra: extra, generic: generic.Complete(), policies: compilers.policies,
		kubeAPIServer: &restclient.Config{Host: "https://kubernetes.example:443", Transport: s.cluster, QPS: -1},
	}}
	s.others, err = s.config.newOtherServers()
	s.must(err)
	s.barriers, err = s.config.newBarriers(s.others)
	s.must(err)
	table, err := s.config.placeTable(s.others, s.barriers)
	s.must(err)
	s.places = newStatusPlaces(table, s.others, s.config.excludedResources)
	s.cover()
	decider, err := s.config.newDecider(table)
	s.must(err)
	s.evaluated = s.config.evaluated(table, decider, s.others)
	server, err := s.config.newFrontDoor(decider)
	s.must(err)
	if server != nil {
		s.door = handlerOf(server)
		s.cluster.Door = s.door
	}
}

// handlerOf returns the handler of the front door, which would otherwise be asked over TLS.
func handlerOf(server *frontdoor.Server) http.Handler {
	handler := reflect.ValueOf(server).Elem().FieldByName("handler")
	return *(*http.Handler)(unsafe.Pointer(handler.UnsafeAddr()))
}

func (s *oracleServer) mappings() *mapping.Source {
	if s.Facts.Fields == "" {
		return nil
	}
	if s.Facts.Fields == oracle.FieldsUnread {
		return mapping.NewSource(nil)
	}
	source := mapping.NewSource(&mapping.Markers{})
	var stored []*policyapi.FieldPermissionMapping
	if s.Facts.Fields == oracle.FieldsExcluded {
		m := &policyapi.FieldPermissionMapping{ObjectMeta: metav1.ObjectMeta{Name: "excluded"}}
		for _, r := range oracle.ExcludedResources {
			m.Spec.Resources = append(m.Spec.Resources, policyapi.FieldPermissionResource{APIGroup: r.Group, Resource: r.Resource})
		}
		m.Spec.Fields = []policyapi.FieldPermission{{Path: "spec.paused", Permission: "pause", Exclusion: &policyapi.FieldExclusion{}}}
		stored = append(stored, m)
	}
	source.Publish(stored...)
	return source
}

// frontDoor returns the configuration of the front door as the options make it.
func (s *oracleServer) frontDoor() *FrontDoorConfig {
	if !s.Facts.HasFrontDoor {
		return nil
	}
	config := &FrontDoorConfig{Serving: &genericapiserver.SecureServingInfo{ClientCA: oracle.ClientCA{}, Listener: noListener{}}}
	if s.Facts.HasNamespaces {
		config.Namespaces = func(name string) (map[string]any, bool) { return oracle.NamespaceObject(name), true }
	}
	kubeAPIServer := authorizer.AuthorizerFunc(s.OthersDecide)
	config.KubeAPIServer, config.ForReviews = kubeAPIServer, kubeAPIServer
	if s.Facts.Fields != "" {
		config.Fields = kubeAPIServer
	}
	config.LeavesConditions = s.Facts.LeavesConditions
	if s.Facts.InnerDoor == nil {
		return config
	}
	written := manifest.Config{
		URL: "https://proviso.example:9443", CABundle: []byte("ca"), Namespace: oracle.Namespace, AsksOthers: s.Facts.InnerDoor.AsksOthers,
		Identities: manifest.Identities{Users: s.Facts.InnerDoor.Users, Groups: s.Facts.InnerDoor.Groups},
	}
	for _, r := range s.Facts.InnerDoor.Resources {
		written.Resources = append(written.Resources, innerdoor.Resource{Group: r.Group, Resource: r.Resource, Subresource: r.Subresource})
	}
	digest, err := manifest.Digest(written)
	s.must(err)
	s.cluster.Digest = digest
	config.InnerDoor, config.MissesWebhooks = &written, s.Facts.After != "" && written.AsksOthers
	return config
}

// servers returns the addresses that are configured. If there are none, or if they cannot be listed, the endpoints of kube-apiserver are read,
// which the cluster does not have.
func (s *oracleServer) servers() []string {
	if !s.Facts.HasList {
		return nil
	}
	return s.cluster.Addresses()
}

func (s *oracleServer) barriersConfig(door *FrontDoorConfig) *BarriersConfig {
	if s.Facts.Barriers == "" {
		return nil
	}
	config := &BarriersConfig{Namespace: oracle.Namespace, Exempt: manifest.DefaultIdentities(oracle.Namespace)}
	if door != nil && door.InnerDoor != nil && len(door.InnerDoor.Identities.Users)+len(door.InnerDoor.Identities.Groups) > 0 {
		config.Exempt = door.InnerDoor.Identities
	}
	return config
}

func (s *oracleServer) chains(extra *ExtraConfig) *Chains {
	kubeAPIServer := authorization.DeciderOf(authorizer.AuthorizerFunc(s.OthersDecide))
	config := AuthorizerConfig{Fresh: kubeAPIServer, Cached: kubeAPIServer, Policies: extra.Policies, WebhooksAtFrontDoor: true}
	if s.Facts.InnerDoor != nil || s.Facts.LeavesConditions {
		config.InnerDoor = kubeAPIServer
	}
	if extra.Mappings != nil {
		config.Fields = &granular.Config{Mappings: extra.Mappings}
	}
	if s.Facts.After != "" {
		config.Node = after(s.Facts.After)
	}
	chains, err := NewChains(config)
	s.must(err)
	return chains
}

// after stands for the webhooks.
type after oracle.After

func (a after) Decide(context.Context, authorizer.Attributes) authorization.Decision {
	condition := authorization.Condition{ID: "webhook.example.com/a", Type: "webhook.example.com/opaque", Text: "?", Effect: authorization.EffectAllow}
	switch oracle.After(a) {
	case oracle.AfterAllow:
		return authorization.Allow("the webhook allows it", nil)
	case oracle.AfterDeny:
		return authorization.Deny("the webhook denies it", nil)
	case oracle.AfterDenyOnConditions:
		condition.Effect = authorization.EffectDeny
		return authorization.Conditions(condition)
	case oracle.AfterAllowOnConditions:
		return authorization.Conditions(condition)
	default:
		return authorization.NoOpinion("the webhook has no opinion", nil)
	}
}

// cover tells the enforcer what the server serves.
func (s *oracleServer) cover() {
	groups := s.config.reviewGroups(s.evaluated, nil)
	policies := genericapiserver.NewDefaultAPIGroupInfo(policyapi.GroupName, Scheme, ParameterCodec, Codecs)
	kinds := map[string]rest.Storage{}
	for _, resource := range []string{clusterPoliciesResource, policiesResource, configurationsResource} {
		kinds[resource], kinds[resource+"/status"] = &stored.REST{}, &stored.StatusREST{}
	}
	policies.VersionedResourcesStorageMap[policyv1alpha1.SchemeGroupVersion.Version] = kinds
	groups = append(groups, &policies)
	if s.Facts.Gates.Demo {
		demo := genericapiserver.NewDefaultAPIGroupInfo(demoapi.GroupName, Scheme, ParameterCodec, Codecs)
		demo.VersionedResourcesStorageMap["v1alpha1"] = map[string]rest.Storage{
			"virtualmachines": &stored.REST{}, "virtualmachines/status": &stored.StatusREST{}, "virtualmachines/console": &virtualmachine.ConsoleREST{},
		}
		groups = append(groups, &demo)
	}
	s.config.extra.Enforcer.Cover(groups...)
}

// begin stores the policies, and has the server find out about the cluster.
func (s *oracleServer) begin(ctx context.Context) {
	s.store(ctx, true)
	s.runBarriers(ctx)
	s.cluster.HoldBack()
	s.store(ctx, false)
	s.probe(ctx)
	if s.Facts.HasServices {
		s.must(s.others.services.Look(ctx))
	}
	if s.Facts.HasOwn {
		s.must(s.others.own.Look(ctx))
	}
	s.runConfigurations(ctx)
	before := s.places.look(nil, func() {})
	s.places.look(before, func() {})
	if s.Facts.HasMoved {
		s.cluster.Move()
		s.must(s.others.services.Look(ctx))
	}
	if s.Facts.HasPolicies {
		s.runPolicies(ctx)
	}
}

// store stores the policies as they were before or are now.
func (s *oracleServer) store(ctx context.Context, isBefore bool) {
	for i := range s.Policies {
		p := &s.Policies[i]
		if isBefore && p.IsLate || !isBefore && !p.IsLate && p.Before == nil {
			continue
		}
		spec, isNew := p.Spec, isBefore || p.IsLate
		if isBefore && p.Before != nil {
			spec = *p.Before
		}
		var err error
		switch client := s.policies.PolicyV1alpha1(); {
		case p.Namespace == "" && isNew:
			_, err = client.ClusterAuthorizationPolicies().Create(ctx, &policyv1alpha1.ClusterAuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: spec}, metav1.CreateOptions{})
		case p.Namespace == "":
			known, getErr := client.ClusterAuthorizationPolicies().Get(ctx, p.Name, metav1.GetOptions{})
			s.must(getErr)
			known.Spec = spec
			_, err = client.ClusterAuthorizationPolicies().Update(ctx, known, metav1.UpdateOptions{})
		case isNew:
			_, err = client.AuthorizationPolicies(p.Namespace).Create(ctx, &policyv1alpha1.AuthorizationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Spec: spec}, metav1.CreateOptions{})
		default:
			known, getErr := client.AuthorizationPolicies(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
			s.must(getErr)
			known.Spec = spec
			_, err = client.AuthorizationPolicies(p.Namespace).Update(ctx, known, metav1.UpdateOptions{})
		}
		s.must(err)
	}
}

// fresh are the informers of stored objects that are never out of date.
type fresh []cache.SharedIndexInformer

func (f fresh) Informers() []cache.SharedIndexInformer { return f }
func (f fresh) Stale() string                          { return "" }
func (f fresh) IsLoaded() bool {
	return !slices.ContainsFunc(f, func(informer cache.SharedIndexInformer) bool { return !informer.HasSynced() })
}

const settles = 3 * time.Second

// runBarriers runs what writes barriers, and what follows their rollout, and probes the kube-apiservers for the first time.
func (s *oracleServer) runBarriers(ctx context.Context) {
	if s.barriers == nil {
		return
	}
	elect := func(ctx context.Context, lead func(context.Context)) { lead(ctx) }
	if s.Facts.Barriers == oracle.BarriersElsewhere {
		elect = func(context.Context, func(context.Context)) {}
	}
	// The rollout hears of a changed policy before the controller writes the barrier. In the other order, the earlier text is not active any more.
	compile := func(key engine.Key, spec *policyv1alpha1.AuthorizationPolicySpec) (*barrier.Barrier, error) {
		time.Sleep(50 * time.Millisecond)
		return s.barriers.compiler.Compile(key, spec)
	}
	own := externalversions.NewSharedInformerFactory(s.policies, 0)
	stored := own.Policy().V1alpha1()
	policies := fresh{stored.ClusterAuthorizationPolicies().Informer(), stored.AuthorizationPolicies().Informer()}
	config := barriercontroller.Config{
		Client: s.policies, KubeAPIServer: s.kube, Informers: s.config.generic.SharedInformerFactory, Policies: policies, Compile: compile,
		Namespace: oracle.Namespace, Changed: func() {}, Events: noEvents{}, Elect: elect,
	}
	if s.config.extra.Mappings != nil {
		config.Mappings, config.CompileMapping = fresh{stored.FieldPermissionMappings().Informer()}, s.barriers.compiler.CompileMapping
	}
	var err error
	s.barriers.controller, err = barriercontroller.New(config)
	s.must(err)
	admission := s.config.generic.SharedInformerFactory.Admissionregistration().V1()
	if s.Facts.Barriers != oracle.BarriersUnread {
		following := append(slices.Clone(policies), admission.ValidatingAdmissionPolicies().Informer(), admission.ValidatingAdmissionPolicyBindings().Informer())
		s.run(ctx, func(ctx context.Context) { _ = s.barriers.rollout.Follow(ctx, following...) })
	}
	own.Start(ctx.Done())
	s.config.generic.SharedInformerFactory.Start(ctx.Done())
	s.t.Cleanup(own.Shutdown)
	s.t.Cleanup(s.config.generic.SharedInformerFactory.Shutdown)
	s.run(ctx, s.barriers.controller.Run)
	time.Sleep(settles)
	s.probeBarriers(ctx)
}

// probeBarriers finds out which barriers the kube-apiservers have loaded.
func (s *oracleServer) probeBarriers(ctx context.Context) {
	if s.barriers == nil || !s.Facts.IsProbed {
		return
	}
	for range 2 { // the first round has just found the servers
		time.Sleep(time.Second)
		s.barriers.rollout.Compare(ctx)
		s.barriers.rollout.Round(ctx)
	}
}

// probe finds out what the kube-apiservers do.
func (s *oracleServer) probe(ctx context.Context) {
	if s.barriers != nil {
		time.Sleep(settles)
	}
	s.probeBarriers(ctx)
	if s.Facts.Barriers == oracle.BarriersLost {
		s.cluster.LoseSight()
		time.Sleep(40 * time.Second)
		s.probeBarriers(ctx)
	}
	if !s.Facts.IsProbed {
		return
	}
	if s.others.prober != nil {
		s.others.prober.Round(ctx)
	}
	if s.others.conditions != nil {
		s.others.conditions.Round(ctx)
	}
}

func (s *oracleServer) runConfigurations(ctx context.Context) {
	if !s.Facts.HasConfigurations {
		return
	}
	for i := range s.Facts.Configurations {
		_, err := s.policies.PolicyV1alpha1().EnforcementConfigurations().Create(ctx, &s.Facts.Configurations[i], metav1.CreateOptions{})
		s.must(err)
	}
	controller, err := aggregated.NewController(aggregated.Config{
		Client: s.policies, Enforcement: s.others.enforcement, FrontDoor: s.Facts.HasFrontDoor, StalenessBound: time.Hour,
		Store: clientstore.Of(s.policies.PolicyV1alpha1().EnforcementConfigurations(), clientstore.Latest), End: func(error) {},
	})
	s.must(err)
	s.run(ctx, controller.Run)
	time.Sleep(time.Second)
}

func (s *oracleServer) runPolicies(ctx context.Context) {
	controller, err := policy.NewController(policy.Config{
		Client: s.policies, Compiler: s.config.policies, Source: s.config.extra.Policies, StalenessBound: time.Hour, Server: s.config.enforcementServer(s.places, s.barriers),
		Store: clientstore.LatestPolicies(s.policies), End: func(error) {},
	})
	s.must(err)
	s.run(ctx, controller.Run)
	time.Sleep(time.Second)
}

// ask asks about the request and the policies.
func (s *oracleServer) ask(ctx context.Context, answers *oracle.Answers) {
	for i := range s.Policies {
		answers.Policies = append(answers.Policies, oracle.PolicyAnswer{Status: s.statusOf(ctx, i)})
		s.check(ctx, &s.Policies[i], &answers.Policies[i])
	}
	s.review(ctx, answers)
	if s.door != nil {
		answers.Counted = oracle.Counted(func() { answers.Code, answers.Body = s.AskRequest(s.door) })
		time.Sleep(10 * time.Second) // what Audit has counted is written
	}
	for i := range s.Policies {
		answers.Policies[i].Audit = s.statusOf(ctx, i).Audit
	}
}

func (s *oracleServer) statusOf(ctx context.Context, i int) policyv1alpha1.AuthorizationPolicyStatus {
	p := &s.Policies[i]
	if p.Namespace == "" {
		stored, err := s.policies.PolicyV1alpha1().ClusterAuthorizationPolicies().Get(ctx, p.Name, metav1.GetOptions{})
		s.must(err)
		return stored.Status
	}
	stored, err := s.policies.PolicyV1alpha1().AuthorizationPolicies(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	s.must(err)
	return stored.Status
}

// check checks a policy as if it was written again.
func (s *oracleServer) check(ctx context.Context, p *oracle.Policy, answer *oracle.PolicyAnswer) {
	var spec policyapi.AuthorizationPolicySpec
	s.must(policyv1alpha1.Convert_v1alpha1_AuthorizationPolicySpec_To_policy_AuthorizationPolicySpec(p.Spec.DeepCopy(), &spec, nil))
	errs := validation.ValidateSpec(&spec, p.Namespace != "", field.NewPath("spec"))
	if len(errs) == 0 {
		checker := s.barriers.checker(policy.NewChecker(s.config.policies, s.config.enforcementServer(s.places, s.barriers), nil))
		key := engine.Key{Namespace: p.Namespace, Name: p.Name}
		answer.Warnings, errs = checker.Check(key, &spec)
		answer.Warnings = append(answer.Warnings, checker.Warn(ctx, key, &spec)...)
	}
	for _, err := range errs {
		answer.Errors = append(answer.Errors, err.Error())
	}
}

// review asks about the request by a SubjectAccessReview.
func (s *oracleServer) review(ctx context.Context, answers *oracle.Answers) {
	recorder := &recordedWarnings{}
	ctx = warning.WithWarningRecorder(genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}), recorder)
	review := &authorizationapi.SubjectAccessReview{}
	spec := &authorizationv1alpha1.SubjectAccessReviewSpec{
		User: s.Request.User, Groups: s.Request.Groups, Extra: s.Request.Extra, ResourceAttributes: s.Request.ResourceAttributes, NonResourceAttributes: s.Request.NonResourceAttributes,
	}
	if s.Request.Mode != "" {
		spec.ConditionalAuthorization = &authorizationv1alpha1.ConditionalAuthorizationConfiguration{Mode: s.Request.Mode}
	}
	s.must(Scheme.Convert(&authorizationv1alpha1.SubjectAccessReview{Spec: *spec}, review, nil))
	storage := s.config.reviewStorages(s.evaluated, nil)["subjectaccessreviews"].(rest.Creater)
	created, err := storage.Create(ctx, review, nil, &metav1.CreateOptions{})
	if err != nil {
		answers.ReviewError = err.Error()
		return
	}
	answers.Review, answers.Warnings = created.(*authorizationapi.SubjectAccessReview).Status, recorder.texts
}

type recordedWarnings struct{ texts []string }

// AddWarning keeps warnings about places. Those about names say nothing of them.
func (r *recordedWarnings) AddWarning(_, text string) {
	if _, isOfNames := authorization.NamesIn(text); !isOfNames {
		r.texts = append(r.texts, text)
	}
}

type noEvents struct{}

func (noEvents) Event(*corev1.ObjectReference, string, string, string, string) {}

// noListener is the listener of the front door, on which the oracle does not ask.
type noListener struct{ net.Listener }
