package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/schema"
)

// Part is the part of a tool's results that callers get. The zero value is all.
type Part struct {
	// JSON Pointers into structuredContent, and into texts that are JSON, the leading slash optional; * is each element
	// of a list. Where none of them leads to anything, all is kept. Empty: all
	Keep []string
	// the estimated tokens of texts and structuredContent together, as bytes / 4; what is beyond is cut. 0: no bound
	MaxTokens int
}

// MetaReshaped is the member of _meta that says what was left out of a result.
const MetaReshaped = "exthost/reshaped"

// kept cuts results.
type kept struct {
	Part
	tree *branch // nil: everything
}

// branch is a part of a value that is kept.
type branch struct {
	whole    bool
	children map[string]*branch // by key or index; "*": each element
}

func keptOf(p Part) *kept {
	k := &kept{Part: p}
	for _, pointer := range p.Keep {
		if k.tree == nil {
			k.tree = &branch{}
		}
		b := k.tree
		for _, key := range schema.SplitPointer(strings.TrimPrefix(pointer, "/")) {
			if b.children == nil {
				b.children = make(map[string]*branch)
			}
			if b.children[key] == nil {
				b.children[key] = &branch{}
			}
			b = b.children[key]
		}
		b.whole = true
	}
	if k.tree == nil && k.MaxTokens == 0 {
		return nil
	}
	return k
}

// child returns the part of a branch below a key or an index.
func (b *branch) child(key string) *branch {
	if b.children[key] != nil {
		return b.children[key]
	}
	return b.children["*"]
}

// of returns the kept part of a value; nil if nothing of it is.
func (b *branch) of(value json.RawMessage) json.RawMessage {
	switch {
	case b == nil:
		return nil
	case b.whole:
		return value
	case isArray(value):
		var out []json.RawMessage
		for i, item := range items(value) {
			if part := b.child(strconv.Itoa(i)).of(item); part != nil {
				out = append(out, part)
			}
		}
		if out == nil {
			return nil
		}
		return rawjson.AppendList(nil, out)
	case isObject(value):
		var out []member
		for key, v := range rawjson.Members(value) {
			if part := b.children[key].of(v); part != nil {
				out = append(out, member{key, part})
			}
		}
		if out == nil {
			return nil
		}
		return object(out)
	}
	return nil
}

// schema returns the output schema of what is kept; nil if that cannot be said, so that no schema is shown.
func (k *kept) schema(output json.RawMessage) json.RawMessage {
	if k.MaxTokens > 0 { // structuredContent may be left out
		return nil
	}
	out, ok := k.tree.schema(output, output, 0)
	if !ok {
		return nil
	}
	if out, err := prune(withDefinitions(out, output)); err == nil {
		return out
	}
	return nil
}

// withDefinitions adds the definitions of a schema to a part of it.
func withDefinitions(part, whole json.RawMessage) json.RawMessage {
	ms := mustMembers(part)
	for _, key := range append([]string{"$schema"}, definitions...) {
		if value := rawjson.Get(whole, key); value != nil && at(ms, key) == nil {
			ms = append(ms, member{key, value})
		}
	}
	return object(ms)
}

// maxFollowed bounds the references that are followed one after another.
const maxFollowed = 16

// schema returns the schema of the kept part of the values of s; ok is false if s does not say plainly what it is.
func (b *branch) schema(root, s json.RawMessage, followed int) (out json.RawMessage, ok bool) {
	if b.whole {
		return s, true
	}
	if !isObject(s) {
		return nil, false
	}
	if ref, is := rawjson.Text(rawjson.Get(s, "$ref")); is {
		pointer, local := strings.CutPrefix(ref, "#")
		target := find(root, pointer)
		if !local || target == nil || followed == maxFollowed || pointer != "" && pointer[0] != '/' {
			return nil, false
		}
		return b.schema(root, target, followed+1)
	}
	ms := []member{}
	for key, value := range rawjson.Members(s) {
		switch key {
		case "type", "title", "description":
			ms = append(ms, member{key, value})
		}
	}
	if properties := rawjson.Get(s, "properties"); isObject(properties) && b.children["*"] == nil {
		return b.ofProperties(root, s, properties, ms, followed)
	}
	if element := b.children["*"]; element != nil && len(b.children) == 1 {
		item, ok := element.schema(root, rawjson.Get(s, "items"), followed)
		return object(append(ms, member{"items", item})), ok
	}
	return nil, false
}

