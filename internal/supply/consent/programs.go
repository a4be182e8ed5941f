package consent

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
)

// Programs returns the files that a manifest's command lines and hooks name, the files in project that those
// programs load implicitly, and the code that the manifest's variables make the programs load, such as LD_PRELOAD
// and PYTHONPATH. Programs found on PATH or by an absolute path belong to the system and are left out. project is a
// directory above dir, or "".
//
// It returns an error if a folder cannot be listed.
func Programs(m *manifest.Manifest, dir, project string) ([]string, error) {
	l := lines{dir: dir, project: project, walked: true}
	cwd := absolute(dir, m.Transport.Cwd)
	own := placed(m.Transport, dir)
	l.transport(&own)
	for _, t := range m.Tools {
		l.command(t.Command, cwd)
	}
	for _, h := range m.Hooks {
		l.hook(h.Command)
	}
	for _, s := range m.MCPServers {
		t := s.Transport()
		if t.Literal = m.Portable; m.Portable {
			t = agentplugin.Expand(t, dir, filepath.Join(dir, "${"+agentplugin.DataVariable+"}"))
		} else {
			t = placed(t, dir)
		}
		l.transport(&t)
	}
	return l.sorted()
}

// placed returns a transport with the variable for the folder of the extension replaced.
func placed(t manifest.Transport, dir string) manifest.Transport {
	const variable = "${" + manifest.DirVariable + "}"
	t.Args, t.Env = slices.Clone(t.Args), maps.Clone(t.Env)
	for i := range t.Args {
		t.Args[i] = strings.ReplaceAll(t.Args[i], variable, dir)
	}
	for name := range t.Env {
		t.Env[name] = strings.ReplaceAll(t.Env[name], variable, dir)
	}
	return t
}

// ConfiguredPrograms returns the files below dir that the command lines of a configuration name (policies, hooks
// and destinations), the files below dir that those programs load implicitly, and the code that the configured
// variables make those programs load.
func ConfiguredPrograms(cfg *config.Config, dir string) ([]string, error) {
	l := lines{dir: dir, project: dir}
	for _, p := range cfg.Plugins {
		t := manifest.Transport{Cmd: p.Cmd, Cwd: p.Cwd, Env: p.Env}
		if m := p.MCP; m != nil {
			t = manifest.Transport{Cmd: m.Cmd, Script: m.Script, Cwd: m.Cwd, Env: m.Env}
		}
		l.transport(&t)
	}
	for _, h := range cfg.Hooks {
		l.hook(h.Command)
	}
	for _, d := range cfg.Destinations {
		l.transport(&manifest.Transport{Cmd: d.Command, Cwd: d.Cwd, Env: d.Env})
		if d.SecretsFile != "" {
			l.paths = append(l.paths, regularFiles(absolute(dir, d.SecretsFile))...) // an environment file
		}
	}
	return l.configured()
}

// Stated holds the variables that the operator sets for an extension's processes.
type Stated struct {
	Env   map[string]string
	Files []string // environment files that Env was read from; absolute
}

// StatedBy returns the variables that a configuration sets for the extension id.
func StatedBy(cfg *config.Config, id string) Stated {
	s := Stated{Env: cfg.Extensions.Environ(id)}
	owner, _ := manifest.OwnerOf(id)
	for _, id := range []string{owner, id} {
		if file := cfg.Extensions.Entries[id].EnvFile; file != "" && !slices.Contains(s.Files, file) {
			s.Files = append(s.Files, file)
		}
	}
	return s
}

// StatesCode reports whether a configuration with files in the working directory sets variables for c that name
// code files there.
func StatesCode(cfg *config.Config, c *discovery.Candidate) bool {
	if len(cfg.Project.Files) == 0 {
		return false
	}
	paths, err := statedPrograms(cmp.Or(c.OwnedBy, c.Manifest), StatedBy(cfg, c.ID), c.Dir, cfg.Project.Dir)
	return err != nil || len(paths) > 0
}

// statedPrograms returns the code in project that the variables in s make m's programs load, and the environment
// files of s. It leaves out files outside of project, which belong to the operator.
func statedPrograms(m *manifest.Manifest, s Stated, dir, project string) ([]string, error) {
	l := lines{dir: dir, project: project}
	cwd := absolute(dir, m.Transport.Cwd)
	l.paths = append(l.paths, loaded(s.Env, cwd)...)
	l.variables(s.Env, cwd)
	for _, file := range s.Files {
		l.paths = append(l.paths, regularFiles(file)...)
	}
	l.paths = slices.DeleteFunc(l.paths, func(path string) bool { return !within(project, path) })
	return l.sorted()
}

// CommandPrograms is [ConfiguredPrograms] for one command.
func CommandPrograms(t *manifest.Transport, dir string) ([]string, error) {
	l := lines{dir: dir, project: dir}
	l.transport(t)
	return l.configured()
}

