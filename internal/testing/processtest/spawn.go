package processtest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
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
		Exit(1)
	}
}

// Ports of FreePort are below those that systems give to listeners at port 0 and to clients.
const (
	firstPort = 20_000
	portCount = 12_000
)

// FreePorts returns n free TCP ports of the loopback interface, which no other test gets before t ends.
func FreePorts(t testing.TB, n int) (list []string) {
	t.Helper()
	for range n {
		port, release, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		list = append(list, port)
	}
	return list
}

// FreePort returns a free TCP port of the loopback interface. Until release, no other call in any process gets the same
// port: a UDP socket with the same number reserves it.
func FreePort() (port string, release func(), err error) {
	for range portCount {
		port = strconv.Itoa(firstPort + rand.IntN(portCount))
		address := net.JoinHostPort("127.0.0.1", port)
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			held.Close()
			continue
		}
		l.Close()
		return port, func() { held.Close() }, nil
	}
	return "", nil, fmt.Errorf("no port from %d on is free", firstPort)
}