func (b *branch) ofProperties(root, s, properties json.RawMessage, ms []member, followed int) (json.RawMessage, bool) {
	var required, named []string
	_ = json.Unmarshal(rawjson.Get(s, "required"), &required) // without a list, none is required
	var out []member
	for _, p := range mustMembers(properties) {
		child := b.children[p.key]
		if child == nil {
			continue
		}
		part, ok := child.schema(root, p.value, followed)
		if !ok {
			return nil, false
		}
		out = append(out, member{p.key, part})
		if slices.Contains(required, p.key) && child.whole { // of others nothing may be left
			named = append(named, p.key)
		}
	}
	if len(out) < len(b.children) { // one is not described
		return nil, false
	}
	ms = append(ms, member{"properties", object(out)})
	if len(named) > 0 {
		ms = append(ms, member{"required", mustMarshal(named)})
	}
	return object(ms), true
}

// of returns the kept part of a result, with its sizes in _meta; the result itself if all is kept.
func (k *kept) of(result json.RawMessage) json.RawMessage {
	edits := make(map[string]json.RawMessage)
	blocks := items(rawjson.Get(result, "content"))
	structured := rawjson.Get(result, "structuredContent")
	before := len(structured)
	for i, block := range blocks {
		text := textOf(block)
		before += len(text)
		if part := k.ofText(text); part != "" {
			blocks[i] = rawjson.Set(block, "text", rawjson.Quote(part))
		}
	}
	if part := k.tree.of(structured); part != nil && structured != nil {
		structured, edits["structuredContent"] = part, part
	}
	blocks, after := k.cut(blocks, structured, edits)
	if after >= before {
		return result
	}
	if blocks != nil {
		edits["content"] = rawjson.AppendList(nil, blocks)
	}
	meta := rawjson.Get(result, "_meta")
	if !isObject(meta) {
		meta = json.RawMessage(`{}`)
	}
	edits["_meta"] = rawjson.Set(meta, MetaReshaped, fmt.Appendf(nil, `{"bytes":%d,"kept":%d}`, before, after))
	return rawjson.Edit(result, edits)
}

// ofText returns the kept part of a text that is JSON; "" if the text stays as it is.
func (k *kept) ofText(text string) string {
	if k.tree == nil || rawjson.Check([]byte(text)) != nil {
		return ""
	}
	value := json.RawMessage(strings.TrimSpace(text))
	return string(k.tree.of(value))
}

// textOf returns the text of a block; "" if it has none.
func textOf(block json.RawMessage) string {
	text, _ := rawjson.Text(rawjson.Get(block, "text"))
	return text
}

// cut cuts texts where the bound is reached, and leaves out structuredContent that is beyond it. It returns the number
// of bytes that are left.
func (k *kept) cut(blocks []json.RawMessage, structured json.RawMessage, edits map[string]json.RawMessage,
) ([]json.RawMessage, int) {
	most := math.MaxInt
	if k.MaxTokens > 0 && k.MaxTokens < most/bytesPerToken {
		most = k.MaxTokens * bytesPerToken
	}
	left, whole, short := len(structured), len(structured), false
	if left > most {
		edits["structuredContent"], left = nil, 0
	}
	for i, block := range blocks {
		text := textOf(block)
		whole += len(text)
		if room := most - left; len(text) > room {
			text, short = display.Prefix(text, room), true
			blocks[i] = rawjson.Set(block, "text", rawjson.Quote(text))
		}
		left += len(text)
	}
	if short {
		note := fmt.Sprintf("[The result is cut: about %d of %d tokens. Ask for less of it.]", left/bytesPerToken,
			whole/bytesPerToken)
		blocks = append(blocks, append(rawjson.AppendText([]byte(`{"type":"text","text":`), note), '}'))
	}
	return blocks, left
}

const bytesPerToken = 4
