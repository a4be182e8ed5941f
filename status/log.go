package status

import (
	"encoding/json"
	"log/slog"
	"time"
)

// LogRecord is one record of a host's log, or a line that an extension wrote to its stderr.
type LogRecord struct {
	Time      time.Time       `json:"time"`
	Level     slog.Level      `json:"level"`
	Extension string          `json:"extension,omitempty"` // its id, or policy:NAME; "": the host
	Message   string          `json:"msg"`
	Attrs     json.RawMessage `json:"attrs,omitempty"` // an object; empty without attributes
	// records lost just before this one because the reader was too slow
	Lost int `json:"lost,omitempty"`
}

// LogFilter selects records of a log. The zero value selects all that are kept.
type LogFilter struct {
	Extension string     // an id or policy:NAME; "": all records
	Level     slog.Level // lowest level; default info. Lower levels are not kept, so they only reach followers
	Last      int        // max number of kept records; 0: all, negative: none
	Follow    bool       // continue with new records
}

// Selects reports whether a record has the extension and the level that f states.
func (f *LogFilter) Selects(r *LogRecord) bool {
	return r.Level >= f.Level && (f.Extension == "" || r.Extension == f.Extension)
}

// Frame is a message between a host and an extension, or a line that is not a valid message.
type Frame struct {
	Time      time.Time `json:"time"`
	Extension string    `json:"extension"`
	PID       int       `json:"pid,omitempty"`  // of the extension's process; 0 if there is none
	Sent      bool      `json:"sent"`           // by the host; false: by the extension
	Text      string    `json:"text"`           // without newline; secrets are masked
	Cut       int       `json:"cut,omitempty"`  // bytes omitted at the end
	Lost      int       `json:"lost,omitempty"` // frames lost just before this one because the reader was too slow
}
