package dev

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/exthost/exthost/internal/cli/console"
)

// enterTerminal prepares the terminal for the prompt, if input and output are one.
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

// keys reads the keyboard. Ctrl-C cancels the calls in flight; without any it ends the
// session.
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
