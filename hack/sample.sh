#!/usr/bin/env bash
# Runs parts of make test-all in an order that depends on the commit, as far as their recorded times fit into the seconds that are left.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
left=$1
seed=$(git rev-parse HEAD)
echo "parts of make test-all in the order of the seed ${seed}, in ${left} s"
failed=()
while read -r seconds target; do
  # A part that takes longer than it did once must not end with the machine.
  if ((SECONDS + seconds * 5 / 4 > left)); then
    echo "left out: ${target}, which takes ${seconds} s of the $((left - SECONDS)) s that are left"
    continue
  fi
  hack/steps.sh "${target}" || failed+=("${target}")
done < <(awk '!/^#/' hack/test-all.txt | while read -r line; do printf '%s %s\n' "$(sha1sum <<<"${seed} ${line#* }" | cut -c-40)" "${line}"; done | sort | cut -d ' ' -f 2-)
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
