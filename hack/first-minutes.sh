#!/usr/bin/env bash
# Does what a newcomer does: make demo, which must print what the recording in README.md shows; paste each command that it
# printed; paste the blocks of every document, in order; make demo again; and make demo MODE=managed, with the commands
# that it printed. It fails at the first command that does not do what the text promises.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "${root}"
work=$(mktemp -d)
trap 'rm -rf "${work}"' EXIT
# Users have no kubeconfig and no kubectl of ours before the first export line.
unset KUBECONFIG

# demo runs make demo with some variables.
demo() {
  echo "make demo $* …"
  make demo "$@" >"${work}/demo" 2>&1 || { tail -n 40 "${work}/demo"; exit 1; }
}

# check_recording compares the recording with what the last demo printed.
check_recording() {
  echo "the recording …"
  go run ./hack/recording <"${work}/demo" >"${work}/recording"
  diff docs/pictures/demo.svg "${work}/recording" || { echo "docs/pictures/demo.svg does not show what make demo prints: run make recording" >&2; exit 1; }
}

# paste_commands pastes each command that the last demo printed. As many as a script has lines with fails must be refused.
paste_commands() { # script
  local line want
  echo "each command that it printed …"
  grep '^\$ ' "${work}/demo" | sed 's/^\$ //' >"${work}/printed"
  : >"${work}/refused"
  while IFS= read -r line; do
    printf '%s\n' "${line}"
    printf '[[ $? == 0 ]] || printf "%%s\\n" %q >>%q\n' "${line}" "${work}/refused"
  done <"${work}/printed" >"${work}/pasted.sh"
  bash "${work}/pasted.sh" >"${work}/log" 2>&1 </dev/null || true
  want=$(grep -c '^fails ' "$1")
  if (($(wc -l <"${work}/refused") != want)); then
    echo "of the commands that make demo printed, ${want} should be refused, but these are:" >&2
    cat "${work}/refused" "${work}/log" >&2
    exit 1
  fi
}

# paste_documents pastes the blocks of each document. The blocks of a document run in one shell, as a reader pastes them.
# The export line of documents that have none is in README.md.
start=$(grep -m 1 '^export KUBECONFIG=' README.md)
paste_documents() {
  local document
  for document in README.md docs/*.md; do
    awk '/^```/ {inside = $0 == "```sh"; next} inside' "${document}" >"${work}/blocks"
    [[ -s ${work}/blocks ]] || continue
    echo "the blocks of ${document} …"
    # A command after "! " must be refused, and bash alone would go on if it is not.
    sed -E -i "s/^! (.*)$/if \\1; then echo 'this must be refused'; exit 1; fi/" "${work}/blocks"
    { [[ ${document} == README.md ]] || echo "${start}"; cat "${work}/blocks"; } >"${work}/blocks.sh"
    bash -o errexit -o nounset -o pipefail "${work}/blocks.sh" >"${work}/log" 2>&1 </dev/null || { cat "${work}/log"; exit 1; }
  done
}

demo
check_recording
paste_commands hack/demo.sh
paste_documents

demo
check_recording

# The oldest kube-apiserver takes minutes to build, so that only machines that have it run it.
KUBERNETES=newest
[[ -x _output/bin/kube-apiserver-oldest ]] && KUBERNETES=oldest
demo MODE=managed KUBERNETES="${KUBERNETES}"
paste_commands hack/demo-managed.sh
