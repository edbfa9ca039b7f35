// The theme of the site. It has no Go package that the module of the generator could import, so it has a file of its own.
module github.com/proviso-authz/proviso/hack/site

go 1.26.0

require github.com/imfing/hextra v0.9.7
