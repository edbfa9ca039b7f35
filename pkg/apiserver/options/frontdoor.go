/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package options

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"
	netutils "k8s.io/utils/net"

	"github.com/proviso-authz/proviso/pkg/apiserver"
	"github.com/proviso-authz/proviso/pkg/cluster"
	"github.com/proviso-authz/proviso/pkg/innerdoor/installation"
)

// FrontDoorOptions are the options of the listener for kube-apiserver's authorization webhook. Its
// serving certificate and TLS options are the same as on the main port.
type FrontDoorOptions struct {
	// BindAddress is the IP address of the listener.
	BindAddress net.IP
	// BindPort is the port of the listener. 0 disables the front door.
	BindPort int
	// Listener, if set, is used instead of BindAddress and BindPort.
	Listener net.Listener
	// ClientCAFile has the CAs for client certificates. It is reloaded when it changes.
	ClientCAFile string
	// AllowedNames are the accepted common names of clients. If empty, any name is accepted.
	AllowedNames []string
	// InnerDoorConfig is the path of an InnerDoorConfiguration. If it is empty, the inner door is disabled.
	InnerDoorConfig string
	// KubeAPIServers are the addresses of all kube-apiservers. If empty, they are the endpoints of the Service kubernetes.
	KubeAPIServers []string
}

// NewFrontDoorOptions returns the defaults: the front door is disabled.
func NewFrontDoorOptions() *FrontDoorOptions {
	return &FrontDoorOptions{BindAddress: netutils.ParseIPSloppy("0.0.0.0")}
}

// AddFlags adds the flags of the options to a set.
func (o *FrontDoorOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IPVar(&o.BindAddress, "webhook-bind-address", o.BindAddress,
		"The IP address on which to listen for the --webhook-secure-port port. If an unspecified address (0.0.0.0 or ::), all interfaces and IP address families will be used.")
	fs.IntVar(&o.BindPort, "webhook-secure-port", o.BindPort,
		"The port of the front door, which answers kube-apiserver's authorization webhook, with the serving certificate of --secure-port. If 0, the front door is disabled.")
	fs.StringVar(&o.ClientCAFile, "webhook-client-ca-file", o.ClientCAFile,
		"File with the CAs for client certificates on --webhook-secure-port. They should sign certificates for kube-apiserver only: clients of this port can learn the decisions of policies about every user. The file is reloaded when it changes.")
	fs.StringSliceVar(&o.AllowedNames, "webhook-allowed-names", o.AllowedNames,
		"Accepted common names of client certificates on --webhook-secure-port. If empty, every client certificate signed by --webhook-client-ca-file is accepted.")
	fs.StringSliceVar(&o.KubeAPIServers, "kube-apiserver-servers", o.KubeAPIServers,
		"Addresses of all kube-apiservers, as https://host:port, which Proviso probes to find out whether they call the inner door or handle conditions themselves, and which barriers they have loaded. Each address must lead to one server, and each server must have one address. If empty, the endpoints of the Service kubernetes are used.")
	fs.StringVar(&o.InnerDoorConfig, "inner-door-config", o.InnerDoorConfig,
		"File with an InnerDoorConfiguration (config.proviso.dev/v1alpha1). If set, --webhook-secure-port also serves the inner door, which decides writes to the resources of this file at admission. It must be the file from which the command inner-door-config wrote the configuration of kube-apiserver. The server reads it at its start.")
}

func (o *FrontDoorOptions) wanted() bool { return o.BindPort != 0 || o.Listener != nil }

// Validate returns all errors in the options.
func (o *FrontDoorOptions) Validate() []error {
	var errs []error
	if o.BindPort < 0 || o.BindPort > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-secure-port %d must be between 0 and 65535, inclusive; 0 turns the front door off", o.BindPort))
	}
	switch given := o.ClientCAFile != "" || len(o.AllowedNames) > 0; {
	case o.wanted() && o.ClientCAFile == "":
		errs = append(errs, errors.New("--webhook-secure-port needs --webhook-client-ca-file: without it the front door would answer every client"))
	case o.InnerDoorConfig != "" && !o.wanted():
		errs = append(errs, errors.New("--inner-door-config needs --webhook-secure-port"))
	case given && !o.wanted():
		errs = append(errs, errors.New("--webhook-client-ca-file and --webhook-allowed-names need --webhook-secure-port"))
	}
	seen := map[string]bool{}
	for _, text := range o.KubeAPIServers {
		switch address, err := cluster.Address(text); {
		case err != nil:
			errs = append(errs, fmt.Errorf("--kube-apiserver-servers %q %w", text, err))
		case seen[address]:
			errs = append(errs, fmt.Errorf("--kube-apiserver-servers has %q twice: each server must have one address", address))
		default:
			seen[address] = true
		}
	}
	for _, name := range o.AllowedNames {
		if name == "" {
			errs = append(errs, errors.New("--webhook-allowed-names must not have an empty name"))
		}
	}
	return errs
}

// config opens the port and returns the configuration, or nil if the front door is disabled.
// Certificate reloaders belong to one listener, so the serving options of the main port are
// applied again.
func (o *FrontDoorOptions) config(main genericoptions.SecureServingOptions) (*apiserver.FrontDoorConfig, error) {
	if !o.wanted() {
		return nil, nil
	}
	clientCA, err := dynamiccertificates.NewDynamicCAContentFromFile("webhook-client-ca", o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("--webhook-client-ca-file: %w", err)
	}
	main.BindAddress, main.BindPort, main.Listener = o.BindAddress, o.BindPort, o.Listener
	config := &apiserver.FrontDoorConfig{AllowedNames: o.AllowedNames}
	if err := main.ApplyTo(&config.Serving); err != nil {
		return nil, fmt.Errorf("--webhook-secure-port: %w", err)
	}
	config.Serving.ClientCA = clientCA
	if o.InnerDoorConfig == "" {
		return config, nil
	}
	innerDoor, err := installation.Load(o.InnerDoorConfig)
	if err != nil {
		return nil, fmt.Errorf("--inner-door-config: %w", err)
	}
	written := innerDoor.Manifest()
	klog.Background().Info("Serving the inner door", "manifest", innerDoor.Digest(), "resources", len(written.Resources))
	config.InnerDoor = &written
	return config, nil
}
