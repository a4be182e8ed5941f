package processtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
)

// Process is a process that runs a script of [Main] and has said that it is ready, see [Ready].
type Process struct {
	Cmd *exec.Cmd
	In  io.WriteCloser
	Out *bufio.Reader // what it says after that
}

// Spawn is [Start] of a process that is killed at the end of the test.
func Spawn(t testing.TB, script string, env ...string) *Process {
	t.Helper()
	p := Start(t, script, env...)
	t.Cleanup(p.Kill)
	return p
}

// Start runs a script, with further variables, and waits until it is ready.
func Start(t testing.TB, script string, env ...string) *Process {
	t.Helper()
	path, own := Script(t, script)
	p := &Process{Cmd: exec.Command(path)}
	p.Cmd.Env, p.Cmd.Stderr = append(append(os.Environ(), own...), env...), os.Stderr
	p.In, p.Out = Piped(t, p.Cmd)
	if line, err := p.Out.ReadString('\n'); err != nil || line != ready+"\n" {
		p.Kill()
		t.Fatalf("%s: %q, %v", script, line, err)
	}
	return p
}

// Stop closes the stdin of the process, which must end with 0.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	_ = p.In.Close()
	if err := p.Cmd.Wait(); err != nil {
		t.Errorf("the end of a process: %v", err)
	}
}

// Kill kills the process, if it is still there.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	_ = p.Cmd.Wait() // killed already, or now
}

const ready = "ready"

// Ready says that this process is ready, and waits until its stdin ends.
func Ready() {
	fmt.Println(ready)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// Check ends this process with an error that the test reads; nil does nothing.
func Check(err error) {
	if err != nil {
		fmt.Println(err)
		exit(1)
	}
}

// FreePorts returns n TCP ports of the loopback interface that were free a moment ago.
func FreePorts(t testing.TB, n int) (list []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		list = append(list, port)
	}
	return list
}
