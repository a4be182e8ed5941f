package exthost

import (
	"errors"
	"log/slog"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Crash is the end of an instance that nobody asked for.
type Crash struct {
	Time      time.Time          `json:"time"`
	Key       string             `json:"key,omitempty"`       // of the instance
	PID       int                `json:"pid,omitempty"`       // 0 when it could never be called
	StartedAt time.Time          `json:"started_at,omitzero"` // zero when there was no process
	Kind      protocol.Kind      `json:"kind"`
	Reason    string             `json:"reason"`
	Evidence  *protocol.Evidence `json:"evidence,omitempty"`
}

func (i *instance) postMortem(err error) *Crash {
	return &Crash{Time: time.Now(), Key: i.key, PID: i.pid, StartedAt: i.Info().StartedAt, Kind: protocol.KindOf(err), Reason: message(err), Evidence: evidenceIn(err)}
}

// lastWords are what a process said before err, "" when there is nothing. They are for
// the operator alone.
func lastWords(err error) string {
	if e := evidenceIn(err); e != nil {
		return e.Complaint()
	}
	return ""
}

// lastWordsAttr is lastWords for the log, nothing when there are none.
func lastWordsAttr(err error) slog.Attr {
	words := lastWords(err)
	if words == "" {
		return slog.Attr{}
	}
	return slog.String("last_words", words)
}

func evidenceIn(err error) *protocol.Evidence {
	if e := (*protocol.Error)(nil); errors.As(err, &e) {
		return e.Evidence
	}
	return nil
}
