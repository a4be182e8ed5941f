// Package program tells whether an executable is the exthost program.
package program

import (
	"debug/buildinfo"
	"os"
	"runtime/debug"
	"strings"
)

// programPath is the package of the exthost program.
const programPath = "github.com/exthost/exthost/cmd/exthost"

// Own returns this executable if it is the exthost program, else "".
func Own() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || strings.TrimSuffix(info.Path, ".test") != programPath {
		return ""
	}
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

// Guardian returns self if it can serve as guardian, that is if it is the exthost program; else "".
func Guardian(self string) string {
	if self == "" || self == Own() {
		return self
	}
	if info, err := buildinfo.ReadFile(self); err != nil || info.Path != programPath {
		return ""
	}
	return self
}
