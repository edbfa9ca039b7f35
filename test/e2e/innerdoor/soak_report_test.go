//go:build soak

/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package innerdoor_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	stdmaps "maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// What must not be: a write that passes against the policies, an acknowledged write that is lost, and a refusal that no fault explains.
const (
	wrong = iota
	lost
	late
)

var failures = []string{"a wrong outcome", "a lost write", "refused without a fault"}

// tally counts what happened to writes.
type tally struct {
	mu     sync.Mutex
	failed [3]int
	passed int
	// rows have the outcomes by user and kind, and causes by the reason of a refusal: those that passed, and the others by verdict.
	rows, causes map[string]*[4]int
	// outages are the longest times for which the writes of a user that must pass were refused.
	outages map[string]time.Duration
	samples []sample
}

func (y *tally) add(a *actor, k kind, passed bool, wanted verdict, code int, answer string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	count := func(counts map[string]*[4]int, key string, column int) {
		if counts[key] == nil {
			counts[key] = &[4]int{}
		}
		counts[key][column]++
	}
	if passed {
		y.passed++
		count(y.rows, a.name+" | "+k.name, 0)
		return
	}
	count(y.rows, a.name+" | "+k.name, 1+int(wanted))
	count(y.causes, cause(code, answer), 1+int(wanted))
}

// fail records what must not be, and fails the test.
func (y *tally) fail(t *testing.T, what int, format string, args ...any) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.failed[what]++; y.failed[what] <= 10 {
		t.Errorf(failures[what]+": "+format, args...)
	}
}

var (
	quoted  = regexp.MustCompile(`"[^"]*"`)
	numbers = regexp.MustCompile(`[0-9]+`)
	errs    = regexp.MustCompile(`connection refused|connection reset|deadline exceeded|EOF|broken pipe|GOAWAY|connection lost|certificate has expired`)
	who     = regexp.MustCompile(`^.* is forbidden: User … cannot \w+ resource … in API group … in the namespace …(: )?|^.*denied (the )?request: `)
)

// cause shortens the answer of a write that did not pass, so that equal causes have one text.
func cause(code int, answer string) string {
	var status struct{ Message string }
	if found := errs.FindString(answer); code == 0 && found != "" {
		answer = found
	} else if json.Unmarshal([]byte(answer), &status) == nil && status.Message != "" {
		answer = status.Message
	}
	answer = who.ReplaceAllString(quoted.ReplaceAllString(answer, "…"), "forbidden: ")
	answer = strings.NewReplacer("|", "/", "\n", " ").Replace(numbers.ReplaceAllString(answer, "N"))
	return strconv.Itoa(code) + " " + answer[:min(len(answer), 160)]
}

// outage records for how long the writes of a user that must pass were refused.
func (y *tally) outage(a *actor, lasted time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	name := fmt.Sprintf("%s, %s, server %d", a.name, a.kinds[0].name, a.server+1)
	y.outages[name] = max(y.outages[name], lasted)
}

// sample is what one process needs at a time: resident memory in MiB, file descriptors, and, of Proviso, goroutines and the MiB that the last garbage
// collection found in use.
type sample struct {
	at          time.Duration
	server, pid string
	values      [4]float64
}

const (
	memory = iota
	descriptors
	goroutines
	live
)

var (
	titles     = []string{"memory in MiB", "file descriptors", "goroutines", "heap in use in MiB"}
	resident   = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)
	goroutinez = regexp.MustCompile(`(?m)^go_goroutines (\S+)$`)
	inUse      = regexp.MustCompile(`(?m)^go_gc_heap_live_bytes (\S+)$`)
)

// sample takes a sample of each process, and waits for the next time.
func (s *soak) sample() {
	for _, server := range s.servers {
		pid := server.Pid()
		status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
		if pid == "" || err != nil {
			continue
		}
		files, _ := os.ReadDir(filepath.Join("/proc", pid, "fd")) // none if the process has just ended
		taken := sample{at: time.Since(s.began), server: server.Name, pid: pid, values: [4]float64{number(resident, string(status)) / 1024, float64(len(files))}}
		if server.Kind == "proviso-apiserver" {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			_, metrics, _ := s.admin(server.URL).send(ctx, http.MethodGet, "/metrics", "", http.NoBody)
			cancel()
			taken.values[goroutines], taken.values[live] = number(goroutinez, metrics), number(inUse, metrics)/(1<<20)
		}
		s.tally.samples = append(s.tally.samples, taken)
	}
	time.Sleep(10 * time.Second)
}

