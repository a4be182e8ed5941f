package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName is the length in bytes that no registered name exceeds; it is the
// narrowest limit among the vendors of [Export].
const MaxName = 64

// plainName is ext_{extension}_{tool} in the alphabet every vendor accepts; it
// may be too long and need not be unique. The host's own tools keep their names.
func plainName(extension, tool string) string {
	name := "ext_" + extension + "_" + tool
	if extension == "" {
		name = tool
	}
	return strings.Map(func(r rune) rune {
		if nameRune(r) {
			return r
		}
		return '_'
	}, name)
}

// hashedName is plainName cut to fit, with a hash of the original pair behind it.
func hashedName(extension, tool string) string {
	sum := sha256.Sum256([]byte(extension + "\x00" + tool))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name := plainName(extension, tool)
	return name[:min(len(name), MaxName-len(suffix))] + suffix
}

// Register returns the name under which the host shows a tool, or whatever else an
// extension names, given the names that are taken. renamed says that its plain name
// is, !ok that its hashed name is as well and that it can have none.
func Register(extension, tool string, taken func(string) bool) (name string, renamed, ok bool) {
	name = plainName(extension, tool)
	if len(name) <= MaxName {
		if !taken(name) {
			return name, false, true
		}
		renamed = true
	}
	name = hashedName(extension, tool)
	return name, renamed, !taken(name)
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// MayOwn reports whether a tool of the extension can be registered under name.
// Several extensions may: "a" and "a_b" for ext_a_b_c. [Catalog.Lookup] knows.
func MayOwn(extension, name string) bool {
	prefix := plainName(extension, "")
	return strings.HasPrefix(name, prefix[:min(len(prefix), MaxName-len("_01234567"))])
}
