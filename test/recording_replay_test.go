//lint:file-ignore SA1019 the servers of today use what is deprecated

package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// record records h into a file until stop is called.
func record(t testing.TB, h *exthost.Host, extensions ...string) (file string, stop func()) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "x.cassette")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	begun := &firstWrite{File: f, done: make(chan struct{})}
	go func() {
		ended <- h.Recordings().Record(ctx, exthost.RecordOptions{Extensions: extensions}, begun)
	}()
	<-begun.done
	return file, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		f.Close()
	}
}

// firstWrite closes done at the first write.
type firstWrite struct {
	*os.File
	done chan struct{}
	once bool
}

func (w *firstWrite) Write(b []byte) (int, error) {
	if !w.once {
		w.once = true
		defer close(w.done)
	}
	return w.File.Write(b)
}

// replaying opens a host that replays extensions from a cassette.
func replaying(t testing.TB, file, more string, ids ...string) *exthost.Host {
	t.Helper()
	f := hosttest.NewFolder(t)
	for _, id := range ids {
		f.Add(id, fmt.Sprintf("[transport]\nkind = \"replay\"\nfile = %q\nextension = %q\n%s", file, id, more))
	}
	return f.Open(exthost.Options{})
}

// hears sends a request and returns all frames up to and including the answer.
func (w *way) hears(t *testing.T, id int, method, params string) (frames []string) {
	t.Helper()
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	for {
		select {
		case frame, ok := <-w.heard:
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if err := json.Unmarshal([]byte(frame), &m); err != nil || !ok {
				t.Fatalf("%s %s: %q, %v", method, params, frame, err)
			}
			frames = append(frames, frame)
			switch answer := answers[m.Method]; {
			case answer != "":
				w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
			case m.Method == "" && string(m.ID) == fmt.Sprint(id):
				return frames
			}
		case <-hosttest.Deadline(t).Done():
			t.Fatalf("%s %s: no answer", method, params)
		}
	}
}

// clientOf returns a stdio client of the modern or the legacy era.
func clientOf(t *testing.T, h *exthost.Host, modern bool) *way {
	w := overStdio(t, h, true)
	if modern {
		return w
	}
	w.stateless = false
	w.hears(t, 0, "initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"raw","version":"1"}}`)
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

// params adds the _meta that the client's era needs.
func (w *way) params(token int, members string) string {
	meta := fmt.Sprintf(`"progressToken":%d`, token)
	if w.stateless {
		meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}`
	}
	return fmt.Sprintf(`{%s,"_meta":{%s}}`, members, meta)
}

// hostsOwn matches random ids of the host.
var hostsOwn = regexp.MustCompile(`"id":\d{10,}|"exthost-[A-Z0-9]{26}"`)

// inOrder matches numbered ids of requests and of a call's questions.
var inOrder = regexp.MustCompile(`"id":\d+|"q\d+"`)

// answersTo returns the members of the follow-up request after a result that needs input.
func answersTo(frame string) (members string, needed bool) {
	var m struct {
		Result struct {
			ResultType    string
			RequestState  json.RawMessage
			InputRequests map[string]struct{ Method string }
		}
	}
	if json.Unmarshal([]byte(frame), &m) != nil || m.Result.ResultType != "input_required" {
		return "", false
	}
	responses := make(map[string]json.RawMessage)
	for name, r := range m.Result.InputRequests {
		responses[name] = json.RawMessage(answers[r.Method])
	}
	encoded, _ := json.Marshal(responses)
	return fmt.Sprintf(`,"requestState":%s,"inputResponses":%s`, m.Result.RequestState, encoded), true
}

// answers maps requests of extensions to the client's answers.
var answers = map[string]string{
	"elicitation/create":     `{"action":"decline"}`,
	"roots/list":             `{"roots":[{"uri":"file:///here"}]}`,
	"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}`,
}

// script makes the same calls for the recording and for the replay.
func script(t *testing.T, h *exthost.Host) map[string][]string {
	heard := make(map[string][]string)
	for _, version := range []string{"legacy", "modern"} {
		modern := version == "modern"
		w := clientOf(t, h, modern)
		id := 0
		does := func(method, members string) {
			id++
			frames := w.hears(t, id, method, w.params(100+id, members))
			for answered := true; answered; {
				var again string
				if again, answered = answersTo(frames[len(frames)-1]); answered {
					id++
					frames = append(frames, w.hears(t, id, method, w.params(100+id, members+again))...)
				}
			}
			// the host sends these at a time of its own
			frames = slices.DeleteFunc(frames, func(f string) bool {
				return strings.Contains(f, `"method":"notifications/tools/list_changed"`) ||
					strings.Contains(f, "is starting: the host waits") ||
					strings.Contains(f, "is busy with other calls")
			})
			for i := range frames {
				frames[i] = hostsOwn.ReplaceAllString(frames[i], "…")
			}
			if strings.Contains(members, "ext_m_both") { // two questions at once have no order
				for i := range frames {
					frames[i] = inOrder.ReplaceAllString(frames[i], "…")
				}
				slices.Sort(frames)
			}
			heard[fmt.Sprint(version, " ", id, " ", method, " ", members)] = frames
		}
		if !modern {
			does("logging/setLevel", `"level":"debug"`)
		}
		does("tools/list", `"x":1`)
		for _, arguments := range []string{
			`{}`,
			`{"n":12345678901234567890,"s":"<é>\u0061"}`,
			`{}`,
			`{"token":"` + strings.Repeat("y", 1000) + `"}`,
		} {
			does("tools/call", `"name":"ext_n_echo","arguments":`+arguments)
		}
		for _, tool := range []string{"ext_n_work", "ext_n_fail", "ext_n_refuse", "ext_n_greet", "ext_m_log",
			"ext_m_touch", "ext_m_both", "ext_m_input", "ext_n_die", "ext_n_work"} {
			does("tools/call", `"name":"`+tool+`","arguments":{}`)
		}
		for _, about := range []string{"roots", "sampling", "elicitation"} {
			does("tools/call", `"name":"ext_m_ask","arguments":{"for":"`+about+`"}`)
		}
		does("prompts/list", `"x":1`)
		does("prompts/get", `"name":"ext_m_p","arguments":{}`)
		does("resources/list", `"x":1`)
		does("resources/read", `"uri":"test://note"`)
		does("completion/complete", `"ref":{"type":"ref/prompt","name":"ext_m_p"},"argument":{"name":"a","value":"b"}`)
	}
	return heard
}

// TestAReplayIsWhatTheClientSaw compares every byte that clients of both eras receive from a native extension and
// MCP servers, and from their replay.
func TestAReplayIsWhatTheClientSaw(t *testing.T) {
	for _, speaks := range []string{"older", "newer", ""} {
		t.Run("speaks "+speaks, func(t *testing.T) {
			processtest.Leaks(t)
			h := hosttest.NewFolder(t).Add("n", hosttest.Child("sdk", "")).Add("m",
				rich(speaks, "")).Open(exthost.Options{})
			file, stop := record(t, h)
			want := script(t, h)
			stop()
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			for _, match := range []string{"strict", "nearest"} {
				got := script(t, replaying(t, file, fmt.Sprintf("match = %q", match), "n", "m"))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-recorded +replayed):\n%s", match, diff)
				}
			}
		})
	}
}

