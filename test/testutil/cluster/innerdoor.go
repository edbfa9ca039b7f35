/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// InnerDoor configures a cluster with the inner door.
type InnerDoor struct {
	// URL is the URL of the inner door and the front door, or of a proxy before them with a certificate of the
	// cluster's CA. Empty means FrontDoorURL.
	URL string
	// Configuration are the lines of the InnerDoorConfiguration after url and caFile. Its kubeAPIServer, which the cluster
	// sets, must be missing.
	Configuration string
	// KubeAPIServer are lines of kubeAPIServer, indented by two blanks.
	KubeAPIServer string
}

// InnerDoorConfig returns the path of the InnerDoorConfiguration.
func (c *Cluster) InnerDoorConfig() string { return filepath.Join(c.Dir, "inner-door.yaml") }

// InnerDoorFiles returns the directory with kube-apiserver's files for both doors.
func (c *Cluster) InnerDoorFiles() string { return filepath.Join(c.Dir, "inner-door") }

// WriteInnerDoor writes the InnerDoorConfiguration and, by the command inner-door-config, kube-apiserver's files.
func (c *Cluster) WriteInnerDoor(ctx context.Context) error {
	if c.Deployment {
		return errors.New("a cluster with the inner door runs proviso-apiserver as a plain process")
	}
	certFile, keyFile, err := c.FrontDoorCertificate()
	if err != nil {
		return err
	}
	url := c.InnerDoor.URL
	if url == "" {
		url = c.FrontDoorURL()
	}
	configuration := fmt.Sprintf("apiVersion: config.proviso.dev/v1alpha1\nkind: InnerDoorConfiguration\nurl: %q\ncaFile: %q\n%s\n"+
		"kubeAPIServer:\n  directory: %q\n  clientCertificate: %q\n  clientKey: %q\n%s\n",
		url, c.CAFile(), c.InnerDoor.Configuration, c.InnerDoorFiles(), certFile, keyFile, c.InnerDoor.KubeAPIServer)
	if err := os.WriteFile(c.InnerDoorConfig(), []byte(configuration), 0o600); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, c.binary("proviso-apiserver"), "inner-door-config", "--config", c.InnerDoorConfig(), "--output", c.InnerDoorFiles()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("inner-door-config: %w: %s", err, output)
	}
	return nil
}
