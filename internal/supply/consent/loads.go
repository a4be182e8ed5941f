package consent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
)

// files adds files. For a script it also adds the folder in which Node or Python looks for further code. For a link
// to a script it adds the folder of the target too.
func (l *lines) files(paths []string) {
	for _, path := range paths {
		l.paths = append(l.paths, path)
		of := script(path)
		if of == nil {
			continue
		}
		l.folder(filepath.Dir(path), of)
		if real := l.linked(path); real != path {
			l.folder(filepath.Dir(real), of)
		}
	}
}

// linked resolves the links of a path in the project. A path that leads out of the project is returned unchanged.
func (l *lines) linked(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	top, err := filepath.EvalSymlinks(l.project)
	if err != nil || !within(top, real) {
		return path
	}
	return filepath.Join(l.project, strings.TrimPrefix(real, top))
}

// folder adds the code that programs of a language may load from dir. It adds all of dir, but of a folder above l.dir
// only the files directly in it: most of its other folders have nothing to do with these programs.
func (l *lines) folder(dir string, of *language) {
	if of == &node {
		l.modules(dir)
	}
	switch {
	case !l.uncompared(dir):
	case within(dir, l.dir):
		l.below(dir, of, false)
	default:
		l.paths = append(l.paths, dir)
	}
}

// configures are files that Node and similar programs read from the nearest folder above a script.
var configures = strings.Fields("package.json deno.json deno.jsonc tsconfig.json package-lock.json " +
	"npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock")

