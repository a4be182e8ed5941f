package httpserver

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// toolsEach is the number of tools per extension of crowded. Their descriptors are as long as those of common
// servers.
const toolsEach = 100

// manifestOfMany is the part of a manifest about one of many tools.
const manifestOfMany = `[[tools]]
name = "query_records_%03d"
description = "Finds the records of table %d that have the value, newest first, and returns them page by page."
command = ["true"]
annotations = { readOnlyHint = true }
[tools.input_schema]
type = "object"
required = ["value"]
[tools.input_schema.properties]
value = { type = "string", description = "The text to look for, with * as a wildcard." }
limit = { type = "integer", minimum = 1, maximum = 100, description = "How many records to return." }
cursor = { type = "string", description = "Where the page before has ended." }
`

// crowded opens a host with an extension that echoes, and extensions with n tools together that never run.
func crowded(tb testing.TB, n int) *exthost.Host {
	tb.Helper()
	dir := tb.TempDir()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	writeManifest(tb, dir, "x",
		fmt.Sprintf("[plugin]\nid = \"x\"\nversion = \"1.0.0\"\n[capabilities]\ntools = "+
			"[\"echo\"]\n[transport]\ncommand = %q\nenv = { %s = \"echo\" }\n", exe, processtest.ScriptVar))
	for i := 0; i*toolsEach < n; i++ {
		id := fmt.Sprintf("many%03d", i)
		text := fmt.Sprintf("[plugin]\nid = %q\nversion = \"1.0.0\"\n[transport]\nkind = \"exec\"\ncommand = "+
			"\"true\"\n", id)
		for j := range min(n-i*toolsEach, toolsEach) {
			text += fmt.Sprintf(manifestOfMany, j, j)
		}
		writeManifest(tb, dir, id, text)
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{dir}
	h := openHost(tb, cfg, exthost.Options{})
	if got := len(h.Tools().Entries()); got != n+1 {
		tb.Fatalf("%d tools, want %d: %v", got, n+1, h.Status().Diagnostics)
	}
	return h
}

// lister lists tools over one connection.
type lister struct {
	conn         net.Conn
	in           *bufio.Reader
	body         bytes.Buffer // of the latest answer
	header, meta string       // of each request
}

// dialLister connects, and opens a session unless modern.
func dialLister(tb testing.TB, addr string, modern bool) *lister {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	l := &lister{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	if modern {
		l.header = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"
		l.meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}}`
		return l
	}
	header, err := l.post(initialize)
	if err == nil {
		l.header, l.meta = "Mcp-Session-Id: "+header.Get("Mcp-Session-Id")+
			"\r\nMcp-Protocol-Version: 2025-11-25\r\n", `"_meta":{}`
		_, err = l.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// post posts a body and reads the answer.
func (l *lister) post(body string) (http.Header, error) {
	if _, err := fmt.Fprintf(l.conn,
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, "+
			"text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s",
		l.header, len(body), body); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(l.in, nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	l.body.Reset()
	if _, err := l.body.ReadFrom(r.Body); err != nil {
		return nil, err
	}
	if r.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s", r.Status, l.body.Bytes())
	}
	return r.Header, nil
}

// page lists one page and returns it with the next cursor.
func (l *lister) page(cursor string) (page []byte, next string, err error) {
	params := "{" + l.meta
	if cursor != "" {
		params += `,"cursor":"` + cursor + `"`
	}
	_, err = l.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + params + "}}")
	return l.body.Bytes(), nextCursor(l.body.Bytes()), err
}

// nextCursor finds the cursor at the end of a page without parsing it.
func nextCursor(page []byte) string {
	_, after, _ := bytes.Cut(page[max(0, len(page)-128):], []byte(`"nextCursor":"`))
	cursor, _, _ := bytes.Cut(after, []byte(`"`))
	return string(cursor)
}

// pages calls page for every page of a list, and returns their number and total bytes.
func pages(page func(cursor string) ([]byte, string, error)) (n, size int, err error) {
	for cursor := ""; ; {
		var body []byte
		if body, cursor, err = page(cursor); err != nil || !bytes.Contains(body, []byte(`"tools":[{`)) {
			return n, size, fmt.Errorf("%w: %.300s", cmp.Or(err, errors.New("no list")), body)
		}
		if n, size = n+1, size+len(body); cursor == "" {
			return n, size, nil
		}
	}
}

// inLibrary lists a page by [exthost.Host.Do].
func inLibrary(h *exthost.Host) func(cursor string) ([]byte, string, error) {
	return func(cursor string) ([]byte, string, error) {
		params := json.RawMessage("{}")
		if cursor != "" {
			params = rawjson.Set(params, "cursor", rawjson.Quote(cursor))
		}
		result, err := h.Do(context.Background(), &protocol.Call{Method: protocol.MethodToolsList, Params: params})
		return result, nextCursor(result), err
	}
}

// serveBytes serves the pages of h as bytes: the minimal cost for any server.
func serveBytes(tb testing.TB, h *exthost.Host) (addr string) {
	tb.Helper()
	kept := make(map[string][]byte)
	if _, _, err := pages(func(cursor string) ([]byte, string, error) {
		page, next, err := inLibrary(h)(cursor)
		kept[cursor] = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":%s}`, page)
		return page, next, err
	}); err != nil {
		tb.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ Params struct{ Cursor string } }
		_ = json.NewDecoder(r.Body).Decode(&m)
		page := kept[m.Params.Cursor]
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		_, _ = w.Write(page)
	}))
	tb.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// BenchmarkManyTools lists 10,000 tools, all pages and the first page alone: by the library, and over HTTP in both
