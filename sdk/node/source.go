// Package node embeds the SDK for Node.js, which is copied into extensions.
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
