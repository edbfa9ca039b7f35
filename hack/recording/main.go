/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command recording reads the output of hack/demo.sh, and writes an animated picture of the part that shows the main job. The picture is
// the same for each run of the demo: its times follow from the lengths of the lines, and generated names are replaced.
package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

func main() {
	output, err := io.ReadAll(os.Stdin)
	if err == nil {
		var lines []string
		if lines, err = shown(string(output)); err == nil {
			_, err = os.Stdout.Write(picture(lines))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// The picture shows the steps of the demo from the first title up to the second one.
const firstStep, stepAfter = "\n2. ", "\n\n4. "

// generatedName is a name to which kube-apiserver has added five random characters.
var generatedName = regexp.MustCompile(`(persistentvolumeclaim/[a-z]+-)[a-z0-9]{5}\b`)

// shown returns the lines of the demo's output that the picture shows. It leaves out the warnings, because the demo prints them only for some
// seconds after the start of a cluster.
func shown(output string) ([]string, error) {
	_, steps, found := strings.Cut(output, firstStep)
	steps, _, complete := strings.Cut(firstStep[1:]+steps, stepAfter)
	if !found || !complete {
		return nil, errors.New("the input is not the output of hack/demo.sh")
	}
	lines := strings.Split(generatedName.ReplaceAllString(steps, "${1}x7b2p"), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  Warning: ") }), nil
}

// The measures of the picture: characters, rows and pixels.
const (
	columns, screenRows         = 96, 21
	characterWidth, rowHeight   = 8.4, 20
	margin, bar                 = 18, 34
	screenWidth, screenHeight   = columns*characterWidth + 4, screenRows*rowHeight + 2
	pictureWidth, pictureHeight = screenWidth + 2*margin, bar + screenHeight + margin
)

// The seconds for which a line is the last one, in all and for each of its characters, and those for which the complete picture stays.
const (
	lineSeconds, characterSeconds, endSeconds = 0.16, 0.0075, 5.0
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]d" width="%[1]g" height="%[2]d" role="img" aria-labelledby="title desc" xml:space="preserve">
<title id="title">The main job in make demo</title>
<desc id="desc">alice may create no claims. A policy allows claims of class dev: then alice creates one, a claim of class gold is refused with the policy and the failed part, and a review shows the condition.</desc>
<style>
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace; fill: #d1d7e0; white-space: pre }
  .title text { fill: #ffffff; font-weight: 700 } .command text { fill: #79c0ff } .comment text { fill: #9198a1 } .refused text { fill: #ff9492 } .created text { fill: #7ee787 }
  @media (prefers-reduced-motion: no-preference) {
`

const body = `  }
</style>
<rect x="0.5" y="0.5" width="%g" height="%d" rx="8" fill="#0d1117" stroke="#656c76"/>
<g class="comment"><text x="%d" y="22">make demo</text></g>
<svg x="%d" y="%d" width="%g" height="%d">
<g id="screen" transform="translate(0 -%d)">
`

// picture draws a terminal in which the lines appear one after the other, again and again. Without animation it has all lines, scrolled to
// the end.
func picture(lines []string) []byte {
	var style, screen bytes.Buffer
	seconds := endSeconds
	for _, line := range lines {
		seconds += timeOf(line)
	}
	fmt.Fprintf(&style, head, pictureWidth, pictureHeight)
	var rowsBefore, scrolled int
	var scroll strings.Builder
	at := 0.0 // of the time of the animation, in percent
	for i, line := range lines {
		fmt.Fprintf(&screen, "<g id=%q class=%q>", fmt.Sprint("line", i), class(line))
		for _, row := range rows(line) {
			rowsBefore++
			x, length := 0.0, utf8.RuneCountInString(row.text)
			if row.continued {
				x = 2 * characterWidth
			}
			if length > 0 {
				fmt.Fprintf(&screen, `<text x="%.4g" y="%d" textLength="%.4g">`, x, rowsBefore*rowHeight-5, float64(length)*characterWidth)
				_ = xml.EscapeText(&screen, []byte(row.text)) // a buffer has no errors
				screen.WriteString("</text>")
			}
		}
		screen.WriteString("</g>\n")
		if i > 0 {
			fmt.Fprintf(&style, "    @keyframes line%[1]d { 0%% { opacity: 0 } %.2[2]f%% { opacity: 1 } } #line%[1]d { animation: line%[1]d %.1[3]fs step-end infinite }\n", i, at, seconds)
		}
		if hidden := rowsBefore - screenRows; hidden > 0 {
			scrolled = hidden * rowHeight
			fmt.Fprintf(&scroll, " %.2f%% { transform: translateY(-%dpx) }", at, scrolled)
		}
		at += timeOf(line) / seconds * 100
	}
	fmt.Fprintf(&style, "    @keyframes scroll { 0%% { transform: none }%s } #screen { animation: scroll %.1fs step-end infinite }\n", scroll.String(), seconds)
	fmt.Fprintf(&style, body, pictureWidth-1, pictureHeight-1, margin, margin, bar, screenWidth, screenHeight, scrolled)
	return append(append(style.Bytes(), screen.Bytes()...), "</g>\n</svg>\n</svg>\n"...)
}

func timeOf(line string) float64 {
	return lineSeconds + characterSeconds*float64(utf8.RuneCountInString(line))
}

func class(line string) string {
	switch {
	case strings.HasPrefix(line, "$ "):
		return "command"
	case strings.HasPrefix(line, "# "):
		return "comment"
	case strings.HasPrefix(line, "  Error"):
		return "refused"
	case strings.HasSuffix(line, " created"):
		return "created"
	case line != "" && !strings.HasPrefix(line, " "):
		return "title"
	}
	return "output"
}

type row struct {
	text      string
	continued bool
}

// rows breaks a line after blanks. Joined, the rows are the line.
func rows(line string) []row {
	result := []row{{}}
	for word := range strings.SplitAfterSeq(line, " ") {
		last := &result[len(result)-1]
		if utf8.RuneCountInString(last.text+strings.TrimRight(word, " ")) > columns-2 {
			result = append(result, row{continued: true})
			last = &result[len(result)-1]
		}
		last.text += word
	}
	return result
}
