package peertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// newHTTPClient returns a client whose connections are closed with the test.
func newHTTPClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// node runs a Node program of the peers and returns its output.
func (h *host) node(t *testing.T, argv ...string) (stdout, stderr []byte, err error) {
	t.Helper()
	return h.run(t, h.peers.bin("node"), argv...)
}

// run runs a program of the peers and returns its output.
func (h *host) run(t *testing.T, program string, argv ...string) (stdout, stderr []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, argv...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = h.home, h.peers.environ(h.home), time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.Bytes(), errs.Bytes(), err
}

// reportFrom returns the report of a client program for Node.
func reportFrom(script string) func(*testing.T, *host, endpoint, []call) report {
	return reportOf(func(h *host) string { return h.peers.bin("node") }, script)
}

// reportFromPython returns the report of a client program for the Python of venv.
func reportFromPython(venv, script string) func(*testing.T, *host, endpoint, []call) report {
	return reportOf(func(h *host) string { return filepath.Join(string(h.peers), venv, "bin", "python3") }, script)
}

// reportOf returns the report of a client program, which prints each form that it shows and reads the answer.
func reportOf(interpreter func(*host) string, script string) func(*testing.T, *host, endpoint, []call) report {
	return func(t *testing.T, h *host, p endpoint, calls []call) (v report) {
		path, err := filepath.Abs(script)
		if err != nil {
			t.Fatal(err)
		}
		p.Asks = p.person != nil
		cmd := exec.CommandContext(deadline(t), interpreter(h), path, encode(map[string]any{
			"endpoint": p,
			"calls":    calls,
		}))
		_, script := processtest.Script(t, script) // of the Go client
		cmd.Dir, cmd.Env = h.home, append(h.peers.environ(h.home), script...)
		errs, err := os.Create(filepath.Join(t.TempDir(), "stderr")) // no pipe: a relay has it too, and ends later
		if err != nil {
			t.Fatal(err)
		}
		defer errs.Close()
		cmd.Stderr = errs
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		answered := p.answer(in, out, &v)
		if err := cmd.Wait(); err != nil || answered != nil {
			text, _ := os.ReadFile(errs.Name())
			t.Fatalf("%s: %v, %v\n%s", path, err, answered, text)
		}
		return v
	}
}

// answer answers the forms that a program prints, until it prints a report.
func (p endpoint) answer(in io.WriteCloser, out io.Reader, v *report) error {
	defer in.Close()
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var form struct{ Asked string }
		if err := json.Unmarshal(line, &form); err != nil {
			return fmt.Errorf("printed %s: %w", line, err)
		}
		if form.Asked == "" {
			return json.Unmarshal(line, v)
		}
		if _, err := io.WriteString(in, p.person(form.Asked)+"\n"); err != nil {
			return err
		}
	}
}

// reportFromInspector runs the Inspector once for the list and once per call. Success
// implies the versions, because a pinned version does not fall back.
func reportFromInspector(t *testing.T, h *host, p endpoint, calls []call) (v report) {
	var list struct {
		Tools []struct{ Name string }
	}
	if problem := h.inspect(t, p, &list, "tools/list"); problem != "" {
		t.Fatalf("tools/list: %s", problem)
	}
	for _, tool := range list.Tools {
		v.Tools = append(v.Tools, tool.Name)
	}
	for _, c := range calls {
		var r result
		problem := h.inspect(t, p, &r, "tools/call", "--tool-name", c.Name, "--tool-args-json", encode(c.Arguments))
		if problem != "" && problem != "tool_is_error" {
			t.Fatalf("%s: %s", c.Name, problem)
		}
		v.Calls = append(v.Calls, answer{Result: &r})
	}
	return v
}

// inspect runs the Inspector's command line for one method and decodes the result. problem
// is the code of the Inspector's own error.
func (h *host) inspect(t *testing.T, p endpoint, result any, method string, more ...string) (problem string) {
	t.Helper()
	argv := append([]string{h.peers.bin("inspector"), "--cli"}, p.Command...)
	for name, value := range p.Env {
		argv = append(argv, "-e", name+"="+value)
	}
	if p.URL != "" {
		argv = append(argv, p.URL)
	}
	if p.Token != "" {
		argv = append(argv, "--header", "Authorization: Bearer "+p.Token)
	}
	argv = append(argv, "--transport", p.Transport, "--protocol-era", p.Versions, "--format", "json", "-q", "--method",
		method)
	out, errs, err := h.node(t, append(argv, more...)...)
	var told struct{ Error struct{ Code string } }
	if err != nil && (json.Unmarshal(errs, &told) != nil || told.Error.Code == "") {
		t.Fatalf("inspector %s: %v\n%s", method, err, errs)
	}
	if code := told.Error.Code; code != "" && code != "tool_is_error" {
		t.Logf("inspector %s: %s", method, errs)
	}
	if len(out) == 0 {
		return told.Error.Code
	}
	var printed struct{ Result json.RawMessage }
	if err := errors.Join(json.Unmarshal(out, &printed), json.Unmarshal(printed.Result, result)); err != nil {
		t.Fatalf("inspector %s printed %s: %v", method, out, err)
	}
	return told.Error.Code
}
