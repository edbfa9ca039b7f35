#!/usr/bin/env bash
# Compares the evaluation of a condition in process with the evaluation of the same expression in a
# ValidatingAdmissionPolicy. The runs of both alternate, so that other load on the machine affects
# both. The results are written to _output/bench.
set -o errexit -o nounset -o pipefail

runs=${1:-20}
benchtime=${2:-100ms}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
mkdir -p _output/bench
(cd hack/tools && go build -o "${root}/_output/tools/benchstat" golang.org/x/perf/cmd/benchstat)
go test -c -o _output/bench/bench.test ./test/bench
: > _output/bench/conditions.txt
for ((i = 1; i <= runs; i++)); do
  echo "run ${i} of ${runs} …" >&2
  _output/bench/bench.test -test.run '^$' -test.bench 'BenchmarkCondition/' -test.benchtime "${benchtime}" -test.benchmem -test.cpu 1 >> _output/bench/conditions.txt
done
_output/tools/benchstat -col /by@"(admission-policy policy)" _output/bench/conditions.txt
