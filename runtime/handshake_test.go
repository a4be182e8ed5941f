//go:build unix

package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

func TestHandshakeWithoutAnswer(t *testing.T) {
	fault(t)
	s := spec(t, "read; hang")
	s.Options.StartTimeout = 100 * time.Millisecond
	r := launch(t, s)
	err := r.end(protocol.HandshakeTimeout)
	if err.Evidence == nil || err.Evidence.Signal != "SIGKILL" {
		t.Errorf("evidence = %+v, want a killed process", err.Evidence)
	}
	if r.Info().PID != 0 {
		t.Error("the process is said to live")
	}
	_, late := r.callTool()
	wantKind(t, late, protocol.NotReady)
}

// The error of an unanswered handshake shows what the child wrote before it fell silent.
func TestSilenceIsExplained(t *testing.T) {
	fault(t)
	for script, want := range map[string]struct {
		kind       protocol.Kind
		says, line string
	}{
		"read; hang": {protocol.HandshakeTimeout, "(8s); raise start_timeout", ""},
		"err connecting to db.example:5432; hang": {protocol.HandshakeTimeout, "(8s); its last lines on stderr",
			""},
		"out Usage: server --stdio | --http; hang": {protocol.HandshakeInvalid, "it wrote text to stdout instead",
			"Usage: server --stdio | --http"},
		"err starting; out listening on :8080; hang;": {protocol.HandshakeInvalid, "it wrote text to stdout instead",
			"listening on :8080"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := spec(t, script)
			s.Options.StartTimeout = 8 * time.Second // the child has written by then, even on a busy machine
			err := launch(t, s).end(want.kind)
			if !strings.Contains(err.Message, want.says) || err.Evidence.Line != want.line {
				t.Errorf("%s, evidence %+v", err.Message, err.Evidence)
			}
		})
	}
}

// Lines that an MCP server writes on stderr during its handshake are logged at their own level if the handshake fails
// or takes long, and at debug if it succeeds quickly.
func TestStderrBeforeTheHandshake(t *testing.T) {
	fault(t)
	const handshake = `init {"protocolVersion":"2025-11-25","capabilities":{}}; until tools/list; answer {"tools":[]}; `
	logOf := func(script string, timeout time.Duration, run func(Spec)) string {
		s := mcpSpec(t, script, protocol.MCP20251125)
		if s.Options.StartTimeout = timeout; timeout < patience {
			s.slowStart = timeout / 100
		}
		log := logTo(&s)
		run(s)
		return log.String()
	}
	failed := logOf("err no API key; exit 3", patience, func(s Spec) { launch(t, s).end(protocol.ChildExited) })
	wantContains(t, failed, `level=WARN msg="no API key"`)
	fine := ""
	for range 20 { // the line keeps its level if it is read after the answer to the handshake
		if fine = logOf("err who is there?; "+handshake+"echo", patience,
			func(s Spec) { start(t, s).stop() }); strings.Contains(fine, "level=DEBUG") {
			break
		}
	}
	wantContains(t, fine, `level=DEBUG msg="who is there?"`)
	waited := logOf("err loading; hang", 8*time.Second, func(s Spec) { launch(t, s).end(protocol.HandshakeTimeout) })
	wantContains(t, waited, `level=WARN msg=loading`, `level=INFO msg="still waiting for the answer to the handshake"`,
		"for=80ms start_timeout=8s")
}

// The error quotes what a program printed instead of an answer.
func TestExitBeforeHandshakeQuotesStdout(t *testing.T) {
	fault(t)
	err := launch(t, spec(t, "out hello; exit 0")).end(protocol.ChildExited)
	if e := protocol.EvidenceOf(err); e == nil || e.Line != "hello" {
		t.Errorf("%v: evidence %+v", err, e)
	}
}

func TestExitBeforeHandshake(t *testing.T) {
	fault(t)
	for script, want := range map[string]string{
		"err cannot find libfoo; exit 0":       "exit status 0",
		"err cannot find libfoo; read; exit 3": "exit status 3",
		"err cannot find libfoo; kill 9":       "SIGKILL",
	} {
		err := launch(t, spec(t, script)).end(protocol.ChildExited)
		wantContains(t, err.Error(), "during the handshake", want)
		if e := err.Evidence; e == nil || e.ExitCode == nil && e.Signal == "" || len(e.Stderr) != 1 ||
			e.Stderr[0] != "cannot find libfoo" {
			t.Errorf("%s: evidence = %+v", script, e)
		}
	}
}

