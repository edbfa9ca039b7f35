/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package terminal has what commands do on a terminal only: the colour of answers, and a line that shows the progress of long work.
//
// Invariants:
//
//   - Output that is not a terminal has neither. So it is with TERM=dumb, and there is no colour if NO_COLOR is set.
//   - The line of progress is erased before anything else is written.
//
// The package must not import the server, pkg/apiserver.
package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const (
	// quietFor is how long work may take before its progress is shown. Most commands end before.
	quietFor = time.Second
	// refreshEvery is the time between two lines of progress.
	refreshEvery = 200 * time.Millisecond
)

// The control sequences of a terminal that the package writes.
const (
	green     = "\x1b[32m"
	red       = "\x1b[31m"
	yellow    = "\x1b[33m"
	plain     = "\x1b[0m"
	eraseLine = "\r\x1b[K"
)

// Terminal is what is known of the terminal of a command. A nil one is no terminal.
type Terminal struct {
	hasColour bool
	width     int
	// out is where progress is shown. It is nil if it is not.
	out   io.Writer
	began time.Time

	// mu protects all writes to the terminal, and the following fields.
	mu      sync.Mutex
	text    string
	isShown bool
	ticker  *time.Ticker
	done    chan struct{}
}

// New returns the terminal of streams, and streams that erase the line of progress before they write. getenv returns a variable of the
// environment. Call Close at the end.
func New(streams genericiooptions.IOStreams, getenv func(string) string) (*Terminal, genericiooptions.IOStreams) {
	t := &Terminal{began: time.Now(), width: widthOf(streams.Out, getenv("COLUMNS"))}
	if getenv("TERM") == "dumb" {
		return t, streams
	}
	t.hasColour = getenv("NO_COLOR") == "" && isTerminal(streams.Out)
	if isTerminal(streams.ErrOut) {
		t.out = streams.ErrOut
		streams.Out, streams.ErrOut = &writer{t, streams.Out}, &writer{t, streams.ErrOut}
	}
	return t, streams
}

func isTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// widthOf returns the number of columns of a terminal, and 0 for another writer. A number in the variable COLUMNS takes precedence.
func widthOf(w io.Writer, columns string) int {
	if !isTerminal(w) {
		return 0
	}
	if width, err := strconv.Atoi(columns); err == nil && width > 0 {
		return width
	}
	width, _, _ := term.GetSize(int(w.(*os.File).Fd())) // 0 if it is not known
	return width
}

// Width returns the number of columns of the terminal to which a command prints, or 0 if it prints to none.
func (t *Terminal) Width() int {
	if t == nil {
		return 0
	}
	return t.width
}

type key struct{}

// With returns a context for commands with a terminal.
func (t *Terminal) With(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, t) }

// From returns the terminal of a command, or nil.
func From(ctx context.Context) *Terminal {
	t, _ := ctx.Value(key{}).(*Terminal)
	return t
}

// colours are the colours of answers.
var colours = map[string]string{"yes": green, "PASS": green, "ok": green, "no": red, "FAIL": red, "yes, if": yellow}

// Answer returns an answer in its colour: yes, no or "yes, if" of a decision, or PASS, ok or FAIL of a test.
func (t *Terminal) Answer(answer string) string {
	if t == nil || !t.hasColour || colours[answer] == "" {
		return answer
	}
	return colours[answer] + answer + plain
}

// Progress sets the line that shows the progress of work, such as "12 of 300 reviews". It is shown if the command takes longer than a second.
func (t *Terminal) Progress(format string, args ...any) {
	if t == nil || t.out == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = fmt.Sprintf(format, args...)
	if t.ticker == nil {
		t.ticker, t.done = time.NewTicker(refreshEvery), make(chan struct{})
		go t.refresh(t.ticker.C, t.done)
	}
}

func (t *Terminal) refresh(ticks <-chan time.Time, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case now := <-ticks:
			t.mu.Lock()
			if t.text != "" && now.Sub(t.began) >= quietFor {
				_, _ = io.WriteString(t.out, eraseLine+t.text)
				t.isShown = true
			}
			t.mu.Unlock()
		}
	}
}

// erase erases the line of progress. mu must be held.
func (t *Terminal) erase() {
	if t.isShown {
		_, _ = io.WriteString(t.out, eraseLine)
		t.isShown = false
	}
}

// Close erases the line of progress, and shows no other one.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	if t.ticker != nil {
		t.ticker.Stop()
		close(t.done)
		t.ticker = nil
	}
}

// writer erases the line of progress before it writes. The line does not come back before the next call of Progress.
type writer struct {
	terminal *Terminal
	out      io.Writer
}

func (w *writer) Write(text []byte) (int, error) {
	w.terminal.mu.Lock()
	defer w.terminal.mu.Unlock()
	w.terminal.erase()
	w.terminal.text = ""
	return w.out.Write(text)
}
