package consent

import (
	"os"
	"path"
	"slices"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// mark is a path's state in the file system before its content was compared. Programs cannot set the change time,
// and even a rename updates it, so a file that was replaced and put back is noticed.
type mark struct {
	path, key string
	link      bool // the link itself, not its target
	dir       bool
	code      bool // contains code, or leads to code
	recent    bool // so new that a later change may have the same timestamp
	file.Version
}

// tick is longer than the timestamp granularity of local file systems.
const tick = 20 * time.Millisecond

// mark records the state of a path that is about to be compared.
func (r *reader) mark(m mark, info os.FileInfo) {
	m.Version = file.UnsettledVersionOf(info)
	m.recent = time.Since(time.Unix(0, max(m.Change, m.Mtime))) < tick
	r.marks = append(r.marks, m)
}

// linked marks a path if it is a symbolic link.
func (r *reader) linked(path, key string) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		r.mark(mark{path: path, key: key, link: true}, info)
	}
}

// marked returns all marks except those of links to data, which programs may replace. folders are those with code.
func (r *reader) marked(folders map[string]bool) []mark {
	for i := range r.marks {
		m := &r.marks[i]
		_, file := r.files[m.key]
		_, linked := r.files[m.key+"/"]
		m.code = file || linked || folders[path.Clean(m.key)]
	}
	return slices.DeleteFunc(r.marks, func(m mark) bool { return m.link && !m.code })
}

// now returns the current state of the path.
func (m *mark) now() (file.Version, error) {
	stat := os.Stat
	if m.link {
		stat = os.Lstat
	}
	info, err := stat(m.path)
	if err != nil {
		return file.Version{}, err
	}
	return file.UnsettledVersionOf(info), nil
}

// scan is the result of reading files once.
type scan struct {
	files Files
	marks []mark
}

// changed returns the keys of code that was changed, replaced or removed since marks, even if it was put back.
// Writing into a folder is not a change, because programs write data there.
func changed(marks []mark) (changes []string) {
	for i := range marks {
		m := &marks[i]
		now, err := m.now()
		switch {
		case m.dir && !m.code:
		case err != nil:
			changes = append(changes, m.key)
		case m.dir && now.Inode == m.Inode && (now.Change == m.Change || now.Mtime != m.Mtime):
		case m.dir: // the folder was moved
			changes = append(changes, path.Clean(m.key)+"/")
		case now != m.Version:
			changes = append(changes, m.key)
		}
	}
	slices.Sort(changes)
	return slices.Compact(changes)
}

// Starts is [Consent.Allows] for the start of a process. The caller calls still when the process has loaded its
// code. still fails with kind untrusted, naming the files, if the process may have loaded other code than was
// compared.
//
// For kind exec and protocol lite, any change meanwhile is an error, even if undone. Other processes may build
// their code when they start, as npm start does with tsc, so for them the files are compared again.
func (k *Consent) Starts(c *discovery.Candidate) (still func() error, err error) {
	t := c.Manifest.Transport
	s := start{
		find:   func() (*Verdict, error) { return k.Extension(c) },
		judge:  func(v *Verdict, err error) error { return k.allows(c, v, err) },
		builds: t.Kind != manifest.KindExec && t.Protocol != manifest.ProtocolLite,
	}
	return s.begin()
}

// StartsConfigured is Starts for the programs that a working directory's configuration names. It compares the
// configuration files in the state in which the host read them.
func (k *Consent) StartsConfigured(cfg *config.Config) (still func() error, err error) {
	s := start{
		find:   func() (*Verdict, error) { return k.Configuration(cfg) },
		judge:  func(v *Verdict, err error) error { return k.allowsConfigured(cfg, v, err) },
		builds: true,
	}
	return s.begin()
}

// start compares the code of one process.
type start struct {
	find   func() (*Verdict, error)
	judge  func(*Verdict, error) error
	builds bool // the process may rebuild its code, if the content stays the same
}

// begin compares the code before the start. If code changed so recently that its timestamps cannot reveal another
// change, begin compares it again after a tick.
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

// still compares the code again once the process has loaded it.
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