// number returns the number that an expression finds, or 0.
func number(expression *regexp.Regexp, text string) float64 {
	if found := expression.FindStringSubmatch(text); found != nil {
		n, _ := strconv.ParseFloat(found[1], 64)
		return n
	}
	return 0
}

// lives returns the samples of a server with a value, by process.
func (y *tally) lives(server string, value int) map[string][]sample {
	lives := map[string][]sample{}
	for _, m := range y.samples {
		if m.server == server && m.values[value] > 0 {
			lives[m.pid] = append(lives[m.pid], m)
		}
	}
	return lives
}

// slope returns by how much a value grows in an hour, by least squares within the lives of the processes of a server, without the warm-up of each, in
// which caches fill. It returns a dash if no process lived longer.
func (y *tally) slope(server string, value int, warmUp time.Duration) string {
	above, below := 0.0, 0.0
	for _, life := range y.lives(server, value) {
		first, at, mean := life[0].at, 0.0, 0.0
		life = slices.DeleteFunc(life, func(m sample) bool { return m.at < first+warmUp })
		for _, m := range life {
			at, mean = at+m.at.Hours()/float64(len(life)), mean+m.values[value]/float64(len(life))
		}
		for _, m := range life {
			above += (m.at.Hours() - at) * (m.values[value] - mean)
			below += (m.at.Hours() - at) * (m.at.Hours() - at)
		}
	}
	if below == 0 {
		return "–"
	}
	return fmt.Sprintf("%+.1f", above/below)
}

