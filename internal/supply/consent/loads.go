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

	"github.com/exthost/exthost/internal/file/regular"
)

// files adds files, and what lies beside those that are scripts, also where a link leads to one:
// Node and Python look there.
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

// linked is where a path of the project leads within it; path itself when it leads elsewhere.
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

// folder adds the code that programs of a language may load from a folder: all of it; from a
// folder that holds the one whose lines these are only the files directly there, most of the
// rest being of others.
func (l *lines) folder(dir string, of *language) {
	if of == &node {
		l.modules(dir)
	}
	switch {
	case !l.open(dir):
	case within(dir, l.dir):
		l.below(dir, of, false)
	default:
		l.paths = append(l.paths, dir)
	}
}

// configures are the files of which Node and its kind read the nearest.
var configures = strings.Fields("package.json deno.json deno.jsonc tsconfig.json package-lock.json " +
	"npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock")

// modules adds the folders above dir that Node looks into, and the nearest of each file that says
// what it finds there.
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
					l.pack(path)
				}
			}
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// valued are options of interpreters with a value that is no script. Behind others, a file that is there is the
// script.
var valued = set("-r --require --import --loader --experimental-loader --env-file --preload --config --import-map " +
	"--tsconfig -I -cp -classpath --class-path -W -X")

// evaluated are options of interpreters with code.
var evaluated = []string{"-c", "-e", "-p", "-pe", "--eval", "--print"}

// isolated are options of Python that have it ignore the variables with the place of its caches.
var isolated = regexp.MustCompile(`^-[a-zA-Z]*[EI][a-zA-Z]*$`)

// interpreter adds the script that an interpreter runs, or its folder: the first one that it is told, or the
// one that it starts in when it is told code or a module; and what its options name, also without
// the ending.
func (l *lines) interpreter(of *language, args []string, cwd string) {
	l.modulesOf(of, args, cwd)
	told := -1 // the index of the module or code that runs: what follows are its arguments
	for i, arg := range args {
		if told >= 0 && i > told && (of == &python || !strings.HasPrefix(arg, "-") && !valued[args[i-1]]) {
			return
		}
		name, isModule := moduleOption(of, args[i:])
		switch {
		case told >= 0:
		case isModule && strings.HasSuffix(arg, "m"+name):
			told = i
		case isModule, slices.Contains(evaluated, arg):
			told = i + 1
		}
		if isModule || slices.Contains([]string{"-c", "-e", "-m", "-p", "-r", "--eval", "--print", "--require",
			"--import", "-"}, arg) {
			l.folder(cwd, of)
		}
		before := ""
		if i > 0 && strings.HasPrefix(args[i-1], "-") {
			before = args[i-1]
		}
		if slices.Contains(evaluated, before) {
			for _, word := range fields(arg) {
				l.unended(of, absolute(cwd, word))
			}
		}
		path := absolute(cwd, arg)
		for _, form := range forms(arg) {
			l.unended(of, absolute(cwd, form))
			if folder := absolute(cwd, form); form != arg && isDir(folder) { // -Ilib
				l.folder(folder, of)
			}
		}
		there := regularFiles(path)
		switch {
		case strings.HasPrefix(arg, "-"):
			if of == &python && isolated.MatchString(arg) {
				l.caches()
			}
		case isDir(path):
			l.folder(path, of)
			return
		case there != nil && !valued[before]:
			l.files(there)
			return
		case before == "", strings.Contains(arg, "${"): // the rest is the script's
			return
		}
	}
}

// caches adds the caches of bytecode beside the code, which Python reads where it is not told another place.
func (l *lines) caches() {
	l.err = cmp.Or(l.err, filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Base(filepath.Dir(path)) == "__pycache__" {
			l.paths = append(l.paths, path)
		}
		return gone(err)
	}))
}

