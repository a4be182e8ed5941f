package exthost

import (
	"os"
	"runtime/debug"
	"strings"
)

// release is the version of this source tree.
const release = "0.1.0"

// Version returns the version of this build: that of the module when it was
// installed as one, else the source tree's.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path == "github.com/exthost/exthost" {
		if v, ok := strings.CutPrefix(info.Main.Version, "v"); ok && !strings.HasPrefix(v, "0.0.0-") {
			return v
		}
	}
	return release
}

// programPath is the package that is the exthost program.
const programPath = "github.com/exthost/exthost/cmd/exthost"

// ownProgram is this executable when it is the exthost program, else "".
func ownProgram() string {
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
