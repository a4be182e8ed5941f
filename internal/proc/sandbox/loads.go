package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/manifest/sandbox"
)

// interpreterOptions are what a profile knows of the command lines of its interpreter.
type interpreterOptions struct {
	loads   []string // options whose value is a file to load, or a folder that holds the program
	values  []string // other options with a value
	instead []string // options whose value is run in place of a script
	roots   []string // files that mark the folder of a package
}

var interpreters = map[string]interpreterOptions{
	sandbox.ProfileNode: {
		loads:   []string{"-r", "--require", "--import", "--loader", "--experimental-loader"},
		values:  []string{"-C", "--conditions", "--env-file", "--stack-trace-limit", "--max-http-header-size"},
		instead: []string{"-e", "--eval", "-p", "--print"},
		roots:   []string{"package.json"},
	},
	sandbox.ProfilePython: {
		values:  []string{"-W", "-X", "--check-hash-based-pycs"},
		instead: []string{"-c", "-m"},
		roots:   []string{"pyproject.toml", "setup.py"},
	},
	sandbox.ProfileUV: {
		loads:  []string{"--directory", "--project"},
		values: []string{"--with", "--python", "-p", "--from", "--index-url", "--extra-index-url"},
		roots:  []string{"pyproject.toml", "setup.py"},
	},
}

// Loads returns what a command line that is run in cwd loads beside its program, by the options and the script of the
// profile's interpreter: the folders of the packages that these files belong to, else the files themselves.
func (p *Policy) Loads(argv []string, cwd string) (paths []string) {
	of, ok := interpreters[p.Profile]
	if !ok {
		return nil
	}
	add := func(name string) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(cwd, name)
		}
		if path := p.packageOf(name, of.roots); path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for i := 1; i < len(argv); i++ {
		option, value, stated := strings.Cut(argv[i], "=")
		switch {
		case !strings.HasPrefix(option, "-"):
			if p.Profile == sandbox.ProfileUV && option == "run" {
				continue
			}
			add(argv[i])
			return paths
		case slices.Contains(of.instead, option):
			return paths
		case slices.Contains(of.loads, option) && stated:
			add(value)
		case slices.Contains(of.loads, option) && i+1 < len(argv):
			i++
			add(argv[i])
		case slices.Contains(of.values, option) && !stated:
			i++
		}
	}
	return paths
}

// Follow lets the process read what [Policy.Loads] returns. Without a sandbox, p is nil and Follow does nothing.
func (p *Policy) Follow(argv []string, cwd string) {
	if p != nil {
		p.Read = append(p.Read, p.Loads(argv, cwd)...)
	}
}

// packageOf returns the outermost node_modules above a file, else the innermost folder with one of the files in roots,
// else the file. It returns "" if there is no such file, for what no table can ask for, for what the sandbox has
// anyway, and for a link that the extension may have made.
func (p *Policy) packageOf(name string, roots []string) string {
	path := real(name)
	for _, own := range slices.Concat(p.Write, p.Read) {
		if within(name, own) || within(path, own) {
			return ""
		}
	}
	found := packageAbove(path, roots)
	info, err := os.Stat(path)
	if err != nil || info.IsDir() && !isRoot(found, roots) || p.At.refuse(found) != nil || isPersonal(found) {
		return ""
	}
	return found
}

// packageAbove is packageOf for a path without links.
func packageAbove(path string, roots []string) string {
	const modules = "/node_modules/"
	if n := strings.Index(path, modules); n >= 0 {
		return path[:n+len(modules)-1]
	}
	for dir := path; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if isRoot(dir, roots) {
			return dir
		}
	}
	return path
}

// isRoot reports whether dir is the folder of a package, because it has one of the files in roots. A folder directly
// below the root of the file system, such as /tmp, is not.
func isRoot(dir string, roots []string) bool {
	return !isPersonal(dir) && strings.Count(dir, "/") > 1 && slices.ContainsFunc(roots, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}
