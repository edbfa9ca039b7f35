/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package monitoring

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Panel is a panel of the dashboard.
type Panel struct {
	Type, Title string
	// GridPos is in cells of a grid with 24 columns.
	GridPos     struct{ X, Y, W, H float64 }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ Expr, LegendFormat string }
}

// Series is a time series.
type Series struct {
	Labels map[string]string
	Points []Point

	name string // in the legend
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// ReadSeries reads the numbers in the answer to a range query.
func ReadSeries(answer []byte) (all []Series, err error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any // a time in seconds, and a number in a text
		}
	}
	if err := json.Unmarshal(answer, &data); err != nil {
		return nil, err
	}
	for _, result := range data.Result {
		series := Series{Labels: result.Metric}
		for _, pair := range result.Values {
			value, err := strconv.ParseFloat(fmt.Sprint(pair[1]), 64)
			seconds, ok := pair[0].(float64)
			if err != nil || !ok {
				return nil, fmt.Errorf("%v is no value at a time: %w", pair, err)
			}
			if !math.IsNaN(value) && !math.IsInf(value, 0) {
				series.Points = append(series.Points, Point{time.UnixMilli(int64(seconds * 1000)), value})
			}
		}
		all = append(all, series)
	}
	return all, nil
}

// Picture draws a dashboard: of a stat the last number, and of a time series its lines between two times. Query returns the series of an expression in this time.
type Picture struct {
	Start, End time.Time
	Step       time.Duration
	Query      func(expr string) ([]Series, error)

	svg bytes.Buffer
}

// The measures of the picture, in pixels.
const (
	cellWidth, cellHeight, padding, axisWidth = 50.0, 24.0, 6.0, 56.0
	titleHeight, rowText, characterWidth      = 18.0, 14.0, 6.1
	legendRows, colors                        = 2, 8
)

const pictureHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g" role="img" aria-labelledby="title desc">
<title id="title">The dashboard</title>
<desc id="desc">The panels of artifacts/monitoring/dashboard.json, with the data of a run of make dashboard, which breaks one component after the other.</desc>
<style>
  svg { background: #ffffff } text { font: 11px system-ui, sans-serif; fill: #59636e }
  .row { font-size: 14px; font-weight: 600; fill: #1f2328 } .title { font-size: 11.5px; font-weight: 600; fill: #1f2328 } .stat { font-size: 28px; fill: #0969da } .end { text-anchor: end }
  .panel { fill: #f6f8fa; stroke: #d1d9e0 } .axis { stroke: #d1d9e0 } polyline { fill: none; stroke: currentColor; stroke-width: 1.5; stroke-linecap: round } circle { fill: currentColor }
  .c0 { color: #0969da } .c1 { color: #cf222e } .c2 { color: #1a7f37 } .c3 { color: #9a6700 } .c4 { color: #8250df } .c5 { color: #bc4c00 } .c6 { color: #1b7c83 } .c7 { color: #bf3989 }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117 } text { fill: #9198a1 } .row, .title { fill: #f0f6fc } .stat { fill: #4493f8 } .panel { fill: #151b23; stroke: #3d444d } .axis { stroke: #3d444d }
    .c0 { color: #4493f8 } .c1 { color: #f85149 } .c2 { color: #3fb950 } .c3 { color: #d29922 } .c4 { color: #ab7df8 } .c5 { color: #db6d28 } .c6 { color: #39c5cf } .c7 { color: #db61a2 }
  }
</style>
`

// Draw returns the picture as SVG.
func (p *Picture) Draw(panels []Panel) ([]byte, error) {
	height := 0.0
	for i := range panels {
		height = max(height, (panels[i].GridPos.Y+panels[i].GridPos.H)*cellHeight)
	}
	fmt.Fprintf(&p.svg, pictureHead, 24*cellWidth, height+padding)
	for i := range panels {
		if err := p.panel(&panels[i]); err != nil {
			return nil, fmt.Errorf("panel %q: %w", panels[i].Title, err)
		}
	}
	p.svg.WriteString("</svg>\n")
	return p.svg.Bytes(), nil
}

func (p *Picture) text(class string, x, y float64, text string) {
	fmt.Fprintf(&p.svg, `<text class=%q x="%.4g" y="%.4g">`, class, x, y)
	_ = xml.EscapeText(&p.svg, []byte(text)) // a buffer has no errors
	p.svg.WriteString("</text>\n")
}

func (p *Picture) panel(panel *Panel) error {
	at := panel.GridPos
	fmt.Fprintf(&p.svg, "<g transform=\"translate(%g %g)\">\n", at.X*cellWidth, at.Y*cellHeight)
	defer p.svg.WriteString("</g>\n")
	if panel.Type == "row" {
		p.text("row", padding, cellHeight-padding, panel.Title)
		return nil
	}
	width, height := at.W*cellWidth-padding, at.H*cellHeight-padding
	fmt.Fprintf(&p.svg, "<rect class=\"panel\" x=\"%g\" y=\"%[1]g\" width=\"%g\" height=\"%g\" rx=\"4\"/>\n", padding/2, width, height)
	p.text("title", 2*padding, titleHeight+padding/2, panel.Title)
	var all []Series
	for _, target := range panel.Targets {
		found, err := p.Query(target.Expr)
		if err != nil {
			return err
		}
		for _, series := range found {
			series.name = nameOf(target.LegendFormat, series.Labels)
			all = append(all, series)
		}
	}
	slices.SortFunc(all, func(a, b Series) int { return cmp.Compare(a.name, b.name) })
	switch {
	case len(all) == 0 || panel.Type == "stat" && len(all[0].Points) == 0:
		return errors.New("no data")
	case panel.Type == "stat":
		last := all[0].Points[len(all[0].Points)-1]
		p.text("stat", 2*padding, height-2*padding, formatted(last.Value, panel.FieldConfig.Defaults.Unit))
	default:
		p.chart(all, panel.FieldConfig.Defaults.Unit, width, height)
	}
	return nil
}

var placeholder = regexp.MustCompile(`{{(\w+)}}`)

// nameOf returns the name of a series in the format of Grafana.
func nameOf(format string, labels map[string]string) string {
	return strings.TrimPrefix(placeholder.ReplaceAllStringFunc(format, func(text string) string { return labels[strings.Trim(text, "{}")] }), "/")
}

// chart draws the lines, with their least and greatest value, the time, and the legend.
func (p *Picture) chart(all []Series, unit string, width, height float64) {
	left, right, top, bottom := axisWidth, width-padding, titleHeight+3*padding, height-titleHeight-legendRows*rowText
	least, greatest := 0.0, 0.0
	for _, series := range all {
		for _, point := range series.Points {
			least, greatest = min(least, point.Value), max(greatest, point.Value)
		}
	}
	if least == greatest {
		greatest = least + 1
	}
	p.text("", 2*padding, top+padding, formatted(greatest, unit))
	p.text("", 2*padding, bottom, formatted(least, unit))
	p.text("", left, bottom+rowText, "0 s")
	p.text("end", right, bottom+rowText, p.End.Sub(p.Start).Round(time.Second).String())
	fmt.Fprintf(&p.svg, "<path class=\"axis\" d=\"M%.4g %.4gH%.4g M%.4[1]g %.4[4]gH%.4[3]g\"/>\n", left, top, right, bottom)
	for i, series := range all {
		for _, part := range p.parts(series.Points) {
			fmt.Fprintf(&p.svg, `<polyline class="c%d" points="`, i%colors)
			for _, point := range part {
				x := left + (right-left)*float64(point.At.Sub(p.Start))/float64(p.End.Sub(p.Start))
				fmt.Fprintf(&p.svg, "%.4g,%.4g ", x, bottom-(bottom-top)*(point.Value-least)/(greatest-least))
			}
			p.svg.WriteString("\"/>\n")
		}
	}
	p.legend(all, 2*padding, bottom+2*rowText, right)
}

// parts returns the parts of a line between its gaps. They begin with the same point twice, so that a point alone is drawn, too.
func (p *Picture) parts(points []Point) (parts [][]Point) {
	var last Point
	for _, point := range points {
		if len(parts) == 0 || point.At.Sub(last.At) > p.Step*3/2 {
			parts = append(parts, []Point{point})
		}
		parts[len(parts)-1], last = append(parts[len(parts)-1], point), point
	}
	return parts
}

// legend names as many series as have room.
func (p *Picture) legend(all []Series, left, y, right float64) {
	x, row := left, 1
	for i, series := range all {
		more, needed, reserved := fmt.Sprintf("+ %d more", len(all)-i), 3*padding+float64(len(series.name))*characterWidth, 0.0
		if row == legendRows && i < len(all)-1 {
			reserved = float64(len(more)) * characterWidth
		}
		if x > left && x+needed+reserved > right {
			if row == legendRows {
				p.text("", x, y, more)
				return
			}
			x, row, y = left, row+1, y+rowText
		}
		fmt.Fprintf(&p.svg, "<circle class=\"c%d\" cx=\"%.4g\" cy=\"%.4g\" r=\"3\"/>\n", i%colors, x+3, y-4)
		p.text("", x+1.5*padding, y, series.name)
		x += needed
	}
}

// formatted returns a value with its unit, as Grafana does.
func formatted(value float64, unit string) string {
	if unit == "bool" {
		return map[bool]string{true: "yes", false: "no"}[value != 0]
	}
	for _, as := range []struct {
		unit     string
		from, of float64 // the least value, and the size, of what is counted
		format   string
	}{
		{"s", 172800, 86400, "%.3g d"}, {"s", 60, 60, "%.3g min"}, {"s", 1, 1, "%.3g s"}, {"s", 0, 0.001, "%.3g ms"},
		{"bytes", 0, 1 << 20, "%.3g MiB"}, {"reqps", 0, 1, "%.3g/s"},
	} {
		if as.unit == unit && value >= as.from {
			return fmt.Sprintf(as.format, value/as.of)
		}
	}
	return fmt.Sprintf("%.3g", value)
}
