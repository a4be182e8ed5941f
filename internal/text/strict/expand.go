package strict

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// reference matches $${, an escaped ${, and ${NAME} and ${NAME:-default}.
var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}`)

// expand replaces the variables in text. The default also replaces a variable that is empty.
func (d *Decoder) expand(path string, n *Node, text string) string {
	if n.Loose || d.Lookup == nil || !strings.Contains(text, "${") {
		return text
	}
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		if match == "$${" {
			return "${"
		}
		parts := reference.FindStringSubmatch(match)
		name, hasDefault := parts[1], strings.Contains(match, ":-")
		value, ok := d.Lookup(name)
		switch {
		case value != "" || ok && !hasDefault:
			return value
		case hasDefault:
			return parts[2]
		case d.Late == nil || !d.Late(path, n.Pos, name):
			d.Report.Add(n.Pos, "set it, or write ${"+name+":-default}", "%s: the variable %s is not set", path, name)
		}
		return match
	})
}

// resolve makes a relative path absolute, from the [Decoder.Base] of pos. "" stays "".
func (d *Decoder) resolve(pos Pos, path string) string {
	if path == "" {
		return ""
	}
	if path = InHome(path); filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.Base(pos), path)
}

// InHome replaces a leading ~ by the user's home directory, if that is known.
func InHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// Base returns the directory that relative paths stated at pos start from.
func (d *Decoder) Base(pos Pos) string {
	dir := d.Dir
	if pos.File != "" {
		dir = filepath.Dir(pos.File)
		if d.BaseOf != nil {
			dir = d.BaseOf(pos.File)
		}
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}
