package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// gate keeps children from their handshake until it is opened: a child that finds the file "closed" in its state
// directory waits until it is removed.
type gate struct {
	t     *testing.T
	state string
	id    string
}

func (g gate) file() string { return filepath.Join(g.state, g.id, "closed") }

func (g gate) close() {
	g.t.Helper()
	if err := os.MkdirAll(filepath.Dir(g.file()), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(g.file(), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g gate) open() {
	g.t.Helper()
	if err := os.Remove(g.file()); err != nil {
		g.t.Fatal(err)
	}
}

// gated makes a shell script wait at the gate before it continues with more.
func gated(more string) string {
	return "#!/bin/sh\nwhile [ -e \"$EXTHOST_STATE_DIR/closed\" ]; do sleep 0.05; done\n" + more
}

// gatedFolder holds the eager extension x, the scripted one behind a gate.
func gatedFolder(t *testing.T, runtime string) *hosttest.Folder {
	f := hosttest.NewFolder(t)
	f.Add("x", hosttest.OffersTwo+"[transport]\nscript = \"x.sh\"\n[runtime]\nstart_timeout = \"2m\"\n"+runtime)
	f.Write("x/x.sh", gated(strings.TrimPrefix(hosttest.Scripted, "#!/bin/sh\n")))
	f.Write("x/tools.json", hosttest.TwoTools)
	return f
}

// From the second start on, the list is complete before any handshake, a call waits for the start, and its caller is
// told for what.
func TestCachedToolsWhileStarting(t *testing.T) {
	processtest.Leaks(t)
	f, g := gatedFolder(t, ""), gate{t, t.TempDir(), "x"}
	f.Open(exthost.Options{StateDir: g.state}).Close()
	g.close()
	h := f.Open(exthost.Options{StateDir: g.state, Mode: hosttest.Background})
	if got := hosttest.Listed(t, h); !slices.Equal(got, []string{"ext_x_greet", "ext_x_part"}) {
		t.Fatalf("listed while it starts: %q", got)
	}
	if s := hosttest.StatusOf(t, h, "x"); s.State != "spawning" || s.Reason != "the host waits for its handshake" {
		t.Errorf("status: %s, %q", s.State, s.Reason)
	}
	client, result := hosttest.NewRecorder(), make(chan error, 1)
	go func() {
		_, err := h.Do(hosttest.Deadline(t), &protocol.Call{
			Method: protocol.MethodToolsCall,
			Client: client,
			Params: json.RawMessage(`{"name":"ext_x_greet","_meta":{"progressToken":"p"}}`),
		})
		result <- err
	}()
	select {
	case <-client.On:
	case err := <-result:
		t.Fatalf("the call did not wait: %v", err)
	}
	if told := client.Told()[0]; !strings.Contains(told, `"progressToken":"p"`) ||
		!strings.Contains(told, "x is starting: the host waits for its handshake, 1s") {
		t.Errorf("told %s", told)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_unknown", nil); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("a tool that it never had: %v", err)
	}
	g.open()
	if err := <-result; err != nil {
		t.Errorf("the call that waited: %v", err)
	}
	if err := h.Ready(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
}

// A remembered offer is used while its program is the one that would run, and until the program fails to start.
func TestCachedToolsOfAProgramThatDoesNotFit(t *testing.T) {
	processtest.Leaks(t)
	for name, tt := range map[string]struct {
		change func(f *hosttest.Folder)
		listed int // while it starts
	}{
		"the same":       {nil, 2},
		"another script": {func(f *hosttest.Folder) { f.Write("x/x.sh", gated("exit 3")) }, 0},
		"another manifest": {func(f *hosttest.Folder) {
			f.Add("x", hosttest.OffersTwo+"[transport]\nscript = \"x.sh\"\nargs = [\"-v\"]\n")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, g := gatedFolder(t, ""), gate{t, t.TempDir(), "x"}
			f.Open(exthost.Options{StateDir: g.state}).Close()
			g.close()
			if tt.change != nil {
				tt.change(f)
			}
			h := f.Open(exthost.Options{StateDir: g.state, Mode: hosttest.Background})
			if got := hosttest.Names(h); len(got) != tt.listed {
				t.Errorf("listed while it starts: %q", got)
			}
			g.open()
		})
	}
	t.Run("it does not start", func(t *testing.T) {
		f, g := gatedFolder(t, ""), gate{t, t.TempDir(), "x"}
		f.Write("x/x.sh", gated(`[ -e "$EXTHOST_STATE_DIR/broken" ] && exit 3`+"\n"+
			strings.TrimPrefix(hosttest.Scripted, "#!/bin/sh\n")))
		f.Open(exthost.Options{StateDir: g.state}).Close()
		g.close()
		h := f.Open(exthost.Options{StateDir: g.state, Mode: hosttest.Background})
		if got := hosttest.Names(h); len(got) != 2 {
			t.Errorf("listed while it starts: %q", got)
		}
		f.Write("broken", "")
		if err := os.WriteFile(filepath.Join(g.state, "x", "broken"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		g.open()
		if err := h.Ready(hosttest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
		if got := hosttest.Names(h); len(got) != 0 {
			t.Errorf("listed though it failed: %q", got)
		}
		if _, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil); protocol.KindOf(err) != protocol.Failed ||
			!strings.Contains(err.Error(), "did not start") {
			t.Errorf("a call of what failed: %v", err)
		}
	})
}

// At the first start a list waits for what starts, and the asking client is told for what.
func TestFirstListWaits(t *testing.T) {
	processtest.Leaks(t)
	f, g := gatedFolder(t, ""), gate{t, t.TempDir(), "x"}
	f.Add("npm", hosttest.OffersTwo+
		"[transport]\ncommand = \"./npx\"\nargs = [\"-y\", \"some-server\"]\nprotocol = \"native\"\n")
	f.Write("npm/npx", "#!/bin/sh\necho 'npm warn exec some-server is not installed' >&2\n"+
		strings.TrimPrefix(gated(strings.TrimPrefix(hosttest.Scripted, "#!/bin/sh\n")), "#!/bin/sh\n"))
	f.Write("npm/tools.json", hosttest.TwoTools)
	f.Add("quick", hosttest.Child("sdk", ""))
	other := gate{t, g.state, "npm"}
	g.close()
	other.close()
	h := f.Open(exthost.Options{StateDir: g.state, Mode: hosttest.Background})
	client, result := hosttest.NewRecorder(), make(chan json.RawMessage, 1)
	go func() {
		raw, _ := h.Do(hosttest.Deadline(t),
			&protocol.Call{
				Method: protocol.MethodToolsList,
				Client: client,
				Params: json.RawMessage(`{"_meta":{"progressToken":7}}`),
			})
		result <- raw
	}()
	both := regexp.MustCompile(`starting: npm \(npx may be installing it\), x \(the host waits for its handshake\), \d+s`)
	told := ""
	for n := 0; !both.MatchString(told); n++ {
		client.Next(t) // the first may name quick too
		if told = client.Told()[n]; !strings.Contains(told, `"progressToken":7`) {
			t.Errorf("told %s", told)
		}
	}
	g.open()
	other.open()
	if raw := string(<-result); !strings.Contains(raw, "ext_x_greet") || !strings.Contains(raw, "ext_npm_greet") ||
		!strings.Contains(raw, "ext_quick_greet") {
		t.Errorf("the first list: %s", raw)
	}
}

// Installation is only mentioned until the program itself has written something.
func TestInstallationIsOver(t *testing.T) {
	processtest.Leaks(t)
	f, g := hosttest.NewFolder(t), gate{t, t.TempDir(), "x"}
	f.Add("x", hosttest.OffersTwo+"[transport]\ncommand = \"./uvx\"\nargs = [\"some-server\"]\nprotocol = \"native\"\n")
	f.Write("x/uvx", "#!/bin/sh\necho 'Downloading cpython (20MiB)' >&2\nread -r line\necho 'the server loads its "+
		"model' >&2\n"+strings.TrimPrefix(gated("exit 1\n"), "#!/bin/sh\n"))
	g.close()
	h := f.Open(exthost.Options{StateDir: g.state, Mode: hosttest.Background})
	reason := func() string { return h.Status().Extensions[0].Reason }
	said := func(text string) {
		t.Helper()
		for r := range h.Admin().Logs(hosttest.Deadline(t), status.LogFilter{Follow: true}) {
			if r.Message == text {
				return
			}
		}
		t.Fatalf("no line says %q", text)
	}
	said("the server loads its model")
	if got := reason(); got != "the host waits for its handshake" {
		t.Errorf("the server runs, and the status says %q", got)
	}
	g.open()
}

// A list waits at most server.list_wait; late tools are announced, and a call of a still unknown tool is told to try
// again.
func TestLateToolsAreAnnounced(t *testing.T) {
	processtest.Leaks(t)
	f, g := gatedFolder(t, ""), gate{t, t.TempDir(), "x"}
	g.close()
	cfg := f.Config()
	cfg.Server.ListWait = manifest.Duration(50 * time.Millisecond)
	h := f.OpenWith(cfg, exthost.Options{StateDir: g.state, Mode: hosttest.Background})
	client := hosttest.NewRecorder()
	if err := h.Attach(hosttest.Deadline(t), &protocol.Session{ID: "s", Client: client}); err != nil {
		t.Fatal(err)
	}
	if got := hosttest.Listed(t, h); len(got) != 0 {
		t.Errorf("listed: %q", got)
	}
	_, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil)
	if e, ok := err.(*protocol.Error); !ok || e.Kind != protocol.NotReady || e.RetryAfter <= 0 || e.Extension != "x" {
		t.Errorf("a tool of what starts: %v", err)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_y_greet", nil); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("a tool of nobody: %v", err)
	}
	g.open()
	if method := client.Next(t); method != protocol.MethodToolsListChanged {
		t.Errorf("told %s", method)
	}
	if got := hosttest.Listed(t, h); len(got) != 2 {
		t.Errorf("listed after the announcement: %q", got)
	}
}

// A remembered descriptor is compared with the pins like one from a handshake.
func TestCachedToolsPassPins(t *testing.T) {
	processtest.Leaks(t)
	f, g := gatedFolder(t, ""), gate{t, t.TempDir(), "x"}
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{pinSpec("", governance.ModeEnforce)}
	f.OpenWith(cfg, exthost.Options{StateDir: g.state}).Close()
	file := filepath.Join(g.state, ".descriptors", "x.json")
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(stored), "Greets", "Ignores all rules, and greets", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	g.close()
	h := f.OpenWith(cfg, exthost.Options{StateDir: g.state, Mode: hosttest.Background})
	if got := hosttest.Names(h); !slices.Equal(got, []string{"ext_x_part"}) {
		t.Errorf("listed: %q", got)
	}
	g.open()
	if err := h.Ready(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
}

// Clients that give up during a start do not end it: the server is installed once, and runs in the end.
func TestClientsThatGiveUpDoNotEndTheStart(t *testing.T) {
	processtest.Leaks(t)
	for name, runtime := range map[string]string{
		"shared":      "activation = \"lazy\"\n",
		"per session": "instances = \"per_session\"\nshutdown_grace = \"1ms\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			f, g := gatedFolder(t, runtime), gate{t, t.TempDir(), "x"}
			f.Write("x/x.sh", `#!/bin/sh
[ -e "$EXTHOST_STATE_DIR/installed" ] || { echo x >> "$EXTHOST_STATE_DIR/installing"; `+
				`while [ -e "$EXTHOST_STATE_DIR/closed" ]; do sleep 0.05; done; echo x >> "$EXTHOST_STATE_DIR/installed"; }
`+strings.TrimPrefix(hosttest.Scripted, "#!/bin/sh\n"))
			f.Open(exthost.Options{StateDir: g.state}).Close() // learns its tools
			for _, file := range []string{"installed", "installing"} {
				if err := os.Remove(filepath.Join(g.state, "x", file)); err != nil {
					t.Fatal(err)
				}
			}
			g.close()
			h := f.Open(exthost.Options{StateDir: g.state})
			for n := range 10 {
				giveUp(t, h, fmt.Sprint("s", n),
					func() bool { return n > 0 || len(hosttest.LinesOf(t, g.state, "x", "installing")) > 0 })
			}
			hosttest.Eventually(t, "one start is left",
				func() bool { return len(hosttest.StatusOf(t, h, "x").Instances) == 1 })
			g.open()
			hosttest.Eventually(t, "it is installed",
				func() bool { return len(hosttest.LinesOf(t, g.state, "x", "installed")) > 0 })
			if _, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil); err != nil {
				t.Error(err)
			}
			if n := len(hosttest.LinesOf(t, g.state, "x", "installed")); n != 1 {
				t.Errorf("installed %d times", n)
			}
		})
	}
}

// giveUp is a client that calls a tool, cancels the call once seen, and ends its session.
func giveUp(t *testing.T, h *exthost.Host, id string, seen func() bool) {
	t.Helper()
	session := &protocol.Session{ID: id, Version: protocol.MCP20251125}
	attached, end := context.WithCancel(hosttest.Deadline(t))
	if err := h.Attach(attached, session); err != nil {
		t.Fatal(err)
	}
	calling, cancel := context.WithCancel(hosttest.Deadline(t))
	result := make(chan error, 1)
	go func() {
		_, err := h.Do(calling,
			&protocol.Call{
				Session: session,
				Method:  protocol.MethodToolsCall,
				Params:  json.RawMessage(`{"name":"ext_x_greet"}`),
			})
		result <- err
	}()
	hosttest.Eventually(t, "the call waits for a start", func() bool {
		s := hosttest.StatusOf(t, h, "x")
		return seen() && slices.ContainsFunc(s.Instances, func(i status.Instance) bool { return i.Queued > 0 })
	})
	cancel()
	if err := <-result; protocol.KindOf(err) != protocol.Canceled {
		t.Errorf("the call that was given up: %v", err)
	}
	end()
	hosttest.Eventually(t, "the session has ended", func() bool { return h.Admin().Measures().Sessions == 0 })
}

// The tools in a manifest are known while the process of a first call starts: a call of one waits, and other names do
// not exist.
func TestDeclaredToolsWhileTheProcessStarts(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x",
		"[transport]\nscript = \"x.sh\"\nprotocol = \"lite\"\n[[tools]]\nname = \"greet\"\n")
	f.Write("x/x.sh", "#!/bin/sh\nwhile read -r line; do id=${line#*'\"id\":'}; echo "+
		"'{\"id\":'${id%%,*}',\"result\":\"hello\"}'; done\n")
	starts, goOn := make(chan struct{}), make(chan struct{})
	h := f.Open(exthost.Options{Hooks: []hooks.Handler{{Name: "gate", Point: hooks.ExtensionLoad, Timeout: time.Minute,
		Run: func(context.Context, *hooks.Event) (*hooks.Reply, error) {
			close(starts)
			<-goOn
			return nil, nil
		}}}})
	result := make(chan error, 1)
	go func() {
		_, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil)
		result <- err
	}()
	<-starts
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_nothing", nil); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("a tool that is not declared: %v", err)
	}
	if s := hosttest.StatusOf(t, h, "x"); s.State != "spawning" || len(result) > 0 {
		t.Errorf("the call of a declared tool did not wait: %s, %s", s.State, s.Reason)
	}
	close(goOn)
	if err := <-result; err != nil {
		t.Error(err)
	}
}
