// Package consent decides which code may run in the directories that a user works in, and which secrets that code
// gets: what the user trusted and granted.
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
	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/protocol"
)

// Consent decides what may run, by the user's records, a lock file, and the digests of bundled extensions.
type Consent struct {
	Store   Store
	Bundled func(digest string) bool // reports whether a bundled extension has this digest
	// Project is the working directory. Files in Project that an extension loads are part of what the user trusts.
	// With "" only the files in the extension's folder, and files that its manifest names, are.
	Project string
	// Package returns the hash of an extension's package, or "". The hash is part of what is trusted. nil: no
	// extension has a package.
	Package func(c *discovery.Candidate) (hash string, err error)
	// Locked verifies an extension against a lock file, in place of the user's records; nil: the records decide.
	Locked func(c *discovery.Candidate, files Files) error
	// LockedConfiguration reports whether the lock file has these configuration files. It is set together with
	// Locked.
	LockedConfiguration func(Files) bool

	// Stated returns the variables that the operator sets for the extension id; may be nil. Files in Project that
	// these variables name are part of what is trusted.
	Stated func(id string) Stated

	contents sync.Map // content checks of the last walk, map[string]contentCheck, by project and folder
	last     sync.Map // Files last found, by Kind and folder; spares reading a folder without a record again
}

// known returns the files of an earlier comparison; a file whose version has not changed is not read again.
func (k *Consent) known(r *Record) Files {
	if last, ok := k.last.Load(string(r.Kind) + r.Dir); ok {
		return last.(Files)
	}
	return r.Files
}

// Verdict is the comparison of a folder with what was trusted.
type Verdict struct {
	Record  *Record // never nil
	Files   Files   // current
	Bundled bool    // a bundled extension's folder
	Locked  bool    // the lock file has exactly these files
	Changes []string
	project string // project whose files Files includes; "" for the folder alone
	kept    bool   // the same files were trusted within a wider project
	marks   []mark // state of the compared files, see [Consent.Starts]

	before *Record // what a yes has changed into Record; nil without one
}

// Trusted reports whether the folder may run in its current state.
func (v *Verdict) Trusted() bool {
	return !v.Record.Revoked && (v.Bundled || v.Locked || v.Record.Trusted != nil && len(v.Changes) == 0)
}

// Extension compares an extension's folder with what was trusted.
func (k *Consent) Extension(c *discovery.Candidate) (*Verdict, error) {
	dir, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return nil, err
	}
	r, err := k.Store.Of(dir, Extension)
	if err != nil {
		return nil, err
	}
	v := &Verdict{Record: r, project: k.projectAbove(dir)}
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
	if v.Files, err = find(v.project); err != nil {
		return nil, err
	}
	k.last.Store(string(Extension)+dir, v.Files)
	v.Bundled = k.Bundled != nil && len(stated) == 0 && k.Bundled(v.Files.own().Digest())
	if r.Trusted == nil {
		return v, nil
	}
	if err := v.compare(find); err != nil {
		return nil, err
	}
	return v, nil
}

// projectAbove returns the project, with links resolved, if the project contains dir; else "".
func (k *Consent) projectAbove(dir string) string {
	project, err := filepath.EvalSymlinks(k.Project)
	if err != nil || !within(project, dir) || project == filepath.Dir(project) { // the file system's root
		return ""
	}
	return project
}

// compare compares the current files with the trusted ones. If the user trusted them within a wider project, compare
// uses the files that find returns for that project.
func (v *Verdict) compare(find func(project string) (Files, error)) (err error) {
	r, now := v.Record, v.Files
	wider := r.Project != v.project && r.Project != "" && (v.project == "" || within(r.Project, v.project))
	if wider {
		if now, err = find(r.Project); err != nil {
			return err
		}
		maps.Copy(now, v.Files) // a hook may name files of the project
	}
	v.Changes = now.Differs(r.Files)
	v.kept = wider && len(v.Changes) == 0
	return nil
}

// stated returns the files in the project named by the variables that the operator sets for c.
func (k *Consent) stated(c *discovery.Candidate, dir string) ([]string, error) {
	if k.Stated == nil || k.Project == "" {
		return nil, nil
	}
	return statedPrograms(cmp.Or(c.OwnedBy, c.Manifest), k.Stated(c.ID), dir, k.Project)
}

// files returns the files in an extension's folder, and the files in project that the extension loads.
func (k *Consent) files(c *discovery.Candidate, dir, project string, stated []string, known Files) (*scan, error) {
	m := cmp.Or(c.OwnedBy, c.Manifest)
	// Programs are looked up relative to c.Dir as written, and find their own files relative to the resolved
	// directory. A symbolic link makes these differ.
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
	programs = append(programs, skills.Paths(dir)...) // a model does what they say
	checks := &contentCache{now: map[string]contentCheck{}}
	walk := project + "\n" + dir
	if last, ok := k.contents.Load(walk); ok {
		checks.before = last.(map[string]contentCheck)
	}
	r := newReader(known, checks)
	r.every = m.Portable // what its servers write belongs into PLUGIN_DATA
	s, err := folder(dir, k.compared(append(programs, stated...)), r)
	if err == nil {
		k.contents.Store(walk, checks.now)
	}
	return s, err
}

// compared drops installed packages if a lock file decides, because the lock file does not record them.
func (k *Consent) compared(programs []string) []string {
	if k.LockedConfiguration == nil {
		return programs
	}
	return slices.DeleteFunc(programs, installed)
}

// PackageKey is the key of the package's hash in Files. Its ending "//" sets it apart from paths.
const PackageKey = "the package of exthost.lock//"

// Configuration compares a working directory with what was trusted: its configuration files, and the programs in the
// directory that these files name.
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
	if r.Trusted != nil {
		v.Changes = v.Files.Differs(r.Files)
	}
	return v, nil
}

// configuration returns the configuration files as they were when the host read them.
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

// allowsConfigured returns nil if the programs named by the configuration may run. v and err are the results of
// Configuration.
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
	case v.Record.Trusted == nil:
		return protocol.Errorf(protocol.Untrusted, "nobody has agreed yet to what the configuration runs")
	}
	trusted := maps.Clone(v.Record.Files)
	for path := range configuration(cfg) {
		delete(v.Files, path)
		delete(trusted, path)
	}
	if changes := v.Files.Differs(trusted); len(changes) > 0 {
		return protocol.Errorf(protocol.Untrusted, "the programs of the configuration changed since it was trusted: %s",
			Some(changes))
	}
	return nil
}

// Allows returns nil if the extension may run in its current state. The error is of kind untrusted and gives the
// reason.
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
	case v.Record.Trusted == nil:
		return protocol.Errorf(protocol.Untrusted, "nobody has agreed yet to run what this directory holds")
	}
	return protocol.Errorf(protocol.Untrusted, "it changed since it was trusted: %s", Some(v.Changes))
}

// Revoked is the error of an extension whose trust the user revoked.
type Revoked struct{}

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

// someNames is the number of names that [Some] lists.
const someNames = 4

// Some joins the first names and counts the rest.
func Some(names []string) string {
	if n := len(names) - someNames; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:someNames], ", "), n)
	}
	return strings.Join(names, ", ")
}
