package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/protocol"
)

func probeShutdown(ctx context.Context, s *subject) error {
	w, err := s.greet(ctx)
	if err != nil {
		return err
	}
	// The host numbers it like the handshake, so that it can be told from calls.
	answer := w.expect("0")
	err = w.write(w.request("0", protocol.MethodShutdown, `{"reason":"check"}`))
	if err == nil {
		_, err = w.await(ctx, answer, protocol.MethodShutdown)
	}
	if err != nil {
		w.end(ctx)
		return err
	}
	return w.leave(ctx, true)
}

func probeEOF(ctx context.Context, s *subject) error {
	w, err := s.greet(ctx)
	if err != nil {
		return err
	}
	return w.leave(ctx, false)
}

// leave closes the child's stdin and wants it to end by itself, with exit code 0
// if it is to be clean.
func (w *wire) leave(ctx context.Context, clean bool) error {
	began := time.Now()
	w.proc.Stdin.Close()
	timer := time.NewTimer(w.subject.grace())
	defer timer.Stop()
	select {
	case <-w.proc.Done():
		took := time.Since(began)
		w.bury()
		if exit := w.proc.Exit(); !exit.Success() && clean {
			return fmt.Errorf("it ends with %s%s", exit, tail(w.proc))
		} else if !exit.Success() {
			return hintf("it ends with %s%s", exit, tail(w.proc))
		}
		return passf("after %v", took.Round(time.Millisecond))
	case <-ctx.Done():
		w.end(ctx)
		return ctx.Err()
	case <-timer.C:
		w.end(ctx)
		return fmt.Errorf("it still runs %v after its stdin was closed, and gets SIGTERM from the host then: end when stdin ends", w.subject.grace())
	}
}

func tail(p *process.Process) string {
	lines := p.Tail()
	if len(lines) == 0 {
		return ""
	}
	return "\nstderr: " + strings.Join(lines[max(0, len(lines)-5):], "\nstderr: ")
}

// termWait is how long SIGTERM may take: the host kills a second after it.
const termWait = time.Second

func probeSIGTERM(ctx context.Context, s *subject) error {
	w, err := s.greet(ctx)
	if err != nil {
		return err
	}
	defer w.end(ctx)
	if err := terminate(w.proc.PID()); err != nil {
		return skipf("%v", err)
	}
	timer := time.NewTimer(termWait)
	defer timer.Stop()
	select {
	case <-w.proc.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return hintf("it still runs %v after SIGTERM, and is killed then", termWait)
	}
}

// errElsewhere is why there are things that cannot be seen on this system.
var errElsewhere = errors.New("it cannot be seen on this system")

func probeOrphans(ctx context.Context, s *subject) error {
	names, err := s.leftBehind(ctx)
	switch {
	case errors.Is(err, errElsewhere):
		return skipf("%v", err)
	case err != nil:
		return err
	case len(names) > 0:
		return fmt.Errorf("it ends and leaves %s running, which the host has to kill", strings.Join(names, ", "))
	}
	return nil
}

func probeStdout(_ context.Context, s *subject) error {
	s.close()
	if n := len(s.lapses); n > 0 {
		var shown []string
		for _, l := range s.lapses {
			shown = append(shown, l.text)
		}
		shown = slices.Compact(shown)
		shown = shown[:min(len(shown), 5)]
		return fmt.Errorf("%s\n%d in all; print to stderr, stdout is the wire", strings.Join(shown, "\n"), n)
	}
	return nil
}

// chatter is how many lines on stderr all this may take.
const chatter = 500

func probeStderr(_ context.Context, s *subject) error {
	s.mumble.mu.Lock()
	defer s.mumble.mu.Unlock()
	switch {
	case s.mumble.lines > chatter:
		return hintf("%d lines; the host keeps 100 a second and drops the rest", s.mumble.lines)
	case s.mumble.plain > 0:
		return hintf(`%d lines that do not say how serious they are count as warnings, such as %q; begin them with "I! ", or "E! "`, s.mumble.plain, cut(s.mumble.first))
	}
	return nil
}
