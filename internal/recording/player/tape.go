// Package player answers in place of an extension, from a cassette.
package player

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// Options of a [Tape].
type Options struct {
	File      string // path of the cassette
	Extension string // recorded extension id; "" for the only one in the cassette
	Nearest   bool   // answer an unrecorded call like the most similar one, instead of failing
	Real      bool   // replay recorded delays, instead of answering at once
}

// Tape holds the recorded calls of one extension. Its players share it: equal calls get the recorded answers in
// order, regardless of which player receives them. It is safe for concurrent use.
type Tape struct {
	options Options
	first   cassette.Start // start of a recorded run

	once    sync.Once
	loadErr error

	mu    sync.Mutex // guards the fields below, after load
	runs  []*run     // runs that completed their handshake
	index index
}

type run struct {
	offers  []*cassette.Offer
	opening []event // events before the first call
	taken   bool    // a player has replayed it
}

// modern reports whether the run spoke a modern MCP version.
func (r *run) modern() bool { return protocol.IsModern(r.offers[0].Version) }

// Open finds an extension in a cassette.
func Open(o Options) (*Tape, error) {
	t := &Tape{options: o}
	ids, err := t.find()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	if t.first.Extension != "" {
		return t, nil
	}
	switch near := text.Nearest(o.Extension, ids); {
	case len(ids) == 0:
		err = errors.New("no extension was recorded in it")
	case o.Extension == "":
		err = fmt.Errorf("it holds %d extensions; state which: %v", len(ids), ids)
	case near != "":
		err = fmt.Errorf("%q was not recorded in it, did you mean %q?", o.Extension, near)
	default:
		err = fmt.Errorf("%q was not recorded in it, but %v", o.Extension, ids)
	}
	return nil, fmt.Errorf("%s: %w", o.File, err)
}

// find sets t.first, and returns the extension ids it has read.
func (t *Tape) find() (ids []string, err error) {
	first := make(map[string]cassette.Start)
	err = t.read(func(r *cassette.Record, _ cassette.Place) error {
		if r.Kind != cassette.KindStart {
			return nil
		}
		s, err := decodeStart(r)
		if err != nil {
			return err
		}
		if s.Extension == t.options.Extension {
			t.first = s
			return io.EOF
		}
		if _, known := first[s.Extension]; !known {
			first[s.Extension] = s
			ids = append(ids, s.Extension)
		}
		return nil
	})
	if err == nil && t.options.Extension == "" && len(ids) == 1 {
		t.first = first[ids[0]]
	}
	return ids, err
}

func decodeStart(r *cassette.Record) (s cassette.Start, err error) {
	if err = json.Unmarshal(r.Payload, &s); err != nil || s.Extension == "" {
		err = fmt.Errorf("run %d begins without an extension", r.Run)
	}
	return s, err
}

// read calls each for every record until each returns io.EOF.
func (t *Tape) read(each func(*cassette.Record, cassette.Place) error) error {
	f, _, err := file.OpenRegular(t.options.File, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	reader, err := cassette.NewReader(f, 0)
	if err != nil {
		return err
	}
	for {
		r, err := reader.Next()
		if err == nil {
			err = each(&r, reader.Place())
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Extensions returns the ids of the recorded extensions, in order of their first start.
func Extensions(file string) ([]string, error) {
	t := &Tape{options: Options{File: file, Extension: "\x00"}}
	ids, err := t.find()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return ids, nil
}

// Protocol returns the protocol between host and players: mcp if that was recorded, else native.
func (t *Tape) Protocol() string {
	if t.first.Protocol == manifest.ProtocolMCP {
		return manifest.ProtocolMCP
	}
	return manifest.ProtocolNative
}

// load reads the cassette once.
func (t *Tape) load() error {
	t.once.Do(func() {
		_, t.loadErr = t.loadInto(t, false)
	})
	return t.loadErr
}

// loadInto reads the cassette into a tape, which may be t. If keep is set, it returns all calls.
func (t *Tape) loadInto(into *Tape, keep bool) ([]request, error) {
	into.index = newIndex()
	l := loader{tape: into, runs: make(map[int]*recording), keep: keep}
	if err := t.read(l.add); err != nil {
		return nil, fmt.Errorf("%s: %w", t.options.File, err)
	}
	return l.all, nil
}

// take returns the run for the next player: the next unused one that speaks legacy or modern MCP as wanted, or else the
// last one. A run that failed in its handshake cannot be replayed.
func (t *Tape) take(legacy bool) (*run, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fits := slices.Clone(t.runs)
	wanted := slices.DeleteFunc(slices.Clone(fits), func(r *run) bool { return r.modern() == legacy })
	if len(wanted) > 0 && t.Protocol() == manifest.ProtocolMCP {
		fits = wanted
	}
	if len(fits) == 0 {
		return nil, fmt.Errorf("%s: every run of %s in it ended before its handshake", t.options.File,
			t.first.Extension)
	}
	for _, r := range fits {
		if !r.taken {
			r.taken = true
			return r, nil
		}
	}
	return fits[len(fits)-1], nil
}

// lastWords limits the pause before a death unless delays are replayed. Without any pause, messages sent just before
// the connection ends may be lost.
const lastWords = 100 * time.Millisecond

// pause returns how long to wait before an event. Replies come from the live host, so they need no pause.
func (t *Tape) pause(e *event) time.Duration {
	switch {
	case e.kind == reply:
		return 0
	case t.options.Real:
		return e.pause
	case e.kind == death:
		return min(e.pause, lastWords)
	}
	return 0
}

// Call is a recorded call of a tool.
type Call struct {
	Tool      string // name without prefix
	Arguments json.RawMessage
	Answered  bool // with a result or an error
	Masked    bool // a secret in the arguments was masked
	Asks      bool // the extension sent a request to its caller
}

// Calls returns the recorded tool calls in order.
func (t *Tape) Calls() (list []Call, err error) {
	all, err := t.loadInto(&Tape{options: t.options, first: t.first}, true)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.method == protocol.MethodToolsCall {
			list = append(list, Call{
				Tool:      nameOf(c.params),
				Arguments: rawjson.Get(c.params, "arguments"),
				Masked:    masks.Match(c.params),
				Answered:  c.answered,
				Asks:      c.asks,
			})
		}
	}
	return list, nil
}

// Same reports whether two JSON values are equal, treating a masked secret in recorded as a wildcard.
func Same(recorded, now json.RawMessage) bool {
	e := equals{key: key{params: canonical(recorded)}}
	return e.params == canonical(now) || e.matches(canonical(now))
}
