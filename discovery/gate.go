package discovery

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/exthost/exthost/protocol"
)

// Host describes the host for the check of requirements. Zero fields mean the values of this process.
type Host struct {
	LookupEnv func(name string) (string, bool)
	// Withheld reports whether no extension gets the host's value of a variable; nil: none is withheld
	Withheld func(name string) bool
	Path     string // PATH
	OS       string // a GOOS
	Arch     string // a GOARCH
	Version  string // semver; anything else, such as a development build, satisfies all requirements
}

// Gate returns a Warn for each unmet requirement of c, with the manifest's hint if there is one. If there are none, c
// may run.
func Gate(c *Candidate, h Host) []protocol.Diagnostic {
	if h.LookupEnv == nil {
		h.LookupEnv = os.LookupEnv
	}
	h.Path = cmp.Or(h.Path, os.Getenv("PATH"))
	h.OS, h.Arch = cmp.Or(h.OS, runtime.GOOS), cmp.Or(h.Arch, runtime.GOARCH)
	g := gate{c: c}
	r := c.Manifest.Requires
	g.platform("operating system", h.OS, r.OS)
	g.platform("architecture", h.Arch, r.Arch)
	g.version(h.Version, c.Manifest.Plugin.MinAgentVersion)
	for _, bin := range r.Bins {
		if !onPath(bin, h.Path) {
			g.missing(bin, "the program %s is not on PATH, or not executable", bin)
		}
	}
	for _, name := range r.Env {
		if value, ok := h.LookupEnv(name); !ok && h.Withheld != nil && h.Withheld(name) {
			g.withheld(name)
		} else if !ok {
			g.variable(name, "is not set")
		} else if value == "" {
			g.variable(name, "is set, but empty")
		}
	}
	return g.diags
}

type gate struct {
	c     *Candidate
	diags []protocol.Diagnostic
}

// missing reports an unmet requirement. name is its key in the manifest's hints.
func (g *gate) missing(name, format string, args ...any) {
	g.diags = append(g.diags, protocol.Diagnostic{
		Level:     protocol.LevelWarn,
		Code:      CodeRequirement,
		Extension: g.c.ID,
		Path:      g.c.Path,
		Message:   fmt.Sprintf(format, args...),
		Hint:      g.c.Manifest.Requires.Hint[name],
	})
}

// variable reports a variable without a value. The hint tells where the host reads variables, because the host does
// not see what another shell exports.
func (g *gate) variable(name, lack string) {
	g.missing(name, "the variable %s %s", name, lack)
	d := &g.diags[len(g.diags)-1]
	where := fmt.Sprintf("set it in extensions.entries.%s.env or its env_file, then exthost reload; or in the "+
		"environment of exthost serve, and start that again", g.c.ID)
	if d.Hint != "" {
		where = d.Hint + "; " + where
	}
	d.Hint = where
}

// withheld reports a variable that the host passes on to no extension.
func (g *gate) withheld(name string) {
	g.missing(name, "the variable %s is withheld: it makes programs load code, and the host passes none of its own on",
		name)
	g.diags[len(g.diags)-1].Hint = fmt.Sprintf("set it in extensions.entries.%s.env, then exthost reload", g.c.ID)
}

func (g *gate) platform(what, current string, wanted []string) {
	if len(wanted) > 0 && !slices.Contains(wanted, current) {
		g.missing(current, "the %s is %s, and it runs on %s only", what, current, strings.Join(wanted, ", "))
	}
}

func (g *gate) version(current, minimum string) {
	if minimum != "" && semver.IsValid("v"+current) && semver.Compare("v"+current, "v"+minimum) < 0 {
		g.missing("min_agent_version", "it needs version %s of the host, and this is %s", minimum, current)
	}
}

// onPath reports whether an absolute directory of path has an executable named bin.
func onPath(bin, path string) bool {
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			if _, err := exec.LookPath(filepath.Join(dir, bin)); err == nil {
				return true
			}
		}
	}
	return false
}
