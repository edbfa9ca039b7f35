/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// InnerDoor configures a cluster with the inner door.
type InnerDoor struct {
	// URL is the URL of the inner door and the front door, or of a proxy before them with a certificate of the
	// cluster's CA. Empty means FrontDoorURL.
	URL string
	// Configuration are the lines of the InnerDoorConfiguration after url and caFile. Its kubeAPIServer, which the cluster
	// sets, must be missing.
	Configuration string
	// Servers are the addresses at which Proviso probes the kube-apiservers, or of proxies before them. Empty means their URLs.
	Servers []string
	// KubeAPIServer are lines of kubeAPIServer, indented by two blanks.
	KubeAPIServer string
}

// InnerDoorConfig returns the path of the InnerDoorConfiguration of the first kube-apiserver, which Proviso has, too.
func (c *Cluster) InnerDoorConfig() string { return c.Servers[0].InnerDoorConfig() }

// InnerDoorFiles returns the directory with the first kube-apiserver's files for both doors.
func (c *Cluster) InnerDoorFiles() string { return c.Servers[0].InnerDoorFiles() }

// WriteInnerDoor writes the InnerDoorConfiguration and, by the command inner-door-config, the first kube-apiserver's files.
func (c *Cluster) WriteInnerDoor(ctx context.Context) error { return c.Servers[0].WriteInnerDoor(ctx) }

// innerDoorArgs returns the arguments of a Proviso that knows the inner door.
func (c *Cluster) innerDoorArgs() []string {
	if c.InnerDoor == nil {
		return nil
	}
	return []string{"--inner-door-config=" + c.InnerDoorConfig(), "--kube-apiserver-servers=" + c.probed()}
}

// probed returns the addresses at which Proviso probes the kube-apiservers.
func (c *Cluster) probed() string {
	addresses := c.InnerDoor.Servers
	if len(addresses) == 0 {
		for _, s := range c.Servers {
			addresses = append(addresses, s.URL())
		}
	}
	return strings.Join(addresses, ",")
}

// InnerDoorConfig returns the path of the server's InnerDoorConfiguration.
func (s *KubeAPIServer) InnerDoorConfig() string { return filepath.Join(s.dir, "inner-door.yaml") }

// InnerDoorFiles returns the directory with the server's files for both doors.
func (s *KubeAPIServer) InnerDoorFiles() string { return filepath.Join(s.dir, "inner-door") }

// Manifest returns the file with the static webhooks of the inner door.
func (s *KubeAPIServer) Manifest() string {
	return filepath.Join(s.InnerDoorFiles(), "manifests", "inner-door.yaml")
}

// WriteInnerDoor writes the InnerDoorConfiguration and, by the command inner-door-config, the server's files.
func (s *KubeAPIServer) WriteInnerDoor(ctx context.Context) error {
	c := s.cluster
	if c.Deployment {
		return errors.New("a cluster with the inner door runs proviso-apiserver as a plain process")
	}
	certFile, keyFile, err := s.FrontDoorCertificate()
	if err != nil {
		return err
	}
	url := cmp.Or(s.Doors, c.InnerDoor.URL, c.FrontDoorURL())
	configuration := fmt.Sprintf("apiVersion: config.proviso.dev/v1alpha1\nkind: InnerDoorConfiguration\nurl: %q\ncaFile: %q\n%s\n"+
		"kubeAPIServer:\n  directory: %q\n  clientCertificate: %q\n  clientKey: %q\n%s\n",
		url, c.CAFile(), c.InnerDoor.Configuration, s.InnerDoorFiles(), certFile, keyFile, c.InnerDoor.KubeAPIServer)
	if err := os.WriteFile(s.InnerDoorConfig(), []byte(configuration), 0o600); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, c.binary("proviso-apiserver"), "inner-door-config", "--config", s.InnerDoorConfig(), "--output", s.InnerDoorFiles()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("inner-door-config: %w: %s", err, output)
	}
	return nil
}
