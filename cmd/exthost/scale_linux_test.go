package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// Listing the tools of a thousand lazy extensions, known from a previous start, stays within a time limit from the
// start of the program.
func TestServeScales(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("the race detector would be measured")
	}
	processtest.Leaks(t)
	n := stormtest.Sized(4, 1000)
	files := make(map[string]string)
	for i := range n {
		files[fmt.Sprintf("extensions/x%04d/plugin.toml",
			i)] = fmt.Sprintf("[plugin]\nid = \"x%04d\"\nversion = \"0.1.0\"\n[capabilities]\ntools = "+
			"[\"t\"]\n[transport]\ncommand = \"sh\"\nargs = [\"-c\", %s]\n[runtime]\nactivation = \"lazy\"\n",
			i, "'''"+`while read -r line; do case $line in *initialize*) echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"t","input_schema":{"type":"object"}}]}}';; esac; done`+"'''")
	}
	dir := project(t, files)
	visit := func() (took time.Duration) {
		began := time.Now()
		s := startServe(t, dir)
		if tools := listed(t, s); tools != n {
			t.Errorf("%d tools of %d extensions", tools, n)
		}
		took = time.Since(began)
		if code := s.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d; stderr:\n%s", code, s.stderr)
		}
		return took
	}
	first := visit()
	stormtest.Claim(t, fmt.Sprintf("from the start of exthost serve to the list of %d known extensions", n),
		2*time.Second, func() (time.Duration, string) {
			var took stormtest.Durations
			for range stormtest.Sized(1, 5) {
				took = append(took, visit())
			}
			return took.Quantile(0.5), fmt.Sprintf("%v; %v when nothing was known", took, first.Round(time.Millisecond))
		})
}

// listed lists all tools of a host, page by page, and returns their number.
func listed(t *testing.T, s *served) (n int) {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	for cursor, more := "", true; more; {
		req, err := http.NewRequest("POST", s.url,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+`"_meta":{`+
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type":         "application/json",
			"Accept":               "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28",
			"Mcp-Method":           "tools/list",
		} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %s %s", err, resp.Status, answer)
		}
		n += strings.Count(string(answer), `"inputSchema"`)
		if _, cursor, more = strings.Cut(string(answer), `"nextCursor":"`); more {
			cursor, _, _ = strings.Cut(cursor, `"`)
			cursor = `"cursor":"` + cursor + `",`
		}
	}
	return n
}
