package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// parse decodes a head and validates its JSON in one pass.
func (h *Head) parse(head []byte) error {
	return object(head, h.member)
}

// object calls member for the members of a JSON object, except for null values. member ignores unknown keys.
func object(b []byte, member func(key []byte, value json.RawMessage) (ok bool)) error {
	if !rawjson.IsObject(b) {
		return rawjson.ErrObject
	}
	i := rawjson.SkipSpace(b, rawjson.SkipSpace(b, 0)+1)
	if i < len(b) && b[i] == '}' {
		return atEnd(b, i+1)
	}
	for {
		end, err := rawjson.SkipString(b, i)
		if err != nil {
			return err
		}
		from, err := rawjson.SkipColon(b, end)
		if err != nil {
			return err
		}
		to, err := rawjson.SkipValue(b, from)
		if err != nil {
			return err
		}
		if key, value := b[i:end], b[from:to]; value[0] != 'n' && !member(rawjson.Unquote(key), value) {
			return fmt.Errorf("member %s is %s", key, value)
		}
		switch i = rawjson.SkipSpace(b, to); {
		case i < len(b) && b[i] == ',':
			i = rawjson.SkipSpace(b, i+1)
		case i < len(b) && b[i] == '}':
			return atEnd(b, i+1)
		default:
			return rawjson.ErrSyntax
		}
	}
}

func atEnd(b []byte, i int) error {
	if rawjson.SkipSpace(b, i) < len(b) {
		return rawjson.ErrSyntax
	}
	return nil
}

// member decodes a member. It reports false for a value of the wrong type.
func (h *Head) member(key []byte, v json.RawMessage) bool {
	switch string(key) {
	case "k":
		return text(v, &h.Kind)
	case "run":
		return text(v, &h.Run)
	case "n":
		return parseUint(v, &h.N)
	case "error":
		return flag(v, &h.Error)
	case "id":
		return parseUint(v, &h.ID)
	case "ext", "m", "notify", "quiet", "digest", "session", "left_ms", "trace", "origin":
		return h.Request.member(key, v)
	case "low", "open", "done", "strange", "spent":
		return h.Pulses.member(key, v)
	case "body", "size", "at", "bytes":
		return h.Chunk.member(key, v)
	}
	return h.Gossip.member(key, v)
}

func (r *Request) member(key []byte, v json.RawMessage) bool {
	switch string(key) {
	case "ext":
		return text(v, &r.Extension)
	case "m":
		return text(v, &r.Method)
	case "notify":
		return flag(v, &r.Notify)
	case "quiet":
		return flag(v, &r.Quiet)
	case "digest":
		return text(v, &r.Digest)
	case "session":
		if r.Session == nil {
			r.Session = new(Session)
		}
		return object(v, r.Session.member) == nil
	case "left_ms":
		return parseInt(v, &r.LeftMS)
	case "trace":
		return text(v, &r.Trace)
	}
	return text(v, &r.Origin)
}

func (s *Session) member(key []byte, v json.RawMessage) bool {
	switch string(key) {
	case "id":
		return text(v, &s.ID)
	case "caller":
		return text(v, &s.Caller)
	case "instance":
		return text(v, &s.Instance)
	case "era":
		return text(v, &s.Version)
	case "caps":
		s.Caps = bytes.Clone(v)
	case "client":
		s.ClientInfo = bytes.Clone(v)
	}
	return true
}

func (p *Pulses) member(key []byte, v json.RawMessage) bool {
	switch string(key) {
	case "low":
		return parseUint(v, &p.Low)
	case "open":
		return list(v, &p.Open, parseUint)
	case "done":
		return list(v, &p.Done, parseUint)
	case "strange":
		return list(v, &p.NotReceived, parseUint)
	}
	return list(v, &p.Spent, parseUint)
}

func (c *Chunk) member(key []byte, v json.RawMessage) bool {
	switch string(key) {
	case "body":
		return parseUint(v, &c.Body)
	case "size":
		return parseInt(v, &c.Size)
	case "at":
		return parseInt(v, &c.At)
	}
	return parseInt(v, &c.Bytes)
}

func (g *Gossip) member(key []byte, v json.RawMessage) bool {
	switch string(key) {
	case "hash":
		return text(v, &g.Hash)
	case "clock":
		return parseInt(v, &g.Clock)
	case "seq":
		return parseUint(v, &g.Seq)
	case "node":
		return text(v, &g.Node)
	case "of":
		return text(v, &g.Of)
	case "names":
		return list(v, &g.Names, text)
	case "last":
		return flag(v, &g.Last)
	}
	return true
}

// kinds avoids an allocation for the most frequent texts.
func kinds(b []byte) string {
	switch string(b) {
	case Call:
		return Call
	case Result:
		return Result
	case "tools/call":
		return "tools/call"
	}
	return string(b)
}

func text(v []byte, to *string) bool {
	if v[0] != '"' {
		return false
	}
	*to = kinds(rawjson.Unquote(v))
	return true
}

func flag(v []byte, to *bool) bool {
	*to = v[0] == 't'
	return *to || v[0] == 'f'
}

func parseUint(v []byte, to *uint64) (ok bool) {
	n, err := strconv.ParseUint(string(v), 10, 64)
	*to = n
	return err == nil
}

func parseInt(v []byte, to *int64) (ok bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	*to = n
	return err == nil
}

// list decodes a list. A null in it becomes zero.
func list[T any](v []byte, to *[]T, read func(v []byte, to *T) bool) bool {
	if v[0] != '[' {
		return false
	}
	*to = make([]T, 0, min(bytes.Count(v, []byte{','})+1, MaxHead/2))
	for i := rawjson.SkipSpace(v, 1); v[i] != ']'; {
		end, err := rawjson.SkipValue(v, i)
		var one T
		if err != nil || v[i] != 'n' && !read(v[i:end], &one) {
			return false
		}
		*to = append(*to, one)
		if i = rawjson.SkipSpace(v, end); v[i] == ',' {
			i = rawjson.SkipSpace(v, i+1)
		}
	}
	return true
}
