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
		"policy:guard": {"policy guard is failed", "exthost restart policy:guard"},
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

// What was changed and nobody has agreed to leads to exthost trust, and not to another reload.
func TestChangesWithoutConsent(t *testing.T) {
	processtest.Leaks(t)
	dir := project(t, map[string]string{
		"exthost.yaml":               "log: {level: info}\n",
		"extensions/kit/plugin.toml": kitManifest,
	})
	ask(t, dir, "trust", "--all", "--yes", "--trust", "ask")
	s := startServe(t, dir, "--trust", "ask")
	defer s.end(t, os.Interrupt)
	for file, want := range map[string][3]string{
		"exthost.yaml":           {"configuration", "changed since it was trusted: exthost.yaml", "exthost trust"},
		"extensions/kit/main.sh": {"kit", "may not start: it changed since it was trusted", "exthost trust kit"},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("# changed\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ask(t, dir, "reload")
		awaitCause(t, dir, want[0], [2]string{want[1], want[2]})
		ask(t, dir, "trust", "--all", "--yes", "--trust", "ask")
		if v := verdictOf(t, dir); v.Word != status.Ready {
			t.Errorf("after the answer: %+v", v)
		}
	}
}

// A secret that is refused leads to a command that stores another, which the running host applies.
func TestRefusedSecretIsReplaced(t *testing.T) {
	processtest.Leaks(t)
	const refuses = `
CALLED=answer
answer() {
	[ "$TOKEN" = second-value ] || { echo "Error: 401 Unauthorized" >&2; exit 3; }
	echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"answered"}]}}'
}
`
	const reports = `CALLED=report
report() { echo '{"jsonrpc":"2.0","id":'$id',"result":{"isError":true,"content":[{"type":"text","text":"401"}]}}'; }
`
	dir := project(t, map[string]string{
		"extensions/hub/plugin.toml":  native("hub"),
		"extensions/hub/main.sh":      refuses + mute,
		"extensions/page/plugin.toml": native("page"),
		"extensions/page/main.sh":     reports + mute,
		"config-home/exthost/exthost.yaml": "extensions: {entries: {hub: {env: {TOKEN: \"secret://hub\"}}, " +
			"page: {env: {TOKEN: \"secret://hub\"}}}}\n",
	})
	store := func(value string) string {
		cmd := program(dir, "secret", "set", "hub")
		cmd.Stdin = strings.NewReader(value)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("secret set: %v, %s", err, out)
		}
		return string(out)
	}
	store("first-value")
	s := startServe(t, dir, "--trust", "off")
	defer s.end(t, os.Interrupt)
	for _, tool := range []string{"ext_hub_do", "ext_page_do", "ext_page_do", "ext_page_do"} {
		if _, stderr, _ := bounded(t, dir, "call "+tool); !strings.HasSuffix(stderr, "next: exthost secret set hub\n") {
			t.Errorf("exthost call %s: %s", tool, stderr)
		}
	}
	awaitCause(t, dir, "page", [2]string{"the last 3 calls of extension page failed: 401", "exthost secret set hub"})
	for deadline := time.Now().Add(patience); !strings.Contains(fmt.Sprint(verdictOf(t, dir)), "keeps crashing"); {
		if s.call(t, "ext_hub_do", "{}"); time.Now().After(deadline) {
			t.Fatal("no crash loop")
		}
	}
	awaitCause(t, dir, "hub", [2]string{"its last words: Error: 401 Unauthorized", "exthost secret set hub"})
	if said := store("second-value"); !strings.Contains(said, "has applied it and started again hub, page") {
		t.Errorf("secret set says %s", said)
	}
	if got := s.call(t, "ext_hub_do", "{}"); !strings.Contains(got, "answered") {
		t.Errorf("a call afterwards: %s", got)
	}
	if v := verdictOf(t, dir); v.Word != status.Ready {
		t.Errorf("the verdict afterwards: %+v", v)
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
		"my own/README":                "",
	})
	s := startServe(t, dir, "--extensions", "extensions", "--extensions", "my own")
	guardian := guardianOf(t, s.Process.Pid)
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.read
	_ = s.Wait()
	gone(t, []string{guardian}) // it has noted the time
	killed := fmt.Sprintf("pid %d was killed or crashed at ", s.Process.Pid)
	const again = "exthost serve --listen 127.0.0.1:0 --extensions extensions --extensions 'my own'"
	for line, want := range map[string][3]string{ // on stderr, the end of stdout, on stdout
		"status":         {killed, "exit 4", "NO CALL PASSES: no host is running"},
		"logs":           {killed, "exit 4", "serving"},
		"status --ready": {killed, "exit 10", "NO CALL PASSES: no host is running"},
		"":               {killed, "exit 4", "NO CALL PASSES: no host is running"},
	} {
		stdout, stderr, ended := bounded(t, dir, line)
		if !ended || !strings.Contains(stdout+stderr, want[0]) || !strings.HasSuffix(stdout, want[1]) ||
			!strings.Contains(stdout, want[2]) ||
			!strings.Contains(stdout+stderr, "; its extensions have ended; its log is host.log") {
			t.Errorf("exthost %s:\nstdout: %s\nstderr: %s", line, stdout, stderr)
		}
		if !strings.HasSuffix(strings.TrimSpace(stderr), again) && line != "" {
			t.Errorf("exthost %s does not lead to %s: %s", line, again, stderr)
		}
	}
	if v := verdictOf(t, dir); v.Word != status.NoCallPasses || len(v.Causes) != 1 ||
		v.Causes[0].Next != again || !strings.Contains(v.Text, killed) {
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
