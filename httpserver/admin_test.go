package httpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// askAdmin sends a request and decodes the answer.
func askAdmin(t *testing.T, s *httptest.Server, method, path, body string, into any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if raw, ok := into.(*string); ok {
		*raw = string(data)
	} else if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			t.Errorf("%s %s: %v in %s", method, path, err, data)
		}
	}
	return resp.StatusCode
}

func TestAdminAPI(t *testing.T) {
	s, _ := adminServer(t)
	var text string
	const sent = `{"n":12345678901234567890,"x":"<&>"}`
	if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_say/call", sent, &text); code != http.StatusOK ||
		!strings.Contains(text, `12345678901234567890`) {
		t.Errorf("call: %d %s", code, text)
	}
	var status status.Status
	if code := askAdmin(t, s, "GET", "/api/v1/status", "", &status); code != http.StatusOK ||
		status.Host.PID != os.Getpid() || status.Extensions[0].Calls != 1 {
		t.Errorf("status: %d %+v", code, status)
	}
	var list struct{ Tools []Tool }
	if code := askAdmin(t, s, "GET", "/api/v1/tools?extension=kit", "", &list); code != http.StatusOK ||
		len(list.Tools) != 5 || list.Tools[4].Name != "ext_kit_say" {
		t.Errorf("tools: %d %+v", code, list)
	}
	if code := askAdmin(t, s, "GET", "/api/v1/tools?extension=other", "", &list); code != http.StatusOK ||
		len(list.Tools) != 0 {
		t.Errorf("tools of nobody: %d %+v", code, list)
	}
	var tool Tool
	if code := askAdmin(t, s, "GET", "/api/v1/tools/ext_kit_say", "", &tool); code != http.StatusOK ||
		!strings.Contains(string(tool.Descriptor), `"inputSchema"`) {
		t.Errorf("tool: %d %+v", code, tool)
	}
	if code := askAdmin(t, s, "POST", "/api/v1/extensions/kit/restart", "", &text); code != http.StatusNoContent {
		t.Errorf("restart: %d %s", code, text)
	}
}

// Every spelling of true makes a dry run, which changes nothing.
func TestReloadTakesADryRunForOne(t *testing.T) {
	s, h := adminServer(t)
	reloads := 0
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for e := range h.Admin().Events(ctx, status.EventReload, status.EventApprovals) {
			if e.Kind == status.EventApprovals { // always the first event
				close(listening)
				continue
			}
			reloads++
		}
	}()
	<-listening
	for _, spelt := range []string{"true", "1", "True"} {
		if code := askAdmin(t, s, "POST", "/api/v1/reload?dry_run="+spelt, "", nil); code != http.StatusOK {
			t.Errorf("dry_run=%s: %d", spelt, code)
		}
	}
	cancel()
	<-ended
	if reloads != 0 {
		t.Errorf("the host was reloaded %d times", reloads)
	}
}

