package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster"
	"github.com/exthost/exthost/config"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/internal/stormtest/entries"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

// patience bounds every wait of a test; none is expected to last.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if _, scripted := os.LookupEnv(processtest.ScriptVar); scripted {
		processtest.Main(m, map[string]processtest.Verb{
			"extension": func(string) { os.Exit(extension().Main()) },
			"natsd":     natsd,
			"node":      serveNode,
			"answer":    answer,
			"caller":    caller,
			"home":      serveHome,
		})
	}
	os.Exit(m.Run())
}

// extension is what nodes share.
func extension() *sdk.Extension {
	x := sdk.New("1.0.0")
	sdk.AddTool(x, sdk.Tool{Name: "echo", Description: "Returns its arguments.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, in json.RawMessage) (protocol.ToolResult, error) {
			return protocol.ToolResult(`{"content":[],"structuredContent":` + string(in) + `}`), nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "note", Description: "Notes a text in a file, and answers when told to."},
		func(ctx context.Context, in struct {
			File string `json:"file"`
			Text string `json:"text"`
			Wait bool   `json:"wait,omitempty"`
			Die  bool   `json:"die,omitempty"`
		}) (string, error) {
			f, err := os.OpenFile(in.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			defer f.Close()
			if err := entries.Add(f, in.Text); err != nil {
				return "", err
			}
			if in.Die {
				os.Exit(3)
			}
			if in.Wait {
				<-ctx.Done()
				_ = entries.Add(f, in.Text+" cancelled")
			}
			return "noted " + in.Text, nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "work", Description: "Reports progress."},
		func(ctx context.Context, _ struct{}) (string, error) {
			for i := range 3 {
				sdk.Progress(ctx, float64(i+1), 3, "step")
			}
			return "done", nil
		})
	sdk.AddTool(x, sdk.Tool{Name: "die", Description: "Ends its process."},
		func(context.Context, struct{}) (string, error) { os.Exit(3); return "", nil })
	return x
}

// natsd is a NATS server as a process: its words are its port, that of its routes, and those of
// the routes of others.
func natsd(words string) {
	fields := strings.Fields(words)
	port, _ := strconv.Atoi(fields[0])
	routes, _ := strconv.Atoi(fields[1])
	o := &server.Options{ServerName: "s" + fields[0], Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true}
	o.Cluster.Name, o.Cluster.Host, o.Cluster.Port = "test", "127.0.0.1", routes
	for _, other := range fields[2:] {
		u, _ := url.Parse("nats://127.0.0.1:" + other)
		o.Routes = append(o.Routes, u)
	}
	s, err := server.NewServer(o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		os.Exit(1)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
}

// answer returns the bodies of requests, until stdin ends.
func answer(server string) {
	conn, err := nats.Connect(server)
	if err == nil {
		_, err = conn.Subscribe("answer", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = conn.Flush()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	conn.Close()
}

// child is a process of the test.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

// spawn starts the test binary as a script, and waits until it is ready.
func spawn(t testing.TB, script string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(exe(t))}
	c.cmd.Env = append(os.Environ(), processtest.ScriptVar+"="+script)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.stdin, c.out = in, bufio.NewReader(out)
	t.Cleanup(c.kill)
	if line, err := c.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%s: %q, %v", script, line, err)
	}
	return c
}

// stop ends the process as its operator does.
func (c *child) stop(t testing.TB) {
	t.Helper()
	_ = c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the end of a process: %v", err)
	}
}

// kill ends the process with SIGKILL.
func (c *child) kill() { c.end(syscall.SIGKILL) }

func (c *child) end(s os.Signal) {
	_ = c.cmd.Process.Signal(s)
	_ = c.cmd.Wait() // killed already, or now
}

func exe(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ports returns n ports that were free a moment ago.
func ports(t testing.TB, n int) (list []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		list = append(list, port)
	}
	return list
}

// servers are NATS servers that know each other.
type servers struct {
	t      testing.TB
	ports  []string
	routes []string
	all    []*child
}

func startServers(t testing.TB, n int) *servers {
	t.Helper()
	free := ports(t, 2*n)
	s := &servers{t: t, ports: free[:n], routes: free[n:], all: make([]*child, n)}
	for i := range n {
		s.start(i)
	}
	return s
}

func (s *servers) start(i int) {
	s.t.Helper()
	s.all[i] = spawn(s.t, "natsd "+s.ports[i]+" "+s.routes[i]+" "+strings.Join(s.routes, " "))
}

func (s *servers) urls() (list []string) {
	for _, port := range s.ports {
		list = append(list, "nats://127.0.0.1:"+port)
	}
	return list
}

// join makes a node of a cluster over servers.
func join(t testing.TB, urls []string, name, as string) *cluster.Node {
	t.Helper()
	n, err := cluster.New(nodeOptions(urls, name, as))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nodeOptions(urls []string, name, as string) cluster.Options {
	m := settings.Default()
	if name == "quick" {
		m.Silence = manifest.Duration(quick)
	}
	m.URLs, m.Node, m.Share = urls, name, []settings.Sharing{{Extensions: []string{"*"}, As: as}}
	return cluster.Options{Settings: m, Version: "0.0.1", Log: logger()}
}

func logger() *slog.Logger {
	if os.Getenv("CLUSTER_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// open opens a host of the extension x, with or without it.
func open(t testing.TB, n *cluster.Node, shares bool, change ...func(*config.Config)) *exthost.Host {
	t.Helper()
	h, err := openHost(n, t.TempDir(), exe(t), shares, change...)
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

func openHost(n *cluster.Node, dir, exe string, shares bool, change ...func(*config.Config)) (*exthost.Host, error) {
	cfg := config.Default()
	for _, f := range change {
		f(cfg)
	}
	cfg.Extensions.SearchPaths = []string{filepath.Join(dir, "extensions")}
	if shares {
		manifest := fmt.Sprintf("[plugin]\nid = \"x\"\nversion = \"1.0.0\"\n[capabilities]\ntools = [\"echo\", \"note\", \"work\", \"die\"]\n[transport]\ncommand = %q\nenv = { %s = \"extension\" }\n[runtime]\nreplay = \"idempotent\"\n", exe, processtest.ScriptVar)
		path := filepath.Join(dir, "extensions", "x")
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(path, "plugin.toml"), []byte(manifest), 0o644); err != nil {
			return nil, err
		}
	}
	o := exthost.Options{StateDir: filepath.Join(dir, "state"), Logger: logger()}
	if n != nil {
		o.Cluster = n
	}
	return exthost.Open(context.Background(), cfg, o)
}

// serveNode is a node that shares the extension as a process: its words are its name, how it
// shares, and the servers.
func serveNode(words string) {
	fields := strings.Fields(words)
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	dir, err := os.MkdirTemp("", "node")
	fail(err)
	defer os.RemoveAll(dir)
	n, err := cluster.New(nodeOptions(fields[2:], fields[0], fields[1]))
	fail(err)
	path, err := os.Executable()
	fail(err)
	h, err := openHost(n, dir, path, true)
	fail(err)
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	fail(h.Close())
}

// caller is a node that makes one call, which its process does not outlive: its words are the
// servers, and behind a bar the tool and its arguments.
func caller(words string) {
	urls, call, _ := strings.Cut(words, " | ")
	tool, args, _ := strings.Cut(call, " ")
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	dir, err := os.MkdirTemp("", "caller")
	fail(err)
	n, err := cluster.New(nodeOptions(strings.Fields(urls), "caller", settings.ShareMine))
	fail(err)
	h, err := openHost(n, dir, "", false)
	fail(err)
	for _, ok := h.Tools().Lookup(tool); !ok; _, ok = h.Tools().Lookup(tool) {
		time.Sleep(5 * time.Millisecond) // a test waits for this process
	}
	fmt.Println("ready")
	_, err = h.Call(context.Background(), tool, json.RawMessage(args))
	fail(err)
}

// quick shortens what a node waits for one that is silent. Only for tests in which no node that
// matters may be slow.
const quick = 3 * time.Second

// startNode starts serveNode.
func startNode(t testing.TB, urls []string, name, as string) *child {
	t.Helper()
	return spawn(t, "node "+name+" "+as+" "+strings.Join(urls, " "))
}

// eventually polls for what cannot be awaited from outside.
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

// awaitTool waits until a host lists a tool, or lists it no more.
func awaitTool(t testing.TB, h *exthost.Host, name string, listed bool) {
	t.Helper()
	eventually(t, name, func() bool {
		_, ok := h.Tools().Lookup(name)
		return ok == listed
	})
}