// protocol versions against a server of the same bytes.
func BenchmarkManyTools(b *testing.B) {
	h := crowded(b, 10_000)
	addr, bytes := serve(b, Options{Backend: h}, nil), serveBytes(b, h)
	ways := []struct {
		name string
		page func(cursor string) ([]byte, string, error)
	}{
		{"library", inLibrary(h)},
		{"bytes", dialLister(b, bytes, false).page},
		{"legacy", dialLister(b, addr, false).page},
		{"modern", dialLister(b, addr, true).page},
	}
	for _, l := range []benchtest.Load{
		{Name: "all-pages", Callers: 1, Calls: 20},
		{Name: "first-page", Callers: 1, Calls: 200},
	} {
		b.Run(l.Name, func(b *testing.B) {
			var compared []benchtest.Way
			for _, w := range ways {
				compared = append(compared, benchtest.Way{
					Name: w.name,
					Call: func() error {
						if l.Name == "first-page" {
							_, _, err := w.page("")
							return err
						}
						_, _, err := pages(w.page)
						return err
					},
				})
			}
			l.Compare(b, compared...)
			n, size, err := pages(ways[0].page)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(n), "pages")
			b.ReportMetric(float64(size)/(1<<20), "MiB")
		})
	}
}

// BenchmarkCallBesideManyTools compares a call on a host with 10,000 tools with one on a host with 10.
func BenchmarkCallBesideManyTools(b *testing.B) {
	call := func(name string, h *exthost.Host) benchtest.Way {
		arguments := json.RawMessage(`{"text":"` + strings.Repeat("x", 100) + `"}`)
		return benchtest.Way{
			Name: name,
			Call: func() error {
				_, err := h.Call(b.Context(), "ext_x_echo", arguments)
				return err
			},
		}
	}
	benchtest.Sequential.Compare(b, call("few", crowded(b, 10)), call("many", crowded(b, 10_000)))
}

// BenchmarkNextSnapshot builds a snapshot of 10,000 tools from the previous one: the cost when one extension becomes
// ready.
func BenchmarkNextSnapshot(b *testing.B) {
	h := crowded(b, 10_000)
	b.ReportAllocs()
	for b.Loop() { // the host builds one even if there was nothing to accept
		_ = h.Admin().AcceptTools(status.Selection{Extension: "none"}, "")
	}
}
