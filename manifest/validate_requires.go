package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/strict"
)

// The platforms of the Go toolchain that could run a host.
var (
	knownOS   = []string{"aix", "android", "darwin", "dragonfly", "freebsd", "illumos", "ios", "linux", "netbsd", "openbsd", "plan9", "solaris", "windows"}
	knownArch = []string{"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x"}
	// commonNames are other words for some of them.
	commonNames = map[string]string{"macos": "darwin", "osx": "darwin", "mac": "darwin", "win32": "windows", "win": "windows",
		"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64", "i386": "386", "x86": "386"}
)

func (v *validator) requires() {
	r := v.m.Requires
	for i, bin := range r.Bins {
		if badProgram(bin) != "" || strings.ContainsAny(bin, `/\`) {
			v.errorf(at("requires", "bins", i), "", "requires.bins: %q is not the name of a program on PATH", bin)
		}
	}
	for i, name := range r.Env {
		if !envName.MatchString(name) {
			v.errorf(at("requires", "env", i), "", "requires.env: %q is not a variable's name", name)
		}
	}
	v.platforms("os", r.OS, knownOS)
	v.platforms("arch", r.Arch, knownArch)
}

func (v *validator) platforms(key string, names, known []string) {
	for i, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		hint := strict.DidYouMean(name, known)
		if common, ok := commonNames[strings.ToLower(name)]; ok {
			hint = fmt.Sprintf("did you mean %q?", common)
		}
		v.errorf(at("requires", key, i), hint, "requires.%s: %q is none that is known", key, name)
	}
}
