package processtest

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience is how long a child may take to write a line on a busy machine.
const patience = time.Minute

// Piped starts cmd and returns its stdin and its stdout. The caller waits for cmd.
func Piped(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return in, bufio.NewReader(stdout)
}

// Dialogue is a process that answers each line on its stdin with one line.
type Dialogue struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Reader
}

// Talk starts cmd. At the end of the test its stdin is closed, and it must end with 0.
func Talk(t testing.TB, cmd *exec.Cmd) *Dialogue {
	t.Helper()
	in, out := Piped(t, cmd)
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &Dialogue{t, in, out}
}

// Answer returns the next line of the process.
func (d *Dialogue) Answer() string {
	d.t.Helper()
	line, err := d.out.ReadString('\n')
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// Tell writes a line and returns the answer.
func (d *Dialogue) Tell(line string) string {
	d.t.Helper()
	if _, err := io.WriteString(d.in, line+"\n"); err != nil {
		d.t.Fatal(err)
	}
	return d.Answer()
}

// Child has the methods that [FirstLine] needs of a process that package process has started.
type Child interface {
	Tail() []string
	Kill()
	Done() <-chan struct{}
}

// Stdout is the stdout of a [Child].
type Stdout interface {
	io.ReadCloser
	SetReadDeadline(t time.Time) error
}

// FirstLine returns the first line that a child writes, or the error of reading it, and ends the child.
func FirstLine(c Child, out Stdout) string {
	defer out.Close()
	_ = out.SetReadDeadline(time.Now().Add(patience))
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		line = fmt.Sprintf("%v: %q", err, c.Tail())
	}
	c.Kill()
	<-c.Done()
	return strings.TrimSpace(line)
}
