package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// terminal returns both ends of a terminal of 100 columns: the person's and the program's.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100})); err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// atTerminal runs exthost in dir for a person who types early before the program asks anything, and answers each
// question with the next of keys. It returns what the person read, stdout and the exit code.
func atTerminal(t *testing.T, dir, early, keys string, args ...string) (read, stdout string, code int) {
	t.Helper()
	person, tty := terminal(t)
	cmd := program(dir, args...)
	cmd.Stdin, cmd.Stderr, cmd.Env = tty, tty, append(cmd.Env, "EXTHOST_TRUST=", "NO_COLOR=1")
	var out bytes.Buffer
	cmd.Stdout = &out
	if _, err := person.WriteString(early); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	said := make(chan string)
	go func() {
		defer close(said)
		var buf [4096]byte
		for {
			n, err := person.Read(buf[:])
			if err != nil { // the program has ended
				return
			}
			said <- string(buf[:n])
		}
	}()
	limit := time.After(patience)
	for answered := 0; ; {
		select {
		case text, more := <-said:
			if !more {
				said = nil
				break
			}
			read += text
			for answered < len(keys) && strings.Count(read, "d details: ") > answered {
				if _, err := person.WriteString(keys[answered : answered+1]); err != nil {
					t.Fatal(err)
				}
				answered++
			}
		case err := <-ended:
			if said != nil {
				for text := range said {
					read += text
				}
			}
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			return strings.ReplaceAll(read, "\r\n", "\n"), out.String(), cmd.ProcessState.ExitCode()
		case <-limit:
			_ = cmd.Process.Kill()
			t.Fatalf("no end after %v:\n%s", patience, read)
		}
	}
}

// A command that needs consent asks for it on a terminal.
func TestAsksOnATerminal(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest,
		"extensions/kit/lib.py":      "1",
		"exthost.yaml":               "hooks: []\n",
	})
	call := []string{"call", "ext_kit_say", "word=hi"}
	want := func(read string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(read, w) {
				t.Errorf("the person does not read %q:\n%s", w, read)
			}
		}
	}

	read, out, code := atTerminal(t, dir, "", "n", call...)
	want(read, "holds programs that have not run yet", "configuration: exthost.yaml",
		"kit: extensions/kit\n      runs cat\n", "Run this? y yes, n no, d details: no\n", "is not trusted")
	if code != console.ExitDenied || out != "" {
		t.Errorf("after no: exit %d, %q", code, out)
	}
	read, out, code = atTerminal(t, dir, "y\ny\n", "n", call...)
	want(read, "d details: no\n")
	if code != console.ExitDenied || out != "" {
		t.Errorf("typed before the question: exit %d, %q\n%s", code, out, read)
	}
	read, out, code = atTerminal(t, dir, "", "\x03", call...)
	if code == 0 || out != "" {
		t.Errorf("after Ctrl-C: exit %d, %q\n%s", code, out, read)
	}
	read, out, code = atTerminal(t, dir, "", "dy", call...)
	want(read, "extensions/kit/plugin.toml:\n", `id = "kit"`, "lib.py", "details: yes\n")
	if code != 0 || !strings.Contains(out, "hi") {
		t.Errorf("after yes: exit %d, %q\n%s", code, out, read)
	}
	if read, out, code = atTerminal(t, dir, "", "", call...); code != 0 || read != "" || !strings.Contains(out, "hi") {
		t.Errorf("again: exit %d, %q\n%s", code, out, read)
	}
	if err := os.WriteFile(filepath.Join(dir, "extensions/kit/lib.py"), []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	read, out, code = atTerminal(t, dir, "", "n", call...)
	want(read, "has changed", "changed since ", ": lib.py\n")
	if strings.Contains(read, "configuration:") || code != console.ExitDenied || out != "" {
		t.Errorf("after a change: exit %d, %q\n%s", code, out, read)
	}
}

// A question at the start of serve ends with the program, and with a yes in another terminal.
func TestQuestionsEndElsewhere(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{"extensions/kit/plugin.toml": kitManifest})
	for _, yes := range []bool{false, true} {
		person, tty := terminal(t)
		cmd := program(dir, "serve", "--listen", "127.0.0.1:0")
		cmd.Stdin, cmd.Stderr, cmd.Env = tty, tty, append(cmd.Env, "EXTHOST_TRUST=", "NO_COLOR=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tty.Close()
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		read, asked, ended := "", false, false
		for buf := make([]byte, 4096); ; {
			n, err := person.Read(buf)
			if err != nil { // the program has ended
				break
			}
			read += string(buf[:n])
			switch {
			case !asked && strings.Contains(read, "d details: ") && yes:
				asked = true
				trust := program(dir, "trust", "--all", "--yes")
				trust.Env = append(trust.Env, "EXTHOST_TRUST=")
				if out, err := trust.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			case !asked && strings.Contains(read, "d details: "),
				!ended && strings.Contains(read, "Ctrl-C stops everything"):
				asked, ended = true, true
				_ = cmd.Process.Signal(unix.SIGTERM)
			}
		}
		_ = cmd.Wait()
		if !kill.Stop() || !asked || yes != strings.Contains(read, "agreed to elsewhere") ||
			yes != strings.Contains(read, "1 tool") {
			t.Errorf("yes elsewhere: %t; exit %d\n%s", yes, cmd.ProcessState.ExitCode(), read)
		}
	}
}

// An import that cannot be recorded as trusted leaves no extension behind, which the next import would not trust.
func TestImportWithoutRoomForTrust(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"state/exthost/trust": "a file in the place of the folder",
		"mcp.json":            `{"mcpServers": {"one": {"command": "cat"}}}`,
	})
	imports := func() (string, error) {
		cmd := program(dir, "import", "mcp.json", "--write", "--trust", "ask")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := imports()
	if _, missing := os.Stat(filepath.Join(dir, "extensions/one")); err == nil || !errors.Is(missing, fs.ErrNotExist) {
		t.Errorf("%v, %v: %s", err, missing, out)
	}
	if err := os.Remove(filepath.Join(dir, "state/exthost/trust")); err != nil {
		t.Fatal(err)
	}
	if out, err := imports(); err != nil || !strings.Contains(out, "1 file written: extensions/one/plugin.toml") {
		t.Errorf("%v: %s", err, out)
	}
	if list, _ := ask(t, dir, "status", "--trust", "ask"); strings.Contains(list, "untrusted") {
		t.Errorf("after the next import:\n%s", list)
	}
}
