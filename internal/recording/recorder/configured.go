package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/protocol"
)

// Config describes the recording that the host is to make; the zero value means none.
type Config struct {
	File       string   // path of the cassette; an existing cassette is renamed first, see [asideLayout]
	Within     string   // the directory that File must be in after links are resolved; "": anywhere
	Extensions []string // recorded ids; nil: all
	MaxBytes   int64    // see [Options]
	Keep       int      // number of renamed cassettes to keep; 0: [defaultKeep]
}

// defaultKeep is the value of Config.Keep when it is 0.
const defaultKeep = 5

func (c Config) equal(other Config) bool {
	return c.File == other.File && c.Within == other.Within && c.MaxBytes == other.MaxBytes && c.Keep == other.Keep &&
		slices.Equal(c.Extensions, other.Extensions)
}

// Configured makes the recording that the configuration asks for. Hub, Log and Report are required.
type Configured struct {
	Hub    *Hub
	Log    *slog.Logger
	Report func(protocol.Diagnostic) // receives the reason when the recording ends by itself

	mu    sync.Mutex // guards the fields below
	now   Config
	under *Recording // the current recording, or nil
	file  *os.File
}

// CodeEnded is the diagnostic code of a recording that ended by itself.
const CodeEnded = "recording_ended"

// Follow applies a configuration: if it changed, the current recording ends and a new one starts. The zero value
// ends the recording.
func (s *Configured) Follow(next Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.equal(s.now) {
		return
	}
	s.endLocked()
	if s.now = next; next.File == "" {
		return
	}
	if err := s.beginLocked(); err != nil {
		s.ended(fmt.Errorf("record.file: %w", err))
	}
}

func (s *Configured) ended(err error) {
	s.Report(protocol.Diagnostic{
		Level:   protocol.LevelError,
		Code:    CodeEnded,
		Message: "nothing is recorded any more: " + err.Error(),
		Hint:    "calls go on; once record is right, restart the host",
	})
}

// beginLocked starts the recording. An existing cassette is set aside.
func (s *Configured) beginLocked() error {
	path, err := file.Below(s.now.Within, s.now.File)
	if err != nil {
		return err
	}
	if aside, err := setAside(path); err != nil {
		return err
	} else if aside != "" {
		s.Log.Info("the cassette before is set aside", "file", aside)
		s.prune(path)
	}
	if s.file, _, err = cassette.Create(path, false); err != nil {
		return err
	}
	if s.under, err = s.Hub.Record(Options{
		To:         s.file,
		File:       path,
		Extensions: s.now.Extensions,
		MaxBytes:   s.now.MaxBytes,
		Ended:      s.ended,
	}); err != nil {
		return errors.Join(err, s.file.Close())
	}
	s.Log.Warn("what passes is recorded", "file", path, "extensions", s.now.Extensions)
	return nil
}

// asideLayout is how the name of a cassette that was set aside ends: the time of its last record, in UTC.
const asideLayout = ".2006-01-02T15-04-05.000Z"

// setAside renames the cassette at path, replacing nothing. It refuses a file that is not a cassette, because the name
// may be a typo.
func setAside(path string) (aside string, err error) {
	switch is, err := cassette.Is(path); {
	case err != nil:
		return "", err
	case !is:
		return "", fmt.Errorf("%s exists and is no cassette: name another file, or move that one away", path)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = cassette.Written(path) // its writer would go on in the renamed file
	}
	if err != nil {
		return "", err
	}
	for at := info.ModTime().UTC(); ; at = at.Add(time.Millisecond) {
		aside = path + at.Format(asideLayout)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return aside, os.Rename(path, aside)
		} else if err != nil {
			return "", err
		}
	}
}

// prune removes the oldest cassettes that were set aside from path, beyond the number to keep.
func (s *Configured) prune(path string) {
	entries, err := os.ReadDir(filepath.Dir(path)) // by name, which is by time
	if err != nil {
		s.Log.Warn("old cassettes are not removed", "error", err)
		return
	}
	var aside []string
	for _, e := range entries {
		end, ok := strings.CutPrefix(e.Name(), filepath.Base(path))
		if _, err := time.Parse(asideLayout, end); !ok || err != nil {
			continue
		}
		name := filepath.Join(filepath.Dir(path), e.Name())
		if is, err := cassette.Is(name); is && err == nil && cassette.Written(name) == nil {
			aside = append(aside, name)
		}
	}
	for _, name := range aside[:max(0, len(aside)-cmp.Or(s.now.Keep, defaultKeep))] {
		if err := os.Remove(name); err != nil {
			s.Log.Warn("an old cassette is not removed", "file", name, "error", err)
		} else {
			s.Log.Info("an old cassette is removed", "file", name, "keep", cmp.Or(s.now.Keep, defaultKeep))
		}
	}
}

func (s *Configured) endLocked() {
	if s.under == nil {
		return
	}
	_ = s.under.End("the host ended it") // errors were reported through Ended
	if err := s.file.Close(); err != nil {
		s.ended(err)
	}
	s.under, s.file = nil, nil
}
