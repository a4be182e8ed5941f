package lock

import (
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Variable is the environment variable with the directory of a package's files. Manifests refer to it because the
// directory differs between machines.
const Variable = "EXTHOST_PACKAGE"

const maxManifest = 4 << 20 // bytes

// Packages verifies the packages of one directory's extensions against its lock file. It never uses the network.
type Packages struct {
	// Editing is set while an author changes the manifests: then only the files of packages are verified.
	Editing bool

	dir   string // absolute directory of the lock file
	lock  *Reader
	uses  Uses
	noted sync.Once
}

// NewPackages returns the packages of the lock file in dir, an absolute path. Their files are in the store of uses.
func NewPackages(dir string, uses Uses) *Packages {
	return &Packages{dir: dir, lock: NewReader(dir), uses: uses}
}

// Refused is the reason why an extension with a package does not start. Its kind is untrusted if something differs
// from the lock file, and not_ready if the package is not on this machine.
type Refused struct {
	cause *protocol.Error
	next  string
}

func refuse(kind protocol.Kind, reason, next string) error {
	return &Refused{protocol.Errorf(kind, "%s", reason), next}
}

func (r *Refused) Error() string { return protocol.Reason(r.cause) }

func (r *Refused) Unwrap() error { return r.cause }

// Next returns the command to run next.
func (r *Refused) Next() string { return r.next }

// Entry returns the lock file's entry and id for c; ok is false if c runs no package.
func (l *Packages) Entry(c *discovery.Candidate) (e Entry, id string, ok bool, err error) {
	id = cmp.Or(c.Owner, c.ID)
	if rel, err := filepath.Rel(l.dir, c.Dir); err != nil || !filepath.IsLocal(rel) {
		return e, id, false, nil // another directory's
	}
	f, err := l.lock.Read()
	if err != nil {
		return e, id, false, err
	}
	e, ok = f.Lookup(id)
	return e, id, ok && e.Tree != "", nil
}

// Tools returns the locked descriptor hashes of c's tools, by the tools' own names; nil if none are recorded.
func (l *Packages) Tools(c *discovery.Candidate) map[string]string {
	e, _, ok, err := l.Entry(c)
	if err != nil || !ok || e.Tools == nil {
		return nil
	}
	stated := map[string]string{}
	for name, hash := range e.Tools {
		if id, tool, _ := strings.Cut(name, "/"); id == c.ID {
			stated[tool] = hash
		}
	}
	return stated
}

// Tree returns the hash of the files of c's package; "" without a package.
func (l *Packages) Tree(c *discovery.Candidate) (string, error) {
	e, _, ok, err := l.Entry(c)
	if err != nil || !ok {
		return "", err
	}
	return e.Tree, nil
}

// Changed reports whether c runs a package and has another manifest than the lock file states.
func (l *Packages) Changed(c *discovery.Candidate) (bool, error) {
	e, _, ok, err := l.Entry(c)
	if err != nil || !ok {
		return false, err
	}
	change, err := e.change(c)
	return change != "", err
}

// change tells what of the manifest of c is not as e states it; "" for nothing.
func (e *Entry) change(c *discovery.Candidate) (string, error) {
	data, _, err := file.ReadRegular(filepath.Join(c.Dir, filepath.Base(c.Path)), maxManifest, true)
	switch {
	case err != nil:
		return "", err
	case Sum(data) != e.Manifest:
		return filepath.Base(c.Path) + " is not the one", nil
	case CommandSum(cmp.Or(c.OwnedBy, c.Manifest)) != e.Command:
		return "its command lines are not those", nil
	}
	return "", nil
}

// Verify compares manifest, command lines and package of c with the lock file. It returns the directory of the
// package, or "" without one or for a plugin, and the data files that the program has written there (beside). The error
// is a [Refused], or comes from an unreadable lock file.
func (l *Packages) Verify(c *discovery.Candidate) (dir string, beside []string, err error) {
	e, id, ok, err := l.Entry(c)
	if err != nil {
		return "", nil, err
	}
	m := cmp.Or(c.OwnedBy, c.Manifest)
	if !ok {
		if !refers(m) {
			return "", nil, nil
		}
		return "", nil, refuse(protocol.Untrusted, "it runs a package, and "+FileName+" names none for it",
			"exthost add, which writes both; or "+FileName+" from where the extension is from")
	}
	change, err := e.change(c)
	switch {
	case err != nil:
		return "", nil, err
	case change != "" && !l.Editing:
		return "", nil, refuse(protocol.Untrusted, change+" that "+FileName+" states",
			"exthost trust "+id+", where you agree to it")
	}
	if m.Portable || m.Translated {
		return "", nil, l.verifyPlugin(&e, id, c.Dir)
	}
	dir, beside, err = l.uses.Store.Verify(e.Tree)
	switch {
	case err == nil:
		l.note()
		return dir, beside, nil
	case errors.As(err, new(store.Missing)):
		return "", nil, refuse(protocol.NotReady, "its package "+e.Source+" "+e.Version+" is not on this machine",
			"exthost add --locked "+id)
	}
	return "", nil, refuse(protocol.Untrusted, err.Error(),
		"exthost add --locked "+id+", which restores them and deletes nothing")
}

// note lists the directory as one whose lock file names packages. They may have been added in another directory: unless
// this one is listed too, [Uses.Release] could remove their trees.
func (l *Packages) note() { l.noted.Do(func() { _ = l.uses.Add(l.dir) }) }

// verifyPlugin compares a plugin, which is a copy of its package's tree, with the lock file. Files beside those of the
// package are for consent to judge, which covers every byte of a plugin.
func (l *Packages) verifyPlugin(e *Entry, id, dir string) error {
	if l.Editing {
		return nil
	}
	err := l.uses.Store.VerifyCopy(e.Tree, dir)
	if err == nil {
		l.note()
		return nil
	}
	return refuse(protocol.Untrusted, err.Error(),
		"exthost add --locked "+id+", which restores what is missing, and names what you have to move away")
}

// refers reports whether a manifest uses [Variable].
func refers(m *manifest.Manifest) bool {
	data, err := json.Marshal(commands(m))
	return err != nil || strings.Contains(string(data), "${"+Variable)
}

// CommandSum returns the hash for [Entry.Command].
func CommandSum(m *manifest.Manifest) string {
	data, err := json.Marshal(commands(m))
	if err != nil { // cannot happen: texts always encode
		return ""
	}
	return Sum(data)
}

// commands returns all command lines of a manifest, with their environment.
func commands(m *manifest.Manifest) (list []any) {
	list = append(list, m.Transport)
	for _, t := range m.Tools {
		list = append(list, t.Command)
	}
	for _, h := range m.Hooks {
		list = append(list, h.Command)
	}
	return append(list, m.MCPServers)
}
