package cluster_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/config"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

// patience bounds every wait; none is expected to last so long.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if _, scripted := os.LookupEnv(processtest.ScriptVar); scripted {
		processtest.Main(m, map[string]processtest.Verb{
			"extension":   func(string) { processtest.Exit(extension().Main()) },
			"asking":      func(string) { asking() },
			natstest.Name: natstest.Verb,
			"node":        serveNode,
			"answer":      answer,
			"caller":      caller,
			"home":        serveHome,
			"chunks":      chunks,
			"pair":        servePair,
			"memory":      hostOf,
		})
	}
	code := processtest.Sharded(m).Run()
	for _, one := range shared.all {
		one.Kill()
	}
	os.Exit(code)
}

var stdout = os.Stdout // the SDK replaces it

// extension is the extension that nodes share.
func extension() *sdk.Extension {
	x := sdk.New("1.0.0")
	sdk.AddTool(x, sdk.Tool{
		Name:        "echo",
		Description: "Returns its arguments.",
		InputSchema: json.RawMessage(`{"type":"object"}`),
	},
		func(_ context.Context, in json.RawMessage) (protocol.ToolResult, error) {
			return protocol.ToolResult(`{"content":[],"structuredContent":` + string(in) + `}`), nil
		})
	sdk.AddTool(x, sdk.Tool{
		Name:        "note",
		Description: "Notes a text in a file, and answers when told to. " + os.Getenv(describeVar),
	}, note)
	sdk.AddTool(x, sdk.Tool{Name: "renote", Description: "Notes a text, which may be done again.", Idempotent: true},
		note)
	sdk.AddTool(x, sdk.Tool{Name: "work", Description: "Reports progress."},
		func(ctx context.Context, _ struct{}) (string, error) {
			for i := range 3 {
				sdk.Progress(ctx, float64(i+1), 3, "step")
			}
			return "done", nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "pid", Description: "Says which process it is."},
		func(context.Context, struct{}) (string, error) { return strconv.Itoa(os.Getpid()), nil })
	sdk.AddTool(x, sdk.Tool{Name: "die", Description: "Ends its process."},
		func(context.Context, struct{}) (string, error) { processtest.Exit(3); return "", nil })
	sdk.AddTool(x, sdk.Tool{Name: "abuse", Description: "Breaks the rules of its process."},
		func(ctx context.Context, in struct {
			How string `json:"how"`
		}) (protocol.ToolResult, error) {
			switch in.How {
			case "lie":
				for id := range 9 { // includes the id of the call
					_, _ = fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%d,"error":"no error"}`+"\n", id)
				}
				return protocol.ToolResult(`{"content":[]}`), nil
			case "flood":
				for ctx.Err() == nil {
					_, _ = stdout.Write(bytes.Repeat([]byte("x"), 1<<20))
				}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
	return x
}

// noting holds the arguments of the tool note.
type noting struct {
	File string `json:"file"`
	Text string `json:"text"`
	Wait bool   `json:"wait,omitempty"`
	Once bool   `json:"once,omitempty"` // waits only if the text has not been noted before
	Till string `json:"till,omitempty"` // waits until this file exists
	Die  bool   `json:"die,omitempty"`
}

func note(ctx context.Context, in noting) (string, error) {
	before, _ := os.ReadFile(in.File)
	f, err := os.OpenFile(in.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := stormtest.AddEntry(f, in.Text); err != nil {
		return "", err
	}
	if in.Die {
		processtest.Exit(3)
	}
	sdk.Progress(ctx, 1, 2, in.Text)
	if in.Wait && !(in.Once && slices.Contains(stormtest.WholeEntries(string(before)), in.Text)) {
		<-ctx.Done()
		_ = stormtest.AddEntry(f, in.Text+" cancelled")
	}
	for in.Till != "" && ctx.Err() == nil {
		if _, err := os.Stat(in.Till); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond) // a test waits for this process
	}
	return "noted " + in.Text, nil
}

// describeVar contains a part of the descriptor of note.
const describeVar = "EXTHOST_TEST_DESCRIBE"

// asking is an MCP server with one tool, which asks its caller two questions and returns the answers.
func asking() {
	in := bufio.NewReader(os.Stdin)
	send := func(id json.RawMessage, member string, value any) {
		text, _ := json.Marshal(value)
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s:%s}`+"\n", id, member, text)
	}
	next := func() (m struct {
		ID             json.RawMessage
		Method         string
		Params, Result json.RawMessage
	}) {
		line, err := in.ReadBytes('\n')
		if err != nil {
			processtest.Exit(0)
		}
		_ = json.Unmarshal(line, &m)
		return m
	}
	for {
		switch m := next(); m.Method {
		case "initialize":
			send(m.ID, `"result"`,
				json.RawMessage(
					`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"asking","version":"1.0.0"}}`))
		case "tools/list":
			send(m.ID, `"result"`,
				json.RawMessage(
					`{"tools":[{"name":"ask","description":"Asks its caller.","inputSchema":{"type":"object"}}]}`))
		case "tools/call":
			var answers []json.RawMessage
			for i, q := range []string{`"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":1}`,
				`"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}`} {
				fmt.Printf(`{"jsonrpc":"2.0","id":"q%d","method":%s}`+"\n", i, q)
				a := next()
				for string(a.ID) != fmt.Sprintf("%q", fmt.Sprint("q", i)) || a.Method != "" {
					a = next()
				}
				answers = append(answers, a.Result)
			}
			send(m.ID, `"result"`,
				map[string]any{"content": []any{}, "structuredContent": map[string]any{"answers": answers}})
		case "ping":
			send(m.ID, `"result"`, struct{}{})
		default:
			if m.ID != nil {
				send(m.ID, `"error"`, map[string]any{"code": -32601, "message": "not known"})
			}
		}
	}
}

// answer returns the bodies of requests until stdin ends.
func answer(server string) {
	conn, err := nats.Connect(server)
	if err == nil {
		_, err = conn.Subscribe("answer", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	}
	processtest.Check(err)
	_ = conn.Flush()
	processtest.Ready()
	conn.Close()
}

// spawn runs a script in the test binary until the end of the test. It waits until the process is ready.
func spawn(t testing.TB, script string) *processtest.Process {
	t.Helper()
	return processtest.Spawn(t, script, clusterVar+"="+inCluster)
}

func exe(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// servers are clustered NATS servers.
type servers struct {
	t    testing.TB
	list []natstest.Server
	all  []*processtest.Process
}

// shared are three servers for all tests that do not stop any. The first of these tests starts them.
var shared servers

// inCluster is the cluster of a test's nodes, so that tests with the same servers do not meet.
var inCluster = "main"

// clusterVar passes inCluster to other processes.
const clusterVar = "EXTHOST_TEST_CLUSTER"

// sharedServers returns three servers that a test must not stop. Call it first, in place of
// [processtest.Leaks].
func sharedServers(t testing.TB) []string {
	t.Helper()
	if shared.all == nil {
		s := servers{t: t, list: natstest.Knowing(t, 3)}
		for _, one := range s.list {
			s.all = append(s.all, processtest.Start(t, one.Script()))
		}
		shared = s
	}
	processtest.Leaks(t)
	inCluster = strings.ToLower(t.Name())[:min(32, len(t.Name()))]
	t.Cleanup(func() { inCluster = "main" })
	return shared.urls()
}

func startServers(t testing.TB, n int) *servers {
	t.Helper()
	s := &servers{t: t, list: natstest.Knowing(t, n), all: make([]*processtest.Process, n)}
	for i := range n {
		s.start(i)
	}
	return s
}

func (s *servers) start(i int) {
	s.t.Helper()
	s.all[i] = s.list[i].Spawn(s.t)
}

func (s *servers) urls() (list []string) {
	for _, one := range s.list {
		list = append(list, one.URL())
	}
	return list
}

// node is a node in this or in another process.
type node struct {
	Name, As string
	URLs     []string
	Plugins  []plugin // its extensions
	MaxCalls int      // 0: default
	Join     string   // the invitation, in place of URLs
	Forget   time.Duration
}

// plugin is an extension of a node.
type plugin struct {
	ID       string
	Script   string // of its process; "": extension
	Protocol string // "": native
	Runtime  string // a table of its manifest
	Describe string // a part of the descriptor of note
	Manifest string // the manifest without the id; disables the other fields
}

// join returns a node of a cluster.
func join(t testing.TB, urls []string, name, as string) *cluster.Node {
	t.Helper()
	n, err := cluster.New(nodeOptions(node{Name: name, As: as, URLs: urls}))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nodeOptions(n node) cluster.Options {
	m := settings.Default()
	if strings.HasPrefix(n.Name, "quick") {
		m.Silence, m.Grace = manifest.Duration(quick), manifest.Duration(quickGrace)
	}
	m.Name, m.MaxCalls = cmp.Or(os.Getenv(clusterVar), inCluster), cmp.Or(n.MaxCalls, m.MaxCalls)
	m.Forget = cmp.Or(manifest.Duration(n.Forget), m.Forget)
	if m.Join = n.Join; n.Join != "" {
		m.Name = "" // the invitation contains it
	}
	m.URLs, m.Node, m.Share = n.URLs, n.Name, []settings.Sharing{{Extensions: []string{"*"}, As: n.As}}
	return cluster.Options{Settings: m, Version: "0.0.1", Log: logger()}
}

func logger() *slog.Logger {
	if os.Getenv("CLUSTER_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// x is the extension of most nodes.
var x = []plugin{{}}

// open opens a host with extension x, or with none.
func open(t testing.TB, n *cluster.Node, shares bool, change ...func(*config.Config)) *exthost.Host {
	t.Helper()
	plugins := x
	if !shares {
		plugins = nil
	}
	h, err := openHost(n, t.TempDir(), exe(t), plugins, change...)
	return closed(t, h, err)
}

// closed closes a host at the end of the test.
func closed(t testing.TB, h *exthost.Host, err error) *exthost.Host {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return h
}

func openHost(n *cluster.Node, dir, exe string, plugins []plugin, change ...func(*config.Config),
) (*exthost.Host, error) {
	cfg := config.Default()
	cfg.Extensions.Defaults.Replay = manifest.ReplayIdempotent
	cfg.Extensions.Defaults.StartTimeout = new(manifest.Duration(patience))
	for _, f := range change {
		f(cfg)
	}
	cfg.Extensions.SearchPaths = []string{filepath.Join(dir, "extensions")}
	for _, p := range plugins {
		if err := p.install(dir, exe); err != nil {
			return nil, err
		}
	}
	o := exthost.Options{StateDir: filepath.Join(dir, "state"), Logger: logger()}
	if n != nil {
		o.Cluster = n
	}
	return exthost.Open(context.Background(), cfg, o)
}

// install writes the manifest for a host whose files are in dir.
func (p plugin) install(dir, exe string) error {
	id, capabilities := cmp.Or(p.ID, "x"), ""
	if p.Protocol == "" {
		capabilities = "[capabilities]\ntools = [\"echo\", \"note\", \"renote\", \"work\", \"pid\", \"die\", " +
			"\"abuse\"]\n"
	}
	text := fmt.Sprintf("[plugin]\nid = %q\nversion = \"1.0.0\"\n%s[transport]\ncommand = %q\nprotocol = %q\nenv = { "+
		"%s = %q, %s = %q }\n[runtime]\n%s\n",
		id, capabilities, exe, cmp.Or(p.Protocol, "native"), processtest.ScriptVar, cmp.Or(p.Script, "extension"),
		describeVar, p.Describe, p.Runtime)
	if p.Manifest != "" {
		text = fmt.Sprintf("[plugin]\nid = %q\nversion = \"1.0.0\"\n", id) + strings.ReplaceAll(p.Manifest, "EXE", exe)
	}
	path := filepath.Join(dir, "extensions", id)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(path, "plugin.toml"), []byte(text), 0o644)
}

// serveNode runs a node as a process. words are a [node] in JSON.
func serveNode(words string) {
	var spec node
	processtest.Check(json.Unmarshal([]byte(words), &spec))
	dir, err := os.MkdirTemp("", "node")
	processtest.Check(err)
	defer os.RemoveAll(dir)
	n, err := cluster.New(nodeOptions(spec))
	processtest.Check(err)
	path, err := os.Executable()
	processtest.Check(err)
	h, err := openHost(n, dir, path, spec.Plugins)
	processtest.Check(err)
	processtest.Ready()
	processtest.Check(h.Close())
}

// caller runs a node that makes one call and exits. words are the servers, a vertical bar, and the tool with its
// arguments.
func caller(words string) {
	urls, call, _ := strings.Cut(words, " | ")
	tool, args, _ := strings.Cut(call, " ")
	dir, err := os.MkdirTemp("", "caller")
	processtest.Check(err)
	n, err := cluster.New(nodeOptions(node{Name: "caller", As: settings.ShareMine, URLs: strings.Fields(urls)}))
	processtest.Check(err)
	h, err := openHost(n, dir, "", nil)
	processtest.Check(err)
	for _, ok := h.Tools().Lookup(tool); !ok; _, ok = h.Tools().Lookup(tool) {
		time.Sleep(5 * time.Millisecond) // a test waits for this process
	}
	fmt.Println("ready")
	_, err = h.Call(context.Background(), tool, json.RawMessage(args))
	processtest.Check(err)
}

// quick and quickGrace shorten timeouts at nodes whose names begin with quick, for tests in which no relevant
// node may be slow.
const (
	quick      = 3 * time.Second
	quickGrace = 500 * time.Millisecond
)

// startNode runs a node with extension x as a process.
func startNode(t testing.TB, urls []string, name, as string) *processtest.Process {
	t.Helper()
	return node{Name: name, As: as, URLs: urls, Plugins: x}.start(t)
}

// start runs the node as a process.
func (n node) start(t testing.TB) *processtest.Process {
	t.Helper()
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return spawn(t, "node "+strings.ReplaceAll(string(text), ";", `\u003b`)) // a semicolon would end the step
}

// open opens a host as the node.
func (n node) open(t testing.TB) *exthost.Host {
	t.Helper()
	c, err := cluster.New(nodeOptions(n))
	if err != nil {
		t.Fatal(err)
	}
	h, err := openHost(c, t.TempDir(), exe(t), n.Plugins)
	return closed(t, h, err)
}

// eventually polls, for conditions without an event.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !is(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// awaitTool waits until a host lists a tool, or no longer lists it.
func awaitTool(t testing.TB, h *exthost.Host, name string, listed bool) {
	t.Helper()
	eventually(t, name, func() bool {
		_, ok := h.Tools().Lookup(name)
		return ok == listed
	})
}
