package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// zoo has the commands of extensions by id, and the number of their processes: a launcher four levels deep, a daemon in
// its own session, and both.
var zoo = map[string]struct {
	command   string
	processes int
}{
	"npx":     {`sh -c 'sh -c "sh leaf.sh; :"; :'; :`, 4},
	"daemon":  {`(setsid sleep 3600 &); exec sh leaf.sh`, 2},
	"stopped": {`(setsid sh -c "sleep 3600; :" &); sh -c "sh leaf.sh; :"; :`, 5},
}

// leaf.sh is the extension, which each command starts last.
const leaf = `read -r line
echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"t","input_schema":{"type":"object"}}]}}'
while read -r line; do :; done
`

// When a host is killed or asked to end, all its processes are gone within a second, the guardian too.
func TestHostKilled(t *testing.T) {
	processtest.Leaks(t)
	processtest.Needs(t, "setsid")
	files, processes := make(map[string]string), 0
	for id, animal := range zoo {
		files["extensions/"+id+
			"/plugin.toml"] = fmt.Sprintf("[plugin]\nid = %q\nversion = \"0.1.0\"\n[capabilities]\ntools = [\"t\"]\n"+
			"[transport]\ncommand = \"sh\"\nargs = [\"-c\", \"\"\"%s\"\"\"]\n", id,
			strings.ReplaceAll(animal.command, `"`, `\"`))
		files["extensions/"+id+"/leaf.sh"] = leaf
		processes += animal.processes
	}
	dir := project(t, files)
	rounds := stormtest.Sized(3, 200)
	var longest time.Duration
	for range rounds {
		longest = max(longest, endHost(t, dir, processes, syscall.SIGKILL))
	}
	t.Logf("%d hosts killed, of %d processes each; the longest end took %v", rounds, processes, longest)
	endHost(t, dir, processes, syscall.SIGTERM)
}

// endHost ends a host with sig and returns how long its extensions' processes and its guardian outlived it.
func endHost(t *testing.T, dir string, processes int, sig syscall.Signal) time.Duration {
	t.Helper()
	s := startServe(t, dir)
	var pids []string
	for deadline := time.Now().Add(patience); len(pids) != processes; time.Sleep(time.Millisecond) {
		if pids = startedBy(dir, ""); time.Now().After(deadline) {
			t.Fatalf("%d processes, want %d; stderr:\n%s", len(pids), processes, s.stderr)
		}
	}
	for _, pid := range startedBy(dir, "stopped") {
		n, _ := strconv.Atoi(pid)
		if err := syscall.Kill(n, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	pids = append(pids, guardianOf(t, s.Process.Pid))
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	<-s.read
	_ = s.Wait() // its exit is not tested
	return gone(t, pids)
}

// gone waits for the end of processes whose host has just ended. The limit is the promised second only in a storm,
// which has the machine to itself.
func gone(t *testing.T, pids []string) time.Duration {
	t.Helper()
	limit := stormtest.Sized(patience, time.Second)
	ended := time.Now()
	for _, pid := range pids {
		for alive(pid) {
			if time.Since(ended) > limit {
				t.Fatalf("%s is alive %v after the host's end", pid, limit)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(ended)
}

// A second signal ends a host whose extension is slow to end.
func TestSecondSignal(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/deaf/leaf.sh": leaf + "touch asked\ntrap '' TERM\nwhile :; do sleep 1; done\n",
		"extensions/deaf/plugin.toml": "[plugin]\nid = \"deaf\"\nversion = \"0.1.0\"\n[capabilities]\ntools = " +
			"[\"t\"]\n" +
			"[transport]\nscript = \"leaf.sh\"\n[runtime]\nshutdown_grace = \"1h\"\n",
	})
	s := startServe(t, dir)
	pids := append(startedBy(dir, ""), guardianOf(t, s.Process.Pid))
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "extensions/deaf/asked")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the extension was not asked to end")
		}
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.read
	_ = s.Wait()
	if status := s.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, not by the second signal", s.ProcessState)
	}
	gone(t, pids)
}

// startedBy returns the processes of an extension, or of all extensions, of the host in dir.
func startedBy(dir, extension string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, _ := os.ReadFile(file)
		pid := filepath.Base(filepath.Dir(file))
		if bytes.Contains(environ, []byte("\x00EXTHOST_STATE_DIR="+dir+"/")) &&
			(extension == "" || bytes.Contains(environ, []byte("\x00EXTHOST_EXTENSION_ID="+extension+"\x00"))) &&
			alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// guardianOf waits for the guardian of host pid until it is ready: until it ignores the signals that end hosts.
func guardianOf(t testing.TB, pid int) string {
	want := fmt.Appendf(nil, "exthost-guardian-1\x00of\x00%d\x00", pid)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			cmdline, _ := os.ReadFile(file)
			status, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
			if bytes.Equal(cmdline, want) && ignores(status, syscall.SIGTSTP) {
				return filepath.Base(filepath.Dir(file))
			}
		}
	}
	t.Fatalf("the host %d has no guardian", pid)
	return ""
}

// ignores reports whether a process with this status ignores sig.
func ignores(status []byte, sig syscall.Signal) bool {
	_, after, _ := bytes.Cut(status, []byte("SigIgn:\t"))
	mask, _, _ := bytes.Cut(after, []byte("\n"))
	bits, _ := strconv.ParseUint(string(mask), 16, 64)
	return bits&(1<<(sig-1)) != 0
}

// alive reports whether pid runs; a zombie does not.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
