/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package monitoring_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/proviso-authz/proviso/test/testutil/monitoring"
)

const panels = `[
  {"type": "row", "title": "Doors", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}},
  {"type": "stat", "title": "Stale", "gridPos": {"x": 0, "y": 1, "w": 4, "h": 4}, "fieldConfig": {"defaults": {"unit": %q}}, "targets": [{"expr": "one"}]},
  {"type": "timeseries", "title": "Reviews", "gridPos": {"x": 4, "y": 1, "w": 8, "h": 7}, "fieldConfig": {"defaults": {"unit": "reqps"}}, "targets": [{"expr": "many", "legendFormat": "{{namespace}}/{{name}}"}]}]`

// draw draws the panels, with an answer of Prometheus for each expression.
func draw(t *testing.T, unit string, answers map[string]string) (string, error) {
	t.Helper()
	var all []monitoring.Panel
	if err := json.Unmarshal(fmt.Appendf(nil, panels, unit), &all); err != nil {
		t.Fatal(err)
	}
	p := monitoring.Picture{Start: time.Unix(100, 0), End: time.Unix(160, 0), Step: 2 * time.Second, Query: func(expr string) ([]monitoring.Series, error) {
		return monitoring.ReadSeries([]byte(`{"result": [` + answers[expr] + `]}`))
	}}
	svg, err := p.Draw(all)
	return string(svg), err
}

// TestPicture draws a line with a gap, one with an escaped name, and more than the legend has room for.
func TestPicture(t *testing.T) {
	t.Parallel()
	many := []string{
		`{"metric": {"name": "a<b"}, "values": [[100, "0"], [102, "4"], [104, "NaN"], [106, "+Inf"], [110, "2"]]}`,
		`{"metric": {"namespace": "n", "name": "c"}, "values": [[160, "1"]]}`,
	}
	for i := range 20 {
		many = append(many, fmt.Sprintf(`{"metric": {"namespace": "long-name", "name": "%02d"}, "values": []}`, i))
	}
	one := `{"metric": {}, "values": [[100, "7"], [160, "1"]]}`
	svg, err := draw(t, "bool", map[string]string{"one": one, "many": strings.Join(many, ",")})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		">Doors<": 1, ">Stale<": 1, ">yes<": 1, ">Reviews<": 1, ">a&lt;b<": 1, ">4/s<": 1, ">0/s<": 1, ">1m0s<": 1,
		`<polyline class="c0"`: 2, `<polyline class="c`: 3, ">long-name/00<": 1, ">long-name/19<": 0, ">+ 15 more<": 1,
	} {
		if got := strings.Count(svg, text); got != want {
			t.Errorf("%s: found %d times, want %d: %s", text, got, want, svg)
		}
	}
	for _, tc := range []struct{ unit, value, want string }{
		{"s", "172800", ">2 d<"}, {"s", "90", ">1.5 min<"}, {"s", "5", ">5 s<"}, {"s", "0.0205", ">20.5 ms<"}, {"bytes", "1572864", ">1.5 MiB<"}, {"bool", "0", ">no<"}, {"short", "12", ">12<"},
	} {
		svg, err := draw(t, tc.unit, map[string]string{"one": strings.Replace(one, `"1"`, fmt.Sprintf("%q", tc.value), 1), "many": many[0]})
		if err != nil || !strings.Contains(svg, tc.want) {
			t.Errorf("%s %s: got %v, %s", tc.value, tc.unit, err, svg)
		}
	}
	for name, answers := range map[string]map[string]string{
		"no series": {"one": one}, "no number": {"one": `{"values": [[100, "NaN"]]}`, "many": many[0]}, "no value": {"one": `{"values": [[100, "x"]]}`, "many": many[0]},
	} {
		if svg, err := draw(t, "s", answers); err == nil {
			t.Errorf("%s: got %s", name, svg)
		}
	}
}
