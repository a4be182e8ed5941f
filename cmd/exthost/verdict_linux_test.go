package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/status"
)

// mute shakes hands, answers pings, and answers no call.
const mute = `
while read -r line; do
	id=${line#*\"id\":}; id=${id%%[,\}]*}
	case $line in
	*'"initialize"'*) result='{"tools":[{"name":"do","description":"d","input_schema":{"type":"object"}}],"hooks":[]}' ;;
	*'"ping"'* | *'"shutdown"'*) result='{}' ;;
	*'"notifications/'*) continue ;;
	*) $CALLED ; continue ;;
	esac
	echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}'
done
`

// native returns the manifest of a native extension with the tool do.
func native(id string) string {
	return "[plugin]\nid = \"" + id + "\"\nversion = \"0.1.0\"\n[capabilities]\ntools = [\"do\"]\n[transport]\n" +
		"command = \"sh\"\nargs = [\"main.sh\"]\n[runtime]\ncall_timeout = \"200ms\"\n"
}

// verdictOf returns the verdict that exthost status prints.
func verdictOf(t *testing.T, dir string) status.Verdict {
	t.Helper()
	out, stderr, _ := bounded(t, dir, "status -o json")
	var said struct {
		Status struct{ Verdict status.Verdict }
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&said); err != nil {
		t.Fatalf("status: %v, %s, %s", err, out, stderr)
	}
	return said.Status.Verdict
}

// Each incident of a running host is a cause of the verdict, with its owner and the next command.
func TestIncidents(t *testing.T) {
	processtest.Leaks(t)
	of := func(id string) string { return strings.Replace(kitManifest, `"kit"`, `"`+id+`"`, 1) }
	dir := project(t, map[string]string{
		"extensions/hang/plugin.toml":    native("hang"),
		"extensions/hang/main.sh":        mute,
		"extensions/silent/plugin.toml":  native("silent"),
		"extensions/silent/main.sh":      mute,
		"extensions/crash/plugin.toml":   native("crash"),
		"extensions/crash/main.sh":       "CALLED='exit 3'\n" + mute,
		"extensions/kit/plugin.toml":     kitManifest,
		"extensions/denied/plugin.toml":  of("denied"),
		"extensions/guarded/plugin.toml": of("guarded"),
		"extensions/lost/plugin.toml":    of("lost"),
		"exthost.yaml": `
plugins:
  - name: who
    builtin: access
    category: authorization
    config: {default: allow, rules: [{effect: deny, tools: [ext_denied_*]}]}
  - name: typo
    builtin: access
    category: authorization
    config: {default: allow, rules: [{effect: deny, tools: [ext_kit_sya]}]}
  - {name: guard, category: authorization, kind: native, cmd: [sh, -c, "exit 3"], match: {tools: [ext_guarded_*]}}
extensions: {entries: {lost: {env: {TOKEN: "secret://absent"}}}}
`,
	})
	s := startServe(t, dir)
	defer s.end(t, os.Interrupt)
	for tool, times := range map[string]int{"ext_hang_do": 3, "ext_silent_do": 5, "ext_denied_say": 3} {
		for range times {
			s.call(t, tool, "{}")
		}
	}
	if got := s.call(t, "ext_guarded_say", "{}"); !strings.Contains(got, "exthost restart policy:guard") {
		t.Errorf("a denial of a dead policy does not say how to bring it back: %s", got)
	}
	broken := kitManifest + "lable = \"x\"\n"
	if err := os.WriteFile(filepath.Join(dir, "extensions/kit/plugin.toml"), []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !strings.Contains(fmt.Sprint(verdictOf(t, dir)), "keeps crashing"); {
		if s.call(t, "ext_crash_do", "{}"); time.Now().After(deadline) {
			t.Fatal("no crash loop")
		}
	}
	for id, want := range map[string][2]string{
		"crash":        {"keeps crashing", "exthost logs crash"},
		"hang":         {"time out, 3 in a row", "exthost restart hang"},
		"silent":       {"the breaker of extension silent is open", "exthost logs silent"},
		"denied":       {"the last 3 calls of extension denied were denied: policy who", "exthost calls "},
		"lost":         {"the secret absent is not stored", "exthost secret set absent"},
		"kit":          {`plugin.toml:11:1: unknown key "lable"`, "exthost reload"},
		"policy:typo":  {`matches no tool; did you mean "ext_kit_say"?`, "exthost policy list"},
		"policy:guard": {"policy guard is failed", "exthost logs policy:guard"},
	} {
		awaitCause(t, dir, id, want)
	}
	if out, code := ask(t, dir, "check"); code != console.ExitChecks ||
		!regexp.MustCompile(`(?s)fail +extension crash .*fail +extension hang .*fail +extension silent .*`+
			`fail +extension kit +.*unknown key "lable".*fail +policy guard .* of at most \d+`).MatchString(out) {
		t.Errorf("check: exit code %d\n%s", code, out)
	}
	checkSentence(t, dir, s)
	if out, _ := ask(t, dir, "reload"); !strings.Contains(out, "policy:guard") {
		t.Errorf("a reload does not try the failed policy again: %s", out)
	}
	for _, id := range []string{"crash", "hang", "silent"} {
		ask(t, dir, "restart", id)
		for _, o := range verdictOf(t, dir).Causes {
			if o.ID == id {
				t.Errorf("a restart of %s leaves the cause %+v", id, o)
			}
		}
	}
}

// awaitCause waits until a cause of the verdict has this owner, text and next command.
func awaitCause(t *testing.T, dir, id string, want [2]string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		v := verdictOf(t, dir)
		for _, o := range v.Causes {
			if o.ID == id && strings.Contains(o.Text, want[0]) && strings.Contains(o.Next, want[1]) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no cause %q in %+v", id, want, v)
		}
	}
}

