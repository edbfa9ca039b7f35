/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command proviso-apiserver serves conditional authorization as an aggregated API
// server.
package main

import (
	"os"
	_ "time/tzdata" // for conditions: the image has no files of time zones

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/proviso-authz/proviso/pkg/apiserver/options"
)

func main() {
	os.Exit(cli.Run(options.NewCommand(genericapiserver.SetupSignalContext())))
}
