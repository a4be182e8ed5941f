// Package hosttest opens hosts over extensions that a test writes, and plays these extensions in the test's own
// binary.
package hosttest

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
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
	"github.com/exthost/exthost/status"
)

// Patience bounds every wait of a test. No wait is expected to take that long.
const Patience = 60 * time.Second

// Extension is the native extension of the tests.
func Extension() *sdk.Extension {
	x := sdk.New("1.2.3")
	sdk.AddTool(x, sdk.Tool{
		Name:        "echo",
		Description: "Returns its arguments.",
		InputSchema: json.RawMessage(`{"type":"object"}`),
	},
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
			return "", &sdk.Error{
				Code:    -32050,
				Message: "closed",
				Data:    json.RawMessage(`{"until":12345678901234567890}`),
			}
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
		func(context.Context, struct{}) (string, error) { processtest.Exit(3); return "", nil })
	return x
}

// HoldingALock runs main, or returns 4 while another process with the same state directory runs it.
func HoldingALock(main func() int) int {
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

// Guard is a policy in a process. It denies calls with the argument "no", and exits at a call with the argument "die".
func Guard() *sdk.Extension {
	x := sdk.New("1")
	x.OnDecide(func(_ context.Context, e *sdk.Exchange) (sdk.Decision, error) {
		switch {
		case strings.Contains(string(e.Arguments()), `"no"`):
			return sdk.Deny("said_no", "no is no"), nil
		case strings.Contains(string(e.Arguments()), `"die"`):
			processtest.Exit(3)
		}
		return sdk.Allow(), nil
	})
	return x
}

// ServeMCP serves [OfficialServer] on stdin and stdout.
func ServeMCP() {
	if err := OfficialServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		processtest.Exit(1)
	}
}

