/*
Copyright The Proviso Authors.
SPDX-License-Identifier: Apache-2.0
*/

package places

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/proviso-authz/proviso/test/testutil/cases"
)

// Adapter answers a case by the code of one commit.
type Adapter func(*testing.T, *Case) Answers

const (
	// defaultSeed and defaultCases are of the digests.
	defaultSeed, defaultCases = 1, 5000
	// chunk is the number of cases of one digest.
	chunk = 20
)

// digests has the digest of the answers in each chunk of cases, one a line.
//
//go:embed testdata/digests.txt
var digests string

// Line is a case with its codes, as it is written to a file.
type Line struct {
	Case  *Case
	Codes *Codes
}

// Run asks the adapter about cases, and compares digests of the answers with those that are recorded. It tries as many as fit into some seconds;
// with PROVISO_CASES=all, it tries all of them, and each class must occur in enough of them. UPDATE_GOLDEN records the digests, then.
//
// With PLACES_OUT in the environment, Run writes cases with their codes to this file instead, one a line: PLACES_CASES of them, from PLACES_FROM on, of
// the seed PLACES_SEED.
func Run(t *testing.T, answer Adapter) {
	t.Helper()
	certificates()
	answerOf := func(seed uint64, number int) *Line {
		c := Generate(seed, number)
		a := answer(t, c)
		return &Line{c, CodesOf(c, &a)}
	}
	if out := os.Getenv("PLACES_OUT"); out != "" {
		write(t, out, answerOf)
		return
	}
	compare(t, answerOf)
}

// numberOf returns a number in the environment, or another one.
func numberOf(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func write(t *testing.T, out string, answerOf func(uint64, int) *Line) {
	t.Helper()
	file, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	buffer := bufio.NewWriter(file)
	seed, from := uint64(numberOf(t, "PLACES_SEED", defaultSeed)), numberOf(t, "PLACES_FROM", 0) //nolint:gosec // any number is a seed
	for number := from; number < from+numberOf(t, "PLACES_CASES", defaultCases); number++ {
		content, err := json.Marshal(answerOf(seed, number))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = buffer.Write(append(content, '\n')) // Flush returns the error
	}
	if err := buffer.Flush(); err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, answerOf func(uint64, int) *Line) {
	t.Helper()
	recorded := strings.Fields(digests)
	var found []string
	counts := Counts{}
	hash := sha256.New()
	tried := cases.Of(defaultCases)
	for tried.Next() {
		line := answerOf(defaultSeed, tried.Number())
		counts.Add(line.Codes)
		content, err := json.Marshal(line.Codes)
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(content)
		if tried.Tried()%chunk != 0 {
			continue
		}
		found = append(found, hex.EncodeToString(hash.Sum(nil)[:8]))
		hash.Reset()
		if at := len(found) - 1; os.Getenv("UPDATE_GOLDEN") == "" && (at >= len(recorded) || found[at] != recorded[at]) {
			t.Errorf("the answers in the cases from %d to %d differ from what is recorded: hack/oracle-places.sh shows how they differ from another commit's", at*chunk, tried.Number())
		}
	}
	for _, text := range counts.Unclassified() {
		t.Errorf("no phrase of the table is in the text %q", text)
	}
	if tried.Tried() < defaultCases {
		return
	}
	t.Log(counts)
	for _, problem := range counts.Problems(enough) {
		t.Error(problem)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		path := filepath.Join("..", "..", "test", "places", "testdata", "digests.txt")
		if err := os.WriteFile(path, []byte(strings.Join(found, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// enough is the least number of cases, of all, in which each class must occur.
const enough = 50
