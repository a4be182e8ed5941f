package builtin

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

func sized(t *testing.T, config map[string]any) (governance.Policy, *results.Store) {
	t.Helper()
	store, err := results.Open(results.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	p := policy(t, "size_cap", config)
	p.(Offloader).OffloadTo(store)
	return p, store
}

func answered(result string) *governance.Exchange {
	return &governance.Exchange{
		Method:   "tools/call",
		Caller:   "ann",
		Session:  "s",
		Tool:     "ext_a_b",
		ToChild:  true,
		Response: json.RawMessage(result),
	}
}

func textBlock(s string) string {
	return `{"type":"text","text":` + string(rawjson.AppendText(nil, s)) + `}`
}

var handleIn = regexp.MustCompile(`"handle":"([a-z0-9]+)","offset":(\d+)`)

func TestSizeCapSpills(t *testing.T) {
	p, store := sized(t, nil)
	lines := strings.Repeat("żółw one line of many \"quoted\"\n", 9000)
	d := decide(t, p, governance.Response,
		answered(`{"_meta":{"n":1e400},"content":[`+textBlock(lines)+
			`,{"type":"image","data":"aGk=","mimeType":"image/png"},`+textBlock("the end")+`],"isError":false}`))
	if d.Action != governance.Modify || len(d.JSON) > 64<<10 || rawjson.Check(d.JSON) != nil ||
		!strings.HasSuffix(string(d.Data), `"kept":true}`) {
		t.Fatalf("%s %s", d.Action, d.Data)
	}
	if !strings.HasPrefix(string(d.JSON), `{"_meta":{"n":1e400},"content":[{"type":"text","text":"żółw one line`) ||
		!strings.HasSuffix(string(d.JSON), `,{"type":"image","data":"aGk=","mimeType":"image/png"}],"isError":false}`) {
		t.Errorf("%s", d.JSON)
	}
	shown := protocol.ToolResult(d.JSON).Text()
	at := handleIn.FindStringSubmatch(shown)
	if at == nil {
		t.Fatal(shown)
	}
	text, _, _ := strings.Cut(shown, "\n[The tool has run")
	for offset := at[2]; offset != ""; {
		result, err := store.Call(results.Owner{Caller: "ann"}, nil,
			json.RawMessage(`{"handle":"`+at[1]+`","offset":`+offset+`}`))
		if err != nil {
			t.Fatal(err)
		}
		page := protocol.ToolResult(result).Text()
		cut := strings.LastIndex(page, "\n[bytes ")
		text += page[:cut]
		_, offset, _ = strings.Cut(strings.TrimSuffix(page[cut:], "]"), "go on with offset ")
	}
	if text != lines+"\nthe end" {
		t.Errorf("the pages are not the whole: %d of %d bytes", len(text), len(lines))
	}
}

// No member value and no member name makes a capped result exceed its limit.
func TestSizeCapCoversAllMembers(t *testing.T) {
	p, _ := sized(t, map[string]any{"max_bytes": 4096, "preview_bytes": 100})
	long := strings.Repeat("x", 5000)
	for name, result := range map[string]string{
		"_meta":       `{"content":[],"_meta":{"a":"` + long + `"},"isError":true}`,
		"unknown":     `{"more":"` + long + `","content":[` + textBlock(long) + `]}`,
		"a long name": `{"content":[],"` + long + `":1}`,
		"many":        `{"content":[]` + strings.Repeat(`,"a":1`, 2000) + `,"isError":true}`,
		"twins":       `{"content":[` + textBlock(long) + `],"content":[` + textBlock(long) + `]}`,
		"isError":     `{"content":[],"isError":"` + long + `"}`,
		"with structure": `{"content":[],"structuredContent":{"a":"` + long[:2000] + `"},"_meta":{"a":"` + long[:2500] +
			`"}}`,
	} {
		d := decide(t, p, governance.Response, answered(result))
		if len(d.JSON) > 4096 || rawjson.Check(d.JSON) != nil ||
			strings.HasSuffix(result, `"isError":true}`) != protocol.ToolResult(d.JSON).IsError() &&
				name != "with structure" {
			t.Errorf("%s: %d bytes: %.200s", name, len(d.JSON), d.JSON)
		}
	}
}

func TestSizeCapLetsPass(t *testing.T) {
	p, _ := sized(t, map[string]any{"max_bytes": 2000, "preview_bytes": 10})
	long := `{"content":[` + textBlock(strings.Repeat("x", 3000)) + `]}`
	page, failed, list, asks := answered(long), answered(`{"code":1,"message":"x"}`), answered(long), answered(long)
	page.Tool, failed.Failure, list.Method, asks.ToChild = results.ToolName, protocol.Errorf(protocol.ExtensionError,
		"x"), "tools/list", false
	for name, x := range map[string]*governance.Exchange{
		"short":           answered(`{"content":[]}`),
		"a page":          page,
		"a short failure": failed,
		"a list":          list,
		"to the caller":   asks,
	} {
		if d := decide(t, p, governance.Response, x); d.Action != governance.Allow {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := decide(t, p, governance.Request, answered(long)); d.Action != governance.Allow {
		t.Errorf("a request: %+v", d)
	}
}

func TestSizeCapOfOtherContent(t *testing.T) {
	p, _ := sized(t, map[string]any{"max_bytes": 4000, "preview_bytes": 100})
	structure := `{"rows":["` + strings.Repeat("x", 5000) + `"]}`
	for name, tt := range map[string]struct {
		result, has string
		isError     bool
	}{
		"an image": {`{"content":[{"type":"image","data":"` + strings.Repeat("A", 5000) + `"}]}`,
			"[image of 5026 bytes left out]\n[The tool has run, and its result is too long. What is no text was left " +
				"out.]", false},
		"a resource": {`{"content":[{"type":"resource","resource":{"uri":"a:b","text":"` + strings.Repeat("y",
			5000) + `"}}]}`, "yyyy", false},
		"a structure": {`{"content":[],"structuredContent":` + structure + `}`, `{"rows":["xxx`, true},
		"a structure and text": {`{"content":[` + textBlock(structure) + `],"structuredContent":` + structure + `}`,
			`{"rows":["xxx`, true},
		"a small structure": {`{"content":[` + textBlock(strings.Repeat("z", 5000)) +
			`],"structuredContent":{"a":1}}`, "zzz", false},
		"no content": {`{"content":7,"other":"` + strings.Repeat("x", 5000) + `"}`,
			"What is no text was left out", false},
	} {
		d := decide(t, p, governance.Response, answered(tt.result))
		result := protocol.ToolResult(d.JSON)
		if d.Action != governance.Modify || !strings.Contains(result.Text(), tt.has) || result.IsError() != tt.isError {
			t.Errorf("%s: %s", name, d.JSON)
		}
		if kept := result.Structured() != nil; kept == tt.isError && strings.Contains(tt.result, "structuredContent") {
			t.Errorf("%s: structuredContent is there: %t", name, kept)
		}
	}
}

func TestSizeCapWithoutStore(t *testing.T) {
	p := policy(t, "size_cap", map[string]any{"max_bytes": 2000, "preview_bytes": 0})
	d := decide(t, p, governance.Response, answered(`{"content":[`+textBlock(strings.Repeat("x", 3000))+`]}`))
	text := protocol.ToolResult(d.JSON).Text()
	if !strings.Contains(text, "These are 0 of 3000 bytes. The rest was not kept.]") ||
		strings.Contains(text, results.ToolName) {
		t.Error(text)
	}
}

func TestSizeCapConfigIsRefused(t *testing.T) {
	for want, s := range map[string]governance.Spec{
		"so its category is content": {Category: governance.Validation},
		"at least 1024":              {Category: governance.Content, Config: map[string]any{"max_bytes": 10}},
		"at most half":               {Category: governance.Content, Config: map[string]any{"preview_bytes": 60000}},
	} {
		s.Builtin = "size_cap"
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
