package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/interceptorpolicy/interceptortest"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// interceptors is a server whose validator refuses the name "no", and whose mutator masks
// Ada in results. The name "die" ends its process, "break" is an error of an interceptor
// that fails open, one in mode audit hangs at "slow", and with "change" the server goes over
// to a list that refuses all.
func interceptors() *interceptortest.Server {
	var strict atomic.Bool
	s := new(interceptortest.Server)
	s.List = func() string {
		if strict.Load() {
			return `[{"name":"strict","type":"validation","hooks":[{"events":["tools/call"],"phase":"request"}]}]`
		}
		return `[{"name":"names","type":"validation","hooks":[{"events":["tools/call"],"phase":"request"}]},
			{"name":"loose","type":"validation","failOpen":true,"hooks":[{"events":["tools/call"],"phase":"request"}]},
			{"name":"watch","type":"validation","mode":"audit","hooks":[{"events":["tools/call"],"phase":"request"}]},
			{"name":"mask","type":"mutation","hooks":[{"events":["tools/call"],"phase":"response"}]}]`
	}
	s.List = oneLine(s.List)
	s.Invoke = func(params json.RawMessage) (string, error) {
		interceptor, _ := rawjson.Text(rawjson.Get(params, "name"))
		payload := rawjson.Get(params, "payload")
		name, _ := rawjson.Text(rawjson.Get(rawjson.Get(payload, "arguments"), "name"))
		switch {
		case interceptor == "mask":
			return `{"modified":true,"payload":` + strings.ReplaceAll(string(payload), "Ada", "***") + `}`, nil
		case interceptor == "watch" && name == "slow":
			select {}
		case interceptor == "names" && name == "die":
			os.Exit(3)
		case interceptor == "loose" && name == "break":
			return "", errors.New("it is broken")
		case interceptor == "names" && name == "change":
			strict.Store(true)
			s.Changed()
		case interceptor == "names" && name == "no", interceptor == "watch" && name == "odd", interceptor == "strict":
			return fmt.Sprintf(`{"valid":false,"messages":[{"message":"%s is no name","severity":"error"}]}`, name), nil
		}
		return `{"valid":true}`, nil
	}
	return s
}

func oneLine(list func() string) func() string {
	return func() string { return strings.ReplaceAll(list(), "\n", "") }
}

func serveInterceptors(string) { _ = interceptors().Serve(os.Stdin, os.Stdout) } // until the host closes stdin

// intercepted opens a host over one extension with the interceptors of a server.
func intercepted(t *testing.T, server governance.MCP) *exthost.Host {
	t.Helper()
	s := governance.Spec{Name: "guard", Kind: governance.KindInterceptor, Required: true, MCP: &server}
	s.Normalize()
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Plugins, cfg.Experimental.Interceptors = []governance.Spec{s}, true
	return f.OpenWith(cfg, exthost.Options{})
}

func TestInterceptors(t *testing.T) {
	processtest.Leaks(t)
	h := intercepted(t, governance.MCP{
		Proto: governance.ProtoStdio,
		Cmd:   []string{hosttest.Exe(t)},
		Env:   map[string]string{processtest.ScriptVar: "interceptors"},
	})
	greeted := func(name, want string) {
		t.Helper()
		raw, err := h.Call(hosttest.Deadline(t), "ext_x_greet", map[string]any{"name": name})
		if err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("greet %s: %s, %v", name, raw, err)
		}
	}
	greeted("Ada", "Hello, ***!")
	err := hosttest.Greet(t, h, "no")
	if protocol.KindOf(err) != protocol.Rejected ||
		!strings.Contains(err.Error(), "policy guard: names: no is no name") {
		t.Errorf("denied: %v", err)
	}
	greeted("break", "Hello, break!")
	greeted("odd", "Hello, odd!")
	if s := h.Admin().Traces(1)[0].Steps[0]; !s.Ignored || s.Action != governance.Deny ||
		s.Reason != "watch: odd is no name" {
		t.Errorf("what watch would do is recorded as %+v", s)
	}
	// Of one that dies nothing is known, and its successor goes on.
	if err := hosttest.Greet(t, h, "die"); protocol.KindOf(err) != protocol.GovernanceUnavailable {
		t.Errorf("asked of one that dies: %v", err)
	}
	greeted("Ada", "Hello, ***!")
	if p := h.Status().Policies; len(p) != 1 || p[0].State != "ready" || p[0].Kind != governance.KindInterceptor ||
		p[0].Category != governance.Content || p[0].Process.Restarts != 1 {
		t.Errorf("status: %+v", p)
	}
	greeted("change", "Hello, change!")
	hosttest.Eventually(t, "the new list counts", func() bool { // the notification may be taken after the answer
		err := hosttest.Greet(t, h, "Ada")
		return protocol.KindOf(err) == protocol.Rejected && strings.Contains(err.Error(), "strict: Ada is no name")
	})
}