// OfficialServer is an MCP server by the official SDK.
func OfficialServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "official", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "upper", Description: "Upper case."},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Text string `json:"text"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{
				Content: []mcp.Content{&mcp.TextContent{Text: strings.ToUpper(in.Text)}},
			}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "ask", Description: "Asks its caller's user."},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Where to?"})
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{
				Content: []mcp.Content{&mcp.TextContent{Text: "home: " + answer.Action}},
			}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "environ", Description: "Its environment."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{
				Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(os.Environ(), "\n")}},
			}, nil, nil
		})
	return s
}

// Mute is a policy that never decides.
func Mute() *sdk.Extension {
	x := sdk.New("1")
	x.OnDecide(func(ctx context.Context, _ *sdk.Exchange) (sdk.Decision, error) {
		<-ctx.Done()
		return sdk.Decision{}, ctx.Err()
	})
	return x
}

// Folder is a search path under construction.
type Folder struct {
	T       testing.TB
	Dir     string
	Entries map[string]config.Entry
}

func NewFolder(t testing.TB) *Folder {
	return &Folder{t, t.TempDir(), make(map[string]config.Entry)}
}

// AddHooks is [Folder.Add] for an extension whose hooks see the calls of all extensions.
func (f *Folder) AddHooks(id, manifest string) *Folder {
	f.Entries[id] = config.Entry{Hooks: config.HooksAll}
	return f.Add(id, manifest)
}

// Add writes the manifest of an extension; %EXE% becomes the test binary.
func (f *Folder) Add(id, manifest string) *Folder {
	f.T.Helper()
	if !strings.Contains(manifest, "[plugin]") {
		manifest = fmt.Sprintf("[plugin]\nid = %q\nversion = \"0.1.0\"\n", id) + manifest
	}
	f.Write(id+"/plugin.toml", strings.ReplaceAll(manifest, "%EXE%", Exe(f.T)))
	return f
}

// Exe is the test binary.
func Exe(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Write saves a file as careful editors do: it writes another file and renames it. If it wrote in place, a watching
// host could see a half-written file as a change of its own.
func (f *Folder) Write(name, text string) {
	f.T.Helper()
	f.Overwrite(name+"~", text)
	if err := os.Rename(filepath.Join(f.Dir, name+"~"), filepath.Join(f.Dir, name)); err != nil {
		f.T.Fatal(err)
	}
}

// Overwrite writes a file in place.
func (f *Folder) Overwrite(name, text string) {
	f.T.Helper()
	path := filepath.Join(f.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		f.T.Fatal(err)
	}
}

const ToolsOfChild = `[capabilities]
tools = ["echo", "greet", "fail", "refuse", "work", "wait", "environ", "die"]
`

// Child returns the manifest of [Extension], or of another script with the same tools.
func Child(script, more string) string { return ToolsOfChild + Plays(script, more) }

// Plays returns a [transport] that runs the test binary as a scripted child.
func Plays(script, more string) string {
	return fmt.Sprintf("[transport]\ncommand = \"%%EXE%%\"\nenv = { %s = %q }\n%s", processtest.ScriptVar, script, more)
}

// Open opens a host over the folder and closes it with the test.
func (f *Folder) Open(o exthost.Options) *exthost.Host {
	f.T.Helper()
	return f.OpenWith(f.Config(), o)
}

// Config returns a configuration that searches only the folder.
func (f *Folder) Config() *config.Config {
	cfg := config.Default()
	cfg.Extensions.SearchPaths, cfg.Extensions.Entries = []string{f.Dir}, maps.Clone(f.Entries)
	return cfg
}

func (f *Folder) OpenWith(cfg *config.Config, o exthost.Options) *exthost.Host {
	f.T.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.StateDir == "" {
		o.StateDir = f.T.TempDir()
	}
	h, err := exthost.Open(context.Background(), cfg, o)
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() {
		if err := h.Close(); err != nil {
			f.T.Errorf("Close: %v", err)
		}
	})
	return h
}

// Greet calls the tool greet of the extension x, which must be an [Extension].
func Greet(t *testing.T, h *exthost.Host, name string) error {
	t.Helper()
	_, err := h.Call(Deadline(t), "ext_x_greet", map[string]any{"name": name})
	return err
}

func StatusOf(t testing.TB, h *exthost.Host, id string) status.Extension {
	t.Helper()
	all := h.Status().Extensions
	i := slices.IndexFunc(all, func(x status.Extension) bool { return x.ID == id })
	if i < 0 {
		t.Fatalf("no extension %q in %+v", id, all)
	}
	return all[i]
}

func Names(h *exthost.Host) (list []string) {
	for _, e := range h.Tools().Entries() {
		list = append(list, e.Name)
	}
	return list
}

// Recorder is a client that records its notifications.
type Recorder struct {
	Mu    sync.Mutex
	Heard []string
	On    chan string
}

func NewRecorder() *Recorder { return &Recorder{On: make(chan string, 1000)} }

func (r *Recorder) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, protocol.Errorf(protocol.ToolNotFound, "not served")
}

func (r *Recorder) Notify(_ context.Context, method string, params json.RawMessage) error {
	r.Mu.Lock()
	r.Heard = append(r.Heard, method+" "+string(params))
	r.Mu.Unlock()
	r.On <- method
	return nil
}

// Told returns the notifications so far.
func (r *Recorder) Told() []string {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return slices.Clone(r.Heard)
}

func Deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Canceled returns a context that has ended.
func Canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Eventually polls for what cannot be awaited from outside.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := Deadline(t); !is(); <-tick.C {
		if ctx.Err() != nil {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// Next waits for the next notification and returns its method.
func (r *Recorder) Next(t *testing.T) string {
	t.Helper()
	select {
	case method := <-r.On:
		return method
	case <-Deadline(t).Done():
		t.Fatal("the client is not told")
		return ""
	}
}

// Watched opens a host and waits until it watches the folder. The channel receives the outcome of each reload.
func (f *Folder) Watched(mode string, debounce time.Duration, o exthost.Options,
) (*exthost.Host, <-chan exthost.Reloaded) {
	f.T.Helper()
	reloads := make(chan exthost.Reloaded, 100)
	o.OnReload = func(r exthost.Reloaded) { reloads <- r }
	cfg := f.Config()
	cfg.Extensions.Watch = config.Watch{Enabled: true, Mode: mode, Debounce: manifest.Duration(debounce)}
	h := f.OpenWith(cfg, o)
	Eventually(f.T, "it watches", func() bool { return h.Admin().WatchStatus().Directories > 0 })
	return h, reloads
}
