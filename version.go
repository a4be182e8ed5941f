package exthost

import (
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
