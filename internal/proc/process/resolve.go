package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Resolve returns the path of the executable for command: relative to dir if command contains a slash, else the first
// executable of that name on path, the child's PATH. It never searches the current directory. The result is absolute if
// dir is. The error is a [*StartError].
func Resolve(command, dir, path string) (string, error) {
	switch {
	case command == "" || strings.ContainsRune(command, 0):
		return "", &StartError{Reason: Invalid, Path: command, Err: errors.New("empty, or with a NUL byte")}
	case filepath.IsAbs(command):
		return withExtension(filepath.Clean(command)), nil
	case strings.ContainsRune(command, '/') || strings.ContainsRune(command, filepath.Separator):
		return withExtension(filepath.Join(dir, command)), nil
	}
	return lookPath(command, path)
}

// lookPath searches the absolute directories of path. It skips relative and empty entries, which depend on the current
// directory.
func lookPath(name, path string) (string, error) {
	failure := &StartError{Reason: NotFound, Path: name, Err: fs.ErrNotExist}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := withExtension(filepath.Join(dir, name))
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			failure = &StartError{Reason: NotExecutable, Path: file, Err: err}
		}
	}
	return "", failure
}

// LaunchScript returns the command line that runs script, relative to dir: .py runs with python3 or python, .sh with
// sh, .js and .mjs with node, all looked up on path. Other scripts must be executable.
func LaunchScript(script, dir, path string) (argv []string, err error) {
	if script == "" {
		return nil, &StartError{Reason: Invalid, Path: script, Err: errors.New("empty script")}
	}
	file := script
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, script)
	}
	var interpreters []string
	switch strings.ToLower(filepath.Ext(script)) {
	case ".py":
		interpreters = []string{"python3", "python"}
	case ".sh":
		interpreters = []string{"sh"}
	case ".js", ".mjs":
		interpreters = []string{"node"}
	default:
		return []string{withExtension(file)}, nil
	}
	if _, err := os.Stat(file); err != nil {
		return nil, &StartError{Reason: NotFound, Path: file, Err: err}
	}
	for _, name := range interpreters {
		if interpreter, err := lookPath(name, path); err == nil {
			return []string{interpreter, file}, nil
		}
	}
	return nil, &StartError{Reason: BadInterpreter, Path: file, Culprit: interpreters[0], Err: fs.ErrNotExist}
}
