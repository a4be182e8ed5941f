// Package ownership tells whether users other than this one and root may change a file.
package ownership

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Rule decides which files are accepted. The zero value accepts files of this user and of root that nobody else may
// write.
type Rule struct {
	Safe []string // directories in which all files are accepted
}

// Refused is the error for a file or directory that others may change.
type Refused struct {
	Path    string // absolute
	Message string // who may change it, such as "everybody may write this file"
	Hint    string // what to do
}

func (r *Refused) Error() string { return r.Path + " is not used: " + r.Message + "; " + r.Hint }

// File returns why a file must not decide what runs here, nil if it may. info must be from the open file, so that it
// cannot be replaced in between. The directory of path is checked too. The result is always nil on Windows.
func (r Rule) File(path string, info fs.FileInfo) *Refused {
	if refused := r.check(path, info); refused != nil {
		return refused
	}
	return r.Directory(filepath.Dir(path))
}

// Named is like [Rule.File], for a file that is opened later. It returns nil if the file does not exist.
func (r Rule) Named(path string) *Refused {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return r.File(path, info)
}

// Secret returns why a file must not hold a secret, nil if it may: others may change it, as for [Rule.Named], or read
// it.
func (r Rule) Secret(path string) *Refused {
	if refused := r.Named(path); refused != nil {
		return refused
	}
	return r.Readable(path)
}

// Readable returns who else may read a file; nil if only this user and root may, or if it does not exist. The
// directories above it are not checked.
func (r Rule) Readable(path string) *Refused {
	info, err := os.Stat(path)
	if err != nil {
		return nil // reported when it is read
	}
	return r.refusal(path, info, func(f facts, _ user) problem { return judgeSecret(f) })
}

// Shared tells who else owns or may use a file or directory, and whether by its mode; "" if only this user may. It is
// always "" on systems without modes, such as Windows.
func Shared(info fs.FileInfo) (who string, byMode bool) {
	f, ok := factsOf(info)
	switch {
	case ok && f.owner != self().id:
		return "it belongs to " + userName(f.owner), false
	case ok && f.mode.Perm()&0o077 != 0:
		return fmt.Sprintf("others may use it (mode %04o)", f.mode.Perm()), true
	}
	return "", false
}

// Command returns why a command line must not run from dir, nil if it may: others may change its program, unless that
// is looked up on PATH, or a file below dir that it names.
func (r Rule) Command(dir string, argv []string) *Refused {
	for i, word := range argv {
		if i == 0 && filepath.Base(word) == word {
			continue
		}
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, word)
		}
		if rel, err := filepath.Rel(dir, path); i > 0 && (err != nil || !filepath.IsLocal(rel)) {
			continue
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if refused := r.Named(path); refused != nil {
			refused.Message = strings.Replace(refused.Message, "this file", path, 1)
			return refused
		}
	}
	return nil
}

// Directory returns why the files of a directory must not decide what runs here, nil if they may. A directory with the
// sticky bit, such as /tmp, is accepted: there, nobody can replace other users' files.
func (r Rule) Directory(path string) *Refused {
	info, err := os.Stat(path)
	if err != nil {
		return nil // reported when the file is read
	}
	return r.check(path, info)
}

func (r Rule) check(path string, info fs.FileInfo) *Refused { return r.refusal(path, info, judge) }

func (r Rule) refusal(path string, info fs.FileInfo, judge func(facts, user) problem) *Refused {
	f, ok := factsOf(info)
	if !ok {
		return nil
	}
	problem := judge(f, self())
	if problem == none {
		return nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	if r.safe(abs) {
		return nil
	}
	return refuse(abs, f, problem)
}

// safe reports whether path, as written or with links resolved, is within a directory of r.Safe.
func (r Rule) safe(path string) bool {
	spellings := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		spellings = append(spellings, real)
	}
	for _, dir := range r.Safe {
		abs, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		for _, spelling := range spellings {
			if rel, err := filepath.Rel(abs, spelling); err == nil && filepath.IsLocal(rel) {
				return true
			}
		}
	}
	return false
}

// facts are what determines who may change a file.
type facts struct {
	owner, group uint32
	mode         fs.FileMode
}

// user is the user of this process.
type user struct {
	id   uint32
	sudo uint32 // if id is root: the user who called sudo; else id
}

type problem int

const (
	none problem = iota
	foreign
	worldWritable
	groupWritable
	worldReadable
	groupReadable
)

// judge returns why a file is refused. Group write access is accepted for root's group and for the owner's private
// group, which has the same number or name.
func judge(f facts, u user) problem {
	kept := f.mode.IsDir() && f.mode&fs.ModeSticky != 0
	switch {
	case f.owner != 0 && f.owner != u.id && f.owner != u.sudo:
		return foreign
	case kept:
		return none
	case f.mode.Perm()&0o002 != 0:
		return worldWritable
	case f.mode.Perm()&0o020 != 0 && f.group != 0 && f.group != f.owner && !private(f.owner, f.group):
		return groupWritable
	}
	return none
}

// judgeSecret returns who else may read a file. Groups are accepted as by judge.
func judgeSecret(f facts) problem {
	switch {
	case f.mode.Perm()&0o004 != 0:
		return worldReadable
	case f.mode.Perm()&0o040 != 0 && f.group != 0 && f.group != f.owner && !private(f.owner, f.group):
		return groupReadable
	}
	return none
}

func refuse(path string, f facts, p problem) *Refused {
	what, mend := "this file", "chmod o-w "
	if f.mode.IsDir() {
		what = "the directory " + path
	}
	r := &Refused{Path: path}
	switch p {
	case foreign:
		r.Message = fmt.Sprintf("%s belongs to %s (mode %04o), and exthost runs as %s", what, userName(f.owner),
			f.mode.Perm(), userName(self().id))
		mend = fmt.Sprintf("chown %d ", self().id)
	case worldWritable:
		r.Message = fmt.Sprintf("everybody may write %s of %s (mode %04o)", what, userName(f.owner), f.mode.Perm())
	case groupWritable:
		r.Message = fmt.Sprintf("the group %s may write %s of %s (mode %04o)", groupName(f.group), what,
			userName(f.owner), f.mode.Perm())
		mend = "chmod g-w "
	case worldReadable:
		r.Message = fmt.Sprintf("everybody may read %s of %s (mode %04o)", what, userName(f.owner), f.mode.Perm())
		mend = "chmod 600 "
	case groupReadable:
		r.Message = fmt.Sprintf("the group %s may read %s of %s (mode %04o)", groupName(f.group), what,
			userName(f.owner), f.mode.Perm())
		mend = "chmod 600 "
	}
	dir := path
	if !f.mode.IsDir() {
		dir = filepath.Dir(path)
	}
	if p == foreign {
		dir = topOf(dir, f.owner)
	}
	r.Hint = fmt.Sprintf("%s%s, or if you trust who may change it: EXTHOST_EXTENSIONS_SAFE_DIRECTORIES=%s, or "+
		"extensions.safe_directories in your own configuration", mend, quoted(path), quoted(dir))
	return r
}

// topOf returns the uppermost directory above dir that owner owns, such as a whole checkout.
func topOf(dir string, owner uint32) string {
	for up := filepath.Dir(dir); up != dir; up = filepath.Dir(dir) {
		info, err := os.Stat(up)
		if err != nil {
			return dir
		}
		if f, ok := factsOf(info); !ok || f.owner != owner {
			return dir
		}
		dir = up
	}
	return dir
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./+@%=:,-]+$`)

// quoted quotes a path for a shell.
func quoted(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
