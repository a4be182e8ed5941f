package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// sourceKey is the attribute with the extension of a record.
const sourceKey = "extension"

// policyKey is the attribute with the policy of a record. Such a record is kept under the extension policy:NAME.
const policyKey = "policy"

// Handler returns a handler that adds records to the journal. It is enabled for levels that are kept or followed, and
// never fails.
func (j *Journal) Handler() slog.Handler { return &handler{journal: j} }

// handler collects the attributes of With. Groups become prefixes, as in "http.status".
type handler struct {
	journal   *Journal
	extension string
	prefix    string // names of the open groups, each with a dot
	attrs     []slog.Attr
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return int64(level) >= h.journal.level.Load()
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.prefix += name + "."
	return &with
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = h.attrs[:len(h.attrs):len(h.attrs)]
	for _, a := range attrs {
		with.add(h.prefix, a)
	}
	return &with
}

// add adds one attribute, or all attributes of a group.
func (h *handler) add(prefix string, a slog.Attr) {
	a.Value = a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}):
	case a.Value.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range a.Value.Group() {
			h.add(prefix, inner)
		}
	case prefix == "" && a.Key == sourceKey && a.Value.Kind() == slog.KindString:
		h.extension = a.Value.String()
	case prefix == "" && a.Key == policyKey && a.Value.Kind() == slog.KindString && h.extension == "":
		h.extension = policyKey + ":" + a.Value.String()
	default:
		a.Key = prefix + a.Key
		h.attrs = append(h.attrs, a)
	}
}

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	with := *h
	with.attrs = h.attrs[:len(h.attrs):len(h.attrs)]
	r.Attrs(func(a slog.Attr) bool {
		with.add(h.prefix, a)
		return true
	})
	h.journal.add(status.LogRecord{
		Time:      r.Time,
		Level:     r.Level,
		Extension: with.extension,
		Message:   cut(r.Message),
		Attrs:     encode(with.attrs),
	})
	return nil
}

// encode encodes attributes as a JSON object, in order; nil if there are none. Attributes that are too long are
// replaced by a note.
func encode(attrs []slog.Attr) json.RawMessage {
	if len(attrs) == 0 {
		return nil
	}
	b := []byte{'{'}
	for i, a := range attrs {
		if i > 0 {
			b = append(b, ',')
		}
		a = InMilliseconds(nil, a)
		b = append(append(append(b, value(a.Key)...), ':'), value(plain(a.Value))...)
	}
	if len(b) >= maxText {
		return json.RawMessage(`{"attrs":"too long"}`)
	}
	return append(b, '}')
}

// InMilliseconds returns a duration as a number of milliseconds, under its key with the end _ms, and any other
// attribute unchanged. It is a ReplaceAttr of [slog.HandlerOptions]: in JSON every duration of the host has this form.
func InMilliseconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Any(a.Key+"_ms", protocol.Duration(a.Value.Duration()))
}

// plain returns the value to encode as JSON.
func plain(v slog.Value) any {
	if err, ok := v.Any().(error); ok {
		return err.Error()
	}
	return v.Any()
}

func value(v any) []byte {
	if s, ok := v.(string); ok {
		v = cut(s)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		b.Reset()
		_ = enc.Encode("!" + err.Error()) // a string always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// cut shortens a text without splitting a character.
func cut(s string) string {
	if len(s) <= maxText/2 {
		return s
	}
	return strings.ToValidUTF8(s[:maxText/2], "") + "…"
}
