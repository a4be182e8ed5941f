package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

// bearing adds a token to a client's requests.
type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Official clients with a toolset of their own, with the server's and with none see exactly their toolset, in
// legacy and modern versions.
func TestToolsetHidesFromClients(t *testing.T) {
	processtest.Leaks(t)
	none := ""
	toolsets := map[string]config.Toolset{
		"alpha": {Include: []string{"ext_alpha_*"}, Prefix: &none},
		"beta":  {Include: []string{"ext_beta_*"}},
	}
	f := hosttest.NewFolder(t).Add("alpha", hosttest.Plays("shown older", "protocol = \"mcp\"\n")).Add("beta",
		hosttest.Plays("shown newer", "protocol = \"mcp\"\n"))
	cfg := f.Config()
	ada := clienttoken.New()
	hash := clienttoken.Hash(ada)
	cfg.Toolsets, cfg.Server.Clients = toolsets, map[string]config.Client{"ada": {TokenHash: hash, Toolset: "alpha"}}
	h := f.OpenWith(cfg, exthost.Options{})
	options := httpserver.Options{
		Backend:       h,
		Serves:        h.Serves,
		Toolsets:      h.Toolsets(),
		Clients:       h.Clients(),
		Token:         "a-token-of-twenty-letters",
		OperatorToken: "the-operators-own-token",
		Metrics:       httpserver.Metrics(h),
	}
	free := hosttest.ServeOptions(t, options)
	options.Toolset = "beta"
	confined := hosttest.ServeOptions(t, options)
	for _, c := range []struct {
		token, url, first, refused string // first: one of the listed tools
	}{
		{ada, free + "/mcp", "alpha_later", ""}, {ada, free + "/t/alpha/mcp", "alpha_later", ""},
		{ada, free + "/alpha/mcp", "later", ""}, {ada, confined + "/mcp", "alpha_later", ""},
		{ada, free + "/t/beta/mcp", "", "403"}, {ada, free + "/t/none/mcp", "", "403"},
		{ada, free + "/beta/mcp", "", "404"}, {ada, free + "/none/mcp", "", "404"},
		{"a-token-of-twenty-letters", free + "/mcp", "ext_alpha_later", ""},
		{"a-token-of-twenty-letters", free + "/t/beta/mcp", "ext_beta_later", ""},
		{"a-token-of-twenty-letters", free + "/t/betta/mcp", "", "404"},
		{"a-token-of-twenty-letters", confined + "/mcp", "ext_beta_later", ""},
		{"a-token-of-twenty-letters", confined + "/t/alpha/mcp", "", "403"},
		{"a-token-of-twenty-letters", confined + "/alpha/mcp", "", "404"},
	} {
		for _, version := range []string{protocol.MCP20251125, protocol.MCP20260728} {
			client := &http.Client{Transport: bearing(c.token)}
			if c.refused != "" {
				if got := answeredWith(t, client, c.url); got != c.refused {
					t.Errorf("%s is answered %s, want %s", c.url, got, c.refused)
				}
				continue
			}
			s, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(hosttest.Deadline(t),
				&mcp.StreamableClientTransport{Endpoint: c.url, HTTPClient: client},
				&mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Errorf("%s %s: %v", c.url, version, err)
				continue
			}
			list, err := s.ListTools(hosttest.Deadline(t), nil)
			if err != nil || len(list.Tools) == 0 || list.Tools[0].Name != c.first {
				t.Errorf("%s %s lists %+v, %v", c.url, version, list, err)
			}
			if strings.Contains(c.first, "alpha_") && c.first != "ext_alpha_later" {
				if s.InitializeResult().Capabilities.Prompts == nil {
					t.Error("no prompts are offered")
				}
				got, err := s.ReadResource(hosttest.Deadline(t), &mcp.ReadResourceParams{URI: "note://beta/a"})
				if err == nil {
					t.Errorf("a resource of beta: %+v", got)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	// Metrics count what toolsets hide.
	for _, c := range []struct {
		token, url string
		want       int
	}{
		{ada, free, 403},
		{ada, confined, 403},
		{"a-token-of-twenty-letters", free, 200},
		{"a-token-of-twenty-letters", confined, 403},
		{"the-operators-own-token", confined, 200},
	} {
		r, err := (&http.Client{Transport: bearing(c.token)}).Get(c.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		if r.Body.Close(); r.StatusCode != c.want || strings.Contains(string(body), "beta") != (c.want == 200) {
			t.Errorf("the metrics of %s are answered %s: %s", c.url, r.Status, body)
		}
	}
	// A session of one toolset is unknown at another.
	r := post(t, free+"/t/alpha/mcp", initializeFrame,
		http.Header{"Authorization": {"Bearer a-token-of-twenty-letters"}}, make(chan string, 10))
	id := r.Header.Get("Mcp-Session-Id")
	for path, want := range map[string]int{"/t/alpha/mcp": 200, "/t/beta/mcp": 404, "/mcp": 404} {
		r := post(t, free+path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			http.Header{"Authorization": {"Bearer a-token-of-twenty-letters"}, "Mcp-Session-Id": {id}},
			make(chan string, 10))
		if r.StatusCode != want {
			t.Errorf("%s with a session of alpha: %s", path, r.Status)
		}
	}
	// Changing a client's toolset ends its open sessions.
	until, _ := h.Clients().ByName("ada")
	h.Clients().Set(map[string]config.Client{"ada": {TokenHash: hash, Toolset: "beta"}})
	<-until.Done()
}

const initializeFrame = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// answeredWith returns the HTTP status of the response to initialize.
func answeredWith(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	r, _ := http.NewRequestWithContext(hosttest.Deadline(t), http.MethodPost, url, strings.NewReader(initializeFrame))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if strings.Contains(string(body), "ext_") {
		t.Errorf("%s: %s", url, body)
	}
	return answer.Status[:3]
}

// A reload that changes a toolset notifies its sessions, which then see the new content; sessions of other
// toolsets hear nothing. A removed toolset shows nothing.
func TestToolsetHidesAfterAReload(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("alpha", hosttest.Plays("shown older", "protocol = \"mcp\"\n")).Add("beta",
		hosttest.Plays("shown newer", "protocol = \"mcp\"\n"))
	with := func(pattern string) *config.Config {
		cfg := f.Config()
		cfg.Toolsets = map[string]config.Toolset{"all": {}}
		if pattern != "" {
			cfg.Toolsets["one"] = config.Toolset{Include: []string{pattern}}
		}
		return cfg
	}
	var next atomic.Pointer[config.Config]
	next.Store(with("ext_beta_*"))
	h := f.OpenWith(with("ext_alpha_*"),
		exthost.Options{Reread: func() (*config.Config, error) { return next.Load(), nil }})
	visit := func(toolset string) (*protocol.Session, *hosttest.Recorder) {
		client := hosttest.NewRecorder()
		s := &protocol.Session{
			ID:           toolset,
			Version:      protocol.MCP20251125,
			Toolset:      toolset,
			Client:       client,
			Capabilities: json.RawMessage(`{}`),
		}
		if err := h.Attach(hosttest.Deadline(t), s); err != nil {
			t.Fatal(err)
		}
		return s, client
	}
	one, told := visit("one")
	_, others := visit("all")
	called := func(tool string) error {
		_, err := doAs(t, h, one, "", "tools/call", `{"name":"`+tool+`","arguments":{}}`)
		return err
	}
	if called("ext_alpha_read") != nil || called("ext_beta_read") == nil {
		t.Error("not what the toolset shows first")
	}
	task, err := doAs(t, h, one, "", "tools/call", `{"name":"ext_alpha_later","arguments":{},"task":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	asked := func() error {
		_, err := doAs(t, h, one, "", "tasks/get", `{"taskId":"alpha-t1"}`)
		return err
	}
	if err := asked(); err != nil {
		t.Errorf("its task %s: %v", task, err)
	}
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	if called("ext_alpha_read") == nil || called("ext_beta_read") != nil {
		t.Error("not what the toolset shows now")
	}
	if err := asked(); err == nil || !strings.Contains(err.Error(), "there is no task") {
		t.Errorf("the task of a hidden tool: %v", err)
	}
	heard := map[string]bool{}
	for !heard["notifications/tools/list_changed"] || !heard["notifications/prompts/list_changed"] ||
		!heard["notifications/resources/list_changed"] {
		select {
		case method := <-told.On:
			heard[method] = true
		case <-hosttest.Deadline(t).Done():
			t.Fatalf("heard %v", heard)
		}
	}
	next.Store(with(""))
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := called("ext_beta_read"); err == nil || !strings.Contains(err.Error(), "there is no toolset") {
		t.Errorf("the toolset is gone: %v", err)
	}
	if _, err := doAs(t, h, one, "", "tools/list", `{}`); err == nil {
		t.Error("a toolset that is gone lists tools")
	}
	if err := h.Attach(hosttest.Deadline(t), &protocol.Session{ID: "late", Toolset: "al"}); err == nil ||
		!strings.Contains(err.Error(), `did you mean "all"`) {
		t.Errorf("a misspelled toolset: %v", err)
	}
	if now := others.Told(); len(now) > 0 {
		t.Errorf("clients of another toolset hear %q", now)
	}
}

// BenchmarkToolset compares calls and lists of a session whose toolset has half of 10,000 tools with a session
// without a toolset. The metrics are the ratios of the medians.
func BenchmarkToolset(b *testing.B) {
	none := ""
	cfg := hosttest.NewFolder(b)
	cfg.Add("x", hosttest.Child("sdk", ""))
	for i := range 100 {
		text := "[transport]\nkind = \"exec\"\ncommand = \"true\"\n"
		for j := range 100 {
			text += fmt.Sprintf("[[tools]]\nname = \"query_%d\"\ndescription = \"Finds records.\"\ncommand = "+
				"[\"true\"]\n", j)
		}
		cfg.Add(fmt.Sprintf("many%02d", i), text)
	}
	c := cfg.Config()
	c.Toolsets = map[string]config.Toolset{
		"one": {
			Include: []string{"ext_x_*", "ext_many*"},
			Exclude: []string{"*_wait", "ext_many?[0-4]_*"},
			Prefix:  &none,
		},
	}
	h := cfg.OpenWith(c, exthost.Options{})
	request := func(s *protocol.Session, method, params string) func() {
		return func() {
			_, err := h.Do(context.Background(),
				&protocol.Call{Session: s, Method: method, Params: json.RawMessage(params)})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	with, without := &protocol.Session{Toolset: "one"}, &protocol.Session{}
	pairs := [][2]func(){
		{request(with, protocol.MethodToolsCall, `{"name":"x_greet","arguments":{"name":"Ada"}}`),
			request(without, protocol.MethodToolsCall, `{"name":"ext_x_greet","arguments":{"name":"Ada"}}`)},
		{request(with, protocol.MethodToolsList, ""), request(without, protocol.MethodToolsList, "")},
	}
	var took [2][2]stormtest.Durations
	for first := 0; b.Loop(); first = 1 - first { // alternate: the first one finds colder caches
		for n, pair := range pairs {
			for _, side := range []int{first, 1 - first} {
				began := time.Now()
				pair[side]()
				took[n][side] = append(took[n][side], time.Since(began))
			}
		}
	}
	for n, metric := range []string{"x-call", "x-list"} {
		b.ReportMetric(float64(took[n][0].Quantile(0.5))/float64(took[n][1].Quantile(0.5)), metric)
	}
	shown, err := h.Toolsets().Tools("one")
	if err != nil || len(h.Tools().Entries()) < 10_000 {
		b.Fatalf("%v, %d tools", err, len(h.Tools().Entries()))
	}
	b.ReportMetric(float64(len(shown.Entries())), "tools")
}
