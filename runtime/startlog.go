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

// startLog logs what a process writes on stderr. Servers of MCP may complain about requests
// of the handshake that they do not know, so their lines are held until the outcome of the
// handshake is known: they matter only if the handshake fails or takes long.
type startLog struct {
	log *slog.Logger

	spoke   atomic.Bool            // a line came that is not of an installer
	refusal atomic.Pointer[string] // why roots/list was refused, which many servers repeat on stderr

	mu      sync.Mutex // guards what follows
	holding bool
	held    []process.Line
	lost    int // lines before the held ones
}

// installerWords begin the lines that npx, uvx and the like write before the program runs.
var installerWords = []string{"npm", "npm:", "progress:", "packages:", "resolving", "resolved", "resolved,",
	"downloading", "downloaded",
	"building", "built", "using", "preparing", "prepared", "creating", "installing"}

// installing reports whether the process may still be a package runner that installs its
// program: nothing of the program has come yet.
func (c *child) installing() bool {
	return c.spec.Manifest.Transport.Downloads() && c.startLog != nil && !c.startLog.spoke.Load() &&
		!c.noise.framed.Load()
}

// maxHeld bounds the lines that are held.
const maxHeld = 50

// line logs or holds a line.
func (s *startLog) line(l process.Line) {
	if !s.spoke.Load() {
		word, _, _ := strings.Cut(strings.TrimSpace(l.Text), " ")
		s.spoke.Store(!slices.Contains(installerWords, strings.ToLower(word)))
	}
	if said := s.refusal.Load(); said != nil && strings.Contains(l.Text, *said) {
		l.Level = min(l.Level, slog.LevelDebug) // the host has logged it
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

// release logs the held lines at their own levels, or below if most is below, and holds no
// more.
func (s *startLog) release(most slog.Level) {
	if s == nil { // the end of a connection to a remote server, which has no stderr
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

// slowStart is the time after which a handshake that goes on is logged, for the first time.
const slowStart = 5 * time.Second

// announceWait logs that the handshake goes on, less and less often, until ctx ends.
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