// modules adds the node_modules in dir and above, and for each name in configures the nearest such file.
func (l *lines) modules(dir string) {
	found := map[string]bool{}
	for ; within(l.project, dir); dir = filepath.Dir(dir) {
		if path := filepath.Join(dir, "node_modules"); isDir(path) {
			l.paths = append(l.paths, path)
		}
		for _, name := range configures {
			if path := filepath.Join(dir, name); !found[name] && regularFiles(path) != nil {
				l.paths, found[name] = append(l.paths, path), true
				if name == "package.json" {
					l.packageJSON(path)
				}
			}
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// valued are options of interpreters with a value that is not a script. An existing file after any other option is
// taken for the script.
var valued = set("-r --require --import --loader --experimental-loader --env-file --preload --config --import-map " +
	"--tsconfig -I -cp -classpath --class-path -W -X")

// evaluated are options of interpreters whose value is code.
var evaluated = []string{"-c", "-e", "-p", "-pe", "--eval", "--print"}

// inFolder are options with which an interpreter loads code from the folder that it starts in.
var inFolder = strings.Fields("-c -e -m -p -r --eval --print --require --import -")

// isolated are options that make Python ignore environment variables, including the one that moves its caches.
var isolated = regexp.MustCompile(`^-[a-zA-Z]*[EI][a-zA-Z]*$`)

// interpreter adds what an interpreter runs: the script or folder in its first argument, or the folder cwd for code
// and modules. It also adds the files that options name, with or without a file extension.
func (l *lines) interpreter(of *language, args []string, cwd string) {
	l.modulesOf(of, args, cwd)
	told := -1 // index of the module or code that runs; later arguments belong to it
	for i, arg := range args {
		if told >= 0 && i > told && (of == &python || !strings.HasPrefix(arg, "-") && !valued[args[i-1]]) {
			return
		}
		name, isModule := of.moduleOption(args[i:])
		switch {
		case told >= 0:
		case isModule && strings.HasSuffix(arg, "m"+name):
			told = i
		case isModule, slices.Contains(evaluated, arg):
			told = i + 1
		}
		if isModule || slices.Contains(inFolder, arg) {
			l.folder(cwd, of)
		}
		option := optionBefore(args, i)
		l.argument(of, option, arg, cwd)
		if l.script(of, option, arg, cwd) {
			return
		}
	}
}

// optionBefore returns the option before an argument, or "".
func optionBefore(args []string, i int) string {
	if i > 0 && strings.HasPrefix(args[i-1], "-") {
		return args[i-1]
	}
	return ""
}

// argument adds the files that an interpreter's argument names, with or without their extension. If the argument is
// code, it adds the files named in the code.
func (l *lines) argument(of *language, option, arg, cwd string) {
	if slices.Contains(evaluated, option) {
		for _, word := range fields(arg) {
			l.withExtensions(of, absolute(cwd, word))
		}
	}
	for _, form := range forms(arg) {
		l.withExtensions(of, absolute(cwd, form))
		if folder := absolute(cwd, form); form != arg && isDir(folder) { // -Ilib
			l.folder(folder, of)
		}
	}
}

// script adds the script or folder that arg may be. It reports whether the arguments after arg belong to that script.
func (l *lines) script(of *language, option, arg, cwd string) bool {
	path := absolute(cwd, arg)
	there := regularFiles(path)
	switch {
	case strings.HasPrefix(arg, "-"):
		if of == &python && isolated.MatchString(arg) {
			l.caches()
		}
		return false
	case isDir(path):
		l.folder(path, of)
		return true
	case there != nil && !valued[option]:
		l.files(there)
		return true
	}
	return option == "" || strings.Contains(arg, "${")
}

// caches adds the bytecode caches beside the code. Python reads them unless its caches have another location.
func (l *lines) caches() {
	l.err = cmp.Or(l.err, filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Base(filepath.Dir(path)) == "__pycache__" {
			l.paths = append(l.paths, path)
		}
		return ignoreMissing(err)
	}))
}

// withExtensions adds the file at path, or at path with an extension of the language. Data files are left out.
func (l *lines) withExtensions(of *language, path string) {
	if there := regularFiles(path); there != nil {
		if !namesData(path) {
			l.files(there)
		}
		return
	}
	for ending := range strings.FieldsSeq(of.endings) {
		l.files(regularFiles(path + ending))
	}
}

// moduleOption returns the module that a Python option at the start of args names: -m NAME or -mNAME, where other
// option letters may precede the m.
func (l *language) moduleOption(args []string) (name string, ok bool) {
	letters, name, ok := strings.Cut(args[0], "m")
	if l != &python || !ok || !strings.HasPrefix(letters, "-") || strings.ContainsAny(letters[1:], "-cWX") {
		return "", false
	}
	if name == "" && len(args) > 1 {
		name = args[1]
	}
	return name, true
}

// attribute matches MODULE:NAME, as used by application servers.
var attribute = regexp.MustCompile(`^([\w.]+):[A-Za-z_]\w*$`)

// modulesOf adds the Python modules among args: after -m, and in attributes.
func (l *lines) modulesOf(of *language, args []string, cwd string) {
	if of != &python {
		return
	}
	for i, arg := range args {
		if name, ok := of.moduleOption(args[i:]); ok {
			l.module(name, cwd)
		} else if m := attribute.FindStringSubmatch(arg); m != nil {
			l.module(m[1], cwd)
		}
	}
}

// module adds a Python module: its file or, for a package, __main__.py; and the folder of the outermost package.
func (l *lines) module(name, cwd string) {
	path := absolute(cwd, strings.ReplaceAll(name, ".", "/"))
	l.files(slices.Concat(regularFiles(path+".py"), regularFiles(filepath.Join(path, "__main__.py"))))
	outer, _, _ := strings.Cut(name, ".")
	if path := absolute(cwd, outer); outer != "" && isDir(path) {
		l.folder(path, &python)
	}
}

// tool adds the files that a tool reads from its working directory or from folders in its arguments.
func (l *lines) tool(of *language, args []string, cwd string) {
	if of.compiles {
		l.compiler(of, args, cwd)
		return
	}
	for _, place := range places(args, cwd) {
		l.workplace(place, of)
		l.modulesOf(of, args, place)
		if place != cwd {
			l.words(slices.Concat([]string{""}, args), place)
		}
		if of == &python || of == &node { // the arguments mostly belong to the program that the tool runs
			continue
		}
		for _, arg := range args {
			for _, form := range forms(arg) {
				if path := absolute(place, form); !namesData(path) || namesSettings(path) {
					l.files(regularFiles(path))
				}
			}
		}
	}
}

// places returns the folders that a tool works on: cwd, and the folders that its options and first argument name.
func places(args []string, cwd string) []string {
	list := []string{cwd}
	first := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") && optionBefore(args, i) == "" && (i != first || !isPath(arg)) {
			continue
		}
		for _, form := range forms(arg) {
			if path := absolute(cwd, form); isDir(path) {
				list = append(list, path)
			}
		}
	}
	return list
}

