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

// reloadInterval is how often the files are looked at, as Kubernetes does: often enough for
// what people change by hand.
const reloadInterval = time.Minute

// SourceConfig configures a Source.
type SourceConfig struct {
	// File is the path of an AuthorizationConfiguration.
	File string
	// Reserved are the names of the other authorizers in the chain.
	Reserved []string
	// KubeAPIServer is the URL of kube-apiserver, to which conditions are never sent. It may
	// be empty if it is not known.
	KubeAPIServer string
	// Backoff says how calls that failed in passing are repeated.
	Backoff wait.Backoff
	// Restricting says that the webhooks are asked before kube-apiserver, as NewChain does. A
	// webhook then must deny when it fails: with another failure policy the file is refused,
	// because kube-apiserver would allow what the webhook cannot deny while it is down.
	Restricting bool
}

// Source has the webhooks that a file names, and follows the file and the kubeconfig files
// that it names. It is safe for concurrent use.
type Source struct {
	config  SourceConfig
	current atomic.Pointer[generation]

	mu     sync.Mutex // held while files are read
	loader *loader
	failed bool // the last time that files were read
}

// generation is what one state of the files says.
type generation struct {
	cached, fresh part
}

// part are the webhooks in one of their forms, as members of a chain and as a chain.
type part struct {
	members []authorization.Member
	chain   *authorization.Chain
}

// NewSource makes a Source. An error names what is wrong with the configuration, by file
// and field.
func NewSource(config SourceConfig) (*Source, error) {
	if config.Backoff.Steps < 1 {
		return nil, fmt.Errorf("at least one attempt is needed, not %d", config.Backoff.Steps)
	}
	RegisterMetrics()
	s := &Source{config: config}
	if err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// load reads the files and puts them in force if they are good. The caller holds the lock,
// or is the only one who knows s.
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
	}
	var errs [2]error
	g.cached.chain, errs[0] = authorization.NewChain(g.cached.members...)
	g.fresh.chain, errs[1] = authorization.NewChain(g.fresh.members...)
	return g, errors.Join(errs[:]...)
}

// Reload looks whether the files have changed and puts them in force if they are good. What
// is bad is reported, and what was good before stays. Requests that have begun keep the
// webhooks with which they did.
func (s *Source) Reload(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.failed && !s.loader.changed() {
		return
	}
	err := s.load()
	recordReload(err)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The authorization configuration cannot be used; the last good one stays in force")
		return
	}
	klog.FromContext(ctx).Info("Reloaded the authorization configuration", "file", s.config.File)
}

// Run reloads until ctx ends, once a minute.
func (s *Source) Run(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, s.Reload, reloadInterval, 0, true)
}

// Dynamic stands in a chain for the webhooks of a Source. The chain asks them one by one,
// and one request is asked about to the webhooks of one state of the files only.
type Dynamic struct {
	// Source has the webhooks.
	Source *Source
	// Fresh says that answers are not reused.
	Fresh bool
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
	if d.Fresh {
		return &g.fresh
	}
	return &g.cached
}

// Members returns the webhooks of a pinned context.
func (d *Dynamic) Members(ctx context.Context) []authorization.Member { return d.part(ctx).members }

// Decide asks the webhooks in order.
func (d *Dynamic) Decide(ctx context.Context, attributes authorizer.Attributes) authorization.Decision {
	return d.part(ctx).chain.Decide(ctx, attributes)
}

// EvaluateConditions has each set evaluated by the webhook that made it.
func (d *Dynamic) EvaluateConditions(ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return d.part(ctx).chain.EvaluateConditions(ctx, decision, data)
}
