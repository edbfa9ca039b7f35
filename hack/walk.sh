# What walks with kubectl have in common: they print commands, run them, and print their output.
# shellcheck shell=bash
newline='{"\n"}' # in a JSONPath
if [[ -t 1 ]]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
output=$(mktemp)
trap 'rm -f "${output}"' EXIT

title() { printf '\n%s%s%s\n' "${bold}" "$*" "${plain}"; }
say() { printf '%s# %s%s\n' "${dim}" "$*" "${plain}"; }
show() { sed 's/^/  /' "${output}"; }
# run prints a command, then runs it in this shell, so that later commands see its variables.
run() {
  printf '$ %s\n' "$1"
  eval "$1" >"${output}" 2>&1 || { show; echo "this should have succeeded" >&2; exit 1; }
  show
}
# fails runs a command that must be refused.
fails() {
  printf '$ %s\n' "$1"
  if eval "$1" >"${output}" 2>&1; then show; echo "this should have been refused" >&2; exit 1; fi
  show
}
