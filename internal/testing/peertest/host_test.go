package peertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// host is the program with one folder of extensions and a home directory of its own.
type host struct {
	program    string // its path
	peers      peers
	extensions string
	home       string
	stderr     *transcript
}

// newHost must be the first call of a test: it fails the test for anything left behind.
func newHost(t *testing.T, extensions string) *host {
	t.Helper()
	p := needPeers(t)
	processtest.Leaks(t)
	h := &host{
		program:    program(t),
		peers:      p,
		extensions: extensions,
		home:       t.TempDir(),
		stderr:     newTranscript(),
	}
	t.Cleanup(func() {
		// A client on stdio has started a host in the background, unless one served HTTP.
		out, err := h.command([]string{h.program, "stop"}).Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil &&
			(!ok || exit.ExitCode() != console.ExitNotFound) {
			t.Errorf("exthost stop: %v, %s", err, out)
		}
		if t.Failed() {
			t.Logf("the host's stderr:\n%s", h.stderr)
		}
	})
	return h
}

// bundled returns the folder of the bundled extensions.
func bundled(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../extensions")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// argv returns the command line of exthost serve.
func (h *host) argv(more ...string) []string {
	return append([]string{h.program, "serve", "--extensions", h.extensions}, more...)
}

// command returns argv as a command that has not been started.
func (h *host) command(argv []string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = h.home, h.peers.environ(h.home), h.stderr
	return cmd
}

// listen serves HTTP until the test ends; more are further flags. It returns the base URL once all
// extensions have started or failed. An interrupt must end the program without an error.
func (h *host) listen(t *testing.T, more ...string) string {
	t.Helper()
	cmd := h.command(h.argv(append(more, "--listen", "127.0.0.1:0")...))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("exthost serve ended with %v", err)
			}
		case <-time.After(patience):
			t.Errorf("exthost serve did not end within %v of an interrupt", patience)
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	select {
	case url := <-h.stderr.url:
		// serve itself waits three seconds for starts, and an interpreter may take longer.
		out, err := h.command([]string{h.program, "status", "--ready", "--wait", patience.String()}).Output()
		if err != nil {
			t.Fatalf("exthost status --ready: %v, %s", err, out)
		}
		return url
	case err := <-ended:
		ended <- err
		t.Fatalf("exthost serve ended at once: %v", err)
	case <-time.After(patience):
		t.Fatal("exthost serve is not ready")
	}
	return ""
}

// transcript stores the output of the program and extracts its URL.
type transcript struct {
	mu  sync.Mutex
	all bytes.Buffer
	url chan string // receives the base URL
}

func newTranscript() *transcript { return &transcript{url: make(chan string, 1)} }

var servedAt = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/mcp`)

// Write implements [io.Writer].
func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.Write(p)
	if m := servedAt.FindSubmatch(s.all.Bytes()); m != nil {
		select {
		case s.url <- string(m[1]):
		default:
		}
	}
	return len(p), nil
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// folder is a search path with extensions of a test.
type folder string

// add writes a manifest; transport is the content of [transport].
func (f folder) add(t *testing.T, id, transport string) {
	t.Helper()
	dir := filepath.Join(string(f), id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("[plugin]\nid = %q\nversion = \"0.1.0\"\n\n[transport]\n%s\n", id, transport)
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// launch returns the part of a manifest that runs argv with an environment of "NAME=value"
// pairs.
func launch(argv []string, env ...string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = fmt.Sprintf("%q", arg)
	}
	pairs := make([]string, len(env))
	for i, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		pairs[i] = fmt.Sprintf("%s = %q", name, value)
	}
	return fmt.Sprintf("cmd = [%s]\nenv = { %s }\n", strings.Join(quoted, ", "), strings.Join(pairs, ", "))
}

// scripted returns the part of a manifest that runs this test binary as a child.
func scripted(t *testing.T, script string) string {
	t.Helper()
	path, env := processtest.Script(t, script)
	return launch([]string{path}, env...)
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// get receives from c or fails the test.
func get[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("no sign of %s", what)
		panic("unreachable")
	}
}
