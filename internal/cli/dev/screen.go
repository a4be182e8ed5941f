package dev

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/status"
)

// screen prints the lines of a session.
type screen struct {
	out      io.Writer // prints above the prompt, if there is one
	terminal io.Writer // for its width
	colours  bool

	mu sync.Mutex // held while several lines are printed together
}

func (s *screen) paint(c console.Colour, text string) string {
	if !s.colours {
		return text
	}
	return c.Paint(text)
}

// width returns the number of columns; 0 is no limit.
func (s *screen) width() int { return console.Width(s.terminal) }

// say prints one line.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print(format, args...)
}

// print prints a line. The caller holds mu.
func (s *screen) print(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// prose prints text whose long lines are broken between words. The caller holds mu.
func (s *screen) prose(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		for _, part := range console.Hang(line, s.width()) {
			s.print("%s", part)
		}
	}
}

// showLog prints the stderr lines of extensions. Unless stderrOnly is set, it also prints the warnings of the host,
// except those that builds prints.
func (s *screen) showLog(ctx context.Context, h *exthost.Host, stderrOnly bool) {
	for r := range h.Admin().Logs(ctx, status.LogFilter{Level: slog.LevelDebug - 4, Follow: true}) {
		stderr := string(rawjson.Get(r.Attrs, "stream")) == `"stderr"`
		reported := rawjson.Get(r.Attrs, "code") != nil || strings.HasPrefix(r.Message, "not reloaded")
		if !stderr && (stderrOnly || r.Level < slog.LevelWarn || reported) {
			continue
		}
		c, mark := console.Dim, "│"
		switch {
		case r.Level >= slog.LevelError:
			c = console.Red
		case r.Level >= slog.LevelWarn && !stderr:
			c, mark = console.Yellow, "!"
		}
		text := r.Message
		for key, value := range rawjson.Members(r.Attrs) {
			if !stderr {
				text += fmt.Sprintf(" %s=%s", key, value)
			}
		}
		text = s.paint(c, r.Extension+" "+mark) + " " + console.Safe(text)
		if stderr { // as it was written
			s.say("%s", text)
			continue
		}
		s.mu.Lock()
		s.prose(text)
		s.mu.Unlock()
	}
}

// enterTerminal prepares the terminal for the prompt, if input and output are terminals.
func (p *prompt) enterTerminal() (leave func(), err error) {
	in, ok := p.in.(*os.File)
	if !ok || !console.IsTerminal(in) || !console.IsTerminal(p.screen.out) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	both := struct {
		io.Reader
		io.Writer
	}{&keys{in, p}, p.screen.out}
	p.terminal = term.NewTerminal(both, p.screen.paint(console.Bold, "> "))
	p.terminal.AutoCompleteCallback = p.complete
	p.screen.out = p.terminal
	return func() { _ = term.Restore(int(in.Fd()), before); fmt.Fprintln(p.screen.terminal) }, nil
}

// keys reads the keyboard. Ctrl-C cancels the calls in flight; without any it ends the session.
type keys struct {
	io.Reader
	prompt *prompt
}

const ctrlC = "\x03"

func (k *keys) Read(p []byte) (int, error) {
	for {
		n, err := k.Reader.Read(p)
		if !bytes.Contains(p[:n], []byte(ctrlC)) || !k.prompt.cancelCalls() {
			return n, err
		}
		if n = copy(p, bytes.ReplaceAll(p[:n], []byte(ctrlC), nil)); n > 0 || err != nil {
			return n, err
		}
	}
}