func TestAdminFaults(t *testing.T) {
	s, _ := adminServer(t)
	for _, tt := range []struct {
		method, path, body string
		code               int
		kind               protocol.Kind
	}{
		{"GET", "/api/v1/tools/nothing", "", 404, protocol.ToolNotFound},
		{"POST", "/api/v1/tools/nothing/call", "{}", 404, protocol.ToolNotFound},
		{"POST", "/api/v1/tools/ext_kit_say/call", "{", 400, protocol.InvalidArguments},
		{"POST", "/api/v1/tools/ext_kit_die/call", "{}", 502, protocol.ChildExited},
		{"POST", "/api/v1/extensions/kitt/restart", "", 404, protocol.ToolNotFound},
		{"GET", "/api/v1/logs?level=loud", "", 400, protocol.InvalidArguments},
		{"GET", "/api/v1/logs?last=many", "", 400, protocol.InvalidArguments},
		{"GET", "/api/v1/logs?last=-1", "", 400, protocol.InvalidArguments},
		{"GET", "/api/v1/logs?follow=perhaps", "", 400, protocol.InvalidArguments},
		{"POST", "/api/v1/reload?dry_run=perhaps", "", 400, protocol.InvalidArguments},
	} {
		var failed struct{ Error *Fault }
		code := askAdmin(t, s, tt.method, tt.path, tt.body, &failed)
		if code != tt.code || failed.Error == nil || protocol.KindOf(failed.Error.Err()) != tt.kind {
			t.Errorf("%s %s: %d %+v", tt.method, tt.path, code, failed.Error)
		}
		if tt.kind != protocol.ChildExited || failed.Error == nil {
			continue
		}
		var e *protocol.Error
		if !errors.As(failed.Error.Err(), &e) || e.Tool != "ext_kit_die" || e.Outcome != "unknown" ||
			e.Evidence.Signal != "SIGKILL" ||
			!cmp.Equal(e.Evidence.Stderr, []string{"last words"}) {
			t.Errorf("the evidence of %v: %+v", e, e.Evidence)
		}
	}
	for _, path := range []string{"/api/v1/extensions/kit/restart", "/api/v1/tools/ext_kit_say/call"} {
		if code := askAdmin(t, s, "GET", path, "", nil); code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, code)
		}
	}
}

// events reads server-sent events.
type events struct{ lines *bufio.Reader }

// next returns the next record; false at the end of the stream.
func (e *events) next(t *testing.T) (r status.LogRecord, ok bool) {
	t.Helper()
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			return r, false
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &r); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			return r, true
		}
	}
}

func openLogs(t *testing.T, s *httptest.Server, ctx context.Context, query string) (*events, io.Closer) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/logs"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the log is %s", kind)
	}
	return &events{bufio.NewReader(resp.Body)}, resp.Body
}

func TestAdminLogs(t *testing.T) {
	s, _ := adminServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	follower, body := openLogs(t, s, ctx, "?follow=true&extension=kit")
	defer body.Close()
	call := func() {
		t.Helper()
		if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_say/call", "{}", nil); code != http.StatusOK {
			t.Fatalf("call: %d", code)
		}
	}
	for range 3 { // each line arrives while the stream is open
		call()
		if r, ok := follower.next(t); !ok || r.Message != "careful" || r.Extension != "kit" ||
			r.Level != slog.LevelWarn {
			t.Fatalf("%+v, %v", r, ok)
		}
	}
	for query, want := range map[string]int{
		"":                           3,
		"?last=2":                    2,
		"?last=0":                    0,
		"?level=error":               0,
		"?level=trace&extension=kit": 3,
		"?extension=other":           0,
	} {
		got := 0
		kept, body := openLogs(t, s, ctx, query)
		for r, ok := kept.next(t); ok; r, ok = kept.next(t) {
			if r.Extension == "kit" {
				got++
			}
		}
		body.Close()
		if got != want {
			t.Errorf("logs%s: %d records of kit, want %d", query, got, want)
		}
	}
}

// The streams end with the host, after their last event.
func TestAdminLogsEndWithTheHost(t *testing.T) {
	s, h := adminServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	follower, body := openLogs(t, s, ctx, "?follow=true")
	defer body.Close()
	if code := askAdmin(t, s, "POST", "/api/v1/extensions/kit/restart", "", nil); code != http.StatusNoContent {
		t.Fatalf("restart: %d", code)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	var last status.LogRecord
	for r, ok := follower.next(t); ok; r, ok = follower.next(t) {
		last = r
	}
	if ctx.Err() != nil || last.Message != "restarted by the operator" {
		t.Errorf("%v; the last record is %+v", ctx.Err(), last)
	}
	var failed struct{ Error *Fault }
	if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_say/call", "{}",
		&failed); code != http.StatusServiceUnavailable || failed.Error.Kind != protocol.ShuttingDown {
		t.Errorf("a call after that: %d %+v", code, failed.Error)
	}
}
