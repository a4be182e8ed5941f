// Package python embeds the SDK for Python, which is copied into extensions.
package python

import _ "embed"

// Source is exthost.py.
//
//go:embed exthost.py
var Source []byte
