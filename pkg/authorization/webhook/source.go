/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/proviso-authz/proviso/pkg/authorization"
)

// reloadInterval is the interval between checks of the files, as in Kubernetes. It is short enough
// for changes by hand.
const reloadInterval = time.Minute

// SourceConfig configures a Source.
type SourceConfig struct {
	// File is the path of an AuthorizationConfiguration.
	File string
	// Reserved are the names of the other authorizers in the chain.
	Reserved []string
	// KubeAPIServer is the URL of kube-apiserver. A file that names it as the endpoint for conditions
	// is refused. It may be empty if the URL is unknown; then no file is refused for that reason.
	KubeAPIServer string
	// Backoff is the schedule for retries of calls with a transient error.
	Backoff wait.Backoff
	// Upstream is the feature gate UpstreamConditionalDecisions. With it, webhooks are asked for conditions in the form that is
	// proposed for Kubernetes if their configuration has conditionsReview, and may answer by the letter of KEP-5681: with
	// conditions in reviews of v1, and with IDs and types that have no domain.
	Upstream bool
	// Restricting must be true if the webhooks are called before kube-apiserver, as NewChain does.
	// A webhook must then deny when it fails, and a file with another failure policy is refused:
	// otherwise kube-apiserver could allow a request that the failed webhook would have denied.
	Restricting bool
}

// Source has the webhooks of a configuration file. While Run runs, it reloads them when that file, or
// a kubeconfig file that it names, changes. It is safe for concurrent use.
type Source struct {
	config  SourceConfig
	current atomic.Pointer[generation]

	mu     sync.Mutex // held while files are read
	loader *loader
	failed bool // whether the last attempt to read files failed
}

// generation has the webhooks of one state of the files. The cached and the unconditional part share their cached answers.
type generation struct {
	cached, fresh, unconditional part
}

// part has the webhooks with one way to use cached answers, as members of a chain and as a chain.
type part struct {
	members []authorization.Member
	chain   *authorization.Chain
}

// NewSource returns a Source with the webhooks of config.File. An error in the configuration names
// the file and the field.
func NewSource(config SourceConfig) (*Source, error) {
	if config.Backoff.Steps < 1 {
		return nil, fmt.Errorf("the backoff must have at least one attempt, not %d", config.Backoff.Steps)
	}
	RegisterMetrics()
	s := &Source{config: config}
	if err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// load reads the files and uses them if they are valid. The caller must hold the lock or be the
// only user of s.
func (s *Source) load() error {
	s.loader = &loader{config: s.config, read: map[string]digest{}}
	webhooks, err := s.loader.load()
	if err == nil {
		var next *generation
		if next, err = generationOf(webhooks); err == nil {
			s.current.Store(next)
		}
	}
	s.failed = err != nil
	if err != nil {
		return fmt.Errorf("%s: %w", s.config.File, err)
	}
	return nil
}

func generationOf(webhooks []*Webhook) (*generation, error) {
	g := &generation{}
	for _, w := range webhooks {
		g.cached.members = append(g.cached.members, authorization.Member{Name: w.name, Decider: w})
		g.fresh.members = append(g.fresh.members, authorization.Member{Name: w.name, Decider: w.fresh()})
		g.unconditional.members = append(g.unconditional.members, authorization.Member{Name: w.name, Decider: w.withUnconditionalCache()})
	}
	var errs [3]error
	g.cached.chain, errs[0] = authorization.NewChain(g.cached.members...)
	g.fresh.chain, errs[1] = authorization.NewChain(g.fresh.members...)
	g.unconditional.chain, errs[2] = authorization.NewChain(g.unconditional.members...)
	return g, errors.Join(errs[:]...)
}

// Reload reads the files if they have changed, or if the last attempt failed, and uses them if they
// are valid. If they are invalid, it logs the error, and the previous configuration stays. Requests
// that have begun keep their webhooks.
func (s *Source) Reload(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.failed && !s.loader.changed() {
		return
	}
	err := s.load()
	recordReload(err)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The authorization configuration is invalid; the last valid one is still used")
		return
	}
	klog.FromContext(ctx).Info("Reloaded the authorization configuration", "file", s.config.File)
}

// Run calls Reload once a minute until ctx ends.
func (s *Source) Run(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, s.Reload, reloadInterval, 0, true)
}

// Dynamic is the chain member for the webhooks of a Source. The chain calls the webhooks one by
// one, and uses the webhooks of one state of the files for the whole request.
type Dynamic struct {
	// Source has the webhooks.
	Source *Source
	// Fresh disables the use of cached answers.
	Fresh bool
	// FreshConditions disables the use of cached answers that are conditional.
	FreshConditions bool
}

var (
	_ authorization.Expander         = &Dynamic{}
	_ authorization.Decider          = &Dynamic{}
	_ authorization.ConditionsAuthor = &Dynamic{}
)

type pinKey struct{ source *Source }

// Pin returns a context in which the webhooks do not change.
func (d *Dynamic) Pin(ctx context.Context) context.Context {
	if ctx.Value(pinKey{d.Source}) != nil {
		return ctx
	}
	return context.WithValue(ctx, pinKey{d.Source}, d.Source.current.Load())
}

func (d *Dynamic) part(ctx context.Context) *part {
	g, ok := ctx.Value(pinKey{d.Source}).(*generation)
	if !ok {
		g = d.Source.current.Load()
	}
	switch {
	case d.Fresh:
		return &g.fresh
	case d.FreshConditions:
		return &g.unconditional
	}
	return &g.cached
}

// Members returns the webhooks of a pinned context.
func (d *Dynamic) Members(ctx context.Context) []authorization.Member { return d.part(ctx).members }

// Decide calls the webhooks in order, and requests conditions if the attributes do.
func (d *Dynamic) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	return d.part(ctx).chain.Decide(ctx, attributes)
}

// EvaluateConditions sends each set to the webhook that returned it.
func (d *Dynamic) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return d.part(ctx).chain.EvaluateConditions(ctx, decision, data)
}
