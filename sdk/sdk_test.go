package sdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/sdk"
)

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Verb{
		"chatty": func(string) {
			x := sdk.New("1")
			sdk.AddTool(x, sdk.Tool{Name: "print"}, func(context.Context, struct{}) (string, error) {
				fmt.Println("this is not JSON")
				return "printed", nil
			})
			processtest.Exit(x.Main())
		},
	})
}

// host drives the host's end of a connection line by line.
type host struct {
	t     *testing.T
	lines *bufio.Scanner
	w     io.WriteCloser
	ended chan error
}

func serve(t *testing.T, x *sdk.Extension) *host {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, lines: bufio.NewScanner(outR), w: inW, ended: make(chan error, 1)}
	go func() { h.ended <- x.Serve(context.Background(), inR, outW) }()
	if err := outR.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inW.Close()
		if err := <-h.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		outR.Close()
	})
	return h
}

func (h *host) say(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.w, line+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) hear() string {
	h.t.Helper()
	if !h.lines.Scan() {
		h.t.Fatalf("no more lines: %v", h.lines.Err())
	}
	return h.lines.Text()
}

func (h *host) ask(line string) string {
	h.t.Helper()
	h.say(line)
	return h.hear()
}

type point struct {
	X int    `json:"x" jsonschema_description:"Across"`
	Y int    `json:"y,omitempty"`
	L string `json:"label,omitempty" jsonschema:"enum=a,enum=b"`
}

func TestHandshakeOffersTheTools(t *testing.T) {
	x := sdk.New("0.2.0")
	var got sdk.Setup
	x.OnSetup(func(_ context.Context, s sdk.Setup) error { got = s; return nil })
	sdk.AddTool(x, sdk.Tool{Name: "b", Description: "Second.", ReadOnly: true},
		func(context.Context, point) (point, error) { return point{}, nil })
	sdk.AddTool(x, sdk.Tool{Name: "a", Description: "First.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, json.RawMessage) (string, error) { return "", nil })
	h := serve(t, x)
	answer := h.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"agent_version":"1.0.0","extension_id":"me","protocol_version":1,"config":{"k":12345678901234567890},"state_dir":"/s"}}`)
	want := `{"jsonrpc":"2.0","id":0,"result":{"server_version":"0.2.0","protocol_version":1,"tools":[` +
		`{"name":"a","description":"First.","input_schema":{"type":"object"}},` +
		`{"name":"b","description":"Second.","input_schema":{"properties":{"x":{"type":"integer","description":"Across"},"y":{"type":"integer"},"label":{"type":"string","enum":["a","b"]}},"additionalProperties":false,"type":"object","required":["x"]},` +
		`"output_schema":{"properties":{"x":{"type":"integer","description":"Across"},"y":{"type":"integer"},"label":{"type":"string","enum":["a","b"]}},"additionalProperties":false,"type":"object","required":["x"]},"annotations":{"readOnlyHint":true}}]}}`
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Error(diff)
	}
	if got.ExtensionID != "me" || got.HostVersion != "1.0.0" || got.StateDir != "/s" ||
		string(got.Config) != `{"k":12345678901234567890}` {
		t.Errorf("setup: %+v", got)
	}
}

func TestSetupRefuses(t *testing.T) {
	x := sdk.New("1")
	x.OnSetup(func(context.Context, sdk.Setup) error { return errors.New("no database at /x") })
	h := serve(t, x)
	if got := h.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocol_version":1}}`); !strings.Contains(got, `"error"`) || !strings.Contains(got, "no database at /x") {
		t.Errorf("initialize: %s", got)
	}
	if got := h.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":2}}`); !strings.Contains(got, `"error"`) {
		t.Errorf("a later protocol: %s", got)
	}
}

// fault is an error whose nil pointer has no text.
type fault struct{ text string }

func (f *fault) Error() string { return f.text }