// lines collects the files that command lines run.
type lines struct {
	dir     string // folder that the command lines are relative to
	project string // files outside of project belong to the system or the user, unless named
	walked  bool   // all code in dir is compared anyway
	paths   []string
	read    map[string]bool // package.json files processed so far
	err     error
}

func (l *lines) sorted() ([]string, error) {
	slices.Sort(l.paths)
	return slices.Compact(l.paths), l.err
}

// configured returns the files within dir. If dir itself is among the paths, the code directly in dir replaces it.
func (l *lines) configured() ([]string, error) {
	if slices.Contains(l.paths, l.dir) {
		l.below(l.dir, nil, false)
	}
	l.paths = slices.DeleteFunc(l.paths, func(path string) bool { return path == l.dir || !within(l.dir, path) })
	return l.sorted()
}

func (l *lines) transport(t *manifest.Transport) {
	cwd := absolute(l.dir, t.Cwd)
	l.command(t.CommandLine(), cwd)
	if t.Script != "" {
		l.files(slices.Concat(regularFiles(absolute(l.dir, t.Script)), regularFiles(absolute(cwd, t.Script))))
	}
	l.paths = append(l.paths, loaded(t.Env, cwd)...)
	l.variables(t.Env, cwd)
}

// searched are variables with search paths for programs or code, in addition to those of [process.LoadsCode].
var searched = map[string]bool{
	"PATH":                true,
	"CLASSPATH":           true,
	"GEM_HOME":            true,
	"GEM_PATH":            true,
	"LUA_PATH":            true,
	"LUA_CPATH":           true,
	"R_LIBS":              true,
	"R_LIBS_USER":         true,
	"JULIA_LOAD_PATH":     true,
	"ERL_LIBS":            true,
	"PSMODULEPATH":        true,
	"VIRTUAL_ENV":         true,
	"PYTHONUSERBASE":      true,
	"PYTHONPYCACHEPREFIX": true,
	"CARGO_HOME":          true,
}

// variables adds the files in the project that the values in env name, unless they are data, and the folders in
// search paths.
func (l *lines) variables(env map[string]string, cwd string) {
	if _, ok := env["PYTHONPYCACHEPREFIX"]; ok {
		l.caches()
	}
	for name, value := range env {
		elements := filepath.SplitList(value)
		for _, word := range slices.Concat(elements, strings.Fields(value)) {
			if path := absolute(cwd, word); within(l.project, path) {
				l.given(name, path)
			}
		}
		for _, element := range elements {
			if path := absolute(cwd, element); searched[strings.ToUpper(name)] && isDir(path) {
				l.folder(path, nil)
			}
		}
	}
}

// given adds the file at path unless it is data, which programs write. by is the option or variable that names the
// file; "" for an argument.
func (l *lines) given(by, path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !isData(by, path, info) {
		l.files([]string{path})
	}
}

// hook adds the files of a hook's command, with its directory variables expanded.
func (l *lines) hook(argv []string) {
	names := map[string]string{"CLAUDE_PLUGIN_ROOT": "."}
	if project, err := filepath.Rel(l.dir, l.project); err == nil && l.project != "" {
		names["CLAUDE_PROJECT_DIR"] = filepath.ToSlash(project)
	}
	argv = slices.Clone(argv)
	for i := range argv {
		for name, path := range names {
			for _, form := range []string{`"$` + name + `"`, `"${` + name + `}"`, "${" + name + "}", "$" + name} {
				argv[i] = strings.ReplaceAll(argv[i], form, path)
			}
		}
	}
	l.command(argv, l.dir)
}

// shells run a script, or a command line after -c.
var shells = set("sh bash dash zsh ash ksh fish")

// wrappers run the programs among their arguments.
var wrappers = set("sh bash dash zsh ash ksh fish env exec timeout nice nohup sudo cmd busybox setsid xargs stdbuf " +
	"ionice chrt taskset doas dotenv cross-env tini dumb-init caffeinate")

// command adds the files of one command line that starts in cwd.
func (l *lines) command(argv []string, cwd string) {
	if len(argv) == 0 {
		return
	}
	l.program(argv[0])
	l.words(argv, cwd)
	wraps := wrappers[program(argv[0])]
	if wraps {
		argv = allFields(argv)
	}
	if movesCaches.MatchString(strings.Join(argv, " ")) {
		l.caches()
	}
	for i, word := range argv {
		name, args := program(word), argv[i+1:]
		if of := byInterpreter[name]; of != nil { // including uv run and nodemon --exec
			l.interpreter(of, args, cwd)
		}
		if shells[name] {
			l.shell(args, cwd)
		}
		if i == 0 || wraps {
			l.tools(name, args, cwd)
		}
	}
	if n := slices.Index(argv, "cd"); wraps && n >= 0 && n+1 < len(argv) && isDir(absolute(cwd, argv[n+1])) {
		l.command(slices.Concat([]string{"sh"}, argv[n+2:]), absolute(cwd, argv[n+1]))
	}
}

