// Package consent holds what a user agreed to run of the directories that the user works in:
// which code, and with which secrets.
package consent

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/protocol"
)

// Consent decides by the records of a user, and by what the program brings itself.
type Consent struct {
	Store   Store
	Bundled func(digest string) bool // whether a folder of that digest is part of the program
	// what extensions in this directory load of it is compared too; "": nothing outside of their folders that they do
	// not name
	Project string
	// Package returns the hash of the package that an extension runs, "" without one; nil: none
	// does. It is one of the files that are agreed to.
	Package func(c *discovery.Candidate) (hash string, err error)
	// Locked returns what a lock file says of an extension, in place of the records; nil: the
	// records count.
	Locked func(c *discovery.Candidate, files Files) error
	// LockedConfiguration reports whether it says this of the configuration of the directory. It
	// is set with Locked.
	LockedConfiguration func(Files) bool

	// Stated returns what the operator states for the processes of the extension id; nil: nothing. What that
	// names in Project is compared.
	Stated func(id string) Stated

	looks looks
	last  sync.Map // Files by Kind and folder, as they were found last: without a record they are known all the same
}

// known returns versions of files that need not be read again.
func (k *Consent) known(r *Record) Files {
	if last, ok := k.last.Load(string(r.Kind) + r.Dir); ok {
		return last.(Files)
	}
	return r.Files
}

// Verdict is what is known of a folder as it is now.
type Verdict struct {
	Record  *Record // never nil
	Files   Files   // as they are now
	Bundled bool    // the folder is part of the program
	Locked  bool    // a lock file says just this
	Changes []string
	project string // within which Files were found; "": of the folder alone
	kept    bool   // the user agreed to the same in a wider project
	marks   []mark // of what was compared
}

// Trusted reports whether the folder may run as it is.
func (v *Verdict) Trusted() bool {
	return !v.Record.Revoked && (v.Bundled || v.Locked || v.Record.Accepted != nil && len(v.Changes) == 0)
}

// Extension compares the folder of an extension with what was agreed to.
func (k *Consent) Extension(c *discovery.Candidate) (*Verdict, error) {
	dir, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return nil, err
	}
	r, err := k.Store.Of(dir, Extension)
	if err != nil {
		return nil, err
	}
	v := &Verdict{Record: r}
	var hash string
	if k.Package != nil {
		if hash, err = k.Package(c); err != nil {
			return nil, err
		}
	}
	stated, err := k.stated(c, dir)
	if err != nil {
		return nil, err
	}
	find := func(project string) (Files, error) {
		s, err := k.files(c, dir, project, stated, k.known(r))
		if err != nil {
			return nil, err
		}
		if hash != "" {
			s.files[PackageKey] = File{Sum: hash}
		}
		v.marks = append(v.marks, s.marks...)
		return s.files, nil
	}
	if project, err := filepath.EvalSymlinks(k.Project); err == nil && within(project, dir) &&
		project != filepath.Dir(project) { // where the system lies
		v.project = project
	}
	if v.Files, err = find(v.project); err != nil {
		return nil, err
	}
	k.last.Store(string(Extension)+dir, v.Files)
	v.Bundled = k.Bundled != nil && len(stated) == 0 && k.Bundled(v.Files.own().Digest())
	if r.Accepted == nil {
		return v, nil
	}
	now := v.Files
	if v.kept = r.Project != v.project && r.Project != "" && (v.project == "" || within(r.Project, v.project)); v.kept {
		if now, err = find(r.Project); err != nil {
			return nil, err
		}
		maps.Copy(now, v.Files) // a hook may name the project
	}
	v.Changes = now.Differs(r.Files)
	v.kept = v.kept && len(v.Changes) == 0
	return v, nil
}

// stated returns what the variables that the operator states for c name in the project.
func (k *Consent) stated(c *discovery.Candidate, dir string) ([]string, error) {
	if k.Stated == nil || k.Project == "" {
		return nil, nil
	}
	return statedPrograms(cmp.Or(c.OwnedBy, c.Manifest), k.Stated(c.ID), dir, k.Project)
}

// files returns the files of an extension in dir, and of the project what it loads.
func (k *Consent) files(c *discovery.Candidate, dir, project string, stated []string, known Files) (*sight, error) {
	m := cmp.Or(c.OwnedBy, c.Manifest)
	// A program is found from the path of the folder as it is written, and the program finds its
	// arguments from where the folder lies. A link may have these two differ.
	programs, err := Programs(m, dir, project)
	if err == nil && c.Dir != dir {
		as := ""
		if within(k.Project, c.Dir) {
			as = k.Project
		}
		var more []string
		more, err = Programs(m, c.Dir, as)
		programs = append(programs, more...)
	}
	if err != nil {
		return nil, err
	}
	return folder(dir, k.compared(append(programs, stated...)), known, &k.looks)
}

// compared leaves out what no lock file holds, where one decides.
func (k *Consent) compared(programs []string) []string {
	if k.LockedConfiguration == nil {
		return programs
	}
	return slices.DeleteFunc(programs, installed)
}

// PackageKey stands among the files of an extension for its package. No path ends like it.
const PackageKey = "the package of exthost.lock//"