// checkSentence compares the sentence in all places. Only the operator gets it over HTTP.
func checkSentence(t *testing.T, dir string, s *served) {
	t.Helper()
	said := make(map[string]string)
	for command, want := range map[string]int{
		"status":         console.ExitOK,
		"status --ready": console.ExitBlocked,
		"":               console.ExitOK,
	} {
		out, code := ask(t, dir, strings.Fields(command)...)
		if said["exthost "+command], _, _ = strings.Cut(out, "\n"); code != want {
			t.Errorf("exthost %s: exit code %d", command, code)
		}
	}
	want := said["exthost status"]
	tokens, _ := filepath.Glob(filepath.Join(dir, "state/exthost/*/.operator-token"))
	token, err := os.ReadFile(strings.Join(tokens, ""))
	if err != nil {
		t.Fatal(err)
	}
	readyz := strings.TrimSuffix(s.url, "/mcp") + "/readyz"
	if _, got := request(t, readyz, ""); strings.Contains(got, "verdict") || strings.Contains(got, "guard") {
		t.Errorf("anybody gets %s", got)
	}
	var operators struct{ Verdict status.Verdict }
	if _, got := request(t, readyz, strings.TrimSpace(string(token))); json.Unmarshal([]byte(got), &operators) != nil ||
		operators.Verdict.Word != status.Degraded {
		t.Errorf("the operator gets %s", got)
	}
	said["/readyz"] = operators.Verdict.Text
	for place, got := range said {
		// The host has not read the broken manifest, which is one cause less, and the number of restarts grows.
		same := func(text string) string { text, _, _ = strings.Cut(text, " (and "); return text }
		if !strings.HasPrefix(got, string(status.Degraded)+": ") || same(got) != same(want) {
			t.Errorf("%s: %q, want %q", place, got, want)
		}
	}
}

// What a killed host has left is read: when it ended, that its extensions have ended, and its log. A host that ended by
// itself leaves nothing.
func TestKilledHostIsReported(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"exthost.yaml":                 "log: {file: host.log}\n",
		"extensions/notes/plugin.toml": notesManifest,
	})
	s := startServe(t, dir)
	guardian := guardianOf(t, s.Process.Pid)
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.read
	_ = s.Wait()
	gone(t, []string{guardian}) // it has noted the time
	killed := fmt.Sprintf("pid %d was killed or crashed at ", s.Process.Pid)
	for line, want := range map[string][3]string{ // on stderr, the end of stdout, on stdout
		"status":         {killed, "exit 4", "NO CALL PASSES: no host is running"},
		"logs":           {killed, "exit 4", "serving"},
		"status --ready": {killed, "exit 10", ""},
		"":               {killed, "exit 0", "exthost help"},
	} {
		stdout, stderr, ended := bounded(t, dir, line)
		if !ended || !strings.Contains(stderr, want[0]) || !strings.HasSuffix(stdout, want[1]) ||
			!strings.Contains(stdout, want[2]) ||
			!strings.Contains(stderr, "; its extensions have ended; its log is host.log") {
			t.Errorf("exthost %s:\nstdout: %s\nstderr: %s", line, stdout, stderr)
		}
	}
	if v := verdictOf(t, dir); v.Word != status.NoCallPasses || len(v.Causes) != 1 ||
		v.Causes[0].Next != "exthost serve" || !strings.Contains(v.Text, killed) {
		t.Errorf("the verdict without a host: %+v", v)
	}
	s = startServe(t, dir)
	if code := s.end(t, os.Interrupt); code != console.ExitOK {
		t.Fatalf("the next host: exit code %d, %s", code, s.stderr)
	}
	if _, stderr, _ := bounded(t, dir, "status"); !strings.Contains(stderr, "no host is running") ||
		strings.Contains(stderr, "killed") {
		t.Errorf("after a host that ended by itself: %s", stderr)
	}
}

// A host without a descriptor left logs that, and the operator's commands still reach it.
func TestOperatorWithoutDescriptors(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"extensions/kit/plugin.toml": kitManifest + "command = [\"sleep\", \"60\"]\n",
	})
	const most = 64 // of which the connections of clients get half, and calls in flight the rest
	cmd := program(dir)
	cmd.Path, cmd.Err = "/bin/sh", nil
	cmd.Args = []string{"sh", "-c", fmt.Sprintf("ulimit -n %d && exec exthost serve --listen 127.0.0.1:0", most)}
	s := startHost(t, cmd)
	defer func() {
		if code := s.end(t, os.Interrupt); code != console.ExitOK {
			t.Errorf("exit code %d, %s", code, s.stderr)
		}
	}()
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ext_kit_say","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t",` +
		`"version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	request := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: "+
		"application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"+
		"Mcp-Name: ext_kit_say\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	calling.Go(func() {
		for range most { // one after another, because only a few may wait to be known
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", at.Host)
			if err != nil {
				return
			}
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			_, _ = io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				_, _ = io.WriteString(conn, request)
			}
		}
	})
	defer calling.Wait()
	defer stop()
	s.stderr.await(t, "no connection can be accepted")
	awaitCause(t, dir, "open files", [2]string{"too few are left to start an extension: raise", "exthost check"})
	if out, code := ask(t, dir, "check"); code != console.ExitChecks || !strings.Contains(out, "too few are left") {
		t.Errorf("check: exit code %d, %s", code, out)
	}
	s.stderr.await(t, "no descriptor is left")
}
