package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName is the maximum length of a registered name in bytes, the lowest limit of all vendors.
const MaxName = 64

// Names of the host's search tools. No tool of an extension can get one: a registered name has an id and another _
// after ext_, and a selection refuses these names.
const (
	FindName    = "ext_find"
	CallName    = "ext_call"
	ReadName    = "ext_read"
	WriteName   = "ext_write"
	DestroyName = "ext_destroy"
)

// SearchNames returns the names of the host's search tools.
func SearchNames() []string { return []string{FindName, CallName, ReadName, WriteName, DestroyName} }

// CallsOthers reports whether a tool of the host calls the tools that ext_find finds.
func CallsOthers(name string) bool {
	return name == CallName || name == ReadName || name == WriteName || name == DestroyName
}

// plainName returns ext_{extension}_{tool} in the characters that all vendors accept. It may be too long or not
// unique. The host's own tools keep their names.
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

// hashedName returns plainName shortened to MaxName, with a hash of the original pair as suffix.
func hashedName(extension, tool string) string {
	sum := sha256.Sum256([]byte(extension + "\x00" + tool))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name := plainName(extension, tool)
	return name[:min(len(name), MaxName-len(suffix))] + suffix
}

// Register chooses the registered name of a tool, or another named object of an extension. taken reports whether a
// name is in use. renamed means that the plain name is taken, and !ok that the hashed name is taken too, so there
// is no name.
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

// MayOwn reports whether a tool of the extension may have the registered name. It may be true for several
// extensions: ext_a_b_c can belong to "a" and "a_b".
func MayOwn(extension, name string) bool { return strings.HasPrefix(name, Prefix(extension)) }

// Prefix returns the prefix of all registered names of the extension.
func Prefix(extension string) string {
	prefix := plainName(extension, "")
	return prefix[:min(len(prefix), MaxName-len("_01234567"))]
}

// NameOf returns the registered name of a tool, or another named object, whose plain name is not taken.
func NameOf(extension, tool string) string {
	name, _, _ := Register(extension, tool, func(string) bool { return false })
	return name
}

// ResourceName returns the name that patterns of registered names are matched against for a resource:
// ext_{extension}_{uri}, with the URI unchanged.
func ResourceName(extension, uri string) string { return plainName(extension, "") + uri }
