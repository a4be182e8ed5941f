package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

// mirror is a backend that returns the params of each call.
type mirror struct{}

func (mirror) Attach(context.Context, *protocol.Session) error { return nil }

func (mirror) Do(_ context.Context, c *protocol.Call) (json.RawMessage, error) {
	return c.Params, nil
}

const benchCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` +
	"0123456789012345678901234567890123456789" + `"}}}`

// BenchmarkPost measures POST tools/call and a bare handler that echoes the body, alternately, and reports the ratio
// of the medians.
func BenchmarkPost(b *testing.B) {
	for name, size := range map[string]int{"100B": 40, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) { benchmarkPost(b, size) })
	}
}

func benchmarkPost(b *testing.B, size int) {
	body := strings.Replace(benchCall, "0123456789012345678901234567890123456789", strings.Repeat("x", size), 1)
	s := New(mirror{}, Options{})
	defer s.Close()
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler(""))
	mux.HandleFunc("/floor", func(w http.ResponseWriter, r *http.Request) {
		in, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(in)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	post := func(path, session, body string) (time.Duration, http.Header) {
		r, _ := http.NewRequest(http.MethodPost, server.URL+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Session-Id", session)
		began := time.Now()
		response, err := server.Client().Do(r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		return time.Since(began), response.Header
	}
	_, h := post("/mcp", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	session := h.Get("Mcp-Session-Id")
	var ours, floor []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		d, _ := post("/floor", "", body)
		floor = append(floor, d)
		d, _ = post("/mcp", session, body)
		ours = append(ours, d)
	}
	b.ReportMetric(float64(median(ours))/float64(median(floor)), "x-floor")
	b.ReportMetric(float64(median(ours).Nanoseconds()), "ns-p50")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkHandler measures the handler alone, without a network.
func BenchmarkHandler(b *testing.B) {
	s := New(mirror{}, Options{})
	defer s.Close()
	post := func(session, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/mcp", bytes.NewReader([]byte(body)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Session-Id", session)
		w := httptest.NewRecorder()
		s.Handler("").ServeHTTP(w, r)
		return w
	}
	session := post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`).Header().Get("Mcp-Session-Id")
	b.ReportAllocs()
	for b.Loop() {
		post(session, benchCall)
	}
}
