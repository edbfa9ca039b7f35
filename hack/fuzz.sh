#!/usr/bin/env bash
# Fuzzes every target for the given time. A failing input is written to testdata/fuzz of its
# package. Commit it.
set -o errexit -o nounset -o pipefail

time=${1:?usage: fuzz.sh TIME}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
grep -rl --include '*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r package; do
  grep -hoE '^func Fuzz[A-Za-z0-9_]+' "${package}"/*_test.go | awk '{print $2}' | while read -r target; do
    # By default a new input is minimized for a minute, which leaves no time for others if inputs are long.
    echo "${package} ${target} for ${time}"
    go test -run '^$' -fuzz "^${target}\$" -fuzztime "${time}" -fuzzminimizetime 10x "${package}"
  done
done