func TestNoiseOnStdout(t *testing.T) {
	fault(t)
	s := spec(t, fmt.Sprintf("noise %d; init echo; echo", maxNoise))
	log := logTo(&s)
	r := start(t, s)
	if _, err := r.callTool(); err != nil {
		t.Error(err)
	}
	if n := r.Info().Noise; n != maxNoise {
		t.Errorf("%d lines of noise counted, want %d", n, maxNoise)
	}
	wantContains(t, log.String(), "extension=faulty", "npm WARN line 0", "level=WARN")
	if n := strings.Count(log.String(), "npm WARN"); n >= maxNoise {
		t.Errorf("%d lines of noise logged, want fewer than there were", n)
	}

	err := launch(t, spec(t, fmt.Sprintf("noise %d; init echo; echo", maxNoise+1))).end(protocol.HandshakeInvalid)
	wantContains(t, err.Error(), "not frames", "stderr")
	wantContains(t, err.Evidence.Line, "npm WARN")
}

func TestByteOrderMarkAndCarriageReturn(t *testing.T) {
	fault(t)
	start(t, spec(t, "read; say \ufeff{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"tools\":[]}}\r; echo"))
}

func TestInvalidHandshakeAnswer(t *testing.T) {
	fault(t)
	for name, c := range map[string]struct {
		line string
		kind protocol.Kind
		says string
	}{
		"both": {`{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":"m"}}`,
			protocol.HandshakeInvalid, "not a valid response"},
		"neither": {`{"jsonrpc":"2.0","id":$ID}`, protocol.HandshakeInvalid, "not a valid response"},
		"refusal": {`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"no licence"}}`,
			protocol.HandshakeInvalid, "no licence"},
		"MCP in Node.js": {`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"expected protocolVersion"}}`,
			protocol.HandshakeInvalid, `set protocol = "mcp"`},
		"MCP in Python": {`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"Invalid request parameters",` +
			`"data":""}}`, protocol.HandshakeInvalid, `set protocol = "mcp"`},
		"no object": {`{"jsonrpc":"2.0","id":$ID,"result":"ready"}`, protocol.HandshakeInvalid, "expected shape"},
		"tools no list": {`{"jsonrpc":"2.0","id":$ID,"result":{"tools":{}}}`, protocol.HandshakeInvalid,
			"expected shape"},
		"hooks no list": {`{"jsonrpc":"2.0","id":$ID,"result":{"hooks":[1]}}`, protocol.HandshakeInvalid,
			"expected shape"},
		"version": {`{"jsonrpc":"2.0","id":$ID,"result":{"protocol_version":2,"tools":[]}}`,
			protocol.ProtocolVersion, "version 2"},
		"version text": {`{"jsonrpc":"2.0","id":$ID,"result":{"protocol_version":"two"}}`, protocol.ProtocolVersion,
			"whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, "read; say "+c.line+"; hang")
			wantContains(t, launch(t, s).end(c.kind).Error(), c.says)
		})
	}
}

func TestHandshakeAnswerWithWrongID(t *testing.T) {
	fault(t)
	s := spec(t, `read; say {"jsonrpc":"2.0","id":7,"result":{"tools":[]}}; say {"jsonrpc":"2.0","id":"0","result":{"tools":[]}}; hang`)
	s.Options.StartTimeout = 10 * time.Second // for all answers, even on a busy machine
	err := launch(t, s).end(protocol.HandshakeInvalid)
	wantContains(t, err.Error(), "2 times with an id that was never sent")
}

// TestHandshakeAnswerWithZeroID has the child answer everything with the id 0, which no request to an MCP server has.
func TestHandshakeAnswerWithZeroID(t *testing.T) {
	fault(t)
	s := mcpSpec(t, `read; say {"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"what?"}}; hang`,
		protocol.MCP20251125)
	s.Options.StartTimeout = 10 * time.Second // for all answers, even on a busy machine
	log := logTo(&s)
	err := launch(t, s).end(protocol.HandshakeInvalid)
	wantContains(t, err.Error(), "1 times with an id that was never sent", "the id 0", "what?")
	wantContains(t, log.String(), "an id that no call waits for", "what?")
}

