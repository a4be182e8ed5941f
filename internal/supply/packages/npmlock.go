package packages

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
)

// npmEntry is a package in package-lock.json.
type npmEntry struct {
	Name      string   `json:"name"` // set for an alias, whose path ends with another name
	Version   string   `json:"version"`
	Resolved  string   `json:"resolved"`
	Integrity string   `json:"integrity"`
	Link      bool     `json:"link"`
	Dev       bool     `json:"dev"`
	Optional  bool     `json:"optional"`
	InBundle  bool     `json:"inBundle"`
	OS        []string `json:"os"`
	CPU       []string `json:"cpu"`
	Libc      []string `json:"libc"`

	path, name string
}

const maxParts = 2000 // per package

// parsePackageLock returns the entries of a package-lock.json that this machine needs, sorted by path. An entry
// that is not from a registry is an error.
func parsePackageLock(data []byte) (entries []npmEntry, err error) {
	var lock struct {
		Version  int                 `json:"lockfileVersion"`
		Packages map[string]npmEntry `json:"packages"`
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, fmt.Errorf("package-lock.json: %w", err)
	}
	if lock.Version != 3 && lock.Version != 2 {
		return nil, fmt.Errorf("package-lock.json has version %d, and 3 is known; use a newer npm", lock.Version)
	}
	if len(lock.Packages) > maxParts {
		return nil, fmt.Errorf("it needs over %d packages", maxParts)
	}
	for _, path := range slices.Sorted(maps.Keys(lock.Packages)) {
		e := lock.Packages[path]
		if path == "" || e.InBundle || e.Dev || e.Optional && !e.supported() {
			continue
		}
		e.path, e.name = path, e.Name
		if e.name == "" {
			segments := strings.Split(path, "node_modules/")
			e.name = segments[len(segments)-1]
		}
		if err := e.check(); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (e *npmEntry) check() error {
	switch {
	case e.Link || !strings.HasPrefix(e.path, "node_modules/") || !filepath.IsLocal(filepath.FromSlash(e.path)):
		return fmt.Errorf("%s is a folder of this machine, and no package of a registry", e.path)
	case !npmName.MatchString(e.name) || len(e.name) > maxName:
		return fmt.Errorf("%q is no name of a package", e.name)
	case e.Resolved != "" && !strings.HasPrefix(e.Resolved, "https:") && !strings.HasPrefix(e.Resolved, "http:"):
		return fmt.Errorf("%s comes from %s, and only packages of the registry are taken", e.name, e.Resolved)
	case e.Integrity == "":
		return fmt.Errorf("%s %s: the registry states no hash of it", e.name, e.Version)
	}
	return nil
}

// supported reports whether an optional package supports this machine.
func (e *npmEntry) supported() bool {
	system, ok := map[string]string{"windows": "win32", "illumos": "sunos", "solaris": "sunos"}[goruntime.GOOS]
	if !ok {
		system = goruntime.GOOS
	}
	cpu, ok := map[string]string{"amd64": "x64", "386": "ia32"}[goruntime.GOARCH]
	if !ok {
		cpu = goruntime.GOARCH
	}
	return lists(e.OS, system) && lists(e.CPU, cpu) && (goruntime.GOOS != "linux" || lists(e.Libc, libc()))
}

// lists reports whether an os, cpu or libc list of npm includes value. "!x" excludes x; an empty list includes
// everything.
func lists(list []string, value string) bool {
	if len(list) == 0 || slices.Contains(list, value) {
		return true
	}
	excluded := func(s string) bool { return strings.HasPrefix(s, "!") }
	return !slices.ContainsFunc(list, func(s string) bool { return !excluded(s) }) && !slices.Contains(list, "!"+value)
}

// libc returns npm's name for this Linux system's C library.
func libc() string {
	if musl, _ := filepath.Glob("/lib/ld-musl-*"); len(musl) > 0 {
		return "musl"
	}
	return "glibc"
}