// median returns the median of a value of a server between two times.
func (y *tally) median(server string, value int, from, to time.Duration) float64 {
	values := []float64{0}
	for _, life := range y.lives(server, value) {
		for _, m := range life {
			if m.at >= from && m.at <= to {
				values = append(values, m.values[value])
			}
		}
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// last returns the time of the last sample.
func (y *tally) last() time.Duration { return y.samples[len(y.samples)-1].at }

// wantBounded expects that the goroutines of a replica do not double from the first sixth of the time to the last.
func (s *soak) wantBounded(t *testing.T) {
	t.Helper()
	sixth := s.tally.last() / 6
	for _, r := range s.replicas {
		if first, now := s.tally.median(r.Name, goroutines, 0, sixth), s.tally.median(r.Name, goroutines, 5*sixth, 6*sixth); now > 2*first {
			t.Errorf("%s has %.0f goroutines, and had %.0f at the beginning", r.Name, now, first)
		}
	}
}

// report writes report.md, samples.csv and the plots into _output/soak, or _output/upgrade.
func (s *soak) report(t *testing.T) {
	t.Helper()
	dir, y := filepath.Join(s.Repository, "_output", strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))), s.tally
	mustBeNil(t, os.MkdirAll(dir, 0o755))
	write := func(name, content string) {
		mustBeNil(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	var r strings.Builder
	fmt.Fprintf(&r, "# %s\n\n%s on %d processors: %d kills, %d stalls, %d changes of the generations, %d barriers that became effective.\n", t.Name(), y.last().Round(time.Second),
		runtime.NumCPU(), s.chaos.count("killed"), s.chaos.count("stalled"), s.changer.changes, len(s.seals.allowed))
	if s.disk.missing != nil {
		fmt.Fprintf(&r, "\nNo disk was full: a file system could not be mounted: %v.\n", s.disk.missing)
	}
	table := func(heads ...string) {
		fmt.Fprintf(&r, "\n| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
	}
	table("what must be 0", "times")
	for i, n := range y.failed {
		fmt.Fprintf(&r, "| %s | %d |\n", failures[i], n)
	}
	table("user", "kind", "passed", "refused, could pass or not", "rightly refused", "refused, must pass without faults")
	for _, name := range slices.Sorted(stdmaps.Keys(y.rows)) {
		n := y.rows[name]
		fmt.Fprintf(&r, "| %s | %d | %d | %d | %d |\n", name, n[0], n[1], n[2], n[3])
	}
	table("cause of a refusal", "could pass or not", "rightly refused", "must pass without faults")
	for _, name := range slices.SortedFunc(stdmaps.Keys(y.causes), func(a, b string) int { return cmp.Or(-cmp.Compare(y.causes[a][3], y.causes[b][3]), cmp.Compare(a, b)) }) {
		n := y.causes[name]
		fmt.Fprintf(&r, "| %s | %d | %d | %d |\n", name, n[1], n[2], n[3])
	}
	table("fault", "times", "so long after its end a write was refused that must pass, at most")
	times, longest := map[string]int{}, map[string]time.Duration{}
	for _, f := range s.chaos.faults {
		name := f.server.Kind + " " + f.what
		times[name]++
		longest[name] = max(longest[name], f.refused)
	}
	for _, name := range slices.Sorted(stdmaps.Keys(times)) {
		fmt.Fprintf(&r, "| %s | %d | %s |\n", name, times[name], longest[name].Round(10*time.Millisecond))
	}
	table("user whose writes must pass", "refused for so long at a time, at most, faults included")
	for _, name := range slices.Sorted(stdmaps.Keys(y.outages)) {
		fmt.Fprintf(&r, "| %s | %s |\n", name, y.outages[name].Round(10*time.Millisecond))
	}
	table("after the first sixth; growth: of each process", "MiB", "MiB an hour", "heap in use in MiB", "MiB an hour", "goroutines", "goroutines an hour")
	from := y.last() / 6
	for _, v := range s.replicas {
		fmt.Fprintf(&r, "| %s ", v.Name)
		for _, value := range []int{memory, live, goroutines} {
			fmt.Fprintf(&r, "| %.0f | %s ", y.median(v.Name, value, from, y.last()), y.slope(v.Name, value, from))
		}
		fmt.Fprintln(&r, "|")
	}
	csv := "seconds,server,pid,mib,file_descriptors,goroutines,heap_mib\n"
	for _, m := range y.samples {
		csv += fmt.Sprintf("%.0f,%s,%s,%.1f,%.0f,%.0f,%.1f\n", m.at.Seconds(), m.server, m.pid, m.values[memory], m.values[descriptors], m.values[goroutines], m.values[live])
	}
	write("samples.csv", csv)
	for value, title := range titles {
		name := strings.Fields(title)[0] + ".svg"
		write(name, s.plot(title, value))
		fmt.Fprintf(&r, "\n![%s](%s)\n", title, name)
	}
	write("report.md", r.String())
	t.Log(r.String())
}

var colours = []string{"#1b6ca8", "#c1440e", "#3a7d44", "#8e44ad", "#b8860b", "#444444", "#d81b60", "#00838f"}

// plot draws a value of each server as lines, with a gap where its process ended.
func (s *soak) plot(title string, value int) string {
	const width, left, top, bottom, right = 920.0, 60.0, 30.0, 280.0, 720.0
	most := 1.0
	for _, m := range s.tally.samples {
		most = max(most, m.values[value])
	}
	x := func(at time.Duration) float64 { return left + (right-left)*float64(at)/float64(s.tally.last()) }
	y := func(v float64) float64 { return bottom - (bottom-top)*v/most }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f 320" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="white"/><text x="%.0f" y="18">%s</text>`, width, left, title)
	for i := range 5 {
		v, at := most*float64(i)/4, s.tally.last()*time.Duration(i)/4
		fmt.Fprintf(&b, `<path d="M%.0f %.1fH%.0f" stroke="#ddd"/><text x="5" y="%.1f">%.0f</text><text x="%.1f" y="300" text-anchor="middle">%s</text>`, left, y(v), right, y(v)+4, v, x(at), at.Round(time.Second))
	}
	for i, server := range s.servers {
		lives := s.tally.lives(server.Name, value)
		for _, life := range lives {
			fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, colours[i])
			for _, m := range life {
				fmt.Fprintf(&b, "%.1f,%.1f ", x(m.at), y(m.values[value]))
			}
			b.WriteString(`"/>`)
		}
		if len(lives) > 0 {
			fmt.Fprintf(&b, `<text x="%.0f" y="%d" fill="%s">%s</text>`, right+10, 40+18*i, colours[i], server.Name)
		}
	}
	return b.String() + "</svg>\n"
}
