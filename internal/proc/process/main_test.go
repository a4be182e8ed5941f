package process

import (
	"bufio"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m), verbs)
}

// verbs are script verbs that need this package.
var verbs = map[string]processtest.Verb{}

// patience bounds waits for expected events. No test is expected to wait that long.
const patience = 60 * time.Second

// child is a scripted process with its output.
type child struct {
	*Process
	t   *testing.T
	out *bufio.Reader
}

// start runs script in this test binary (see processtest.Main).
func start(t *testing.T, script string, mod func(*Spec)) *child {
	t.Helper()
	path, env := processtest.Script(t, script)
	s := Spec{Path: path, Env: env}
	if mod != nil {
		mod(&s)
	}
	p, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stdout.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
		p.Stdout.Close()
	})
	return &child{Process: p, t: t, out: bufio.NewReader(p.Stdout)}
}

// line returns the next line of stdout.
func (c *child) line() string {
	c.t.Helper()
	s, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("reading stdout: %v; stderr: %q", err, c.Tail())
	}
	return strings.TrimSuffix(s, "\n")
}

// expect fails unless the next line of stdout is want.
func (c *child) expect(want string) {
	c.t.Helper()
	if got := c.line(); got != want {
		c.t.Fatalf("stdout: got %q, want %q", got, want)
	}
}

// rest returns the rest of stdout.
func (c *child) rest() string {
	c.t.Helper()
	var b strings.Builder
	if _, err := c.out.WriteTo(&b); err != nil {
		c.t.Fatalf("reading stdout to its end: %v", err)
	}
	return b.String()
}

// ended waits for the exit of the child and returns it.
func (c *child) ended() Exit {
	c.t.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		c.t.Fatal("the child is not seen to be dead")
	}
	return c.Exit()
}

// canceled returns a canceled context.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// countingContext counts the calls of Err.
type countingContext struct {
	context.Context
	onErr func()
}

func (c *countingContext) Err() error {
	c.onErr()
	return c.Context.Err()
}
