package runtime

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/proc/process"
)

// startLog logs a process's stderr. MCP servers may complain about handshake requests that they do not know, so lines
// are held back during the handshake. They are logged at their own level only if the handshake fails or takes long. A
// process that waits for its connection has been sent nothing, so its lines are not held.
type startLog struct {
	log *slog.Logger

	spoke   atomic.Bool            // a line came that is not an installer's
	refusal atomic.Pointer[string] // why roots/list was refused; many servers repeat that on stderr

	mu      sync.Mutex // guards the fields below
	holding bool
	held    []process.Line
	lost    int // dropped lines before the held ones
}

// installerWords are first words of lines that npx, uvx and the like write before the program runs.
var installerWords = []string{"npm", "npm:", "progress:", "packages:", "resolving", "resolved", "resolved,",
	"downloading", "downloaded",
	"building", "built", "using", "preparing", "prepared", "creating", "installing"}

// installing reports whether the process may be a package runner that is still installing its program: so far, the
// program has written nothing.
func (c *child) installing() bool {
	return c.spec.Manifest.Transport.Downloads() && c.startLog != nil && !c.startLog.spoke.Load() &&
		!c.noise.framed.Load()
}

// maxHeld bounds the held lines.
const maxHeld = 50

// line logs or holds a line.
func (s *startLog) line(l process.Line) {
	if !s.spoke.Load() {
		word, _, _ := strings.Cut(strings.TrimSpace(l.Text), " ")
		s.spoke.Store(!slices.Contains(installerWords, strings.ToLower(word)))
	}
	if reason := s.refusal.Load(); reason != nil && strings.Contains(l.Text, *reason) {
		l.Level = min(l.Level, slog.LevelDebug) // already logged by the host
	}
	s.mu.Lock()
	holding := s.holding
	if holding {
		if len(s.held) == maxHeld {
			s.held, s.lost = s.held[1:], s.lost+1
		}
		s.held = append(s.held, l)
	}
	s.mu.Unlock()
	if !holding {
		logStderr(s.log, l)
	}
}

// hold begins to hold lines.
func (s *startLog) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = true
}

// release stops holding and logs the held lines, with a level of at most most.
func (s *startLog) release(most slog.Level) {
	if s == nil { // a remote server, which has no stderr
		return
	}
	s.mu.Lock()
	held, lost := s.held, s.lost
	s.holding, s.held, s.lost = false, nil, 0
	s.mu.Unlock()
	for i, l := range held {
		if l.Level = min(l.Level, most); i == 0 {
			l.Dropped += lost
		}
		logStderr(s.log, l)
	}
}

// slowStart is when a handshake that is still going on is logged for the first time.
const slowStart = 5 * time.Second

// announceWait logs that the handshake is still going on, at doubling intervals, until ctx ends.
func (c *child) announceWait(ctx context.Context) {
	for wait := cmp.Or(c.spec.slowStart, slowStart); ; wait *= 2 {
		if pause(ctx, time.Until(c.startedAt.Add(wait))); ctx.Err() != nil {
			return
		}
		c.startLog.release(slog.LevelError)
		attrs := []slog.Attr{slog.Duration("for", wait), slog.Duration("start_timeout", c.spec.Options.StartTimeout)}
		text := "still waiting for the answer to the handshake"
		if c.installing() {
			text += "; " + filepath.Base(c.spec.Manifest.Transport.CommandLine()[0]) + " may be installing the package"
		}
		c.spec.Logger.LogAttrs(ctx, slog.LevelInfo, text, attrs...)
	}
}
