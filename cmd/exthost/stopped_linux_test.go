package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// answersLate serves the native and the lite protocol. It responds to a call when the test lets it, and reports when
// the response is in the pipe.
const answersLate = `
while read -r line; do
	id=${line#*\"id\":}; id=${id%%[,\}]*}
	case $line in
	*'"initialize"'*) result='{"tools":[{"name":"say","description":"d","input_schema":{"type":"object"}}],"hooks":[]}' ;;
	*'"notifications/'*) continue ;;
	*'"ping"'* | *'"shutdown"'*) result='{}' ;;
	*) echo >running; read -r result <go; called=1 ;;
	esac
	echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}'
	if [ $called ]; then called= ; echo >answered; fi
done
`

// A host is stopped for longer than call_timeout. A response that arrived meanwhile is the outcome of the call.
func TestStoppedHostReadsTheAnswerFirst(t *testing.T) {
	if _, err := exec.LookPath("mkfifo"); err != nil {
		t.Skip("mkfifo is missing: a stopped host is not tested")
	}
	for kind, transport := range map[string]string{
		"native": "command = \"sh\"\nargs = [\"main.sh\"]\n[capabilities]\ntools = [\"say\"]\n",
		"lite": "protocol = \"lite\"\ncommand = \"sh\"\nargs = [\"main.sh\"]\n[[tools]]\nname = " +
			"\"say\"\ndescription = \"d\"\n",
		"exec": "kind = \"exec\"\ncommand = \"sh\"\n[[tools]]\nname = \"say\"\ndescription = \"d\"\ncommand = " +
			"[\"sh\", \"-c\", \"echo >running; read -r r <go; echo $r; echo >answered\"]\n",
	} {
		t.Run(kind, func(t *testing.T) {
			processtest.Leaks(t)
			for timeout := time.Second; !stoppedInTime(t, transport, timeout); timeout *= 3 {
				if timeout > patience/4 {
					t.Skip("the machine is too slow: no call could be stopped within its call_timeout")
				}
			}
		})
	}
}

// stoppedInTime reports false if the call timed out before the host was stopped.
func stoppedInTime(t *testing.T, transport string, timeout time.Duration) bool {
	t.Helper()
	dir := project(t, map[string]string{
		"extensions/kit/main.sh": answersLate,
		"extensions/kit/plugin.toml": "[plugin]\nid = \"kit\"\nversion = \"0.1.0\"\n[transport]\n" + transport +
			fmt.Sprintf("[runtime]\ncall_timeout = %q\n", timeout),
	})
	at := func(name string) string { return filepath.Join(dir, "extensions/kit", name) }
	for _, name := range []string{"running", "go", "answered"} {
		if err := syscall.Mkfifo(at(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host := startServe(t, dir, "--trust", "off")
	defer host.end(t, os.Interrupt)
	began := time.Now()
	outcome := make(chan string, 1)
	go func() { outcome <- host.call(t, "ext_kit_say", "{}") }()
	running := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(at("running"))
		running <- err
	}()
	select {
	case err := <-running:
		if err != nil {
			t.Fatal(err)
		}
	case got := <-outcome:
		_ = os.WriteFile(at("running"), nil, 0) // ends the read
		t.Fatalf("before the tool runs, the caller got %s", got)
	case <-time.After(patience):
		t.Fatal("the tool does not run")
	}
	due := time.Now().Add(timeout)
	if err := errors.Join(host.Process.Signal(syscall.SIGSTOP), awaitStopped(host.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	inTime := time.Since(began) < timeout
	if err := os.WriteFile(at("go"), []byte(`"late"`+"\n"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(at("answered")); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(due.Add(100 * time.Millisecond))) // call_timeout passes
	if err := host.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := <-outcome; inTime && !strings.Contains(got, "late") {
		t.Errorf("the answer stood in the pipe, and the caller got %s", got)
	}
	return inTime
}

// awaitStopped waits until a process is stopped.
func awaitStopped(pid int) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		switch _, rest, _ := strings.Cut(string(stat), ") "); {
		case err != nil:
			return err
		case strings.HasPrefix(rest, "T"):
			return nil
		case time.Now().After(deadline):
			return errors.New("the process is not stopped")
		}
	}
}
