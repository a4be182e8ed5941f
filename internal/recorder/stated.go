package recorder

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/exthost/exthost/config/recording"
	"github.com/exthost/exthost/internal/below"
	"github.com/exthost/exthost/internal/cassette"
	"github.com/exthost/exthost/internal/rotate"
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
	s.Report(protocol.Diagnostic{Level: protocol.LevelError, Code: CodeEnded, Message: "nothing is recorded any more: " + err.Error(),
		Hint: "calls go on; once record is right, restart the host"})
}

// beginLocked begins the recording. A file that exists is set aside.
func (s *Stated) beginLocked() error {
	path, err := below.File(s.now.Within, s.now.File)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		if err := rotate.Shift(path, 1); err != nil {
			return err
		}
		s.Log.Info("the cassette before is set aside", "file", rotate.Name(path, 1))
	}
	if s.file, _, err = cassette.Create(path, false); err != nil {
		return err
	}
	if s.under, err = s.Hub.Record(Options{To: s.file, Extensions: s.now.Extensions, MaxBytes: int64(s.now.MaxBytes), Ended: s.ended}); err != nil {
		return errors.Join(err, s.file.Close())
	}
	s.Log.Warn("what passes is recorded", "file", path, "extensions", s.now.Extensions)
	return nil
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
