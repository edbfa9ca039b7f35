#!/usr/bin/env bash
# Runs parts of what make test-all has beside make test, for at most so many seconds. The commit chooses their order. A part starts only if its time
# in hack/test-all.txt fits into what is left; the others are listed.
#
# Usage: hack/test-sample.sh SECONDS
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
limit=$1
commit=$(git rev-parse HEAD)
export SEED=$((16#${commit:0:8})) # of the sample of mutants

# order prints the seconds and names of the parts, in the order of a hash of the commit and their names.
order() {
  grep -v '^#' hack/test-all.txt | while read -r seconds target; do
    echo "$(echo "${commit} ${target}" | sha256sum | cut -c 1-16) ${seconds} ${target}"
  done | sort | cut -d ' ' -f 2-
}

chosen=()
left_out=()
while read -r seconds target; do
  if ((seconds <= limit)); then
    chosen+=("${target}")
    limit=$((limit - seconds))
  else
    left_out+=("${target} (${seconds} s)")
  fi
done < <(order)
echo "left out:$(printf ' %s' "${left_out[@]:-nothing}")"
((${#chosen[@]} == 0)) || hack/steps.sh "${chosen[@]}"
