package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// Offloader is a built-in policy that stores the text it removes from results. A nil store
// means that the text is dropped.
type Offloader interface{ OffloadTo(store *results.Store) }

// sizeCapConfig is the config of the built-in policy size_cap, which replaces a tool result
// or an extension's error that is too long by a preview, and stores the rest:
//
//	max_bytes: 65536     # of a result or an error; at least 1024; default 65536
//	preview_bytes: 4096  # length of the preview; at most half of max_bytes; default 4096
//
// The preview names a handle, with which the model reads on by calling the tool
// exthost_result_page. That tool is listed while such a policy exists. The policy stores the
// text that it receives, so it runs after all other content policies, unless a priority is
// stated. Category content only.
type sizeCapConfig struct {
	MaxBytes     int `json:"max_bytes"`
	PreviewBytes int `json:"preview_bytes"`
}

// sizeCap is the policy size_cap.
type sizeCap struct {
	max, preview int
	store        atomic.Pointer[results.Store]
}

var (
	_ Offloader         = (*sizeCap)(nil)
	_ governance.Placed = (*sizeCap)(nil)
)

// sizeCapPriority makes the policy run after the policies that mask.
const sizeCapPriority = 1000

func newSizeCap(s governance.Spec) (governance.Policy, error) {
	c := sizeCapConfig{MaxBytes: 64 << 10, PreviewBytes: 4 << 10}
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if err := requireContent(s); err != nil {
		return nil, err
	}
	if c.MaxBytes < 1024 || c.PreviewBytes < 0 || c.PreviewBytes > c.MaxBytes/2 {
		return nil, settings.Wrong("config",
			"max_bytes is %d and preview_bytes %d; the first is at least 1024, the second at most half of it",
			c.MaxBytes, c.PreviewBytes)
	}
	return &sizeCap{max: c.MaxBytes, preview: c.PreviewBytes}, nil
}

// OffloadTo implements [Offloader].
func (p *sizeCap) OffloadTo(store *results.Store) { p.store.Store(store) }

// Priority implements [governance.Placed].
func (*sizeCap) Priority() int { return sizeCapPriority }

// Decide implements [governance.Policy].
func (p *sizeCap) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	covered := x.ReturnsTool() || x.ToChild && x.Failure != nil
	if flow != governance.Response || !covered || x.Tool == results.ToolName || len(x.Response) <= p.max {
		return governance.Decision{}, nil
	}
	var r extracted
	if x.Failure != nil {
		r = p.extractError(x.Response)
	} else {
		r = p.extract(x.Response)
	}
	shown := 0
	if p.preview > 0 {
		shown = results.Cut(r.text, p.preview)
	}
	note, handle := "What is no text was left out.", ""
	if shown < len(r.text) {
		note, handle = p.offload(x, r.text, shown)
	}
	short, what := r.shorten(x.Response, shown, "[The tool has run, and its result is too long. "+note+"]"), "result"
	if x.Failure != nil {
		short, what = r.shortenError(x.Response, shown, "[The error is too long. "+note+"]"), "error"
	}
	return governance.Decision{
		Action: governance.Modify,
		JSON:   short,
		Reason: fmt.Sprintf("the %s has %d bytes, of %d that are allowed", what, len(x.Response), p.max),
		Data:   fmt.Appendf(nil, `{"bytes":%d,"kept":%t}`, len(x.Response), handle != ""),
	}, nil
}

// offload stores text and returns the note for the model; shown is the length of the
// preview.
func (p *sizeCap) offload(x *governance.Exchange, text []byte, shown int) (note, handle string) {
	note = fmt.Sprintf("These are %d of %d bytes. ", shown, len(text))
	store := p.store.Load()
	if store == nil {
		return note + "The rest was not kept.", ""
	}
	handle, err := store.Put(results.Owner{Node: x.Node, Caller: x.Caller, Session: x.Session},
		results.Source{Extension: x.Extension, Tool: x.Tool}, text)
	if err != nil {
		return note + "The rest was not kept: " + err.Error(), ""
	}
	return note + fmt.Sprintf(`To read on, call %s with {"handle":%q,"offset":%d}`, results.ToolName, handle,
		shown), handle
}

// extracted is the content of a result.
type extracted struct {
	text      []byte            // for the page tool
	rest      []json.RawMessage // content blocks without text that fit into the shortened result
	structure bool              // structuredContent is too long and was moved to text
	dropped   []string          // names of the other members that do not fit
}

func (p *sizeCap) extract(result json.RawMessage) (r extracted) {
	var blocks []json.RawMessage
	_ = json.Unmarshal(rawjson.Get(result, "content"), &blocks) // no list: no text
	room := p.max - p.preview - 1024
	for name, value := range rawjson.Members(result) {
		switch size := len(name) + len(value); {
		case slices.Contains([]string{"content", "structuredContent", "isError"}, name):
		case size <= room:
			room -= size
		default:
			r.dropped = append(r.dropped, name)
		}
	}
	for _, block := range blocks {
		text, ok := rawjson.Text(rawjson.Get(block, "text"))
		if !ok {
			text, ok = rawjson.Text(rawjson.Get(rawjson.Get(block, "resource"), "text"))
		}
		switch {
		case ok:
			r.add(text)
		case len(block) <= room:
			r.rest = append(r.rest, block)
			room -= len(block)
		default:
			kind, _ := rawjson.Text(rawjson.Get(block, "type"))
			r.add(fmt.Sprintf("[%s of %d bytes left out]", kind, len(block)))
		}
	}
	if structure := rawjson.Get(result, "structuredContent"); len(structure) > room {
		r.structure = true
		if !bytes.Equal(bytes.TrimSpace(r.text), structure) { // many tools return the same JSON as text
			r.add(string(structure))
		}
	}
	return r
}

func (r *extracted) add(text string) {
	if len(r.text) > 0 {
		r.text = append(r.text, '\n')
	}
	r.text = append(r.text, text...)
}

// shorten returns result with the preview and the note as its text. A result without its
// structuredContent is marked as an error, because clients that know the output schema
// would reject it otherwise.
func (r *extracted) shorten(result json.RawMessage, shown int, note string) json.RawMessage {
	content := rawjson.AppendText([]byte(`[{"type":"text","text":`), r.text[:shown])
	content = rawjson.AppendText(append(content, `},{"type":"text","text":`...), note)
	content = append(content, '}')
	for _, block := range r.rest {
		content = append(append(content, ','), block...)
	}
	edits := map[string]json.RawMessage{"content": append(content, ']')}
	if r.structure {
		edits["structuredContent"], edits["isError"] = nil, json.RawMessage("true")
	} else if failed := rawjson.Get(result, "isError"); failed != nil {
		edits["isError"] = strconv.AppendBool(nil, string(failed) == "true")
	}
	for _, name := range r.dropped {
		edits[name] = nil
	}
	return rawjson.Edit(result, edits)
}

// extractError extracts the message of an error, and its data when that is too long.
func (p *sizeCap) extractError(failure json.RawMessage) (r extracted) {
	message, _ := rawjson.Text(rawjson.Get(failure, "message"))
	r.add(message)
	if data := rawjson.Get(failure, "data"); len(data) > p.max-p.preview-1024 {
		r.structure = true
		r.add(string(data))
	}
	return r
}

// shortenError returns the error with the preview and the note as its message.
func (r *extracted) shortenError(failure json.RawMessage, shown int, note string) json.RawMessage {
	edits := map[string]json.RawMessage{"message": rawjson.Quote(string(r.text[:shown]) + "\n" + note)}
	if r.structure {
		edits["data"] = nil
	}
	return rawjson.Edit(failure, edits)
}
