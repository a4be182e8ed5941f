package sdk_test

import (
	"bufio"
	"bytes"
	"os/exec"
	"testing"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// process is an extension in a process of its own.
type process struct {
	*host
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

func startChild(t *testing.T, script string) *process {
	t.Helper()
	path, env := processtest.Script(t, script)
	p := &process{cmd: exec.Command(path)}
	p.cmd.Env = env
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.host = &host{t: t, lines: bufio.NewScanner(out), w: in}
	return p
}

// end closes the connection and returns the child's stderr.
func (p *process) end() string {
	p.t.Helper()
	p.w.Close()
	for p.lines.Scan() {
		p.t.Errorf("after the end: %s", p.lines.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
	return p.stderr.String()
}
