#!/usr/bin/env bash
# Compares this commit with another one: who evaluates conditions, in cases of the generator of test/places. Prints each case that differs.
#
#   hack/oracle-places.sh REVISION [SEED [CASES]]
#
# The other commit gets the generator of this one, and its own adapter; if it has none, the adapter of this one.
set -o errexit -o nounset -o pipefail

if [[ $# -lt 1 ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
revision=$1 seed=${2:-1} cases=${3:-5000}
root=$(cd "$(dirname "$0")/.." && pwd)
adapter=pkg/apiserver/places_oracle_internal_test.go
output=${root}/_output/places
tree=${output}/tree
mkdir -p "${output}"
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath"

git -C "${root}" worktree prune
rm -rf "${tree}"
git -C "${root}" worktree add --quiet --detach "${tree}" "${revision}"
trap 'git -C "${root}" worktree remove --force "${tree}"' EXIT
rm -rf "${tree}/test/places" "${tree}/test/testutil/cases"
mkdir -p "${tree}/test/places" "${tree}/test/testutil/cases"
cp -R "${root}/test/places/." "${tree}/test/places"
cp -R "${root}/test/testutil/cases/." "${tree}/test/testutil/cases"
[[ -e ${tree}/${adapter} ]] || cp "${root}/${adapter}" "${tree}/${adapter}"

# Each commit is asked by two processes, about half of the cases each. A process asks about one case at a time.
answer() { # answer TREE NAME
  local half=$(((cases + 1) / 2))
  (cd "$1" && go test -c -vet=off -o "${output}/$2.test" ./pkg/apiserver)
  local pids=()
  for part in 0 1; do
    (cd "$1/pkg/apiserver" && PLACES_OUT=${output}/$2-${part}.jsonl PLACES_SEED=${seed} PLACES_FROM=$((part * half)) \
      PLACES_CASES=$((part == 0 ? half : cases - half)) "${output}/$2.test" -test.timeout 60m -test.run '^TestPlaces$' >"${output}/$2-${part}.log" 2>&1) &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "${pid}" || { grep -A 8 -e '^--- FAIL' -e '^panic' "${output}/$2"-*.log >&2; exit 1; }
  done
  cat "${output}/$2-0.jsonl" "${output}/$2-1.jsonl" >"${output}/$2.jsonl"
}
answer "${tree}" before
answer "${root}" after
cd "${root}"
go run ./test/places/compare "${output}/before.jsonl" "${output}/after.jsonl"
