package connect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/local/clientsettings"
)

// maxSettings is the largest settings file that is read, in bytes. Some clients keep histories in theirs.
const maxSettings = 16 << 20

// settings is a settings file of a client, and its content when it was last read.
type settings struct {
	client *clientsettings.Client
	scope  string
	path   string // as the client knows the file
	real   string // path with symbolic links resolved
	data   []byte
	exists bool
	listed *[]clientsettings.Server // the servers in data; nil: not parsed yet
}

// settings returns the file that the flags select, not yet read.
func (r *connecting) settings(client *clientsettings.Client, places clientsettings.Places) (s *settings, err error) {
	s = &settings{client: client, scope: r.scope}
	switch {
	case r.file != "":
		s.path, err = filepath.Abs(r.file)
	case r.scope == ofProject:
		if s.path = client.Project(r.dir); s.path == "" {
			return nil, console.Usagef("exthost connect "+client.ID, "%s has no settings of projects", client.Title)
		}
	default:
		s.path = userFile(client, places)
	}
	return s, err
}

// userFile returns the first of the client's user files that exists, else the first whose directory exists, else the
// usual one.
func userFile(client *clientsettings.Client, places clientsettings.Places) string {
	files := client.User(places)
	for _, file := range files {
		if _, err := os.Lstat(file); err == nil {
			return file
		}
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Dir(file)); err == nil {
			return file
		}
	}
	return files[0]
}

// read reads the file; a missing file is empty.
func (s *settings) read() error {
	s.real, s.data, s.exists, s.listed = s.path, nil, false, nil
	if err := file.CheckBelowHere(s.path); s.scope != ofUser && err != nil {
		return s.fails(err.Error(), "exthost connect "+s.client.ID+" --file FILE")
	}
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	real, err := filepath.EvalSymlinks(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.fails("it is a link to a file that does not exist",
			"make the file that it leads to, or remove the link")
	}
	if err != nil {
		return s.unreadable(err)
	}
	data, _, err := file.ReadRegular(real, maxSettings+1, true)
	switch kind, ok := errors.AsType[file.NotRegular](err); {
	case ok:
		return s.fails("it is "+kind.Error(), "exthost connect "+s.client.ID+" --file FILE")
	case err != nil:
		return s.unreadable(err)
	case len(data) > maxSettings:
		return s.fails(fmt.Sprintf("it is over %d MiB", maxSettings>>20),
			"make it smaller, or add the server with a command of the client")
	}
	s.real, s.data, s.exists = real, data, true
	return nil
}

// key identifies the file in records, whether it exists or not.
func (s *settings) key() string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(s.path)); err == nil {
		return filepath.Join(dir, filepath.Base(s.path))
	}
	return s.path
}

func (s *settings) fails(why, hint string) error {
	return &console.Error{
		Code: console.ExitInvalid,
		Text: console.Tilde(s.path) + ": " + why + "; it was left as it is",
		Hint: hint,
	}
}

// unreadable returns the error for a file that cannot be read.
func (s *settings) unreadable(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the text has the path already
	}
	return s.fails("it cannot be read: "+strings.TrimPrefix(err.Error(), "EvalSymlinks: "),
		"exthost connect "+s.client.ID+" --file FILE")
}

// servers returns the servers in the file.
func (s *settings) servers() ([]clientsettings.Server, error) {
	if s.listed == nil {
		servers, err := s.client.List(s.data)
		if err != nil {
			return nil, s.explain(err)
		}
		s.listed = &servers
	}
	return *s.listed, nil
}

// server returns the server called name, nil if there is none.
func (s *settings) server(name string) (*clientsettings.Server, error) {
	servers, err := s.servers()
	if i := slices.IndexFunc(servers, func(e clientsettings.Server) bool { return e.Name == name }); i >= 0 {
		return &servers[i], nil
	}
	return nil, err
}

// explain adds the place in the file to a syntax error.
func (s *settings) explain(err error) error {
	invalid, ok := errors.AsType[*clientsettings.Invalid](err)
	switch {
	case err == nil:
		return nil
	case ok && invalid.Line > 0:
		return &console.Error{
			Code: console.ExitInvalid,
			Text: fmt.Sprintf("%s:%d:%d: %s; it was left as it is", console.Tilde(s.path), invalid.Line, invalid.Column,
				invalid.Message),
			Hint: "mend it there; " + s.client.Title + " reads it no better",
		}
	}
	return s.fails(err.Error(), "exthost connect "+s.client.ID+" --dry-run --file new shows the server, to add by hand")
}

// change computes the new text of a file from the current one. gone means that the file is to be removed.
type change func(s *settings) (after []byte, gone bool, err error)

// putting returns the change that adds the server or replaces its command line.
func (s *settings) putting(name string, argv []string, env map[string]string) change {
	return func(s *settings) ([]byte, bool, error) {
		after, err := s.client.Put(s.data, name, argv, env)
		return after, false, s.explain(err)
	}
}

// removing returns the change that removes the server. If nothing else in the file has changed since the server was
// added, the change restores the previous file.
func (s *settings) removing(name string, k *kept) change {
	return func(s *settings) ([]byte, bool, error) {
		if before, ok := k.before(s.data); ok {
			return before, k.Created, nil
		}
		after, err := s.client.Remove(s.data, name, k.Created || k.NoTable)
		rest := bytes.TrimSpace(after)
		return after, k.Created && (len(rest) == 0 || string(rest) == "{}"), s.explain(err)
	}
}
