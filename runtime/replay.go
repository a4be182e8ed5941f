package runtime

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/recording/player"
	"github.com/exthost/exthost/protocol"
)

// ReplayRuntime stands in for an extension and answers calls from a cassette. No process runs.
type ReplayRuntime struct{ run }

var _ Instance = (*ReplayRuntime)(nil)

// replay is the endpoint of a connection to a player.
type replay struct {
	*player.Player
	closed chan struct{} // closed by Kill and Stop
	close  func()
}

var _ endpoint = (*replay)(nil)

// play prepares the connection to a player. Nothing is sent before run.
func play(_ context.Context, s *Spec, d dialect) (*child, *protocol.Error) {
	p, err := s.Replay.Play(s.Older)
	if err != nil {
		return nil, protocol.Errorf(protocol.SpawnFailed, "%w", err)
	}
	closed := make(chan struct{})
	r := &replay{p, closed, sync.OnceFunc(func() { close(closed) })}
	c := newChild(s, d, r)
	c.connect(&tappedTransport{Transport: p, seen: c.observers()})
	return c, nil
}

func (r *replay) Exited() <-chan struct{} { return r.closed }
func (r *replay) Done() <-chan struct{}   { return r.closed }
func (r *replay) Dying() bool             { return false }
func (r *replay) PID() int                { return 0 }
func (r *replay) Tail() []string          { return nil }
func (r *replay) exit() string            { return "the replay was closed" }

// Kill implements endpoint.
func (r *replay) Kill() {
	_ = r.Player.Close()
	r.close()
}

// Stop implements endpoint.
func (r *replay) Stop(context.Context, time.Duration) error {
	r.Kill()
	return nil
}

// evidence returns the evidence that was recorded.
func (r *replay) evidence(bool) *protocol.Evidence {
	if e := r.Dead(); e != nil && e.Evidence != nil {
		evidence := *e.Evidence
		return &evidence
	}
	return &protocol.Evidence{}
}

// recordedDeath returns why a recorded run ended; nil if err has another cause.
func recordedDeath(err error) *protocol.Error {
	d, ok := errors.AsType[*player.Death](err)
	if !ok {
		return nil
	}
	kind := d.Kind
	if !slices.Contains(protocol.Kinds(), kind) {
		kind = protocol.ChildExited // recorded by another version
	}
	fault := protocol.Errorf(kind, "%s", d.Message)
	if d.Evidence != nil {
		fault.Evidence = &protocol.Evidence{Line: d.Evidence.Line}
	}
	return fault
}