// unended adds the file that a path means, with its ending or without. One that is data by its ending is left
// out.
func (l *lines) unended(of *language, path string) {
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

// moduleOption is the module that an option of Python names which args begin with: -m NAME,
// -mNAME, and behind other letters.
func moduleOption(of *language, args []string) (name string, ok bool) {
	letters, name, ok := strings.Cut(args[0], "m")
	if of != &python || !ok || !strings.HasPrefix(letters, "-") || strings.ContainsAny(letters[1:], "-cWX") {
		return "", false
	}
	if name == "" && len(args) > 1 {
		name = args[1]
	}
	return name, true
}

// attribute is MODULE:NAME, as servers are told what they serve.
var attribute = regexp.MustCompile(`^([\w.]+):[A-Za-z_]\w*$`)

// modulesOf adds the modules of Python among words: those of -m and of attributes.
func (l *lines) modulesOf(of *language, args []string, cwd string) {
	if of != &python {
		return
	}
	for i, arg := range args {
		if name, ok := moduleOption(of, args[i:]); ok {
			l.module(name, cwd)
		} else if m := attribute.FindStringSubmatch(arg); m != nil {
			l.module(m[1], cwd)
		}
	}
}

// module adds a module of Python: a file, or a package with those above it.
func (l *lines) module(name, cwd string) {
	path := absolute(cwd, strings.ReplaceAll(name, ".", "/"))
	l.files(slices.Concat(regularFiles(path+".py"), regularFiles(filepath.Join(path, "__main__.py"))))
	outer, _, _ := strings.Cut(name, ".")
	if path := absolute(cwd, outer); outer != "" && isDir(path) {
		l.folder(path, &python)
	}
}

// tool adds what a program reads that works on the folder that it starts in, or is told.
func (l *lines) tool(of *language, args []string, cwd string) {
	if of.compiles {
		l.compiler(of, args, cwd)
		return
	}
	places := []string{cwd}
	first := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") || i > 0 && strings.HasPrefix(args[i-1], "-") || i == first && isPath(arg) {
			for _, form := range forms(arg) {
				if path := absolute(cwd, form); isDir(path) {
					places = append(places, path)
				}
			}
		}
	}
	for _, place := range places {
		l.workplace(place, of)
		l.modulesOf(of, args, place)
		if place != cwd {
			l.words(slices.Concat([]string{""}, args), place)
		}
		if of == &python || of == &node { // most of their arguments are those of what they run
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

// compiler adds what a tool compiles.
func (l *lines) compiler(of *language, args []string, cwd string) {
	told := false // of folders
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

// workplace adds what a tool reads of the folder that it works on.
func (l *lines) workplace(dir string, of *language) {
	l.folder(dir, nil)
	l.pack(filepath.Join(dir, "package.json"))
	if of == &node {
		l.modules(dir)
	}
}

// maxPackage is the largest package.json that is read, in bytes.
const maxPackage = 1 << 20

// pack adds the files that a package.json names: the entries of its package, and those of its scripts.
func (l *lines) pack(path string) {
	if l.read[path] {
		return
	}
	if l.read == nil {
		l.read = map[string]bool{}
	}
	l.read[path] = true
	data, _, err := regular.Read(path, maxPackage+1, true)
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
		return // npm runs nothing of it either
	}
	dir := filepath.Dir(path)
	for _, entry := range []any{p.Main, p.Module, p.Bin, p.Exports, p.Imports} {
		l.entries(entry, dir)
	}
	for _, line := range p.Scripts {
		l.command([]string{"sh", "-c", line}, dir)
	}
}

// entries adds the files that a value of a package.json names.
func (l *lines) entries(value any, dir string) {
	switch v := value.(type) {
	case string:
		l.unended(&node, absolute(dir, v))
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

// open reports whether a folder lies in the project and is not compared already.
func (l *lines) open(dir string) bool {
	return within(l.project, dir) && !(l.walked && within(l.dir, dir))
}

// below adds the files of a language, or all code, in a folder; deep: also in those below,
// without what tools put there.
func (l *lines) below(dir string, of *language, deep bool) {
	if !l.open(dir) || l.err != nil {
		return
	}
	n := 0
	l.err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if n++; err != nil {
			return gone(err)
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
		return gone(err)
	})
}
