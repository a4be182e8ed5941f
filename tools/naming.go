package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName bounds a registered name, in bytes. It is the lowest limit of all vendors.
const MaxName = 64

// The names of the host's tools by which a model finds and calls others. No tool of an extension has
// such a name: theirs have an id behind ext_, and one more _, and a selection gives them to none.
const (
	FindName = "ext_find"
	CallName = "ext_call"
)

// plainName returns ext_{extension}_{tool} in the character set that all vendors accept. It
// may be too long or not unique. Tools of the host keep their names.
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

// hashedName returns plainName shortened to MaxName, with a hash of the original pair as
// suffix.
func hashedName(extension, tool string) string {
	sum := sha256.Sum256([]byte(extension + "\x00" + tool))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name := plainName(extension, tool)
	return name[:min(len(name), MaxName-len(suffix))] + suffix
}

// Register returns the registered name of a tool, or of any other named object of an
// extension; taken reports whether a name is in use. renamed means that the plain name is
// taken, and !ok that the hashed name is taken as well, so that the tool has no name.
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

// MayOwn reports whether a tool of the extension may be registered under name. More than
// one extension may: ext_a_b_c can belong to "a" and to "a_b".
func MayOwn(extension, name string) bool { return strings.HasPrefix(name, Prefix(extension)) }

// Prefix returns what the registered names of all tools of the extension begin with.
func Prefix(extension string) string {
	prefix := plainName(extension, "")
	return prefix[:min(len(prefix), MaxName-len("_01234567"))]
}

// NameOf returns the registered name of a tool, or of any other named object of an extension,
// that shares its name with none.
func NameOf(extension, tool string) string {
	name, _, _ := Register(extension, tool, func(string) bool { return false })
	return name
}

// ResourceName returns what patterns of registered names are compared with for a resource of
// an extension: ext_{extension}_{uri}, in which the URI is as it is.
func ResourceName(extension, uri string) string { return plainName(extension, "") + uri }
