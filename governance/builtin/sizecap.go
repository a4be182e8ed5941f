package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/rawjson"
)

// Spiller is implemented by built-in policies that keep what they cut off. Without
// a store, which is nil then, they cut all the same.
type Spiller interface{ SpillTo(store *results.Store) }

// sizeCapConfig is the config of the built-in policy size_cap, which puts a preview in
// the place of a tool result that is too big, and keeps the rest:
//
//	max_bytes: 65536     # of a result; at least 1024; default 65536
//	preview_bytes: 4096  # of its text that are left; at most half of max_bytes; default 4096
//
// The model is told a handle, and reads on with the tool exthost_result_page, which
// is listed while there is such a policy. What is kept is what the policy is shown,
// so its priority is 1000 unless one is stated, behind those that mask. Category
// content only.
type sizeCapConfig struct {
	MaxBytes     int `json:"max_bytes"`
	PreviewBytes int `json:"preview_bytes"`
}

// sizeCap puts a preview in the place of a tool result that is too big, and keeps
// its text for the page tool. What it keeps is what it is shown: it runs after the
// policies that mask.
type sizeCap struct {
	max, preview int
	store        atomic.Pointer[results.Store]
}

var (
	_ Spiller           = (*sizeCap)(nil)
	_ governance.Placed = (*sizeCap)(nil)
)

// late is the priority of policies that keep what passes.
const late = 1000

func newSizeCap(s governance.Spec) (governance.Policy, error) {
	c := sizeCapConfig{MaxBytes: 64 << 10, PreviewBytes: 4 << 10}
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if err := changes(s); err != nil {
		return nil, err
	}
	if c.MaxBytes < 1024 || c.PreviewBytes < 0 || c.PreviewBytes > c.MaxBytes/2 {
		return nil, settings.Wrong("config", "max_bytes is %d and preview_bytes %d; the first is at least 1024, the second at most half of it", c.MaxBytes, c.PreviewBytes)
	}
	return &sizeCap{max: c.MaxBytes, preview: c.PreviewBytes}, nil
}

// SpillTo implements [Spiller].
func (p *sizeCap) SpillTo(store *results.Store) { p.store.Store(store) }

// Priority implements [governance.Placed].
func (*sizeCap) Priority() int { return late }

// Decide implements [governance.Policy].
func (p *sizeCap) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow != governance.Response || !x.ReturnsTool() || x.Failure != nil || x.Tool == results.ToolName || len(x.Response) <= p.max {
		return governance.Decision{}, nil
	}
	r := p.read(x.Response)
	shown := 0
	if p.preview > 0 {
		shown = results.Cut(r.text, p.preview)
	}
	note, handle := "What is no text was left out.", ""
	if shown < len(r.text) {
		note, handle = p.spill(results.Owner{Caller: x.Caller, Session: x.Session}, r.text, shown)
	}
	return governance.Decision{
		Action: governance.Modify,
		JSON:   r.shorten(x.Response, shown, "[The tool has run, and its result is too long. "+note+"]"),
		Reason: fmt.Sprintf("the result has %d bytes, of %d that are allowed", len(x.Response), p.max),
		Data:   fmt.Appendf(nil, `{"bytes":%d,"kept":%t}`, len(x.Response), handle != ""),
	}, nil
}

// spill keeps text, of which a part is shown, and says what a model has to know.
func (p *sizeCap) spill(owner results.Owner, text []byte, shown int) (note, handle string) {
	note = fmt.Sprintf("These are %d of %d bytes. ", shown, len(text))
	store := p.store.Load()
	if store == nil {
		return note + "The rest was not kept.", ""
	}
	handle, err := store.Put(owner, text)
	if err != nil {
		return note + "The rest was not kept: " + err.Error(), ""
	}
	return note + fmt.Sprintf(`To read on, call %s with {"handle":%q,"offset":%d}`, results.ToolName, handle, shown), handle
}

// reading is what a result holds.
type reading struct {
	text      []byte            // what the page tool will show
	rest      []json.RawMessage // blocks of content without text that are small enough to pass
	structure bool              // structuredContent is in text, because it is too big
}

func (p *sizeCap) read(result json.RawMessage) (r reading) {
	var blocks []json.RawMessage
	_ = json.Unmarshal(rawjson.Get(result, "content"), &blocks) // what is no list holds no text
	room := p.max - p.preview - 1024
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
		if !bytes.Equal(bytes.TrimSpace(r.text), structure) { // tools often say it twice
			r.add(string(structure))
		}
	}
	return r
}

func (r *reading) add(text string) {
	if len(r.text) > 0 {
		r.text = append(r.text, '\n')
	}
	r.text = append(r.text, text...)
}

// shorten returns result with the beginning of its text and a note as its text.
// Without its structuredContent it is marked as an error: clients that know the
// tool's output schema refuse it otherwise.
func (r *reading) shorten(result json.RawMessage, shown int, note string) json.RawMessage {
	content := rawjson.AppendText([]byte(`[{"type":"text","text":`), r.text[:shown])
	content = rawjson.AppendText(append(content, `},{"type":"text","text":`...), note)
	content = append(content, '}')
	for _, block := range r.rest {
		content = append(append(content, ','), block...)
	}
	edits := map[string]json.RawMessage{"content": append(content, ']')}
	if r.structure {
		edits["structuredContent"], edits["isError"] = nil, json.RawMessage("true")
	}
	return rawjson.Edit(result, edits)
}
