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
	netutils "k8s.io/utils/net"

	"github.com/proviso-authz/proviso/pkg/apiserver"
)

// FrontDoorOptions are the options of the listener that kube-apiserver asks. Its serving
// certificate, and what TLS it speaks, are those of the main port.
type FrontDoorOptions struct {
	// BindAddress is where to listen.
	BindAddress net.IP
	// BindPort is the port. 0 means that there is no front door.
	BindPort int
	// Listener is used instead of BindAddress and BindPort if it is there.
	Listener net.Listener
	// ClientCAFile has the CAs that sign the certificates of clients. It is read again when
	// it changes.
	ClientCAFile string
	// AllowedNames are the common names of clients. If empty, any will do.
	AllowedNames []string
}

// NewFrontDoorOptions returns the defaults: no front door.
func NewFrontDoorOptions() *FrontDoorOptions {
	return &FrontDoorOptions{BindAddress: netutils.ParseIPSloppy("0.0.0.0")}
}

// AddFlags adds the flags of the options to a set.
func (o *FrontDoorOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IPVar(&o.BindAddress, "webhook-bind-address", o.BindAddress,
		"The IP address on which to listen for the --webhook-secure-port port. If an unspecified address (0.0.0.0 or ::), all interfaces and IP address families will be used.")
	fs.IntVar(&o.BindPort, "webhook-secure-port", o.BindPort,
		"The port on which to answer kube-apiserver's authorization webhook, with the serving certificate of --secure-port. If 0, it is not answered.")
	fs.StringVar(&o.ClientCAFile, "webhook-client-ca-file", o.ClientCAFile,
		"File with the CAs that sign the client certificates of those who may ask on --webhook-secure-port. Should sign no others: whoever asks learns what policies say of anybody. It is read again when it changes.")
	fs.StringSliceVar(&o.AllowedNames, "webhook-allowed-names", o.AllowedNames,
		"Common names of the client certificates of those who may ask on --webhook-secure-port. If empty, any client certificate of --webhook-client-ca-file will do.")
}

func (o *FrontDoorOptions) wanted() bool { return o.BindPort != 0 || o.Listener != nil }

// Validate returns everything that is wrong with the options.
func (o *FrontDoorOptions) Validate() []error {
	var errs []error
	if o.BindPort < 0 || o.BindPort > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-secure-port %d must be between 0 and 65535, inclusive; 0 turns the front door off", o.BindPort))
	}
	switch given := o.ClientCAFile != "" || len(o.AllowedNames) > 0; {
	case o.wanted() && o.ClientCAFile == "":
		errs = append(errs, errors.New("--webhook-secure-port needs --webhook-client-ca-file: without it anybody would be answered"))
	case given && !o.wanted():
		errs = append(errs, errors.New("--webhook-client-ca-file and --webhook-allowed-names need --webhook-secure-port"))
	}
	for _, name := range o.AllowedNames {
		if name == "" {
			errs = append(errs, errors.New("--webhook-allowed-names must not have an empty name"))
		}
	}
	return errs
}

// config opens the port. It returns nil if there is to be no front door. What follows
// changes of certificate files belongs to one listener, so it is made anew from the options
// of the main one.
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
	return config, nil
}
