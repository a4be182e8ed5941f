package packages

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/supply/lock"
	"github.com/exthost/exthost/internal/supply/store"
)

const (
	libFolder    = "lib"    // holds a folder for each wheel
	launcherFile = "run.py" // runs the program of the first wheel
	maxMetaFile  = 4 << 20  // bytes of a wheel's METADATA
)

var separators = regexp.MustCompile(`[-_.]+`)

// NormalName normalizes a package name (PEP 503).
func NormalName(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name, "-"))
}

// normalVersion returns a version as it appears in wheel file names.
func normalVersion(version string) string { return strings.ReplaceAll(version, "-", "_") }

// wheelName returns name and version from a wheel's file name; "" for other files.
func wheelName(file string) (name, version string) {
	parts := strings.Split(strings.TrimSuffix(file, ".whl"), "-")
	if path.Ext(file) != ".whl" || len(parts) < 5 || len(parts) > 6 {
		return "", ""
	}
	return NormalName(parts[0]), parts[1]
}

// distInfo returns the *.dist-info folder of a wheel.
func distInfo(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.dist-info"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("it has %d folders *.dist-info, and a wheel has one", len(found))
	}
	return found[0], nil
}

// wheelMetadata returns the headers and the full text of a wheel's METADATA.
func wheelMetadata(dir string) (headers map[string]string, text string, err error) {
	info, err := distInfo(dir)
	if err != nil {
		return nil, "", err
	}
	data, _, err := file.ReadRegular(filepath.Join(info, "METADATA"), maxMetaFile, false)
	if err != nil {
		return nil, "", err
	}
	headers = map[string]string{}
	for line := range strings.Lines(string(data)) {
		if strings.TrimSpace(line) == "" {
			break
		}
		if key, value, ok := strings.Cut(line, ":"); ok && headers[key] == "" {
			headers[key] = strings.TrimSpace(value)
		}
	}
	return headers, string(data), nil
}

// sameWheel refuses a wheel whose METADATA names another package.
func sameWheel(dir string, p lock.Part) error {
	headers, _, err := wheelMetadata(dir)
	switch {
	case err != nil:
		return err
	case NormalName(headers["Name"]) != p.Name || headers["Version"] != p.Version:
		return fmt.Errorf("its METADATA says that it is %q %q", headers["Name"], headers["Version"])
	}
	return nil
}

var entryPoint = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.]*)\s*:\s*([A-Za-z_][A-Za-z0-9_.]*)$`)

// consoleScript returns a program of a wheel: its name, module and function. program is the wanted one; "" for the only
// one, or the one called pkg.
func consoleScript(dir, pkg, program string) (name, module, function string, err error) {
	name = NormalName(cmp.Or(program, pkg))
	info, err := distInfo(dir)
	if err != nil {
		return "", "", "", err
	}
	data, _, err := file.ReadRegular(filepath.Join(info, "entry_points.txt"), maxMetaFile, false)
	if err != nil {
		return "", "", "", fmt.Errorf("the package has no program: no entry_points.txt")
	}
	scripts, section := map[string]string{}, ""
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = line
		} else if key, value, ok := strings.Cut(line, "="); ok && section == "[console_scripts]" {
			scripts[NormalName(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	named := slices.Sorted(maps.Keys(scripts))
	if len(named) == 1 && program == "" {
		name = named[0]
	}
	entry, known := scripts[name]
	if !known {
		return "", "", "", noProgram(named, name)
	}
	m := entryPoint.FindStringSubmatch(entry)
	if m == nil {
		return "", "", "", fmt.Errorf("the program %s of the package is %q, not a function of a module", name, entry)
	}
	return name, m[1], m[2], nil
}

// noProgram is the error of a package without the wanted program.
func noProgram(named []string, wanted string) error {
	if len(named) == 0 {
		return errors.New("the package has no program")
	}
	return fmt.Errorf("the package has the programs %s, and none that is called %s; --program NAME takes one of them",
		strings.Join(named, ", "), wanted)
}

// addLauncher adds the script that runs the first wheel's program with all wheels on the path.
func addLauncher(tree *store.Tree, parts []lock.Part, program string) error {
	name, module, function, err := consoleScript(filepath.Join(tree.Dir(), libFolder, parts[0].Name), parts[0].Name,
		program)
	if err != nil {
		return err
	}
	var folders []string
	for _, p := range parts {
		folders = append(folders, p.Path)
		for _, kind := range []string{"purelib", "platlib"} {
			// Glob fails only for a bad pattern
			found, _ := filepath.Glob(filepath.Join(tree.Dir(), filepath.FromSlash(p.Path), "*.data", kind))
			for _, dir := range found {
				folders = append(folders, path.Join(p.Path, filepath.Base(filepath.Dir(dir)), kind))
			}
		}
	}
	list, err := json.Marshal(folders)
	if err != nil {
		return err
	}
	return tree.Add(launcherFile, fmt.Appendf(nil,
		`# Runs the program of %s. Only the folders beside this file are on the path.
import os, site, sys
here = os.path.dirname(os.path.abspath(__file__))
paths = [os.path.join(here, *name.split("/")) for name in %s]
sys.path[:0] = paths
os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # of its own Python processes
sys.argv[0] = %s
site.setquit()
from %s import %s
sys.exit(%s())
`, parts[0].Name, list, strconv.Quote(name), module, importName(function), function))
}

// importName returns the name to import for a.b.
func importName(dotted string) string {
	name, _, _ := strings.Cut(dotted, ".")
	return name
}

// describeWheel returns how the first wheel is run: isolated from the system's packages, and with bytecode in the
// extension's state directory, as the tree is read-only.
func describeWheel(dir string, p lock.Part, program string) (Run, error) {
	at := filepath.Join(dir, filepath.FromSlash(p.Path))
	headers, text, err := wheelMetadata(at)
	if err != nil {
		return Run{}, err
	}
	if _, _, _, err := consoleScript(at, p.Name, program); err != nil {
		return Run{}, err
	}
	r := Run{
		Command:     "python3",
		Args:        []string{"-I", "-S", "-X", "pycache_prefix=" + State + "/pycache", Root + "/" + launcherFile},
		Description: headers["Summary"],
		License:     headers["License-Expression"],
		Homepage:    headers["Home-page"],
		Data:        dataOf(at, text),
	}
	if _, name, ok := strings.Cut(text, "mcp-name:"); ok {
		name, _, _ = strings.Cut(strings.TrimSpace(name), "\n")
		r.Server = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(name), "-->"))
	}
	return r, nil
}

// isWheel reports whether a part is a wheel.
func isWheel(p lock.Part) bool { return path.Ext(p.URL) == ".whl" }
