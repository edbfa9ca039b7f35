/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package playground_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/proviso-authz/proviso/pkg/kubectl"
)

// start runs the command until stop is called, which returns its exit code. It returns the first two lines of its output.
func start(t *testing.T, args ...string) (lines [2]string, stop func() int) {
	t.Helper()
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	reader, writer := io.Pipe()
	streams.Out = writer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		code := kubectl.Run(ctx, append([]string{"playground"}, args...), streams)
		_ = writer.CloseWithError(fmt.Errorf("exit code %d: %s", code, errOut))
		done <- code
	}()
	buffered := bufio.NewReader(reader)
	for i := range lines {
		line, err := buffered.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = strings.TrimSuffix(line, "\n")
	}
	return lines, func() int {
		cancel()
		select {
		case code := <-done:
			return code
		case <-time.After(10 * time.Second):
			t.Fatal("the command does not end")
			return -1
		}
	}
}

// TestPlaygroundRun serves the page on a port that the kernel chooses, on one address only, and ends when it is told to.
func TestPlaygroundRun(t *testing.T) {
	t.Parallel()
	lines, stop := start(t)
	m := regexp.MustCompile(`^The playground is at (http://127\.0\.0\.1:([0-9]+)/)$`).FindStringSubmatch(lines[0])
	if m == nil || lines[1] != "Press Ctrl-C to stop." {
		t.Fatalf("got %q", lines)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(page), "<title>Proviso playground</title>") {
		t.Errorf("got %d %s, %v", response.StatusCode, page, err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.Equal(net.IPv4(127, 0, 0, 1)) {
			if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", net.JoinHostPort(ip.IP.String(), m[2])); err == nil {
				_ = c.Close()
				t.Errorf("the page is served on %v, too", ip.IP)
			}
		}
	}
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	if code := kubectl.Run(t.Context(), []string{"playground", "--port=" + m[2]}, streams); code != 2 || !strings.HasPrefix(errOut.String(), "error: --port: listen tcp4 127.0.0.1:"+m[2]) {
		t.Errorf("on a port in use: got %d %s", code, errOut)
	}
	if code := stop(); code != 0 {
		t.Errorf("got the exit code %d", code)
	}
}

// TestExamplesOfHelp runs the commands in the help.
func TestExamplesOfHelp(t *testing.T) {
	help, err := os.ReadFile(filepath.Join("..", "testdata", "help-playground.txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, examples, _ := strings.Cut(string(help), "Examples:\n")
	examples, _, _ = strings.Cut(examples, "\nFlags:")
	commands := regexp.MustCompile(`(?m)^  kubectl proviso playground(.*)$`).FindAllStringSubmatch(examples, -1)
	if len(commands) != 3 {
		t.Errorf("found the commands %q", commands)
	}
	t.Chdir(filepath.Join("..", "..", ".."))
	for _, c := range commands {
		lines, stop := start(t, strings.Fields(c[1])...)
		_, port, _ := strings.Cut(c[1], "--port=")
		_, fragment, hasFiles := strings.Cut(lines[0], "/#files.")
		if !strings.Contains(lines[0], port+"/") || hasFiles != strings.Contains(c[1], "-f ") || hasFiles && len(fragment) < 20 {
			t.Errorf("got %q", lines)
		}
		stop()
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ arg, want string }{
		{arg: "--port=65536", want: "error: --port must be a number from 0 to 65535\n"},
		{arg: "--port=-1", want: "error: --port must be a number from 0 to 65535\n"},
		{arg: "--port=http", want: "error: invalid argument \"http\""},
		{arg: "now", want: "error: unknown command \"now\" for \"kubectl proviso playground\"\n"},
	} {
		streams, _, out, errOut := genericiooptions.NewTestIOStreams()
		if code := kubectl.Run(t.Context(), []string{"playground", tc.arg}, streams); code != 2 || out.Len() > 0 || !strings.HasPrefix(errOut.String(), tc.want) {
			t.Errorf("%s: got %d %s%s", tc.arg, code, out, errOut)
		}
	}
}
