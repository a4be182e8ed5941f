package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/manifest/sandbox"
)

// Place is where an extension lives.
type Place struct {
	Dir   string // the extension's folder, absolute
	State string // its state directory, absolute
	// Private are paths of the host that no extension may ask for: configuration, state, tokens, secrets.
	Private []string
}

// PlaceOf returns the place of an extension. The host's other extensions keep their state beside state. private are
// further absolute paths of the host; "" is ignored.
func PlaceOf(dir, state string, private ...string) Place {
	host := filepath.Dir(state)
	at := Place{Dir: dir, State: state, Private: []string{host, "/etc/exthost"}}
	for _, path := range private {
		if path != "" {
			at.Private = append(at.Private, path)
		}
	}
	if all := filepath.Dir(host); filepath.Base(all) == "exthost" { // state of the hosts of all working directories
		at.Private = append(at.Private, all)
	}
	if config, err := os.UserConfigDir(); err == nil {
		at.Private = append(at.Private, filepath.Join(config, "exthost"))
	}
	return at
}

// temporary is the directory for temporary files, below the state directory.
const temporary = "tmp"

// Environ returns the variables for a confined process: its temporary files go to a directory below its state
// directory, which Environ creates. A process without namespaces that may not write its state directory cannot write
// there either.
func (p *Policy) Environ(state string) map[string]string {
	if p == nil {
		return nil
	}
	tmp := filepath.Join(state, temporary)
	if err := os.Mkdir(tmp, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil
	}
	env := map[string]string{"TMPDIR": tmp}
	if p.hidesGitConfig() { // git fails on a configuration that is there and cannot be read
		env["GIT_CONFIG_GLOBAL"] = os.DevNull
	}
	return env
}

// hidesGitConfig reports whether git would find a configuration of the user that it may not read.
func (p *Policy) hidesGitConfig() bool {
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	for _, name := range []string{".gitconfig", ".config/git/config"} {
		path := real(filepath.Join(home, name))
		readable := slices.ContainsFunc(slices.Concat(p.Read, p.Write),
			func(dir string) bool { return within(path, dir) })
		if _, err := os.Stat(path); err == nil && !readable {
			return true
		}
	}
	return false
}

// Resolve returns the policy for the table of an extension. It follows symbolic links now, so that later changes of
// links have no effect. The error names the path that is not allowed.
func Resolve(t *sandbox.Table, at Place) (*Policy, error) {
	p := &Policy{
		Profile:    t.Profile,
		Net:        t.Net,
		BestEffort: t.BestEffort,
		At:         at,
		Read:       []string{real(at.Dir), real(at.State)},
	}
	for _, list := range []struct {
		key   string
		names []string
		to    *[]string
	}{{"read", t.Read, &p.Read}, {"write", t.Write, &p.Write}} {
		for i, name := range list.names {
			path, err := at.path(name)
			if err != nil {
				return nil, fmt.Errorf("sandbox.%s[%d]: %w", list.key, i, err)
			}
			if list.key == "write" && within(p.Read[0], path) {
				return nil, fmt.Errorf("sandbox.write[%d]: %s holds the manifest of the extension, which says what "+
					"it may touch; ask for a folder in it, or for {state}", i, path)
			}
			*list.to = append(*list.to, path)
		}
	}
	if err := at.refuse(p.Read[0]); err != nil {
		return nil, fmt.Errorf("the extension's folder: %w", err)
	}
	return p, nil
}

// path returns the absolute path of a table's entry.
func (at *Place) path(name string) (string, error) {
	base := at.Dir
	switch rest, own := strings.CutPrefix(name, sandbox.State); {
	case own:
		base, name = at.State, filepath.Join(at.State, rest)
	case filepath.IsAbs(name):
		base = ""
	case name == "~" || strings.HasPrefix(name, "~/"):
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("~ is not known: %w", err)
		}
		base, name = "", filepath.Join(home, name[1:])
	default:
		name = filepath.Join(at.Dir, name)
	}
	path := real(name)
	if base != "" && !within(path, real(base)) { // otherwise a writer of base could redirect it
		return "", fmt.Errorf("%s leads to %s by a symbolic link, out of %s; state where it leads", name, path, base)
	}
	return path, at.refuse(path)
}

// Name returns the entry with which a table grants an absolute path. It fails if no table can grant
// the path.
func (at *Place) Name(path string, write bool) (string, error) {
	if err := at.refuse(path); err != nil {
		return "", err
	}
	if write && within(real(at.Dir), path) {
		return "", errors.New("the manifest is there, which says what it may touch; write to {state} or to a folder " +
			"in it")
	}
	home, _ := os.UserHomeDir()
	for _, base := range []struct{ dir, name string }{{at.State, sandbox.State}, {at.Dir, "."}, {home, "~"}} {
		if dir := real(base.dir); base.dir != "" && within(path, dir) {
			rel, _ := filepath.Rel(dir, path)
			return strings.TrimSuffix(base.name+"/"+filepath.ToSlash(rel), "/."), nil
		}
	}
	return path, nil
}

// refuse returns an error if path is, contains or lies in one of the host's private paths.
func (at *Place) refuse(path string) error {
	if within(path, "/proc") {
		return errors.New(
			`/proc shows all processes; with runtime.isolate = "pid" it has one of its own, which it may read`)
	}
	state := real(at.State)
	for _, private := range at.Private {
		private = real(private)
		if within(private, path) || within(path, private) && !within(path, state) && path != real(at.Dir) {
			return fmt.Errorf("%s holds files of the host (%s), which no extension may reach; ask for the folders "+
				"that it needs", path, private)
		}
	}
	return nil
}

// real resolves the symbolic links in path, as far as it exists.
func real(path string) string {
	path = filepath.Clean(path)
	found, err := filepath.EvalSymlinks(path)
	if err == nil {
		return found
	}
	if dir := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && dir != path {
		return filepath.Join(real(dir), filepath.Base(path))
	}
	return path
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
