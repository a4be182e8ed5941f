package exthost

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/exthost/exthost/internal/host/operations"
	"github.com/exthost/exthost/internal/recording/recorder"
	"github.com/exthost/exthost/protocol"
)

// RecordOptions select what is recorded. The zero value records all extensions and destinations until ctx ends.
type RecordOptions struct {
	ID         string        // for [Recordings.Stop]; "": Stop cannot end the recording
	Extensions []string      // ids; nil: all
	For        time.Duration // 0: without limit
	MaxBytes   int64         // the recording ends there, at least 512; 0: 1 GiB
}

// Recordings records the messages between the host and its extensions. It is safe for concurrent use.
type Recordings struct{ h *Host }

// Recordings returns the recordings of the host.
func (h *Host) Recordings() Recordings { return Recordings{h} }

// Record writes the frames between the host and its extensions to w, as a cassette, in both directions and with
// secrets masked. It returns when the recording ends: after o.For, with ctx, by Stop, with the host, at MaxBytes,
// or when w fails; the last two are errors. If 32 MiB wait for a slow w, calls wait too, at most 10 s, then the
// recording ends. Processes of policies are not recorded.
func (a Recordings) Record(ctx context.Context, o RecordOptions, w io.Writer) error {
	for _, id := range o.Extensions {
		if u := a.h.snapshots.Load(); u.Extensions[id] == nil && u.Destinations[id] == nil {
			s := a.h.Status()
			return cmp.Or(s.NotHere(id, "calls record FILE"), operations.Cannot(s, id))
		}
	}
	r, err := a.h.env.Recorder.Record(recorder.Options{To: w, ID: o.ID, Extensions: o.Extensions, MaxBytes: o.MaxBytes})
	if err != nil {
		kind := protocol.Overloaded
		if errors.Is(err, recorder.ErrSmall) {
			kind = protocol.InvalidArguments
		}
		return protocol.Errorf(kind, "nothing can be recorded: %w", err)
	}
	log := a.h.env.Log.With("extensions", o.Extensions)
	log.Info("a recording of what passes begins")
	if err := r.Wait(ctx, o.For); err != nil {
		log.Error("a recording ended early", "error", err)
		return protocol.Errorf(protocol.Failed, "the recording ended early: %w", err)
	}
	log.Info("a recording has ended")
	return nil
}

// Stop ends a recording and completes its cassette. The error is tool_not_found if no such recording is running.
func (a Recordings) Stop(id string) error {
	if !a.h.env.Recorder.Stop(id) {
		return protocol.Errorf(protocol.ToolNotFound, "no recording %q is under way", id)
	}
	return nil
}
