package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/exthost/exthost/config/recording"
	"github.com/exthost/exthost/internal/file/rotate"
	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/below"
	"github.com/exthost/exthost/protocol"
)

// Stated is the recording that a configuration asks for. Hub, Log and Report must be set.
type Stated struct {
	Hub    *Hub
	Log    *slog.Logger
	Report func(protocol.Diagnostic) // takes why nothing is recorded any more

	mu    sync.Mutex // guards what follows
	now   recording.Cassette
	under *Recording // nil while none is under way
	file  *os.File
}

// CodeEnded is the code of a diagnostic about a recording that does not go on.
const CodeEnded = "recording_ended"

// Follow ends the recording, and begins another, when a configuration states another than the one
// before. Its zero value ends it.
func (s *Stated) Follow(stated recording.Cassette) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stated.Equal(s.now) {
		return
	}
	s.endLocked()
	if s.now = stated; stated.File == "" {
		return
	}
	if err := s.beginLocked(); err != nil {
		s.ended(fmt.Errorf("record.file: %w", err))
	}
}

func (s *Stated) ended(err error) {
	s.Report(protocol.Diagnostic{
		Level:   protocol.LevelError,
		Code:    CodeEnded,
		Message: "nothing is recorded any more: " + err.Error(),
		Hint:    "calls go on; once record is right, restart the host",
	})
}

// beginLocked begins the recording. A file that exists is set aside.
func (s *Stated) beginLocked() error {
	path, err := below.File(s.now.Within, s.now.File)
	if err != nil {
		return err
	}
	if aside, err := setAside(path); err != nil {
		return err
	} else if aside != "" {
		s.Log.Info("the cassette before is set aside", "file", aside)
	}
	if s.file, _, err = cassette.Create(path, false); err != nil {
		return err
	}
	if s.under, err = s.Hub.Record(Options{
		To:         s.file,
		File:       path,
		Extensions: s.now.Extensions,
		MaxBytes:   int64(s.now.MaxBytes),
		Ended:      s.ended,
	}); err != nil {
		return errors.Join(err, s.file.Close())
	}
	s.Log.Warn("what passes is recorded", "file", path, "extensions", s.now.Extensions)
	return nil
}

// setAside renames the cassette at path, which replaces the one that was set aside before. It touches
// no file that is not a cassette: the name may be mistyped.
func setAside(path string) (aside string, err error) {
	aside = rotate.Name(path, 1)
	for _, file := range []string{path, aside} {
		switch is, err := cassette.Is(file); {
		case err != nil:
			return "", err
		case !is:
			return "", fmt.Errorf("%s exists and is no cassette: name another file, or move that one away", file)
		}
		if err := cassette.Written(file); err != nil { // or what it still writes would be replaced later
			return "", err
		}
	}
	if err = os.Rename(path, aside); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return aside, err
}

// endLocked ends the recording, if one is under way.
func (s *Stated) endLocked() {
	if s.under == nil {
		return
	}
	_ = s.under.End("the host ended it") // Ended has told
	if err := s.file.Close(); err != nil {
		s.ended(err)
	}
	s.under, s.file = nil, nil
}
