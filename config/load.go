package config

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/text/foreign"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// LoadOptions state where [Load] reads from. The zero value stands for the current directory, the process's environment
// and the platform's directories.
type LoadOptions struct {
	File      string   // --config, laid over the directory's files; default $EXTHOST_CONFIG, else none
	Dir       string   // directory with exthost.yaml or config/; default the current directory
	Environ   []string // NAME=value; default os.Environ()
	UserDir   string   // default $XDG_CONFIG_HOME/exthost, else the platform's; "none": not read
	SystemDir string   // default /etc/exthost, %ProgramData%\exthost; "none": not read
	Flags     []Flag   // laid over all files and variables
	NoProject bool     // do not read the directory's files

	// CheckCEL checks policies of `builtin: cel`, usually celpolicy.Check. Default: [Load] accepts them, and
	// exthost.Open checks them, so that this package does not link CEL.
	CheckCEL func(governance.Spec) []governance.Problem
}

// Flag is one command-line flag that was given.
type Flag struct {
	Name   string   // the flag as written: --listen
	Key    string   // the key that it sets: server.listen
	Values []string // one, or more for a list
}

// Load merges the layers of the configuration, the strongest last: defaults, the system's files, the user's, the
// directory's, File, EXTHOST_* variables, Flags. A later layer cannot remove policies and hooks of the system's
// and the user's files, and the directory's files cannot loosen their security settings. The error is a [Refused]
// with everything that is wrong, each with its place. What is only doubtful is in Config.Warnings.
func Load(o LoadOptions) (*Config, error) {
	l := newLoader(o)
	l.run()
	l.cfg.hidden = hide(l.asked)
	for i, d := range l.report.Diagnostics {
		l.report.Diagnostics[i].Message = l.cfg.hidden.text(d.Message)
	}
	if l.report.Failed() {
		return nil, Refused(l.report.Diagnostics)
	}
	l.cfg.Files, l.cfg.Variables = l.looked, slices.Sorted(maps.Keys(l.asked))
	l.cfg.Warnings, l.cfg.Origins = l.report.Diagnostics, &Origins{l.decoder.Positions}
	return l.cfg, nil
}

// Refused is the error of [Load] for an invalid configuration: its errors and warnings. If Options.Reread of a host
// returns a Refused, the host shows its diagnostics in the status.
type Refused []protocol.Diagnostic

// Error returns one line for each diagnostic.
func (r Refused) Error() string {
	lines := make([]string, len(r))
	for i, d := range r {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Diagnostics returns r.
func (r Refused) Diagnostics() []protocol.Diagnostic { return r }

func (l *loader) run() {
	l.files()
	l.settings()
	l.noteSafe()
	f := finisher{cfg: l.cfg, report: l.report, decoder: l.decoder, checkCEL: l.options.CheckCEL, owners: l.owners}
	f.finish()
	f.finishSecrets(l.userDir())
	f.noteUnset(l.unset)
	for _, file := range f.readEnvFiles() {
		l.note(file)
	}
	for _, d := range l.cfg.Destinations {
		if d.SecretsFile != "" {
			l.note(d.SecretsFile)
		}
	}
	l.noteProject()
	l.confine()
	l.noteSecrets()
	l.report.Sort(l.read)
}

// loader is the state of one Load.
type loader struct {
	options LoadOptions
	environ map[string]string
	report  *strict.Report
	decoder *strict.Decoder
	cfg     *Config
	read    []string          // files read, in order
	sums    map[string]string // their checksums
	looked  []string          // absolute paths that were looked for
	seen    []fs.FileInfo     // the files read, to skip links to them
	unset   []unset           // variables that only some extensions or destinations need
	asked   map[string]string // variables that files refer to
	owners  ownership.Rule    // which owners' files are read, according to the layers so far
}

func newLoader(o LoadOptions) *loader {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	l := &loader{
		options: o,
		environ: map[string]string{},
		report:  &strict.Report{Code: string(protocol.ConfigInvalid)},
		cfg:     Default(),
		asked:   map[string]string{},
		sums:    map[string]string{},
	}
	for _, entry := range o.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			l.environ[name] = value
		}
	}
	l.decoder = &strict.Decoder{
		Report:    l.report,
		Lookup:    l.lookup,
		Dir:       o.Dir,
		CamelCase: "plugins",
		Keep:      map[string]int{},
		Positions: strict.Positions{},
		BaseOf:    baseOf,
		Late:      l.late,
		Unknown:   l.unknown,
	}
	return l
}

