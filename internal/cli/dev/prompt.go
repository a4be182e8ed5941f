package dev

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/toolcall"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
	"path/filepath"
)

// prompt executes the lines that the author types.
type prompt struct {
	in       io.Reader
	terminal *term.Terminal // nil: in is not a terminal
	screen   *screen
	builds   *builds
	host     *exthost.Host
	tapping  context.CancelFunc // nil: messages are not shown
	tasks    sync.WaitGroup

	mu    sync.Mutex                             // guards calls
	calls map[context.Context]context.CancelFunc // in flight
}

func newPrompt(in io.Reader, s *screen, dir string) *prompt {
	b := &builds{
		screen:  s,
		dir:     dir,
		shown:   map[string]toolsShown{},
		broken:  map[string]bool{},
		skipped: map[string]string{},
	}
	return &prompt{in: in, screen: s, builds: b, calls: map[context.Context]context.CancelFunc{}}
}

// promptWords are the commands of the prompt. If a tool has the same name, the word calls the tool; with a colon before
// it, the word is always the command.
var promptWords = []struct{ word, does string }{
	{"help", "this"},
	{"tools", "the tools, and what they take"},
	{"status", "its state, process and last crash"},
	{"reload", "look again, and start what had failed"},
	{"restart", "a new process"},
	{"wire", "show the messages on its wire, or no longer"},
	{"quit", "the end; ctrl-d too"},
}

// input is a line, or the end of input: Ctrl-C, Ctrl-D, or the end of a file.
type input struct {
	line string
	end  bool
}

// run executes lines until quit, until the input ends, or until ctx ends. The end of a device such as /dev/null is
// none: the extension is still swapped at each save. The reading goroutine is left behind, because a read of a terminal
// cannot be interrupted.
func (p *prompt) run(ctx context.Context) {
	lines := make(chan input)
	go p.read(ctx, lines)
	for {
		select {
		case <-ctx.Done():
			return
		case in := <-lines:
			if in.end && (p.terminal != nil || !isDevice(p.in)) || !in.end && !p.do(ctx, in.line) {
				return
			}
		}
	}
}

// isDevice reports whether in is a device, and neither a pipe nor a file.
func isDevice(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err != nil || info.Mode()&os.ModeCharDevice != 0 // a closed stdin is no input either
}

// read reads lines until the input or ctx ends.
func (p *prompt) read(ctx context.Context, lines chan<- input) {
	scanner := bufio.NewScanner(p.in)
	for {
		var next input
		if p.terminal != nil {
			if columns, rows, err := term.GetSize(int(p.in.(*os.File).Fd())); err == nil {
				_ = p.terminal.SetSize(columns, rows)
			}
			line, err := p.terminal.ReadLine()
			next = input{line, err != nil && !errors.Is(err, term.ErrPasteIndicator)}
		} else {
			next.end = !scanner.Scan()
			next.line = scanner.Text()
		}
		select {
		case lines <- next:
		case <-ctx.Done():
			return
		}
		if next.end {
			return
		}
	}
}

// do executes one line; it returns false to end the session.
func (p *prompt) do(ctx context.Context, line string) bool {
	words, err := text.ShellWords(line)
	if err != nil {
		p.fail("%v", err)
		return true
	}
	if len(words) == 0 || p.call(ctx, words) {
		return true
	}
	switch strings.TrimPrefix(words[0], ":") {
	case "quit", "exit":
		return false
	case "help":
		p.help()
	case "tools":
		p.builds.showTools()
	case "status":
		p.builds.showInfo()
	case "reload":
		_, _ = p.host.Admin().Reload(ctx) // builds prints the outcome
	case "restart":
		p.restart(ctx)
	case "wire":
		p.toggleTap(ctx)
	default:
		p.unknown(ctx, words)
	}
	return true
}

func (p *prompt) fail(format string, args ...any) {
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	p.screen.prose(p.screen.paint(console.Red, "✗ ") + fmt.Sprintf(format, args...))
}

// lookup finds a tool by its own or its registered name.
func (p *prompt) lookup(name string) *tools.Entry {
	for _, w := range promptWords {
		if ":"+w.word == name {
			return nil
		}
	}
	entries := p.host.Tools().Entries()
	if i := slices.IndexFunc(entries, func(e *tools.Entry) bool { return e.Tool == name || e.Name == name }); i >= 0 {
		return entries[i]
	}
	return nil
}

// known returns all words that a line may begin with.
func (p *prompt) known() (words []string) {
	for _, e := range p.host.Tools().Entries() {
		words = append(words, e.Tool)
	}
	for _, w := range promptWords {
		words = append(words, w.word)
	}
	return words
}

// unknown waits for extensions that are still starting, then looks for the tool again. If no extension has the tool, it
// says that [capabilities] drops it, or suggests the nearest word.
func (p *prompt) unknown(ctx context.Context, words []string) {
	starting, cancel := context.WithTimeout(ctx, hosts.AnswerTimeout)
	defer cancel()
	if p.host.Ready(starting) == nil && p.call(ctx, words) {
		return
	}
	for _, x := range p.host.Status().Extensions {
		if slices.Contains(x.Undeclared, words[0]) {
			p.fail("%s", console.Safe(fmt.Sprintf("%s is dropped: tools of [capabilities] in %s does not list it; add "+
				"it there, or leave the list out, which admits every tool", words[0], filepath.Base(x.Path))))
			return
		}
	}
	meant := cmp.Or(console.DidYouMean(words[0], p.known()), "; tools lists those there are")
	p.fail("%s", console.Safe(fmt.Sprintf("there is no tool %q%s", words[0], meant)))
}

