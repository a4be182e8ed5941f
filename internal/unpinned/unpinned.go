// Package unpinned names the package that a command line downloads without a version.
package unpinned

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// runners are programs that download a package and run it: the words before the package,
// and the options that take a value.
var runners = map[string]struct {
	words  []string // one of these follows the program; empty: none does
	values []string
}{
	"npx": {nil, []string{"-p", "--package", "-c", "--call", "-w", "--workspace"}}, "bunx": {nil, nil}, "uvx": {nil, []string{"--from", "--with", "--python", "-p", "--index-url"}},
	"npm": {[]string{"exec", "x"}, nil}, "pnpm": {[]string{"dlx"}, nil}, "yarn": {[]string{"dlx"}, nil}, "pipx": {[]string{"run"}, []string{"--spec"}},
}

// Package returns the package that a command line has npx, uvx or the like download without
// a version, so that any later version may run; "" when there is none.
func Package(argv []string) string {
	if len(argv) < 2 {
		return ""
	}
	name := strings.TrimSuffix(path.Base(filepath.ToSlash(argv[0])), ".cmd")
	runner, known := runners[name]
	if !known {
		return ""
	}
	args := argv[1:]
	if len(runner.words) > 0 {
		if !slices.Contains(runner.words, args[0]) {
			return ""
		}
		args = args[1:]
	}
	for i := 0; i < len(args); i++ {
		option, value, stated := strings.Cut(args[i], "=")
		names := slices.Contains([]string{"-p", "--package", "--from", "--spec"}, option) && !(name == "uvx" && option == "-p")
		switch {
		case args[i] == "--":
		case !strings.HasPrefix(args[i], "-"):
			return withoutVersion(args[i])
		case names && stated:
			return withoutVersion(value)
		case names && i+1 < len(args):
			return withoutVersion(args[i+1])
		case slices.Contains(runner.values, option) && !stated:
			i++
		}
	}
	return ""
}

// withoutVersion returns a package that states no version; "" for one that does, and for
// files, addresses and variables.
func withoutVersion(pkg string) string {
	if strings.ContainsAny(pkg, ":$") || strings.HasPrefix(pkg, ".") || strings.HasPrefix(pkg, "/") {
		return ""
	}
	name, version, stated := strings.Cut(strings.TrimPrefix(pkg, "@"), "@")
	if stated && version != "" && version != "latest" && version != "next" || strings.Contains(name, "==") {
		return ""
	}
	return pkg
}
