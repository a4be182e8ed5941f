package peertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// exotic are arguments that decoding and encoding would change.
const exotic = `{"n":12345678901234567890,"x_unknown":{"z":1.10,"a":[-0,1E400]},"text":"Grüße, 日本 \u00e9\/ 🎈"}`

// asked makes the raw server return an error.
const asked = `{"refuse":true,"n":12345678901234567890,"x_unknown":{"z":1.10},"text":"日本 \u00e9"}`

// wire is a client that does not interpret answers.
type wire struct {
	versions string
	ask      func(t *testing.T, frame string) (answer []byte)
	ids      int
}

// request sends a request with these members of params and returns the members of the
// answer.
func (w *wire) request(t *testing.T, method, members string) (result, failure json.RawMessage) {
	t.Helper()
	if w.versions == "modern" {
		members = strings.TrimPrefix(members+
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`, ",")
	}
	w.ids++
	got := w.ask(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, w.ids, method, members))
	if head := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, w.ids); !bytes.HasPrefix(got, []byte(head)) {
		t.Fatalf("%s: got %s", method, got)
	}
	return rawjson.Get(got, "result"), rawjson.Get(got, "error")
}

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// wireStdio starts a host and uses its stdio.
func wireStdio(t *testing.T, h *host, versions string) *wire {
	t.Helper()
	cmd := h.command(h.argv("--stdio"))
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := make(chan []byte)
	go func() {
		defer close(answers)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			if rawjson.Get(line, "id") != nil {
				answers <- bytes.TrimSuffix(line, []byte("\n"))
			}
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range answers {
			t.Error("an answer that nobody asked for")
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("exthost serve --stdio ended with %v", err)
		}
	})
	w := &wire{
		versions: versions,
		ask: func(t *testing.T, frame string) []byte {
			t.Helper()
			if _, err := io.WriteString(in, frame+"\n"); err != nil {
				t.Fatal(err)
			}
			return get(t, answers, "the answer")
		},
	}
	if versions == "legacy" {
		w.ask(t, initialize)
		if _, err := io.WriteString(in, initialized+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// wireHTTP posts to the host at url.
func wireHTTP(t *testing.T, url, versions string) *wire {
	t.Helper()
	client := newHTTPClient(t)
	session := ""
	post := func(t *testing.T, frame string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(deadline(t), http.MethodPost, url+"/mcp", strings.NewReader(frame))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = headers(frame, versions, session)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, body
	}
	if versions == "legacy" {
		response, _ := post(t, initialize)
		session = response.Header.Get("Mcp-Session-Id")
		post(t, initialized)
	}
	return &wire{
		versions: versions,
		ask: func(t *testing.T, frame string) []byte {
			t.Helper()
			response, body := post(t, frame)
			if response.Header.Get("Content-Type") == "application/json" {
				return body
			}
			for line := range bytes.Lines(body) {
				if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && rawjson.Get(data, "id") != nil {
					return bytes.TrimSpace(data)
				}
			}
			t.Fatalf("%s: %s", response.Status, body)
			return nil
		},
	}
}

// headers returns the headers that clients of these versions must send with a request.
func headers(frame, versions, session string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if versions == "legacy" {
		if session != "" {
			h.Set("Mcp-Session-Id", session)
			h.Set("Mcp-Protocol-Version", legacyVersion)
		}
		return h
	}
	var m struct {
		Method string
		Params struct{ Name string }
	}
	_ = json.Unmarshal([]byte(frame), &m) // frame is valid JSON
	h.Set("Mcp-Protocol-Version", modernVersion)
	h.Set("Mcp-Method", m.Method)
	if m.Params.Name != "" {
		h.Set("Mcp-Name", m.Params.Name)
	}
	return h
}

// TestBytesSurvive sends a big number, unknown members and non-ASCII text to an extension
// of each kind, and expects the same bytes in its answer.
func TestBytesSurvive(t *testing.T) {
	extensions := folder(t.TempDir())
	h := newHost(t, string(extensions))
	extensions.add(t, "old", "protocol = \"mcp\"\n"+scripted(t, "raw legacy"))
	extensions.add(t, "new", "protocol = \"mcp\"\n"+scripted(t, "raw modern"))
	extensions.add(t, "native", scripted(t, "native")+"[capabilities]\ntools = [\"echo\"]\n")
	extensions.add(t, "lite", "protocol = \"lite\"\n"+scripted(t,
		"lite")+"[[tools]]\nname = \"echo\"\ndescription = \"Echoes.\"\n")
	url := h.listen(t)
	for _, versions := range []string{"legacy", "modern"} {
		t.Run("stdio/"+versions, func(t *testing.T) { checkBytes(t, wireStdio(t, h, versions)) })
		t.Run("http/"+versions, func(t *testing.T) { checkBytes(t, wireHTTP(t, url, versions)) })
	}
}

func checkBytes(t *testing.T, w *wire) {
	args := json.RawMessage(exotic)
	for id, want := range map[string]string{
		"old":    rawResult("legacy", args, args),
		"new":    rawResult("modern", args, args),
		"native": `{"content":[],"structuredContent":` + exotic + `,"x_extra":` + exotic + `}`,
		"lite":   `{"content":[{"type":"text","text":` + quoted(exotic) + `}],"structuredContent":` + exotic + `}`,
	} {
		if w.versions == "modern" && id != "new" {
			want = `{"resultType":"complete",` + want[1:]
		}
		got, failure := w.request(t, "tools/call",
			fmt.Sprintf(`"name":%q,"arguments":%s,"x_extra":%s`, registered(id, "echo"), exotic, exotic))
		if string(got) != want {
			t.Errorf("%s\n got %s%s\nwant %s", id, got, failure, want)
		}
	}
	for _, id := range []string{"old", "new"} {
		_, got := w.request(t, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, registered(id, "echo"), asked))
		var message string
		_ = json.Unmarshal(rawjson.Get(got, "message"), &message) // empty on an error
		if string(rawjson.Get(got, "code")) != "-32050" || message != "Grüße é" ||
			string(rawjson.Get(got, "data")) != asked {
			t.Errorf("%s: error\n got %s\nwant %s", id, got, rawError(json.RawMessage(asked)))
		}
	}
	list, _ := w.request(t, "tools/list", "")
	for _, id := range []string{"old", "new"} {
		want := fmt.Sprintf(`{"name":%q,"description":"[ext:%s] Spiegelt: ü 日本 é","x_before":12345678901234567890,%s`,
			registered(id, "echo"), id, descriptorRest)
		if !bytes.Contains(list, []byte(want)) {
			t.Errorf("%s: tools/list\n got %s\nwant %s", id, list, want)
		}
	}
}

// quoted encodes text as JSON with minimal escapes.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