// TestTenThousandCallsAreReplayed compares 10,000 calls of both eras and the native protocol, some with results
// of 1 MiB.
func TestTenThousandCallsAreReplayed(t *testing.T) {
	processtest.Leaks(t)
	big := strings.Repeat("0123456789abcdef", 1<<16)
	calls := func(h *exthost.Host) [][]byte {
		t.Helper()
		var all [][]byte
		legacy, _ := stay(t, h, "old", protocol.MCP20251125, "")
		modern, _ := stay(t, h, "new", protocol.MCP20260728, "")
		for i := range 10_000 {
			s, tool, text := legacy, "ext_m_upper", fmt.Sprint("call ", i/3) // each text three times
			switch {
			case i%1000 == 0:
				tool, text = "ext_n_echo", big+text
			case i%5 == 0:
				tool = "ext_n_echo"
			case i%2 == 0:
				s = modern
			}
			began := time.Now()
			result := callTool(t, h, s, nil, tool, fmt.Sprintf(`{"text":%q}`, text))
			if strings.HasPrefix(result, "error") {
				t.Fatalf("call %d, after %v: %s", i, time.Since(began), result)
			}
			all = append(all, []byte(result))
		}
		return all
	}
	// the default is half of what a test may take for a call
	patient := fmt.Sprintf("[runtime]\ncall_timeout = %q\n", hosttest.Patience-5*time.Second)
	h := hosttest.NewFolder(t).Add("n", hosttest.Child("sdk", patient)).Add("m",
		hosttest.Plays("mcp", "protocol = \"mcp\"\n"+patient)).Open(exthost.Options{})
	file, stop := record(t, h)
	want := calls(h)
	stop()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	got := calls(replaying(t, file, "", "n", "m"))
	for i := range want {
		if !bytes.Equal(want[i], got[i]) {
			t.Fatalf("call %d: %.300s, recorded %.300s", i, got[i], want[i])
		}
	}
}

