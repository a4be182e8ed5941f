package exthost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/benchtest"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
	"github.com/exthost/exthost/status"
)

// patience bounds every wait of a test; none is expected to last.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if _, scripted := os.LookupEnv(processtest.ScriptVar); scripted {
		processtest.Main(m, verbs)
	}
	os.Exit(processtest.Sharded(m, "TestHungExtensionIsReplaced", "TestTenThousandCallsAreReplayed").Run())
}

// verbs are the steps of scripted children.
var verbs = map[string]processtest.Verb{
	"sdk": func(string) { os.Exit(testExtension().Main()) },
	"mcp": func(string) { serveMCP() },

	"rich":      serveRich,
	"tasks":     serveTasks,
	"shown":     serveShown,
	"answering": serveAnswers,

	"declaring": serveDeclaring,

	"locked": func(string) { os.Exit(holdingALock(testExtension().Main)) },
	"guard":  func(string) { os.Exit(guard().Main()) },

	"interceptors": serveInterceptors,

	"refusing":   func(string) { os.Exit(refusingExtension().Main()) },
	"errorguard": func(string) { os.Exit(errorGuard().Main()) },

	"hangsonce": hangsOnce,

	"mute":    func(string) { os.Exit(mute().Main()) },
	"begun":   func(string) { appendState("begun", "x") },
	"leaky":   func(string) { os.Exit(leakyExtension().Main()) },
	"hooks":   func(string) { os.Exit(hookExtension().Main()) },
	"journal": func(string) { os.Exit(journalExtension().Main()) },

	"floor": benchtest.FloorVerb,
	"bench": func(string) { os.Exit(benchExtension().Main()) },
}

// testExtension is the native extension of the tests.
func testExtension() *sdk.Extension {
	x := sdk.New("1.2.3")
	sdk.AddTool(x, sdk.Tool{Name: "echo", Description: "Returns its arguments.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, in json.RawMessage) (protocol.ToolResult, error) {
			return protocol.ToolResult(`{"content":[],"structuredContent":` + string(in) + `}`), nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "greet", Description: "Greets."},
		func(_ context.Context, in struct {
			Name string `json:"name"`
		}) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "fail", Description: "Fails."},
		func(context.Context, struct{}) (string, error) { return "", errors.New("it is Monday") })
	sdk.AddTool(x, sdk.Tool{Name: "refuse", Description: "Answers with an error of the protocol."},
		func(context.Context, struct{}) (string, error) {
			return "", &sdk.Error{Code: -32050, Message: "closed", Data: json.RawMessage(`{"until":12345678901234567890}`)}
		})
	sdk.AddTool(x, sdk.Tool{Name: "work", Description: "Reports progress and logs."},
		func(ctx context.Context, _ struct{}) (string, error) {
			for i := range 3 {
				sdk.Progress(ctx, float64(i+1), 3, "step")
			}
			sdk.Log(ctx, slog.LevelInfo, "almost")
			return "done", nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "wait", Description: "Waits until it is cancelled."},
		func(ctx context.Context, _ struct{}) (string, error) {
			<-ctx.Done()
			return "cancelled", os.WriteFile(filepath.Join(os.Getenv("EXTHOST_STATE_DIR"), "cancelled"), nil, 0o600)
		})
	sdk.AddTool(x, sdk.Tool{Name: "environ", Description: "Returns its environment."},
		func(context.Context, struct{}) (string, error) { return strings.Join(os.Environ(), "\n"), nil })
	sdk.AddTool(x, sdk.Tool{Name: "die", Description: "Ends its process."},
		func(context.Context, struct{}) (string, error) { os.Exit(3); return "", nil })
	return x
}

// holdingALock runs main while nobody else with the same state directory does.
func holdingALock(main func() int) int {
	name := filepath.Join(os.Getenv("EXTHOST_STATE_DIR"), "lock")
	lock, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
	lock.Close()
	defer os.Remove(name)
	return main()
}

// guard is a policy in a process: it denies what is called "no" and dies of what is
// called "die".
func guard() *sdk.Extension {
	x := sdk.New("1")
	x.OnDecide(func(_ context.Context, e *sdk.Exchange) (sdk.Decision, error) {
		switch {
		case strings.Contains(string(e.Arguments()), `"no"`):
			return sdk.Deny("said_no", "no is no"), nil
		case strings.Contains(string(e.Arguments()), `"die"`):
			os.Exit(3)
		}
		return sdk.Allow(), nil
	})
	return x
}