func TestResults(t *testing.T) {
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{Name: "text"}, func(context.Context, struct{}) (string, error) { return "a\nb", nil })
	sdk.AddTool(x, sdk.Tool{Name: "struct"}, func(_ context.Context, in point) (point, error) { return in, nil })
	sdk.AddTool(x, sdk.Tool{Name: "list"}, func(context.Context, struct{}) ([]int, error) { return []int{1, 2}, nil })
	sdk.AddTool(x, sdk.Tool{Name: "raw"}, func(context.Context, struct{}) (protocol.ToolResult, error) {
		return protocol.ToolResult(`{"content":[],"later":1}`), nil
	})
	sdk.AddTool(x, sdk.Tool{Name: "fails"},
		func(context.Context, struct{}) (string, error) { return "", errors.New("it rains") })
	sdk.AddTool(x, sdk.Tool{Name: "refuses"}, func(context.Context, struct{}) (string, error) {
		return "", &sdk.Error{Code: -32001, Message: "no", Data: json.RawMessage(`[1]`)}
	})
	sdk.AddTool(x, sdk.Tool{Name: "unencodable"}, func(context.Context, struct{}) (chan int, error) { return nil, nil })
	sdk.AddTool(x, sdk.Tool{Name: "panics"}, func(context.Context, struct{}) (string, error) { panic("at the disco") })
	sdk.AddTool(x, sdk.Tool{Name: "nil"}, func(context.Context, struct{}) (string, error) { return "", (*fault)(nil) })
	sdk.AddTool(x, sdk.Tool{Name: "nil-refusal"},
		func(context.Context, struct{}) (string, error) { return "", (*sdk.Error)(nil) })
	sdk.AddTool(x, sdk.Tool{Name: "wrapped"},
		func(context.Context, struct{}) (string, error) {
			return "", fmt.Errorf("a cause: %w", (*sdk.Error)(nil))
		})
	h := serve(t, x)
	for _, tt := range []struct{ params, want string }{
		{`{"name":"text"}`, `"result":{"content":[{"type":"text","text":"a\nb"}]}`},
		{`{"name":"struct","arguments":{"x":1}}`,
			`"result":{"content":[{"type":"text","text":"{\"x\":1}"}],"structuredContent":{"x":1}}`},
		{`{"name":"struct","arguments":{"x":"one"}}`, `"isError":true`},
		{`{"name":"list","arguments":{}}`, `"result":{"content":[{"type":"text","text":"[1,2]"}]}`},
		{`{"name":"raw"}`, `"result":{"content":[],"later":1}`},
		{`{"name":"fails"}`, `"result":{"content":[{"type":"text","text":"it rains"}],"isError":true}`},
		{`{"name":"refuses"}`, `"error":{"code":-32001,"message":"no","data":[1]}`},
		{`{"name":"unencodable"}`, `"isError":true`},
		{`{"name":"panics"}`, `"text":"the tool panicked: at the disco"`},
		{`{"name":"nil"}`, `"text":"the tool panicked: runtime error: `},
		{`{"name":"nil-refusal"}`, `"text":"the tool panicked: runtime error: `},
		{`{"name":"wrapped"}`, `"text":"a cause: `},
		{`{"name":"missing"}`, `"code":-32602`},
		{`{"nam":"text"}`, `"code":-32602`},
	} {
		got := h.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + tt.params + `}`)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s\n got %s\nwant %s", tt.params, got, tt.want)
		}
	}
	if got := h.ask(`{"jsonrpc":"2.0","id":8,"method":"ping"}`); got != `{"jsonrpc":"2.0","id":8,"result":{}}` {
		t.Errorf("ping: %s", got)
	}
	if got := h.ask(`{"jsonrpc":"2.0","id":9,"method":"no/such"}`); !strings.Contains(got, `"code":-32601`) {
		t.Errorf("an unknown method: %s", got)
	}
}

// A slow tool blocks neither another call nor its own cancellation.
func TestConcurrencyAndCancellation(t *testing.T) {
	x := sdk.New("1")
	started := make(chan struct{})
	sdk.AddTool(x, sdk.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		close(started)
		<-ctx.Done()
		return "stopped", nil
	})
	sdk.AddTool(x, sdk.Tool{Name: "quick"}, func(context.Context, struct{}) (string, error) { return "quick", nil })
	h := serve(t, x)
	h.say(`{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"wait"}}`)
	<-started
	if got := h.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"quick"}}`); !strings.Contains(got,
		`"id":2`) {
		t.Errorf("behind a slow tool: %s", got)
	}
	h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}`)
	if got := h.hear(); !strings.Contains(got, `"id":"w"`) || !strings.Contains(got, "stopped") {
		t.Errorf("the cancelled call: %s", got)
	}
}

