//go:build unix

package process

import (
	"bufio"
	"cmp"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// diagnose finds the cause behind an error number: a missing directory, file and interpreter are all ENOENT. It looks
// at the files after the failure, so it may be wrong about a file that has changed since. The system's error is kept.
func (s *Spec) diagnose(err error) *StartError {
	e := &StartError{Reason: Other, Path: s.Path, Err: err}
	switch {
	case errors.Is(err, unix.ETXTBSY):
		e.Reason = Busy
	case errors.Is(err, unix.E2BIG):
		e.Reason = ArgsTooBig
	case errors.Is(err, unix.EINVAL):
		e.Reason = Invalid
	case isAny(err, unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.ENOMEM, unix.ENOSPC):
		e.Reason = Resource
	case isAny(err, unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG):
		e.Reason, e.Culprit = s.obstacle()
		switch {
		case e.Reason == "" && s.Sandbox != nil:
			e.Reason, e.Culprit = Sandbox, cmp.Or(interpreterOf(s.Path), s.Path)
		case e.Reason == "":
			e.Reason = NotExecutable // the file system is mounted noexec
		}
	case errors.Is(err, unix.ENOEXEC):
		e.Reason = BadFormat
	}
	return e
}

func isAny(err error, errnos ...unix.Errno) bool {
	return slices.ContainsFunc(errnos, func(errno unix.Errno) bool { return errors.Is(err, errno) })
}

// Check returns a [*StartError] if the executable at path, which must be absolute, cannot be started; nil if no
// obstacle is found.
func Check(path string) error {
	if reason, culprit := (&Spec{Path: path}).obstacle(); reason != "" {
		return &StartError{Reason: reason, Path: path, Culprit: culprit, Err: executable(path)}
	}
	return nil
}

// obstacle checks the working directory, the file and its interpreter, in the order in which the
// system does, and returns the first fault; "" for none.
func (s *Spec) obstacle() (r Reason, culprit string) {
	if s.Dir != "" && unix.Access(s.Dir+"/.", unix.X_OK) != nil {
		return CwdMissing, s.Dir
	}
	info, err := os.Stat(s.Path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return NotExecutable, ""
	case err != nil:
		return NotFound, ""
	case info.IsDir():
		return IsDirectory, ""
	case unix.Access(s.Path, unix.X_OK) != nil:
		return NotExecutable, ""
	}
	interpreter := interpreterOf(s.Path)
	switch {
	case strings.HasSuffix(interpreter, "\r"):
		return CRLFShebang, interpreter
	case interpreter != "" && unix.Access(interpreter, unix.X_OK) != nil:
		return BadInterpreter, interpreter
	}
	return "", ""
}

// interpreterOf returns the program in the #! line of path, or the dynamic loader of an ELF file; "" if there is none.
func interpreterOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	if rest, ok := strings.CutPrefix(line, "#!"); ok {
		rest = strings.Trim(strings.TrimSuffix(rest, "\n"), " \t")
		if i := strings.IndexAny(rest, " \t"); i >= 0 {
			rest = rest[:i]
		}
		return rest
	}
	return loaderOf(f)
}

func loaderOf(r io.ReaderAt) string {
	f, err := elf.NewFile(r)
	if err != nil {
		return ""
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			name, _ := io.ReadAll(p.Open())
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}
