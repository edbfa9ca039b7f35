/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package frontdoor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// shutdownTimeout bounds how long a shutdown waits for requests in flight.
const shutdownTimeout = 10 * time.Second

// Server serves a handler on a listener of its own.
type Server struct {
	serving *genericapiserver.SecureServingInfo
	handler http.Handler
}

// NewServer returns a Server for a listener that is already open. serving must have a CA for
// client certificates, so that they are requested in the TLS handshake; handler must verify them.
func NewServer(serving *genericapiserver.SecureServingInfo, handler http.Handler) (*Server, error) {
	if serving == nil || serving.Listener == nil || serving.ClientCA == nil || handler == nil {
		return nil, errors.New("the listener of the front door needs a port, a CA for client certificates and a handler")
	}
	return &Server{serving: serving, handler: handler}, nil
}

// Start begins to serve, and returns immediately. When ctx ends, the server stops listening, and waits for the requests in flight
// for at most shutdownTimeout. The returned function waits until that has happened. The error says why the server could not start.
func (s *Server) Start(ctx context.Context) (wait func(), err error) {
	stopped, listenerStopped, err := s.serving.Serve(s.handler, shutdownTimeout, ctx.Done())
	if err != nil {
		return nil, fmt.Errorf("front door: %w", err)
	}
	return func() {
		<-listenerStopped
		<-stopped
	}, nil
}