// Configuration compares the configuration files of a working directory, and the programs
// there that they name, with what was agreed to.
func (k *Consent) Configuration(cfg *config.Config) (*Verdict, error) {
	dir, err := filepath.EvalSymlinks(cfg.Project.Dir)
	if err != nil {
		return nil, err
	}
	r, err := k.Store.Of(dir, Configuration)
	if err != nil {
		return nil, err
	}
	v := &Verdict{Record: r}
	programs, err := ConfiguredPrograms(cfg, cfg.Project.Dir)
	if err != nil {
		return nil, err
	}
	s, err := named(dir, k.compared(programs), k.known(r))
	if err != nil {
		return nil, err
	}
	v.Files, v.marks = s.files, s.marks
	k.last.Store(string(Configuration)+dir, maps.Clone(v.Files))
	maps.Copy(v.Files, configuration(cfg))
	if k.LockedConfiguration != nil {
		v.Record, v.Locked = new(Record), k.LockedConfiguration(v.Files)
		return v, nil
	}
	if r.Accepted != nil {
		v.Changes = v.Files.Differs(r.Files)
	}
	return v, nil
}

// configuration returns the configuration files of a working directory as they were when they
// were read.
func configuration(cfg *config.Config) Files {
	files := Files{}
	for path, sum := range cfg.Project.Files {
		if rel, err := filepath.Rel(cfg.Project.Dir, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		files[filepath.ToSlash(path)] = File{Sum: sum}
	}
	return files
}

// allowsConfigured returns nil when the programs that the configuration of a working directory
// names there may run as the verdict, or its error, has them.
func (k *Consent) allowsConfigured(cfg *config.Config, v *Verdict, err error) error {
	switch {
	case err != nil:
		return protocol.Errorf(protocol.Untrusted, "whether it is what was trusted cannot be found out: %w", err)
	case v.Trusted():
		return nil
	case k.LockedConfiguration != nil:
		return protocol.Errorf(protocol.Untrusted,
			"the programs of the configuration are not those that exthost.lock states")
	case v.Record.Revoked:
		return protocol.Errorf(protocol.Untrusted, "%w", Revoked{})
	case v.Record.Accepted == nil:
		return protocol.Errorf(protocol.Untrusted, "nobody has agreed yet to what the configuration runs")
	}
	agreed := maps.Clone(v.Record.Files)
	for path := range configuration(cfg) {
		delete(v.Files, path)
		delete(agreed, path)
	}
	if changes := v.Files.Differs(agreed); len(changes) > 0 {
		return protocol.Errorf(protocol.Untrusted, "the programs of the configuration changed since it was trusted: %s",
			Some(changes))
	}
	return nil
}

// Agreed is an extension that the user agrees to run as the verdict found it, with secrets.
type Agreed struct {
	ID      string
	Verdict *Verdict
	Secrets []string
}

// Accept notes what the user agrees to. What has changed since the verdicts is not agreed to.
func (s Store) Accept(agreed ...Agreed) error {
	records := map[string]*Record{} // the extensions of a folder share one
	for _, a := range agreed {
		r := records[a.Verdict.Record.Dir]
		if r == nil {
			if r = a.Verdict.Record; !a.Verdict.kept {
				r.Accept(a.Verdict.Files)
				r.Project = a.Verdict.project
			}
			records[r.Dir] = r
		}
		r.Grant(a.ID, a.Secrets...)
	}
	for _, dir := range slices.Sorted(maps.Keys(records)) {
		if err := s.Put(records[dir]); err != nil {
			return err
		}
	}
	return nil
}

// Allows returns nil when the extension may run as it is on disk. The error is of kind
// untrusted: why it may not, and the next command.
func (k *Consent) Allows(c *discovery.Candidate) error {
	v, err := k.Extension(c)
	return k.allows(c, v, err)
}

func (k *Consent) allows(c *discovery.Candidate, v *Verdict, err error) error {
	switch {
	case err != nil:
		return protocol.Errorf(protocol.Untrusted, "whether it is what was trusted cannot be found out: %w", err)
	case k.Locked != nil && !v.Bundled:
		return k.Locked(c, v.Files)
	case v.Trusted():
		return nil
	case v.Record.Revoked:
		return protocol.Errorf(protocol.Untrusted, "%w", Revoked{})
	case v.Record.Accepted == nil:
		return protocol.Errorf(protocol.Untrusted, "nobody has agreed yet to run what this directory holds")
	}
	return protocol.Errorf(protocol.Untrusted, "it changed since it was trusted: %s", Some(v.Changes))
}

// Revoked is the error of an extension that the user no longer agrees to run.
type Revoked struct{}

// Error says so.
func (Revoked) Error() string { return "the agreement to run it was revoked" }

// Granted reports whether the user granted the extension a secret.
func (k *Consent) Granted(c *discovery.Candidate, name string) bool {
	dir, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return false
	}
	r, err := k.Store.Of(dir, Extension)
	return err == nil && slices.Contains(r.Secrets[c.ID], name)
}

// someNames is how many names [Some] tells.
const someNames = 4

// Some joins the first of many names.
func Some(names []string) string {
	if n := len(names) - someNames; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:someNames], ", "), n)
	}
	return strings.Join(names, ", ")
}