func TestProgressAndLog(t *testing.T) {
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{Name: "work"}, func(ctx context.Context, _ struct{}) (string, error) {
		sdk.Progress(ctx, 1, 2, "half")
		sdk.Log(ctx, slog.LevelWarn, "careful")
		return "done", nil
	})
	h := serve(t, x)
	first := h.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","_meta":{"progressToken":"p"}}}`)
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":2,"message":"half"}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"careful","_meta":{"progressToken":"p"}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`,
	}
	if diff := cmp.Diff(want, []string{first, h.hear(), h.hear()}); diff != "" {
		t.Error(diff)
	}
	if got := h.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work"}}`); strings.Contains(got,
		"progress") {
		t.Errorf("progress that nobody asked for: %s", got)
	}
	h.hear()                                     // of the second call, whose log line came first
	sdk.Progress(context.Background(), 1, 1, "") // outside of a call: no effect
}

func TestMeta(t *testing.T) {
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
		return string(sdk.Meta(ctx)), nil
	})
	h := serve(t, x)
	for arguments, want := range map[string]string{
		`{"_meta":{"session_id":"s"}}`: `"text":"{\"session_id\":\"s\"}"`,
		`{}`:                           `"text":""`,
	} {
		got := h.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","arguments":` +
			arguments + `}}`)
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	if got := sdk.Meta(context.Background()); got != nil {
		t.Errorf("outside a call: %s", got)
	}
}

func TestMisuseByTheAuthorPanics(t *testing.T) {
	for name, misuse := range map[string]func(x *sdk.Extension){
		"same name": func(x *sdk.Extension) {
			for range 2 {
				sdk.AddTool(x, sdk.Tool{Name: "a"}, func(context.Context, struct{}) (string, error) { return "", nil })
			}
		},
		"no name": func(x *sdk.Extension) {
			sdk.AddTool(x, sdk.Tool{}, func(context.Context, struct{}) (string, error) { return "", nil })
		},
		"a name that is none": func(x *sdk.Extension) {
			sdk.AddTool(x, sdk.Tool{Name: "a b"}, func(context.Context, struct{}) (string, error) { return "", nil })
		},
		"no struct": func(x *sdk.Extension) {
			sdk.AddTool(x, sdk.Tool{Name: "a"}, func(context.Context, int) (string, error) { return "", nil })
		},
		"schema": func(x *sdk.Extension) {
			sdk.AddTool(x, sdk.Tool{Name: "a", InputSchema: json.RawMessage(`{`)},
				func(context.Context, struct{}) (string, error) { return "", nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was accepted")
				}
			}()
			misuse(sdk.New("1"))
		})
	}
}

// Output to os.Stdout cannot corrupt the protocol.
func TestStdoutGoesToStderr(t *testing.T) {
	processtest.Leaks(t)
	p := startChild(t, "chatty")
	if got := p.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"print"}}`); !strings.Contains(got,
		"printed") {
		t.Errorf("print: %s", got)
	}
	if stderr := p.end(); stderr != "this is not JSON\n" {
		t.Errorf("stderr: %q", stderr)
	}
}

// Large results that share buffers stay whole, and so does a result that the author keeps.
func TestLargeResultsStayWhole(t *testing.T) {
	kept := protocol.ToolResult(`{"content":[{"type":"text","text":"` + strings.Repeat("k", 200_000) + `"}]}`)
	want := string(kept)
	x := sdk.New("1")
	sdk.AddTool(x, sdk.Tool{Name: "text"}, func(_ context.Context, in struct {
		Letter string `json:"letter"`
	}) (string, error) {
		return strings.Repeat(in.Letter, 200_000), nil
	})
	sdk.AddTool(x, sdk.Tool{Name: "kept"}, func(context.Context, struct{}) (protocol.ToolResult, error) {
		return kept, nil
	})
	h := serve(t, x)
	h.lines.Buffer(nil, 1<<20)
	for round := range 5 {
		for _, letter := range "abc" {
			h.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"text","arguments":`+
				`{"letter":"%c"}}}`, letter, letter))
		}
		h.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kept"}}`)
		for range 4 {
			var answer struct {
				ID     int             `json:"id"`
				Result json.RawMessage `json:"result"`
			}
			if err := json.Unmarshal([]byte(h.hear()), &answer); err != nil {
				t.Fatal(err)
			}
			expected := want
			if answer.ID != 1 {
				expected = strings.ReplaceAll(want, "k", string(rune(answer.ID)))
			}
			if string(answer.Result) != expected {
				t.Fatalf("round %d: result %d is not whole: %.80s… of %d bytes", round, answer.ID, answer.Result,
					len(answer.Result))
			}
		}
	}
	if string(kept) != want {
		t.Error("the result that the author keeps was overwritten")
	}
}