// compiler adds the files that a tool compiles.
func (l *lines) compiler(of *language, args []string, cwd string) {
	told := false // folders were named
	for _, arg := range args {
		for _, form := range forms(arg) {
			if path := absolute(cwd, form); isDir(path) {
				l.below(path, of, true)
				told = told || path != cwd && isPath(form)
			}
		}
	}
	l.below(cwd, of, !told)
	for dir := cwd; within(l.project, dir); dir = filepath.Dir(dir) { // go.work, .cargo
		l.below(dir, of, false)
		l.below(filepath.Join(dir, ".cargo"), of, false)
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// built adds the folders that uvx and pipx install a package from.
func (l *lines) built(args []string, cwd string) {
	for _, arg := range args {
		for _, form := range forms(arg) {
			if path := absolute(cwd, form); isPath(form) && isDir(path) {
				l.below(path, &python, true)
			}
		}
	}
}

// workplace adds the files that a tool reads from its working directory.
func (l *lines) workplace(dir string, of *language) {
	l.folder(dir, nil)
	l.packageJSON(filepath.Join(dir, "package.json"))
	if of == &node {
		l.modules(dir)
	}
}

// maxPackage limits a package.json, in bytes.
const maxPackage = 1 << 20

// packageJSON adds the files that a package.json names: entry points, and files that its scripts run.
func (l *lines) packageJSON(path string) {
	if l.read[path] {
		return
	}
	if l.read == nil {
		l.read = map[string]bool{}
	}
	l.read[path] = true
	data, _, err := file.ReadRegular(path, maxPackage+1, true)
	if err != nil {
		return
	}
	if len(data) > maxPackage {
		l.err = fmt.Errorf("%s is over %d MiB", path, maxPackage>>20)
	}
	var p struct {
		Scripts                             map[string]string
		Main, Module, Bin, Exports, Imports any
	}
	if json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &p) != nil {
		return // npm ignores it too
	}
	dir := filepath.Dir(path)
	for _, entry := range []any{p.Main, p.Module, p.Bin, p.Exports, p.Imports} {
		l.entries(entry, dir)
	}
	for _, line := range p.Scripts {
		l.command([]string{"sh", "-c", line}, dir)
	}
}

// entries adds the files in a value of a package.json.
func (l *lines) entries(value any, dir string) {
	switch v := value.(type) {
	case string:
		l.withExtensions(&node, absolute(dir, v))
	case []any:
		for _, element := range v {
			l.entries(element, dir)
		}
	case map[string]any:
		for _, member := range v {
			l.entries(member, dir)
		}
	}
}

// uncompared reports whether dir is in the project and not compared already.
func (l *lines) uncompared(dir string) bool {
	return within(l.project, dir) && !(l.walked && within(l.dir, dir))
}

// below adds the files of a language (nil: all code) in dir and, if deep is set, in its subfolders other than those
// of tools, such as .git.
func (l *lines) below(dir string, of *language, deep bool) {
	if !l.uncompared(dir) || l.err != nil {
		return
	}
	n := 0
	l.err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if n++; err != nil {
			return ignoreMissing(err)
		}
		if n > maxEntries || len(l.paths) > maxEntries {
			return tooMany(dir)
		}
		if d.IsDir() {
			if path != dir && (!deep ||
				slices.Contains([]string{".git", "node_modules", "target", ".venv"}, d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		if err == nil && (info.IsDir() && deep || info.Mode().IsRegular() && of.loads(path, info.Mode())) {
			l.paths = append(l.paths, path)
		}
		return ignoreMissing(err)
	})
}
