/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aggregated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/proviso-authz/proviso/apis/policy/v1alpha1"
	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/controller"
	"github.com/proviso-authz/proviso/pkg/registration"
)

// Config configures a Controller. All fields are needed.
type Config struct {
	// Client reaches the configurations of this server.
	Client versioned.Interface
	// Enforcement receives the configurations.
	Enforcement *Enforcement
	// FrontDoor reports whether the front door is enabled. Without it, configurations have no effect.
	FrontDoor bool
	// StalenessBound is how long the store may be out of reach before no configuration counts. It must be positive.
	StalenessBound time.Duration
	// Store has the configurations.
	Store controller.Store
	// End ends the process with an error. It is called if the store has gone back to an earlier revision.
	End func(cause error)
}

// Controller publishes the stored configurations to an Enforcement, and writes their status. Run must be called once.
type Controller struct {
	*controller.Controller[string]
	config   Config
	informer cache.SharedIndexInformer
	pace     controller.Pace[string]
}

var errConfig = errors.New("a controller of enforcement configurations needs a client and an Enforcement")

// NewController returns a Controller.
func NewController(config Config) (c *Controller, err error) {
	if config.Client == nil || config.Enforcement == nil {
		return nil, errConfig
	}
	c = &Controller{config: config}
	c.pace.Burst = controller.StatusBurst
	c.Controller, err = controller.New(controller.Config[string]{
		Name: "enforcement-configurations", QueueName: "enforcement_configuration_status", Objects: "enforcement configurations",
		Staleness: config.Enforcement, StalenessBound: config.StalenessBound,
		StaleMessage:     "Enforcement configurations may be out of date: conditions on resources of other servers are folded until the store can be read",
		RecoveredMessage: "Enforcement configurations are up to date again",
		End:              config.End,
		Published:        func() bool { return config.Enforcement.Current() != nil },
		Publish:          func(context.Context) { c.publish() },
		WriteStatus:      c.writeStatus,
	})
	if err != nil {
		return nil, err
	}
	c.informer, err = c.Follow(&policyv1alpha1.EnforcementConfiguration{}, config.Store, func(any) {})
	return c, err
}

// publish publishes the configurations, and enqueues them.
func (c *Controller) publish() {
	c.config.Enforcement.publish(controller.ObjectsOf[*configuration](c.informer))
	c.Recheck()
}

// Recheck schedules writing the status of all configurations. It may be called concurrently with Run.
func (c *Controller) Recheck() {
	for _, key := range c.informer.GetStore().ListKeys() {
		c.Enqueue(key)
	}
}

// writeStatus writes the status of a configuration if it differs from the stored status. If the stored status describes the current
// generation, it is written at the pace of controller.Pace, and not before the APIServices have been read.
func (c *Controller) writeStatus(ctx context.Context, name string) error {
	obj, exists, err := c.informer.GetIndexer().GetByKey(name)
	s, ok := obj.(*policyv1alpha1.EnforcementConfiguration)
	if err != nil || !exists || !ok {
		c.pace.Forget(name)
		return err
	}
	status := s.Status.DeepCopy()
	status.ObservedGeneration = s.Generation
	meta.SetStatusCondition(&status.Conditions, c.effective(s))
	if apiequality.Semantic.DeepEqual(status, &s.Status) {
		return nil
	}
	isObserved := s.Status.ObservedGeneration == s.Generation && s.DeletionTimestamp == nil
	if isObserved && (c.config.Enforcement.services == nil || !c.config.Enforcement.services.IsKnown()) {
		return nil // Recheck follows
	}
	if wait := c.pace.Wait(name, s.Generation); isObserved && wait > 0 {
		c.EnqueueAfter(name, wait)
		return nil
	}
	_, err = c.config.Client.PolicyV1alpha1().EnforcementConfigurations().UpdateStatus(ctx,
		&policyv1alpha1.EnforcementConfiguration{ObjectMeta: *s.ObjectMeta.DeepCopy(), Spec: *s.Spec.DeepCopy(), Status: *status}, metav1.UpdateOptions{})
	if err == nil && isObserved {
		c.pace.Wrote(name, s.Generation)
	}
	return err
}

// texts explain the values of Serving other than ServingRegistered.
var texts = map[registration.Serving]string{
	servingUnconditionally:             "the feature gate ConditionalAuthorization is off",
	registration.ServingUnknown:        "the APIServices cannot be read",
	registration.ServingMissing:        "there is no APIService",
	registration.ServingKubeAPIServer:  "the APIService belongs to kube-apiserver",
	registration.ServingAnotherService: "the APIService names another Service",
	registration.ServingUnavailable:    "kube-apiserver does not reach the server: see the condition Available of the APIService",
}

const folded = ". Conditions on requests in these versions are folded"

// effective returns the condition Effective of a configuration.
func (c *Controller) effective(s *policyv1alpha1.EnforcementConfiguration) metav1.Condition {
	condition := metav1.Condition{Type: policyv1alpha1.EnforcementEffective, Status: metav1.ConditionFalse, ObservedGeneration: s.Generation}
	switch {
	case s.DeletionTimestamp != nil:
		condition.Reason, condition.Message = policyv1alpha1.ReasonDeleted, "the configuration is being deleted"
		return condition
	case !c.config.FrontDoor:
		condition.Reason, condition.Message = policyv1alpha1.ReasonFrontDoorDisabled, "the front door is disabled, so that kube-apiserver does not ask about these requests"
		return condition
	}
	var problems []string
	for _, version := range s.Spec.APIVersions {
		if serving := c.config.Enforcement.serving(s, version); serving != registration.ServingRegistered {
			if condition.Reason == "" {
				condition.Reason = string(serving)
			}
			problems = append(problems, fmt.Sprintf("%s: %s", version, texts[serving]))
		}
	}
	if len(problems) > 0 {
		condition.Message = strings.Join(problems, "; ") + folded
		return condition
	}
	condition.Status, condition.Reason = metav1.ConditionTrue, policyv1alpha1.ReasonRegistered
	condition.Message = "the front door lets requests pass on conditions, which the server enforces"
	return condition
}