// unknown reports an unknown key. A destination has its transport under type, and a manifest under kind.
func (l *loader) unknown(f strict.Field, known []string, message string) {
	hint := strict.Choose(f.Key, known)
	isKind := f.Key == "kind" || f.Key == "transport" || f.Key == "protocol"
	if isKind && slices.Contains(known, "type") && slices.Contains(known, "url") {
		hint = "write type: " + cmp.Or(manifest.MeantKind(f.Value.Text), DestinationSSE+", http or stdio")
	}
	l.report.Add(f.Pos, hint, "%s", message)
}

// lookup returns the value of a variable that a file refers to.
func (l *loader) lookup(name string) (value string, ok bool) {
	value, ok = l.environ[name]
	l.asked[name] = value
	return value, ok
}

// lateKeys match values that only one extension or destination needs.
var lateKeys = regexp.MustCompile(
	`^(extensions\.entries\.("[^"]*"|[^."]+)\.(env\.|config[.\[]|env_file$)` +
		`|destinations\.("[^"]*"|[^."]+)\.(env\.|headers\.|url$|command|cwd$|secrets_file$))`)

// late reports whether an unset variable may stay in the value at path. A hook replaces it when it runs. If only one
// extension or destination needs the value, late records the variable. Other values concern the host or the rules for
// calls, so there the variable makes the configuration invalid.
func (l *loader) late(path string, pos strict.Pos, name string) bool {
	if strings.HasPrefix(path, "hooks[") {
		return true // a hook has an env of its own
	}
	if !lateKeys.MatchString(path) {
		return false
	}
	l.unset = append(l.unset, unset{path, name, pos})
	return true
}

// files reads all files, the weakest layer first.
func (l *loader) files() {
	l.noteSafe()
	for i, dir := range []string{l.systemDir(), l.userDir()} {
		if dir != "" {
			l.layer(l.directory(dir))
			l.noteSafe()
		}
		// No later layer may remove policies and hooks of the system and the user.
		for n := l.decoder.Keep["plugins"]; n < len(l.cfg.Plugins); n++ {
			l.cfg.Plugins[n].Layer = governance.LayerSystem - governance.Layer(i)
		}
		l.decoder.Keep["plugins"] = len(l.cfg.Plugins)
		l.decoder.Keep["hooks"] = len(l.cfg.Hooks)
	}
	if !l.options.NoProject {
		l.project()
	}
	if file := l.configFile(); file != "" {
		n := l.file(file)
		if n != nil {
			foreign.Rewrite(n, l.report)
		}
		l.layer(n)
	}
}

// project reads the directory's files and guards the security settings of the layers below.
func (l *loader) project() {
	g, before := l.guard(), len(l.read)
	n := l.directory(l.options.Dir)
	if n == nil && l.configFile() == "" {
		l.noteElsewhere()
	}
	l.cfg.Project.Files = make(map[string]string)
	for _, file := range l.read[before:] {
		if abs, err := filepath.Abs(file); err == nil {
			l.cfg.Project.Files[abs] = l.sums[file]
		}
	}
	l.layer(n)
	g.keep()
}

// noteProject fills in Config.Project.
func (l *loader) noteProject() {
	p := &l.cfg.Project
	p.Dir, _ = filepath.Abs(l.options.Dir) // on error "", and nothing of the directory is found either
	pos, stated := l.decoder.Positions["extensions.search_paths"]
	file, _ := filepath.Abs(pos.File)
	_, ofProject := p.Files[file]
	p.SearchPaths = !stated || pos.File != "" && ofProject
	named, err := os.Stat(l.configFile())
	for file := range p.Files {
		if info, wrong := os.Stat(file); err == nil && wrong == nil && os.SameFile(named, info) {
			delete(p.Files, file) // chosen with --config, so not the project's
		}
	}
}

// layer lays a tree over the configuration so far.
func (l *loader) layer(n *strict.Node) {
	if n != nil {
		l.decoder.Decode("", n, l.cfg)
	}
}

func (l *loader) configFile() string {
	return cmp.Or(l.options.File, l.environ["EXTHOST_CONFIG"])
}

func (l *loader) userDir() string {
	switch dir := l.options.UserDir; {
	case dir == "none":
		return ""
	case dir != "":
		return dir
	case l.environ["XDG_CONFIG_HOME"] != "":
		return filepath.Join(l.environ["XDG_CONFIG_HOME"], "exthost")
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "exthost")
}

func (l *loader) systemDir() string {
	switch dir := l.options.SystemDir; {
	case dir == "none":
		return ""
	case dir != "":
		return dir
	case runtime.GOOS == "windows":
		return filepath.Join(l.environ["ProgramData"], "exthost")
	}
	return "/etc/exthost"
}