func (p *prompt) help() {
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	p.screen.print("TOOL key=value key:=JSON…   call a tool; tab completes")
	for _, w := range promptWords {
		p.screen.print("%-27s %s", w.word, w.does)
	}
}

func (p *prompt) restart(ctx context.Context) {
	for _, x := range p.host.Status().Extensions {
		began := time.Now()
		if err := p.host.Admin().Restart(ctx, x.ID); err != nil {
			p.fail("%s", console.SafeText(console.Describe(err)))
			continue
		}
		p.screen.say("%s %s restarted in %s", p.screen.paint(console.Green, "↻"), console.Safe(x.ID),
			console.Span(time.Since(began)))
	}
}

// toggleTap starts or stops printing the messages of the extensions.
func (p *prompt) toggleTap(ctx context.Context) {
	if p.tapping != nil {
		p.tapping()
		p.tapping = nil
		p.screen.say("messages are no longer shown")
		return
	}
	ctx, p.tapping = context.WithCancel(ctx)
	p.tasks.Go(func() {
		for f := range p.host.Admin().Tap(ctx, "") {
			p.screen.say("%s", hosts.FrameLine(&f, p.builds.several(), p.screen.width(), p.screen.colours))
		}
	})
	p.screen.say("messages are shown; wire again ends it")
}

// call calls the tool named by the first word, and returns false if there is none. On a terminal it does not wait for
// the result, so that the author can cancel the call.
func (p *prompt) call(ctx context.Context, words []string) bool {
	e := p.lookup(words[0])
	if e == nil {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	p.calls[ctx] = cancel
	p.mu.Unlock()
	call := func() {
		defer cancel()
		p.finish(ctx, e, words[1:])
		p.mu.Lock()
		delete(p.calls, ctx)
		p.mu.Unlock()
	}
	if p.terminal != nil {
		p.tasks.Go(call)
	} else {
		call()
	}
	return true
}

// cancelCalls cancels the calls in flight and reports whether there were any.
func (p *prompt) cancelCalls() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.calls {
		cancel()
	}
	return len(p.calls) > 0
}

func (p *prompt) finish(ctx context.Context, e *tools.Entry, pairs []string) {
	arguments, err := toolcall.Arguments(json.RawMessage("{}"), pairs, e.Name, e.InputSchema)
	if err != nil {
		p.fail("%s", console.Safe(err.Error()))
		return
	}
	began := time.Now()
	result, err := p.host.Call(ctx, e.Name, arguments)
	took := p.screen.paint(console.Dim, console.Span(time.Since(began)))
	switch {
	case ctx.Err() != nil:
		p.screen.say("%s%s  canceled", p.screen.paint(console.Yellow, "○ "), took)
	case err != nil:
		// the prompt does not have the command that the error suggests
		text, _, _ := strings.Cut(strings.TrimPrefix(console.Describe(err), e.Name+": "), "\n  next: ")
		p.fail("%s  %s", took, text)
	case result.IsError():
		p.fail("%s  %s", took, console.SafeText(result.Text()))
	default:
		p.screen.say("%s  %s", resultText(result), took)
	}
}

// resultText renders a result for a person: JSON is indented, other text stays as it is.
func resultText(result protocol.ToolResult) string {
	text, others := toolcall.Content(result)
	var b bytes.Buffer
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if json.Indent(&b, []byte(trimmed), "", "  ") == nil {
			text = b.String()
		}
	}
	for _, other := range others {
		text += "(" + other + ")"
	}
	return console.SafeText(strings.TrimSuffix(text, "\n"))
}

// complete handles the tab key.
func (p *prompt) complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	word, candidates := p.candidates(line[:pos])
	if len(candidates) == 0 {
		return line, pos, true
	}
	common := candidates[0]
	for _, c := range candidates[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	if len(candidates) == 1 && !strings.HasSuffix(common, "=") {
		common += " "
	}
	if common == word {
		p.screen.say("%s", p.screen.paint(console.Dim, console.Safe(strings.Join(candidates, "  "))))
		return line, pos, true
	}
	completed := line[:pos-len(word)] + common
	return completed + line[pos:], len(completed), true
}

// candidates returns the completions of the last word of a line.
func (p *prompt) candidates(line string) (word string, candidates []string) {
	word = line[strings.LastIndexByte(line, ' ')+1:]
	var all []string
	if words := strings.Fields(line); len(words) == 0 || len(words) == 1 && word != "" {
		all = p.known()
	} else if e := p.lookup(words[0]); e != nil {
		all = toolcall.Complete(toolcall.Params(e.InputSchema), word, words[1:])
	}
	for _, c := range all {
		if strings.HasPrefix(c, word) {
			candidates = append(candidates, c)
		}
	}
	return word, candidates
}
