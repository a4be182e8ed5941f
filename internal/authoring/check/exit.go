package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/authoring/rawclient"
	"github.com/exthost/exthost/protocol"
)

func (s *subject) probeShutdown(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	// The host uses id 0 for handshake and shutdown only.
	answer := c.Expect("0")
	err = c.Write(c.Request("0", protocol.MethodShutdown, `{"reason":"check"}`))
	if err == nil {
		_, err = c.Await(ctx, answer, protocol.MethodShutdown)
	}
	if err != nil {
		s.stop(ctx, c)
		return err
	}
	return s.checkExit(ctx, c, true)
}

func (s *subject) probeEOF(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	return s.checkExit(ctx, c, false)
}

// checkExit closes stdin and expects the process to exit. clean requires exit code 0.
func (s *subject) checkExit(ctx context.Context, c *rawclient.Client, clean bool) error {
	began := time.Now()
	c.Process().Stdin.Close()
	timer := time.NewTimer(s.grace())
	defer timer.Stop()
	select {
	case <-c.Process().Done():
		took := time.Since(began)
		s.violations = append(s.violations, c.Reap()...)
		if exit := c.Process().Exit(); !exit.Success() && clean {
			return fmt.Errorf("it ends with %s%s", exit, c.StderrTail())
		} else if !exit.Success() {
			return hintf("it ends with %s%s", exit, c.StderrTail())
		}
		return passf("after %v", took.Round(time.Millisecond))
	case <-ctx.Done():
		s.stop(ctx, c)
		return ctx.Err()
	case <-timer.C:
		s.stop(ctx, c)
		return fmt.Errorf("it still runs %v after its stdin was closed, and gets SIGTERM from the host then: end "+
			"when stdin ends", s.grace())
	}
}

// termWait is how long a process may take to exit after SIGTERM, before the host sends SIGKILL.
const termWait = time.Second

func (s *subject) probeSIGTERM(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.stop(ctx, c)
	if err := terminate(c.Process().PID()); err != nil {
		return skipf("%v", err)
	}
	timer := time.NewTimer(termWait)
	defer timer.Stop()
	select {
	case <-c.Process().Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return hintf("it still runs %v after SIGTERM, and is killed then", termWait)
	}
}

// errUnsupported means that the system does not show which processes belong to a session.
var errUnsupported = errors.New("it cannot be seen on this system")

func (s *subject) probeOrphans(ctx context.Context) error {
	names, err := s.orphans(ctx)
	switch {
	case errors.Is(err, errUnsupported):
		return skipf("%v", err)
	case err != nil:
		return err
	case len(names) > 0:
		return fmt.Errorf("it ends and leaves %s running, which the host has to kill", strings.Join(names, ", "))
	}
	return nil
}

// leftAlone is how long a process has to live after its last answer.
const leftAlone = time.Second

// probeStays looks for processes that have ended by themselves: those that the probes share, and the one of the host.
func (s *subject) probeStays(ctx context.Context) error {
	select {
	case <-time.After(leftAlone - time.Since(s.answered)):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.noteEnd()
	for _, x := range s.host.Status().Extensions {
		if x.ID == s.status.ID && x.LastCrash != nil && x.LastCrash.Time.After(s.answered) {
			s.ends = append(s.ends, "the process of the host has ended: "+x.LastCrash.Reason)
		}
	}
	if len(s.ends) == 0 {
		return nil
	}
	return fmt.Errorf("%d of its processes ended by themselves after they had answered; the host starts such an "+
		"extension again and again, and then gives it up: serve until stdin ends\n%s", len(s.ends), s.ends[0])
}

func (s *subject) probeStdout(_ context.Context) error {
	s.close()
	if n := len(s.violations); n > 0 {
		shown := slices.Compact(slices.Clone(s.violations))
		shown = shown[:min(len(shown), 5)]
		return fmt.Errorf("%s\n%d in all; print to stderr, stdout is the wire", strings.Join(shown, "\n"), n)
	}
	return nil
}

// maxStderrLines is the number of stderr lines, of all probes together, above which probeStderr gives a hint.
const maxStderrLines = 500

func (s *subject) probeStderr(_ context.Context) error {
	s.stderr.mu.Lock()
	defer s.stderr.mu.Unlock()
	switch {
	case s.stderr.lines > maxStderrLines:
		return hintf("%d lines; the host keeps 100 a second and drops the rest", s.stderr.lines)
	case s.stderr.plain > 0:
		return hintf("%d lines that do not say how serious they are count as warnings, such as %q; "+
			`begin them with "I! ", or "E! "`, s.stderr.plain, cut(s.stderr.first))
	}
	return nil
}
