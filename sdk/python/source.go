// Package python holds the SDK for Python as text, to be put beside an extension.
package python

import _ "embed"

// Source is exthost.py.
//
//go:embed exthost.py
var Source []byte