// TestErrorWithoutAnID has the server report the failure of the only call without its id.
func TestErrorWithoutAnID(t *testing.T) {
	for _, id := range []string{`"id":null,`, ``} {
		fault(t)
		s := mcpSpec(t, `init {"protocolVersion":"2025-11-25","capabilities":{}}; until tools/list; answer {"tools":[]}; `+
			`until tools/call; say {"jsonrpc":"2.0",`+id+
			`"error":{"code":-32603,"message":"the database is away"}}; echo`, protocol.MCP20251125)
		log := logTo(&s)
		_, err := start(t, s).callTool()
		if fault := wantKind(t, err, protocol.ExtensionError); fault.Code != -32603 {
			t.Errorf("%d: %v", fault.Code, fault)
		}
		wantContains(t, err.Error(), "the database is away")
		wantContains(t, log.String(), "the database is away")
	}
}

func TestDuplicateHandshakeAnswer(t *testing.T) {
	fault(t)
	const line = `say {"jsonrpc":"2.0","id":$ID,"result":{"tools":[]}}; `
	r := start(t, spec(t, "read; "+line+line+"answer; echo"))
	if _, err := r.callTool(); err != nil {
		t.Error(err)
	}
}

func TestLimitsOfTheHandshake(t *testing.T) {
	answer := func(n int) json.RawMessage {
		tools := make([]string, n)
		for i := range tools {
			tools[i] = fmt.Sprintf(`{"name":"t%d"}`, i)
		}
		return json.RawMessage(`{"tools":[` + strings.Join(tools, ",") + `]}`)
	}
	if _, o, err := readInitialize(answer(limits.tools)); err != nil || len(o.tools) != limits.tools {
		t.Errorf("at the limit: %d tools, %v", len(o.tools), err)
	}
	if _, _, err := readInitialize(answer(limits.tools + 1)); protocol.KindOf(err) != protocol.HandshakeInvalid {
		t.Errorf("over the limit: %v", err)
	}
	descriptor := func(size int) json.RawMessage {
		const frame = `{"name":"t","description":""}`
		return json.RawMessage(strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1))
	}
	if _, err := parseTool(descriptor(limits.descriptor)); err != nil {
		t.Errorf("descriptor at the limit: %v", err)
	}
	if _, err := parseTool(descriptor(limits.descriptor + 1)); err == nil {
		t.Error("descriptor over the limit was taken")
	}
}

func TestSchemaTooDeep(t *testing.T) {
	fault(t)
	deep := strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)
	launch(t, spec(t, `init {"tools":[{"name":"t","input_schema":`+deep+`}]}; echo`)).end(protocol.HandshakeInvalid)
}

func TestDuplicateAndUndeclaredTools(t *testing.T) {
	fault(t)
	s := spec(t, `init {"tools":[{"name":"echo"},{"name":"echo"},{"name":"rm"},{"name":5},{"title":"nameless"},`+
		`"text"],"hooks":["PreToolUse","before_tool_call","spy","extension_load","session_start"]}; echo`)
	s.Manifest.Capabilities = &manifest.Capabilities{
		Tools: []string{"echo", "absent"},
		Hooks: []string{"before_tool_call", "missing"},
	}
	h := start(t, s).Handshake()
	if len(h.Tools) != 1 || h.Tools[0].Name != "echo" || len(h.Hooks) != 1 || h.Hooks[0] != "before_tool_call" {
		t.Errorf("accepted tools %v and hooks %v", h.Tools, h.Hooks)
	}
	codes := map[string]int{}
	for _, d := range h.Diagnostics {
		codes[d.Code]++
		if d.Level != protocol.LevelWarn || d.Extension != "faulty" {
			t.Errorf("diagnostic %+v", d)
		}
	}
	want := map[string]int{
		"tool_invalid":          3,
		"tool_duplicate":        1,
		"hook_invalid":          2,
		"capability_undeclared": 2,
		"capability_missing":    2,
	}
	if fmt.Sprint(codes) != fmt.Sprint(want) {
		t.Errorf("diagnostics %v, want %v", codes, want)
	}
}

