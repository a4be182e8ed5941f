// Package locked holds the packages that extensions run against the lock file, at every start and
// without a network.
package locked

import (
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/file/regular"
	"github.com/exthost/exthost/internal/supply/lock/lockfile"
	"github.com/exthost/exthost/internal/supply/store"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Variable is the name of the environment variable that holds the directory of a package's
// files. A manifest refers to it, because the directory is another one on each machine.
const Variable = "EXTHOST_PACKAGE"

const maxManifest = 4 << 20 // bytes

// Packages are those of the extensions of a directory, as its lock file states them. It
// asks no network.
type Packages struct {
	// Editing says that an author is changing the manifests: only the files of packages are
	// compared with the lock file.
	Editing bool

	dir   string // of the lock file, absolute
	lock  *lockfile.Reader
	uses  Uses
	noted sync.Once
}

// New returns the packages of the lock file in dir, which is absolute, with their files in the
// store of uses.
func New(dir string, uses Uses) *Packages {
	return &Packages{dir: dir, lock: lockfile.NewReader(dir), uses: uses}
}

// Refused is why an extension with a package does not start: of kind untrusted, it is not what is
// locked; of kind not_ready, it is not on this machine.
type Refused struct {
	cause *protocol.Error
	next  string
}

func refuse(kind protocol.Kind, reason, next string) error {
	return &Refused{protocol.Errorf(kind, "%s", reason), next}
}

// Error states the reason.
func (r *Refused) Error() string { return protocol.Reason(r.cause) }

// Unwrap returns the error with the kind.
func (r *Refused) Unwrap() error { return r.cause }

// Next is the command that helps.
func (r *Refused) Next() string { return r.next }

// Entry returns what the lock file says of the package of c, and its id there; false when c runs
// no package.
func (l *Packages) Entry(c *discovery.Candidate) (e lockfile.Entry, id string, ok bool, err error) {
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

// Tools returns the hashes that the lock file states of the descriptors of the tools of c, by its
// own names; nil: none.
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

// Tree is the hash of the files of the package of c; "" when c runs none.
func (l *Packages) Tree(c *discovery.Candidate) (string, error) {
	e, _, ok, err := l.Entry(c)
	if err != nil || !ok {
		return "", err
	}
	return e.Tree, nil
}

// Verify returns the directory of the files of the package that c runs, after comparing them,
// the manifest and its command lines with the lock file; "" when c runs no package. beside are the
// files of data there that its program has written. The error is a [Refused], or that of a lock file
// that cannot be read.
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
		return "", nil, refuse(protocol.Untrusted, "it runs a package, and "+lockfile.FileName+" names none for it",
			"exthost add, which writes both; or "+lockfile.FileName+" from where the extension is from")
	}
	data, _, err := regular.Read(filepath.Join(c.Dir, manifest.FileName), maxManifest, true)
	if err != nil {
		return "", nil, err
	}
	const agree = ", where you agree to it"
	switch {
	case l.Editing:
	case lockfile.Sum(data) != e.Manifest:
		return "", nil, refuse(protocol.Untrusted,
			manifest.FileName+" is not the one that "+lockfile.FileName+" states", "exthost trust --lock "+id+agree)
	case CommandSum(m) != e.Command:
		return "", nil, refuse(protocol.Untrusted, "its command lines are not those that "+lockfile.FileName+" states",
			"exthost trust --lock "+id+agree)
	}
	dir, beside, err = l.uses.Store.Verify(e.Tree)
	switch {
	case err == nil:
		// a clone whose packages were here; without the note it may have to fetch them again
		l.noted.Do(func() { _ = l.uses.Add(l.dir) })
		return dir, beside, nil
	case errors.As(err, new(store.Missing)):
		return "", nil, refuse(protocol.NotReady, "its package "+e.Source+" "+e.Version+" is not on this machine",
			"exthost add --locked "+id)
	}
	return "", nil, refuse(protocol.Untrusted, err.Error(),
		"exthost add --locked "+id+", which restores them and deletes nothing")
}

// refers reports whether a manifest refers to the files of a package.
func refers(m *manifest.Manifest) bool {
	data, err := json.Marshal(commands(m))
	return err != nil || strings.Contains(string(data), "${"+Variable)
}

// CommandSum is a hash of the command lines of a manifest, as the lock file has it.
func CommandSum(m *manifest.Manifest) string {
	data, err := json.Marshal(commands(m))
	if err != nil { // of texts
		return ""
	}
	return lockfile.Sum(data)
}

// commands are all command lines of a manifest, with their environment.
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
