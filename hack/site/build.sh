#!/usr/bin/env bash
# Writes the site of the documents into a directory. The arguments are the directory, and the address of the repository, to which links to other
# files lead. The generator and the theme are pinned in go.mod and theme.mod.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
hugo=../../_output/tools/hugo
echo "building the generator of the site, which takes some minutes the first time …"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "${hugo}" github.com/gohugoio/hugo
go mod download -modfile=theme.mod github.com/imfing/hextra
theme=$(go list -m -modfile=theme.mod -f '{{.Dir}}' github.com/imfing/hextra)
HUGO_PARAMS_REPOSITORY=$2 "${hugo}" --quiet --noBuildLock --themesDir "${theme%/*}" --theme "${theme##*/}" --destination "$1" --cleanDestinationDir
echo "$1 has the site: any static file server shows it"
