#!/usr/bin/env bash
# Runs parts of make test-all: in the order that a SEED gives, those whose time in hack/test-all.txt fits into the SECONDS that are left.
# Prints what it leaves out. If the parts together take a tenth longer than SECONDS, the running one is stopped and the others are left out, which
# is no failure.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
seed=$1
left=$2
deadline=$((left + left / 10))
parts=()
while read -r _ seconds part; do
  if ((seconds > left)); then
    echo "left out: ${part}, which takes ${seconds} s, of $((left > 0 ? left : 0)) s that are left"
    continue
  fi
  parts+=("${part}")
  left=$((left - seconds))
done < <(grep -v '^#' hack/test-all.txt | while read -r seconds part; do echo "$(sha256sum <<<"${seed} ${part}") ${seconds} ${part}"; done | sed 's/ *- / /' | sort)
export SEED=$((16#$(sha256sum <<<"${seed}" | cut -c1-8)))
failed=()
# timeout puts itself and the part into another process group, which Ctrl-C does not reach.
trap 'kill $!; exit 130' INT TERM
for part in "${parts[@]}"; do
  if ((SECONDS >= deadline)); then
    echo "left out: ${part}, because the parts before it took longer than usual"
    continue
  fi
  result=0
  timeout --kill-after=30 "$((deadline - SECONDS))" hack/steps.sh "${part}" &
  wait $! || result=$?
  case ${result} in
  0) ;;
  124 | 137) echo "stopped: ${part}, after ${SECONDS} s of all parts" ;;
  *) failed+=("${part}") ;;
  esac
done
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
