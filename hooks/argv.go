package hooks

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/proc/process"
)

// resolveArgv replaces variables in argv, and the program by its absolute path. It returns an error if the program, or
// the script that a shell would run, is missing or not executable.
func resolveArgv(argv []string, dir string, env []string) ([]string, error) {
	lookup := process.Lookup(env)
	argv = slices.Clone(argv)
	line := shellLine(argv)
	for i, word := range argv {
		if line != "" && i > 0 {
			break
		}
		var err error
		if argv[i], err = process.Expand(word, lookup); err != nil {
			return nil, err
		}
	}
	if len(argv) == 0 {
		argv = []string{""} // Resolve reports the error
	}
	path, _ := lookup("PATH")
	program, err := process.Resolve(argv[0], dir, path)
	if err != nil {
		return nil, err
	}
	argv[0] = program
	if err := process.Check(program); err != nil {
		return nil, err
	}
	if script := scriptOf(line, lookup); script != "" {
		if !filepath.IsAbs(script) {
			script = filepath.Join(dir, script)
		}
		return argv, process.Check(script)
	}
	return argv, nil
}

var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh"}

// shellLine returns the line that argv passes to a shell, "" when there is none.
func shellLine(argv []string) string {
	if len(argv) >= 3 && argv[1] == "-c" && slices.Contains(shells, filepath.Base(argv[0])) {
		return argv[2]
	}
	return ""
}

// script matches a simple path at the start of a shell line, such as
// "$CLAUDE_PROJECT_DIR"/hooks/check.sh.
var script = regexp.MustCompile(
	`^\s*("?)(\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?)?("?)(/[A-Za-z0-9_./-]+|\./[A-Za-z0-9_./-]+)("?)(?:\s|$)`)

// scriptOf returns the file that a shell would run first for line, "" when it is not
// obvious. Checking it early matters because a shell reports a missing file only when the
// hook runs, with exit code 127.
func scriptOf(line string, lookup func(string) (string, bool)) string {
	m := script.FindStringSubmatch(line)
	if m == nil || strings.Count(m[1]+m[4]+m[6], `"`)%2 != 0 {
		return ""
	}
	base := ""
	if m[3] != "" {
		var ok bool
		if base, ok = lookup(m[3]); !ok || base == "" {
			return ""
		}
	}
	return base + m[5]
}
