package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/jsonrpc/ndjson"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// patience is how long an answer may take.
const patience = 10 * time.Second

// wire is a child that is spoken to in raw lines.
type wire struct {
	subject *subject
	proc    *process.Process
	lines   *ndjson.Transport // only read from
	opening json.RawMessage   // the result of the handshake
	took    time.Duration     // until the handshake was answered
	early   []string          // what was wrong on stdout before that
	meta    string            // what every request has to carry: that of a stateless MCP server
	lastID  int

	reading sync.WaitGroup
	ended   chan struct{} // closed at the end of stdout

	mu      sync.Mutex
	waiting map[string]chan jsonrpc.Message // by key of the id; nil once it has been answered
	told    []jsonrpc.Message               // the latest notifications
	lapses  []lapse
}

// lapse is what a child said that is neither an answer nor a notification.
type lapse struct {
	text    string
	unasked bool // it looks like an answer, and there was no such request
}

// start starts a child and reads what it says. Nothing has been said to it.
func (s *subject) start(ctx context.Context) (*wire, error) {
	argv, err := runtime.CommandLine(&s.spec)
	if err != nil {
		return nil, err
	}
	proc, err := process.Start(ctx, process.Spec{
		Path: argv[0], Args: argv[1:], Dir: s.workDir(), Env: s.spec.Env, Limits: process.Limits(s.spec.Options.Limits),
		Containment: s.spec.Containment, Isolate: s.spec.Options.Isolate == manifest.IsolatePID, StderrLine: s.mumble.hear,
	})
	if err != nil {
		return nil, err
	}
	w := &wire{subject: s, proc: proc, lastID: 1000, waiting: make(map[string]chan jsonrpc.Message), ended: make(chan struct{})}
	w.lines = ndjson.New(proc.Stdout, proc.Stdin, ndjson.Options{MaxLineBytes: s.spec.Options.MaxLineBytes, Noise: w.noise})
	w.reading.Go(w.read)
	return w, nil
}

func (s *subject) workDir() string {
	if cwd := s.spec.Manifest.Transport.Cwd; !filepath.IsAbs(cwd) {
		return filepath.Join(s.spec.Dir, cwd)
	}
	return s.spec.Manifest.Transport.Cwd
}

// noise notes a line that is no frame.
func (w *wire) noise(line []byte, err error) error {
	w.lapse(false, "%q is no frame: %v", cut(string(line)), err)
	return nil
}

func (w *wire) lapse(unasked bool, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lapses = append(w.lapses, lapse{fmt.Sprintf(format, args...), unasked})
}

// maxTold bounds the notifications that are kept.
const maxTold = 10_000

// read takes what the child says until its stdout ends.
func (w *wire) read() {
	defer close(w.ended)
	for {
		m, err := w.lines.Read()
		if err != nil {
			return
		}
		switch {
		case m.Method != "" && m.ID != nil:
			_ = w.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)) // to nobody, if that fails
		case m.Method != "":
			w.mu.Lock()
			if len(w.told) < maxTold {
				w.told = append(w.told, m)
			}
			w.mu.Unlock()
		default:
			w.answered(m)
		}
	}
}

func (w *wire) answered(m jsonrpc.Message) {
	if m.Invalid == nil && m.Bare && w.subject.speaks != manifest.ProtocolLite {
		w.lapse(false, `the answer %s is without "jsonrpc":"2.0"`, cut(string(m.Raw)))
	}
	w.mu.Lock()
	answer, asked := w.waiting[key(m.ID)]
	if asked {
		w.waiting[key(m.ID)] = nil
	}
	w.mu.Unlock()
	switch {
	case answer != nil:
		answer <- m // there is room for one
	case asked:
		w.lapse(false, "%s is a second answer", cut(string(m.Raw)))
	default:
		w.lapse(true, "%s answers nothing that was asked", cut(string(m.Raw)))
	}
}

// key tells ids apart: numbers by their text, strings by what they say.
func key(id json.RawMessage) string {
	if text, ok := rawjson.Text(id); ok {
		return "\"" + text
	}
	return string(id)
}

// write writes text as it is, and a newline.
func (w *wire) write(text string) error { return w.writeRaw(text + "\n") }

func (w *wire) writeRaw(text string) error {
	if err := w.proc.Stdin.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return w.gone(err)
	}
	if _, err := w.proc.Stdin.WriteString(text); err != nil {
		return w.gone(fmt.Errorf("it does not read its stdin: %w", err))
	}
	return nil
}

// gone is why there is no more from the child, err unless it has ended.
func (w *wire) gone(err error) error {
	select {
	case <-w.proc.Done():
	case <-time.After(time.Second):
		if err == nil {
			err = errors.New("it has closed its stdout and lives on")
		}
		return err
	}
	text := "it has ended, " + w.proc.Exit().String()
	if tail := w.proc.Tail(); len(tail) > 0 {
		text += "\nstderr: " + strings.Join(tail[max(0, len(tail)-5):], "\nstderr: ")
	}
	return errors.New(text)
}

// dead reports whether the child can be told no more.
func (w *wire) dead() bool {
	select {
	case <-w.ended:
		return true
	case <-w.proc.Done():
		return true
	default:
		return false
	}
}

// end ends the child by the host's ladder and gives what it did wrong to the
// subject. It is to be called once.
func (w *wire) end(ctx context.Context) {
	_ = w.proc.Stop(ctx, w.subject.grace()) // one that cannot be killed is the system's
	w.bury()
}

// bury is end for a child that has ended.
func (w *wire) bury() {
	select {
	case <-w.ended:
	case <-time.After(time.Second): // somebody else holds its stdout
	}
	_ = w.lines.Close() // ends the reading
	w.reading.Wait()
	w.subject.lapses = append(w.subject.lapses, w.lapses...)
}

// progress are the progress notifications that carry the token, in their order.
func (w *wire) progress(token string) (all []jsonrpc.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.told {
		if m.Method == protocol.MethodProgress && string(rawjson.Get(m.Params, protocol.MetaProgressToken)) == token {
			all = append(all, m)
		}
	}
	return all
}

// count counts the notifications of a method.
func (w *wire) count(method string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.told {
		if m.Method == method {
			n++
		}
	}
	return n
}
