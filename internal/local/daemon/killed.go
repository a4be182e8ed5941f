package daemon

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Killed is a host that did not end by itself: it was killed, it crashed, or the machine lost power.
type Killed struct {
	Info
	At    time.Time // when it ended; unless Exact is set, the last time at which it is known to have run
	Exact bool      // its guardian has noted At
}

// HasRun reports whether a host has run with a state directory.
func HasRun(stateDir string) bool {
	_, err := os.Stat(filepath.Join(stateDir, place(0).lock())) // hosts leave it
	return err == nil
}

// LastKilled returns the host that used a state directory last, if it was killed; nil if it ended by itself or runs.
func LastKilled(stateDir string) (last *Killed) {
	var newest time.Time
	for p := range place(maxPlaces) {
		path := filepath.Join(stateDir, p.lock())
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err == nil && info.ModTime().After(newest) {
			newest, last = info.ModTime(), readKilled(f, info.ModTime())
			if last != nil {
				last.Lock = path
			}
		}
		_ = f.Close()
	}
	return last
}

// readKilled reads the lock file of a host that was killed; nil if the host emptied the file, or runs. changed is the
// time at which the file was changed.
func readKilled(f *os.File, changed time.Time) *Killed {
	k := &Killed{At: changed}
	var note struct {
		Ended int
		Unix  int64
	}
	values := json.NewDecoder(io.NewSectionReader(f, 0, maxInfo))
	if values.Decode(&k.Info) != nil || k.PID == 0 || k.Marks.HostRuns() {
		return nil
	}
	if values.Decode(&note) == nil && note.Ended == k.PID {
		k.At, k.Exact = time.Unix(note.Unix, 0), true
		return k
	}
	if log, err := os.Stat(cmp.Or(k.Log, k.LogCopy)); err == nil && log.ModTime().After(k.At) {
		k.At = log.ModTime()
	}
	return k
}