// conformance runs the client checks of the official SDK over HTTP and returns their outcomes. Notifications
// arrive beside the calls, so they are not compared.
func conformance(t *testing.T, h *exthost.Host, version string) map[string]string {
	outcomes := make(map[string]string)
	var mu sync.Mutex
	var told []string
	hear := func(what string, value any) {
		mu.Lock()
		defer mu.Unlock()
		text, _ := json.Marshal(value)
		told = append(told, what+" "+string(text))
	}
	o := &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			hear("elicitation", r.Params.Message)
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			hear("sampling", "")
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "x"}}, nil
		},
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, o)
	client.AddRoots(&mcp.Root{URI: "file:///here", Name: "here"})
	s, err := client.Connect(hosttest.Deadline(t),
		&mcp.StreamableClientTransport{Endpoint: hosttest.OverHTTP(t, h) + "/mcp"},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(name string, run func(ctx context.Context) (any, error)) {
		mu.Lock()
		told = nil
		mu.Unlock()
		result, err := run(hosttest.Deadline(t))
		text, _ := json.Marshal(result)
		mu.Lock()
		defer mu.Unlock()
		outcomes[name] = fmt.Sprint(string(text), err, told)
	}
	if version < protocol.MCP20260728 {
		check("logging", func(ctx context.Context) (any, error) {
			return nil, s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "debug"})
		})
	}
	check("tools", func(ctx context.Context) (any, error) { return s.ListTools(ctx, nil) })
	check("prompts", func(ctx context.Context) (any, error) { return s.ListPrompts(ctx, nil) })
	check("resources", func(ctx context.Context) (any, error) { return s.ListResources(ctx, nil) })
	check("templates", func(ctx context.Context) (any, error) { return s.ListResourceTemplates(ctx, nil) })
	check("read", func(ctx context.Context) (any, error) {
		return s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://note"})
	})
	check("prompt", func(ctx context.Context) (any, error) {
		return s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "ext_m_p"})
	})
	check("completion", func(ctx context.Context) (any, error) {
		return s.Complete(ctx, &mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "ext_m_p"},
			Argument: mcp.CompleteParamsArgument{Name: "a", Value: "b"},
		})
	})
	for name, p := range map[string]*mcp.CallToolParams{
		"structured":     {Name: "ext_n_echo", Arguments: map[string]any{"a": []any{1, "b", nil}}},
		"progress":       {Name: "ext_n_work", Meta: mcp.Meta{"progressToken": "p"}},
		"tool error":     {Name: "ext_n_fail"},
		"protocol error": {Name: "ext_n_refuse"},
		"wrong argument": {Name: "ext_n_greet", Arguments: map[string]any{"name": 1}},
		"no tool":        {Name: "ext_n_none"},
		"log":            {Name: "ext_m_log"},
		"roots":          {Name: "ext_m_ask", Arguments: map[string]any{"for": "roots"}},
		"sampling":       {Name: "ext_m_ask", Arguments: map[string]any{"for": "sampling"}},
		"elicitation":    {Name: "ext_m_ask", Arguments: map[string]any{"for": "elicitation"}},
	} {
		check(name, func(ctx context.Context) (any, error) { return s.CallTool(ctx, p) })
	}
	return outcomes
}

// TestARecordedConformanceRunReplays checks that the replay passes and fails the same checks as the extensions,
// in both eras.
func TestARecordedConformanceRunReplays(t *testing.T) {
	for _, version := range []string{protocol.MCP20251125, protocol.MCP20260728} {
		t.Run(version, func(t *testing.T) {
			h := hosttest.NewFolder(t).Add("n", hosttest.Child("sdk", "")).Add("m",
				rich("older", "")).Open(exthost.Options{})
			file, stop := record(t, h)
			want := conformance(t, h, version)
			stop()
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			got := conformance(t, replaying(t, file, "", "n", "m"), version)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-recorded +replayed):\n%s", diff)
			}
			if len(want) < 17 || !strings.Contains(want["structured"], `{"a":[1,"b",null]}`) ||
				!strings.Contains(want["elicitation"], "accept") {
				t.Errorf("%d checks: %s; %s", len(want), want["structured"], want["elicitation"])
			}
		})
	}
}

