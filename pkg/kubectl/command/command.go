/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package command has what the commands of the plugin share: their streams and warnings, clients, and the flags for files and formats.
//
// The package must not import the server, pkg/apiserver.
package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	utilexec "k8s.io/utils/exec"
	"k8s.io/utils/ptr"

	"github.com/proviso-authz/proviso/generated/clientset/versioned"
	"github.com/proviso-authz/proviso/pkg/kubectl/document"
	"github.com/proviso-authz/proviso/pkg/kubectl/printable"
)

// Options are the options that all commands have. Flags are the flags for clients, which a command above has. They are nil for a command without a cluster.
type Options struct {
	genericiooptions.IOStreams
	Flags *genericclioptions.ConfigFlags

	mu       sync.Mutex
	warnings []string
}

// Config returns the configuration of clients, which print the warnings of servers.
func (o *Options) Config() (*rest.Config, error) {
	config, err := o.Flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = o
	return config, nil
}

// Clients are the clients of one cluster.
type Clients struct {
	Kube    kubernetes.Interface
	Proviso versioned.Interface
	Dynamic dynamic.Interface
}

// Clients returns the clients of the user.
func (o *Options) Clients() (*Clients, error) {
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	return NewClients(config)
}

// NewClients returns clients with a configuration that Config has returned.
func NewClients(config *rest.Config) (*Clients, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	proviso, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	return &Clients{Kube: kube, Proviso: proviso, Dynamic: objects}, err
}

// NamespaceFlag returns the value of the flag --namespace.
func (o *Options) NamespaceFlag() string {
	if o.Flags == nil {
		return ""
	}
	return ptr.Deref(o.Flags.Namespace, "")
}

// Warn prints a warning to standard error.
func (o *Options) Warn(text string) { o.warn(text, false) }

// WarnOnce is Warn for a text that was not printed before.
func (o *Options) WarnOnce(text string) { o.warn(text, true) }

// WarnOthers warns of the number of documents that the command does not read, so that a folder may have them.
func (o *Options) WarnOthers(others []document.Document) {
	if len(others) > 0 {
		o.Warn(fmt.Sprintf("documents of other kinds are ignored: %d", len(others)))
	}
}

var _ rest.WarningHandlerWithContext = &Options{}

type takeKey struct{}

// WithWarnings returns a context for requests whose warnings take gets. Those for which it returns false are printed.
func WithWarnings(ctx context.Context, take func(text string) bool) context.Context {
	return context.WithValue(ctx, takeKey{}, take)
}

// HandleWarningHeaderWithContext prints a warning of a server, once.
func (o *Options) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if take, ok := ctx.Value(takeKey{}).(func(string) bool); code != 299 || text == "" || ok && take(text) {
		return
	}
	o.WarnOnce(text)
}

func (o *Options) warn(text string, once bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if once && slices.Contains(o.warnings, text) {
		return
	}
	o.warnings = append(o.warnings, text)
	_, _ = fmt.Fprintln(o.ErrOut, "Warning: "+printable.Lines(text))
}

// Warnings returns the warnings until now, for reports.
func (o *Options) Warnings() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string{}, o.warnings...)
}

// Found returns the exit code 1, for a command that has found what it looks for. A message may be nil.
func Found(message error) error { return utilexec.CodeExitError{Code: 1, Err: message} }

// Files are the files in the flags --filename and --recursive.
type Files struct {
	Names     []string
	Recursive bool
}

// AddFlags adds the flags. With an empty usage, --recursive has the one of kubectl.
func (f *Files) AddFlags(fs *pflag.FlagSet, usage, usageRecursive string) {
	(&genericclioptions.FileNameFlags{Usage: usage, Filenames: &f.Names, Recursive: &f.Recursive}).AddFlags(fs)
	if usageRecursive != "" {
		fs.Lookup("recursive").Usage = usageRecursive
	}
}

// Read returns the documents that could be read, and all errors.
func (f *Files) Read(in io.Reader) ([]document.Document, []error) {
	return document.Read(in, f.Names, f.Recursive)
}

// Format is a flag with a format. Its value is the default until the flag is set.
type Format struct {
	Value string

	name, byDefault string
	formats         []string
}

// AddFlag adds the flag.
func (f *Format) AddFlag(cmd *cobra.Command, name, shorthand, usage string, formats ...string) {
	f.name, f.byDefault, f.formats = name, f.Value, formats
	cmd.Flags().StringVarP(&f.Value, name, shorthand, f.Value, usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// Write writes a value for programs, as YAML or as JSON with an indent.
func (f *Format) Write(out io.Writer, value any, indent string) error {
	if f.Value == document.YAML {
		return printable.WriteYAML(out, value)
	}
	return printable.WriteJSON(out, value, indent)
}

// Validate returns an error for a value that is no format.
func (f *Format) Validate() error {
	if f.Value == f.byDefault || slices.Contains(f.formats, f.Value) {
		return nil
	}
	last := len(f.formats) - 1
	return fmt.Errorf("--%s must be %s or %s, not %q", f.name, strings.Join(f.formats[:last], ", "), f.formats[last], f.Value)
}
