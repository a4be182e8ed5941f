// Package node holds the SDK for Node.js as text, to be put beside an extension.
package node

import _ "embed"

// Source is exthost.mjs.
//
//go:embed exthost.mjs
var Source []byte

// Types is exthost.d.mts, which TypeScript and editors read.
//
//go:embed exthost.d.mts
var Types []byte