// TestDescriptorIsKept compares a descriptor with the bytes that the child sent.
func TestDescriptorIsKept(t *testing.T) {
	const sent = `{"zeta":{"big":12345678901234567890},"name":"a.b","input_schema":{"type":"object","x":1e3},"title":"T","description":"ü","annotations":{"readOnlyHint":true}}`
	tool, err := parseTool(json.RawMessage(sent))
	if err != nil {
		t.Fatal(err)
	}
	if string(tool.Raw) != sent || tool.Name != "a.b" {
		t.Errorf("read %+v", tool)
	}
}

// TestInitializeParams checks the params that a native extension gets.
func TestInitializeParams(t *testing.T) {
	fault(t)
	s := spec(t, "read; sync asked; say "+
		"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"server_version\":\"2.0.0\",\"tools\":[]}}; dump; echo")
	m := newMeeting(t)
	s.Env = append(s.Env, m.env())
	s.Config = json.RawMessage(`{"n":12345678901234567890}`)
	s.StateDir = "/state"
	r := launch(t, s)
	m.await("asked")()
	await(t, r.ready)
	if h := r.Handshake(); h.ServerVersion != "2.0.0" || h.Protocol != "native" || h.ProtocolVersion != "" {
		t.Errorf("handshake = %+v", h)
	}
	r.stop()
	const want = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"agent_version":"0.0.1","extension_id":"faulty",` +
		`"protocol_version":1,"capabilities":{},"config":{"n":12345678901234567890},"state_dir":"/state"}}`
	if got := stderrOf(r); got != want {
		t.Errorf("child was told\n%s\nwant\n%s", got, want)
	}
}

func TestWrongProtocolNamesTheCure(t *testing.T) {
	fault(t)
	const mcpAnswer = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n","version":"1"}}`
	err := launch(t, spec(t, "init "+mcpAnswer+"; echo")).end(protocol.HandshakeInvalid)
	wantContains(t, err.Error(), `protocol = "mcp"`)

	err = launch(t, spec(t, "mcp")).end(protocol.HandshakeInvalid)
	wantContains(t, err.Error(), `protocol = "mcp"`)

	s := spec(t, `read; say {"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}; dump; init echo; echo`)
	s.Manifest.Transport.Protocol = manifest.ProtocolMCP
	err = launch(t, s).end(protocol.HandshakeInvalid)
	wantContains(t, err.Error(), `protocol = "native"`)
}

func TestSpawnFailures(t *testing.T) {
	fault(t)
	for name, c := range map[string]struct {
		edit   func(*manifest.Transport)
		reason string
	}{
		"missing file":    {func(t *manifest.Transport) { t.Command = "./no-such-file" }, "not_found"},
		"missing on PATH": {func(t *manifest.Transport) { t.Command = "no-such-program" }, "not_found"},
		"missing script":  {func(t *manifest.Transport) { t.Command, t.Script = "", "no-such.sh" }, "not_found"},
		"missing cwd":     {func(t *manifest.Transport) { t.Cwd = "no-such-dir" }, "cwd_missing"},
		"empty cmd":       {func(t *manifest.Transport) { t.Command, t.Cmd = "", []string{""} }, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, "init echo")
			c.edit(&s.Manifest.Transport)
			err := launch(t, s).end(protocol.SpawnFailed)
			if want := `{"reason":"` + c.reason + `"}`; !bytes.Equal(err.Data, []byte(want)) {
				t.Errorf("data = %s, want %s: %v", err.Data, want, err)
			}
		})
	}
}

// The error of a script whose lines end in CR LF says so: the shell's own words do not.
func TestScriptWithCRLF(t *testing.T) {
	processtest.Leaks(t)
	s := spec(t, "")
	s.Dir, s.Env = t.TempDir(), append(s.Env, "PATH="+os.Getenv("PATH"))
	s.Manifest.Transport = manifest.Transport{
		Kind:     manifest.KindStdio,
		Protocol: manifest.ProtocolNative,
		Script:   "main.sh",
	}
	text := "while read -r line; do\r\n\techo \"$line\"\r\ndone\r\n"
	if err := os.WriteFile(filepath.Join(s.Dir, "main.sh"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	wantContains(t, launch(t, s).end(protocol.ChildExited).Error(), "the lines of main.sh end in CR LF",
		"Unix line endings")
}
