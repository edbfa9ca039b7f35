#!/usr/bin/env bash
# test.sh DIRECTORY
#
# Runs the test of the node with the release in a directory, and ends the node also if the test is interrupted.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

[[ ! -e ${dir} ]] || { echo "${dir} exists: run make down before" >&2; exit 1; }
export PROVISO_RELEASE=$1
test=${bin}/node.test
(cd "${root}" && go test -c -vet=off -o "${test}" ./test/node)
cd "${root}/test/node"
# end ends the test and the commands that it runs, which may be starting the node, and then the node.
end() {
  [[ -z ${process:-} ]] || kill -KILL -- "-${process}" 2>/dev/null || true
  [[ ! -e ${dir} ]] || "${here}/node.sh" down
}
trap end EXIT
trap 'exit 130' INT TERM
set -o monitor # the test gets a process group
"${test}" -test.v -test.timeout=20m &
process=$!
wait "${process}"