// program adds the file of a program, and the virtual environment of Python that it belongs to.
func (l *lines) program(word string) {
	if strings.ContainsAny(word, `/\`) && (!filepath.IsAbs(word) || within(l.project, word)) {
		l.files(regularFiles(absolute(l.dir, word)))
	}
	root := filepath.Dir(filepath.Dir(absolute(l.dir, word)))
	if regularFiles(filepath.Join(root, "pyvenv.cfg")) != nil {
		l.folder(root, nil)
	}
}

// movesCaches matches command lines that set the location of Python's caches, or start Python without variables.
var movesCaches = regexp.MustCompile(`PYTHONPYCACHEPREFIX|\benv( \S+)* (-[a-z]*i|--ignore-environment|-)( |$)`)

// shell adds the script that a shell runs: its first argument, unless it has -c.
func (l *lines) shell(args []string, cwd string) {
	for _, arg := range args {
		switch option := strings.HasPrefix(arg, "-"); {
		case option && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "c"):
			return
		case !option:
			l.files(regularFiles(absolute(cwd, arg)))
			return
		}
	}
}

// words adds files named by the arguments of a command line, and by arguments that are shell command lines.
func (l *lines) words(argv []string, cwd string) {
	for i, word := range argv {
		if i == 0 {
			continue
		}
		by := ""
		if before := argv[i-1]; strings.HasPrefix(before, "-") && !strings.Contains(before, "=") {
			by = before
		}
		if option, _, ok := strings.Cut(word, "="); ok {
			by = option
		}
		for _, form := range forms(word) {
			l.given(by, absolute(cwd, form))
		}
		l.line(word, cwd)
	}
}

// tokens are the words and operators of a shell command line.
var tokens = regexp.MustCompile("[<>]+|[;&|\n(){}`]|[^\\s;&|<>(){}'\"`=]+")

// line adds files named in a shell command line: code files, and any file that the line runs or reads. Other
// files are left out, because the line may write them.
func (l *lines) line(line, cwd string) {
	all := tokens.FindAllString(line, -1)
	if len(all) < 2 {
		return
	}
	for i, word := range all {
		before, path := "", absolute(cwd, word)
		if i > 0 {
			before = all[i-1]
		}
		switch info, err := os.Stat(path); {
		case err != nil || !info.Mode().IsRegular():
		case before == "." || before == "source" || before == "exec" || strings.HasPrefix(before, "<"):
			l.files([]string{path})
		case IsCode(path, info.Mode()):
			l.files([]string{path})
		case strings.HasPrefix(before, ">") || namesData(path):
		default:
			if code, err := holdsCode(path); code || err != nil {
				l.files([]string{path})
			}
		}
	}
}

// tools adds the files that a tool reads.
func (l *lines) tools(name string, args []string, cwd string) {
	of := byTool[name]
	for _, arg := range args {
		if of == nil {
			of = byTool[name+":"+arg]
		}
	}
	if of != nil {
		l.tool(of, args, cwd)
	}
	if name == "uvx" || name == "pipx" {
		l.built(args, cwd)
	}
}

// forms returns the paths that an argument may contain: itself, an option's value (--config=FILE, -fFILE), a
// response file (@FILE), and list elements (java -cp FILE:FILE, lib/*).
func forms(word string) []string {
	list := []string{word}
	if _, value, ok := strings.Cut(word, "="); ok {
		list = append(list, value)
	}
	if rest, ok := strings.CutPrefix(word, "@"); ok {
		list = append(list, rest)
	}
	if len(word) > 2 && word[0] == '-' && word[1] != '-' {
		list = append(list, word[2:])
	}
	for _, element := range filepath.SplitList(word) {
		list = append(list, strings.TrimSuffix(element, "/*"))
	}
	return slices.DeleteFunc(list, func(form string) bool { return form == "" })
}

func isPath(word string) bool {
	return strings.ContainsAny(word, `/\`) || word == "." || word == ".."
}

// loaded returns the files and folders that variables make programs load code from: elements of a path list,
// words of options, and values attached to an option letter (-r./file).
func loaded(env map[string]string, cwd string) (paths []string) {
	for name, value := range env {
		if !process.LoadsCode(name) {
			continue
		}
		separates := func(r rune) bool { return r == os.PathListSeparator || strings.ContainsRune(" \t=\"'", r) }
		for _, word := range strings.FieldsFunc(value, separates) {
			candidates := []string{strings.TrimPrefix(word, "//")} // file:///x, cut at the colon
			if len(word) > 2 && word[0] == '-' {
				candidates = append(candidates, word[2:])
			}
			for _, path := range candidates {
				path = absolute(cwd, path)
				if info, err := os.Stat(path); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths
}

// fields splits a shell command line at spaces, operators and quotes.
func fields(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n;&|<>(){}'\"`=", r) })
}

func allFields(lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, fields(line)...)
	}
	return all
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// within reports whether path is dir or below it. It is false if dir is "".
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return dir != "" && err == nil && filepath.IsLocal(rel)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func regularFiles(path string) []string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return []string{path}
}