// serveMCP serves officialServer on stdin and stdout.
func serveMCP() {
	if err := officialServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// officialServer is an MCP server by the official SDK.
func officialServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "official", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "upper", Description: "Upper case."},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Text string `json:"text"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ToUpper(in.Text)}}}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "ask", Description: "Asks its caller's user."},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Where to?"})
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "home: " + answer.Action}}}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "environ", Description: "Its environment."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(os.Environ(), "\n")}}}, nil, nil
		})
	return s
}

// mute is a policy that never decides.
func mute() *sdk.Extension {
	x := sdk.New("1")
	x.OnDecide(func(ctx context.Context, _ *sdk.Exchange) (sdk.Decision, error) {
		<-ctx.Done()
		return sdk.Decision{}, ctx.Err()
	})
	return x
}

// folder is a search path under construction.
type folder struct {
	t       testing.TB
	dir     string
	entries map[string]config.Entry
}

func newFolder(t testing.TB) *folder {
	return &folder{t, t.TempDir(), make(map[string]config.Entry)}
}

// addHooks is add for an extension whose hooks see the calls of all.
func (f *folder) addHooks(id, manifest string) *folder {
	f.entries[id] = config.Entry{Hooks: config.HooksAll}
	return f.add(id, manifest)
}

// add writes the manifest of an extension; %EXE% becomes the test binary.
func (f *folder) add(id, manifest string) *folder {
	f.t.Helper()
	if !strings.Contains(manifest, "[plugin]") {
		manifest = fmt.Sprintf("[plugin]\nid = %q\nversion = \"0.1.0\"\n", id) + manifest
	}
	f.write(id+"/plugin.toml", strings.ReplaceAll(manifest, "%EXE%", exe(f.t)))
	return f
}

// exe is the test binary.
func exe(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// write saves a file as careful editors do: aside, and then renamed. A watching host that
// looks between two writes in place would see a change of its own.
func (f *folder) write(name, text string) {
	f.t.Helper()
	f.overwrite(name+"~", text)
	if err := os.Rename(filepath.Join(f.dir, name+"~"), filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// overwrite writes a file in place.
func (f *folder) overwrite(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

const toolsOfChild = `[capabilities]
tools = ["echo", "greet", "fail", "refuse", "work", "wait", "environ", "die"]
`

// child is the manifest of testExtension, or of another script with its tools.
func child(script, more string) string { return toolsOfChild + plays(script, more) }

// plays is a [transport] that runs the test binary as a scripted child.
func plays(script, more string) string {
	return fmt.Sprintf("[transport]\ncommand = \"%%EXE%%\"\nenv = { %s = %q }\n%s", processtest.ScriptVar, script, more)
}

// open opens a host over the folder and closes it with the test.
func (f *folder) open(o exthost.Options) *exthost.Host {
	f.t.Helper()
	return f.openWith(f.config(), o)
}

// config searches the folder alone.
func (f *folder) config() *config.Config {
	cfg := config.Default()
	cfg.Extensions.SearchPaths, cfg.Extensions.Entries = []string{f.dir}, maps.Clone(f.entries)
	return cfg
}

func (f *folder) openWith(cfg *config.Config, o exthost.Options) *exthost.Host {
	f.t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.StateDir == "" {
		o.StateDir = f.t.TempDir()
	}
	h, err := exthost.Open(context.Background(), cfg, o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := h.Close(); err != nil {
			f.t.Errorf("Close: %v", err)
		}
	})
	return h
}

// greet calls a tool of testExtension, that of the extension x.
func greet(t *testing.T, h *exthost.Host, name string) error {
	t.Helper()
	_, err := h.Call(deadline(t), "ext_x_greet", map[string]any{"name": name})
	return err
}

func statusOf(t testing.TB, h *exthost.Host, id string) status.Extension {
	t.Helper()
	all := h.Status().Extensions
	i := slices.IndexFunc(all, func(x status.Extension) bool { return x.ID == id })
	if i < 0 {
		t.Fatalf("no extension %q in %+v", id, all)
	}
	return all[i]
}

func names(h *exthost.Host) (list []string) {
	for _, e := range h.Tools().Entries() {
		list = append(list, e.Name)
	}
	return list
}

// recorder is a client that keeps what it is told.
type recorder struct {
	mu    sync.Mutex
	heard []string
	on    chan string
}

func newRecorder() *recorder { return &recorder{on: make(chan string, 1000)} }

func (r *recorder) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "not served")
}

func (r *recorder) Notify(_ context.Context, method string, params json.RawMessage) error {
	r.mu.Lock()
	r.heard = append(r.heard, method+" "+string(params))
	r.mu.Unlock()
	r.on <- method
	return nil
}

// told is what it has been told so far.
func (r *recorder) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heard)
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// canceled is a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// eventually polls for what cannot be awaited from outside.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := deadline(t); !is(); <-tick.C {
		if ctx.Err() != nil {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