// An interceptor in mode audit that always hangs delays no call for long and ends none, nor its server.
func TestInterceptorThatHangs(t *testing.T) {
	processtest.Leaks(t)
	h := intercepted(t, governance.MCP{
		Proto: governance.ProtoStdio,
		Cmd:   []string{hosttest.Exe(t)},
		Env:   map[string]string{processtest.ScriptVar: "interceptors"},
	})
	var all sync.WaitGroup
	for range 64 { // as many as one process may have in flight
		all.Go(func() {
			if err := hosttest.Greet(t, h, "slow"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Error(err)
	}
	if p := h.Status().Policies[0]; p.Process.Restarts != 0 || p.Calls[0].Errors != 0 {
		t.Errorf("status: %+v", p)
	}
}

func TestInterceptorsOverHTTP(t *testing.T) {
	server := httptest.NewServer(interceptorsOverHTTP())
	defer server.Close()
	h := intercepted(t, governance.MCP{Proto: governance.ProtoStreamableHTTP, URL: server.URL})
	for _, step := range []struct {
		name string
		want protocol.Kind
	}{{"no", protocol.Rejected}, {"Ada", ""}, {"change", ""}, {"Ada", protocol.Rejected}} {
		if err := hosttest.Greet(t, h, step.name); protocol.KindOf(err) != step.want {
			t.Errorf("greet %s: %v, want %q", step.name, err, step.want)
		}
	}
}

// A policy whose server is down when the host starts lets nothing pass, and decides the next call once
// the server is there.
func TestRemotePolicyThatComesLater(t *testing.T) {
	processtest.Leaks(t)
	address := "127.0.0.1:" + processtest.FreePorts(t, 1)[0]
	h := intercepted(t, governance.MCP{Proto: governance.ProtoStreamableHTTP, URL: "http://" + address})
	if err := hosttest.Greet(t, h, "Ada"); protocol.KindOf(err) != protocol.GovernanceUnavailable {
		t.Errorf("a call without the server: %v", err)
	}
	hosttest.Eventually(t, "the status has the time of the next try", func() bool {
		p := h.Status().Policies[0]
		return p.State == "restarting" && p.Process.Instances[0].NextRetry != nil
	})
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: interceptorsOverHTTP()}}
	server.Start()
	defer server.Close()
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Errorf("the first call once the server is there: %v", err)
	}
	if err := hosttest.Greet(t, h, "no"); protocol.KindOf(err) != protocol.Rejected {
		t.Errorf("a call that the policy refuses: %v", err)
	}
}

// interceptorsOverHTTP serves interceptors over streamable HTTP.
func interceptorsOverHTTP() http.Handler {
	s := interceptors()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		message, _ := io.ReadAll(r.Body)
		answer := s.Answer(message)
		if answer == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if strings.Contains(string(message), `"change"`) { // the stream of a call tells of the change
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", interceptortest.ListChanged, answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
}

// A server that is none, and one that is not switched on, let nothing pass.
func TestInterceptorsThatCannotBeUsed(t *testing.T) {
	processtest.Leaks(t)
	h := intercepted(t, governance.MCP{
		Proto: governance.ProtoStdio,
		Cmd:   []string{hosttest.Exe(t)},
		Env:   map[string]string{processtest.ScriptVar: "mcp"},
	})
	if err := hosttest.Greet(t, h, "Ada"); protocol.KindOf(err) != protocol.GovernanceUnavailable {
		t.Errorf("a call: %v", err)
	}
	if p := h.Status().Policies[0]; p.State != "failed" ||
		!strings.Contains(p.Reason, "does not know interceptors/list") {
		t.Errorf("status: %+v", p)
	}
	cfg := config.Default()
	cfg.Plugins = []governance.Spec{
		{
			Name: "p",
			Kind: governance.KindInterceptor,
			MCP:  &governance.MCP{Proto: governance.ProtoStdio, Cmd: []string{"x"}},
		},
	}
	if _, err := exthost.Open(hosttest.Deadline(t), cfg,
		exthost.Options{StateDir: t.TempDir()}); protocol.KindOf(err) != protocol.ConfigInvalid ||
		!strings.Contains(err.Error(), "policy p: kind: interceptor is experimental and not switched on") {
		t.Errorf("Open: %v", err)
	}
}
