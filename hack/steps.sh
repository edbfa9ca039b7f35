#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, prints how long each took, and fails if one has failed. Targets that are joined by + run two at
# a time.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=()
summary=()
for target in "$@"; do
  echo "=== ${target} ($(date +%H:%M:%S))"
  started=${SECONDS}
  result=passed
  "${MAKE:-make}" --no-print-directory --keep-going --jobs=2 ${target//+/ } || { result=FAILED; failed+=("${target}"); }
  summary+=("$(printf '%5d s  %-7s %s' "$((SECONDS - started))" "${result}" "${target}")")
done
printf '%s\n' "=== times" "${summary[@]}" "$(printf '%5d s  in all' "${SECONDS}")"
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
