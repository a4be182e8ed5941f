package config

import (
	"os"
	"reflect"
	"strings"

	"github.com/exthost/exthost/config/internal/overrides"
	"github.com/exthost/exthost/internal/text/strict"
)

// overridden lays EXTHOST_* variables and flags over the files.
func overridden(l *loader) {
	known := strict.Leaves(Default(), func(string, string) bool { return false })
	l.layer(overrides.Variables(l.environ, known, overrides.Sections(reflect.TypeFor[Config]()), l.report))
	flags := make([]overrides.Flag, len(l.options.Flags))
	for i, f := range l.options.Flags {
		flags[i] = overrides.Flag(f)
	}
	l.layer(overrides.Flags(flags, known))
}

// safeVariable is read before the first file, since it decides which files are read.
const safeVariable = "EXTHOST_EXTENSIONS_SAFE_DIRECTORIES"

// noteSafe updates the ownership rule from the layers so far. The variable replaces extensions.safe_directories of
// the files.
func noteSafe(l *loader) {
	l.owners.Safe = l.cfg.Extensions.SafeDirectories
	text := l.environ[safeVariable]
	if text == "" {
		return
	}
	l.owners.Safe = nil
	for _, dir := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == os.PathListSeparator }) {
		l.owners.Safe = append(l.owners.Safe, against(l.options.Dir, strings.TrimSpace(dir)))
	}
}
