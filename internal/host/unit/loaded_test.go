package unit

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// script is an instance that runs until it is killed, and answers each call.
type script struct {
	runtime.Instance
	killed chan struct{}
}

func (s script) Serve(ctx context.Context, ready func()) error {
	ready()
	select {
	case <-s.killed:
		return protocol.Errorf(protocol.ChildExited, "it was killed")
	case <-ctx.Done():
		return nil
	}
}

func (script) Call(context.Context, *runtime.Request) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}

func (s script) Kill()                       { close(s.killed) }
func (script) Handshake() *runtime.Handshake { return new(runtime.Handshake) }
func (script) Info() (i runtime.Info)        { return i }

// A run without a handshake is refused if its files change while it loads its code, however late its first answer
// comes. Later changes do not matter.
func TestCodeThatChangesAfterALiteRunHasLoadedIt(t *testing.T) {
	for name, tt := range map[string]struct {
		changes time.Duration // after the start
		want    protocol.Kind
	}{
		"while it loads": {loadTime / 2, protocol.Untrusted},
		"afterwards":     {2 * loadTime, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var changed atomic.Bool
				still := func() error {
					if changed.Load() {
						return errors.New("main.py was changed")
					}
					return nil
				}
				s := script{killed: make(chan struct{})}
				m := &manifest.Manifest{
					Transport: manifest.Transport{Kind: manifest.KindStdio, Protocol: manifest.ProtocolLite},
				}
				o := Options{
					Candidate: discovery.Candidate{ID: "x", Manifest: m},
					Spec: runtime.Spec{
						ID:       "x",
						Manifest: m,
						Permit:   func(context.Context) (func() error, error) { return still, nil },
					},
					Start: func(runtime.Spec, string) (runtime.Instance, error) { return s, nil },
				}
				i, err := New(&Env{Log: slog.New(slog.DiscardHandler)}, o).newInstance(&o, "")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ready, served := make(chan struct{}), make(chan error, 1)
				go func() { served <- i.Serve(ctx, func() { close(ready) }) }()
				<-ready
				time.Sleep(tt.changes)
				changed.Store(true)
				if tt.want == "" {
					if _, err := i.Call(t.Context(), new(runtime.Request)); err != nil {
						t.Error(err)
					}
					cancel()
				}
				if err := <-served; protocol.KindOf(err) != tt.want {
					t.Errorf("ended with %v, want %q", err, tt.want)
				}
				cancel()
			})
		})
	}
}
