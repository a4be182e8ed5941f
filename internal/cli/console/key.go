package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Escape is the escape key.
const Escape = 27

// ErrNoAnswer means that stdin ended before a question was answered.
var ErrNoAnswer = errors.New("no answer")

// Interactive reports whether stdin and stderr are terminals, so that a person can answer questions.
func (c *Console) Interactive() bool { return IsTerminal(c.In) && IsTerminal(c.Err) }

// ReadKey shows the prompt and reads one key without echo and without waiting for Enter. The console must be
// interactive. The error is [ErrNoAnswer], context.Canceled after Ctrl-C, or the cause of the end of ctx.
func (c *Console) ReadKey(ctx context.Context, prompt string) (key byte, err error) {
	in := c.In.(*os.File)
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = term.Restore(int(in.Fd()), before) // nothing can be done about an error
		if err != nil {
			fmt.Fprintln(c.Err)
		}
	}()
	dropTyped(in)
	fmt.Fprint(c.Err, prompt)
	if err := awaitTyped(ctx, in); err != nil {
		return 0, err
	}
	var keys [1]byte
	if n, err := in.Read(keys[:]); n == 0 || err != nil {
		return 0, ErrNoAnswer
	}
	if keys[0] == 3 || keys[0] == 4 || ctx.Err() != nil { // Ctrl-C, Ctrl-D
		return 0, context.Canceled
	}
	return keys[0], nil
}

// ReadSecret shows the prompt and reads a line without echo. It drops further input, such as the next line of a pasted
// text. The console must be interactive. The error is [ErrNoAnswer] at the end of stdin and after Ctrl-C.
func (c *Console) ReadSecret(prompt string) (string, error) {
	in := c.In.(*os.File)
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	line, err := term.NewTerminal(readWriter{in, c.Err}, "").ReadPassword(prompt)
	dropTyped(in)
	_ = term.Restore(int(in.Fd()), before) // nothing can be done about an error
	if err != nil {
		fmt.Fprintln(c.Err)
		return "", ErrNoAnswer
	}
	return line, nil
}

// readWriter joins the two directions of a terminal.
type readWriter struct {
	io.Reader
	io.Writer
}

// Yes asks whether to accept what was shown, and echoes the answer. Everything but y is no, the end of stdin too. The
// console must be interactive.
func (c *Console) Yes(ctx context.Context) (bool, error) {
	key, err := c.ReadKey(ctx, "Accept this? y yes, else no: ")
	if err != nil && !errors.Is(err, ErrNoAnswer) {
		return false, err
	}
	yes := key == 'y' || key == 'Y'
	fmt.Fprintln(c.Err, map[bool]string{true: "yes", false: "no"}[yes])
	return yes, nil
}
