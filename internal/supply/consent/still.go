package consent

import (
	"os"
	"path"
	"slices"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/file/regular"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// mark is what the file system said of a path before its content was compared. A rename changes the time of
// the last change of what is renamed, which no program can set: also what is put back differs.
type mark struct {
	path, key string
	link      bool // of the link itself, not of what it leads to
	dir       bool
	code      bool // holds code, or leads to it
	recent    bool // a later change may have got the same time
	regular.Version
}

// tick is more than the steps in which local file systems note times.
const tick = 20 * time.Millisecond

// mark notes a path that is about to be compared.
func (r *reader) mark(m mark, info os.FileInfo) {
	m.Version = regular.Seen(info)
	m.recent = time.Since(time.Unix(0, max(m.Change, m.Mtime))) < tick
	r.marks = append(r.marks, m)
}

// linked marks a path where it is a link.
func (r *reader) linked(path, key string) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		r.mark(mark{path: path, key: key, link: true}, info)
	}
}

// marked returns the marks; folders are those with code. Links to data are left out: programs set them anew.
func (r *reader) marked(folders map[string]bool) []mark {
	for i := range r.marks {
		m := &r.marks[i]
		_, file := r.files[m.key]
		_, linked := r.files[m.key+"/"]
		m.code = file || linked || folders[path.Clean(m.key)]
	}
	return slices.DeleteFunc(r.marks, func(m mark) bool { return m.link && !m.code })
}

// now returns how what is marked is now.
func (m *mark) now() (regular.Version, error) {
	stat := os.Stat
	if m.link {
		stat = os.Lstat
	}
	info, err := stat(m.path)
	if err != nil {
		return regular.Version{}, err
	}
	return regular.Seen(info), nil
}

// sight is one look at files.
type sight struct {
	files Files
	marks []mark
}

// changed returns what of the code was changed, replaced or removed since the marks, also where all is as it
// was by now. What is written into a folder is no change of the folder: programs write data there.
func changed(marks []mark) (changes []string) {
	for i := range marks {
		m := &marks[i]
		now, err := m.now()
		switch {
		case m.dir && !m.code:
		case err != nil:
			changes = append(changes, m.key)
		case m.dir && now.Inode == m.Inode && (now.Change == m.Change || now.Mtime != m.Mtime):
		case m.dir: // it was moved itself
			changes = append(changes, path.Clean(m.key)+"/")
		case now != m.Version:
			changes = append(changes, m.key)
		}
	}
	slices.Sort(changes)
	return slices.Compact(changes)
}

// Starts is [Consent.Allows] before the start of a process. Its still is called when the process has loaded its code,
// and fails with kind untrusted if that may have been other code than what is allowed; the error names the files.
//
// A process of kind exec or protocol lite fails for any change meanwhile, also one that was undone. Other programs may
// build their code when they start, as npm start does with tsc: for them the content decides once more.
func (k *Consent) Starts(c *discovery.Candidate) (still func() error, err error) {
	t := c.Manifest.Transport
	s := start{
		find:   func() (*Verdict, error) { return k.Extension(c) },
		judge:  func(v *Verdict, err error) error { return k.allows(c, v, err) },
		builds: t.Kind != manifest.KindExec && t.Protocol != manifest.ProtocolLite,
	}
	return s.begin()
}

// StartsConfigured is Starts for the programs that the configuration of a working directory names there. The
// configuration itself was compared when the host read it, and counts as it was then.
func (k *Consent) StartsConfigured(cfg *config.Config) (still func() error, err error) {
	s := start{
		find:   func() (*Verdict, error) { return k.Configuration(cfg) },
		judge:  func(v *Verdict, err error) error { return k.allowsConfigured(cfg, v, err) },
		builds: true,
	}
	return s.begin()
}

// start compares the code of a process with what is allowed.
type start struct {
	find   func() (*Verdict, error)
	judge  func(*Verdict, error) error
	builds bool // the process may write its code anew, with the content that is allowed
}

// begin compares before the start. Where code changed so recently that the times of the file system do not show
// another change, it compares again a moment later.
func (s start) begin() (still func() error, err error) {
	v, err := s.find()
	if err := s.judge(v, err); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(v.marks, func(m mark) bool { return m.recent && !m.dir }) {
		time.Sleep(tick)
		first := v.marks
		v, err = s.find()
		if err := s.judge(v, err); err != nil {
			return nil, err
		}
		if changes := changed(first); len(changes) > 0 && !s.builds { // another instance may be building
			return nil, protocol.Errorf(protocol.Untrusted, "its code is being changed: %s", Some(changes))
		}
	}
	return func() error { return s.still(v.marks) }, nil
}

// still compares when the process has loaded its code.
func (s start) still(marks []mark) error {
	changes := changed(marks)
	if len(changes) == 0 {
		return nil
	}
	if s.builds && s.judge(s.find()) == nil {
		return nil
	}
	return protocol.Errorf(protocol.Untrusted,
		"it may have run something else than what was trusted, as this was changed or replaced while it started: %s",
		Some(changes))
}
