package mcpserver_test

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childCommand returns the test binary as a server on inherited pipes. They are in blocking mode, unlike the pipes in
// other tests.
func childCommand(t *testing.T) (cmd *exec.Cmd, in io.WriteCloser, out *os.File) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	return cmd, in, out
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout.(*os.File).Close() // the child has inherited a copy
	t.Cleanup(func() { _ = cmd.Process.Kill() })
}

func TestClosedStdoutEndsTheServer(t *testing.T) {
	cmd, in, out := childCommand(t)
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	start(t, cmd)
	readLine := lineReader(out)
	_, _ = io.WriteString(in, initialize+"\n")
	readLine()
	out.Close()
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n") // stdin stays open
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	get(t, ended, "the server to end")
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), "stdout closed") {
		t.Errorf("the server ended with %v, saying %q", cmd.ProcessState, stderr)
	}
}

// lineReader returns a function that reads one line of r.
func lineReader(r io.Reader) func() {
	return func() {
		for b := make([]byte, 1); ; {
			if n, err := r.Read(b); err != nil || n == 1 && b[0] == '\n' {
				return
			}
		}
	}
}

// Logging to a closed stderr must not end the process.
func TestClosedStderrEndsNothing(t *testing.T) {
	cmd, in, out := childCommand(t)
	defer out.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd.Stderr = w
	start(t, cmd)
	w.Close()
	heard := lines(out)
	_, _ = io.WriteString(in, "noise\n"+initialize+"\n")
	get(t, heard, "the answer to noise")
	if got := get(t, heard, "the handshake"); !strings.Contains(got, "protocolVersion") {
		t.Errorf("handshake %s", got)
	}
	in.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := get(t, ended, "the server to end"); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestStdioOfAProcess(t *testing.T) {
	cmd, in, out := childCommand(t)
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	start(t, cmd)
	defer out.Close()
	heard := lines(out)
	_, _ = io.WriteString(in, initialize+"\n")
	get(t, heard, "the handshake")
	in.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := get(t, ended, "the server to end"); err != nil {
		t.Errorf("the server ended with %v, saying %q", err, stderr)
	}
}