// TestNoSecretOfAHostIsRecorded records extensions that print their secrets: from environment, store and headers,
// and tokens in arguments and results.
func TestNoSecretOfAHostIsRecorded(t *testing.T) {
	processtest.Leaks(t)
	server := remoteServer(t, "h3ader-canary")
	v := &vault{
		values: map[string]string{"stored": "st0red/canary+\"1\"", "part": "p4rt-canary", "remote": "h3ader-canary"},
	}
	f := hosttest.NewFolder(t).Add("given", hosttest.Child("sdk", "")).Add("manifest",
		asking("DSN", "postgres://app:secret://part@host/app")).
		Add("header", fmt.Sprintf("[transport]\nurl = %q\nheaders = { Authorization = \"Bearer secret://remote\" }\n",
			server.URL))
	f.Entries["given"] = config.Entry{Env: map[string]string{"TOKEN": "secret://stored", "API_KEY": "env-c4nary-value"}}
	h := f.Open(v.options())
	file, stop := record(t, h)
	call := func(tool string, arguments map[string]any) {
		if _, err := h.Call(hosttest.Deadline(t), tool, arguments); err != nil {
			t.Error(err)
		}
	}
	token := "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
	call("ext_given_environ", nil)
	call("ext_manifest_environ", nil)
	call("ext_given_echo", map[string]any{"token": token, "h": "st0red/canary+\"1\""})
	call("ext_header_upper", map[string]any{"text": "h3ader-canary"})
	if err := h.Admin().Restart(hosttest.Deadline(t), "given"); err != nil {
		t.Fatal(err)
	}
	call("ext_given_environ", nil)
	stop()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{
		"st0red/canary",
		`st0red\/canary`,
		"p4rt-canary",
		"h3ader-canary",
		"env-c4nary-value",
		token,
	} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s is in the cassette", secret)
		}
	}
	if !bytes.Contains(text, []byte("TOKEN=***")) || bytes.Contains(text, []byte("omitted")) {
		t.Errorf("%s", text)
	}
}

// TestTwoSessionsFollowOneReplay lets two clients subscribe to a resource that one of them changes: both are
// notified, by the extension and by its replay.
func TestTwoSessionsFollowOneReplay(t *testing.T) {
	for _, speaks := range []string{"older", "newer"} {
		t.Run("speaks "+speaks, func(t *testing.T) {
			processtest.Leaks(t)
			h := hosttest.NewFolder(t).Add("m", rich(speaks, "")).Open(exthost.Options{})
			file, stop := record(t, h)
			follow(t, h)
			stop()
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			follow(t, replaying(t, file, "", "m"))
		})
	}
}

// follow subscribes two clients of each era to a resource that changes.
func follow(t *testing.T, h *exthost.Host) {
	t.Helper()
	for _, modern := range []bool{false, true} {
		first, second := clientOf(t, h, modern), clientOf(t, h, modern)
		for _, w := range []*way{first, second} {
			if !modern {
				if answer := last(w.hears(t, 1, "resources/subscribe",
					w.params(1, `"uri":"test://note"`))); !strings.Contains(answer, `"result"`) {
					t.Errorf("modern %t: %s", modern, answer)
				}
				continue
			}
			w.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":` + w.params(1,
				`"notifications":{"resourceSubscriptions":["test://note"]}`) + `}`)
			w.until(t, "notifications/subscriptions/acknowledged")
		}
		heard := strings.Join(first.hears(t, 2, "tools/call", first.params(2, `"name":"ext_m_touch","arguments":{}`)),
			"\n")
		if !strings.Contains(heard, "notifications/resources/updated") {
			first.until(t, "notifications/resources/updated")
		}
		second.until(t, "notifications/resources/updated")
	}
}

func last(frames []string) string { return frames[len(frames)-1] }

// until reads frames until one contains text.
func (w *way) until(t *testing.T, text string) {
	t.Helper()
	for limit := time.After(hosttest.Patience); ; {
		select {
		case frame := <-w.heard:
			if strings.Contains(frame, text) {
				return
			}
		case <-limit:
			t.Fatalf("heard no %s", text)
		}
	}
}

// serveBare answers every call with the text of its arguments, as a result that the host wraps.
func serveBare(string) {
	requests := bufio.NewScanner(os.Stdin)
	requests.Buffer(nil, 1<<20)
	for requests.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Arguments struct{ Text json.RawMessage }
			}
		}
		_ = json.Unmarshal(requests.Bytes(), &m)
		result := string(m.Params.Arguments.Text)
		if m.Method == "initialize" {
			result = `{"server_version":"1.0.0","tools":[{"name":"echo","input_schema":{"type":"object"}}]}`
		}
		if m.ID != nil && result != "" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		}
	}
}

// TestLongResultsAreRecorded records results whose memory would be used again for later results without the recording.
func TestLongResultsAreRecorded(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("b", hosttest.Plays("bare", "")).Open(exthost.Options{})
	file, stop := record(t, h)
	text := func(i int) string { return fmt.Sprint(i, strings.Repeat(fmt.Sprint(" ", i), 100_000)) }
	for i := range 30 {
		result, err := h.Call(hosttest.Deadline(t), "ext_b_echo", map[string]any{"text": text(i)})
		if err != nil || result.Text() != text(i) {
			t.Fatalf("%.40s, %v", result, err)
		}
	}
	stop()
	cassette, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if n := strings.Count(string(cassette), `"result":"`+text(i)+`"`); n != 1 {
			t.Errorf("result %d is recorded %d times", i, n)
		}
	}
}
