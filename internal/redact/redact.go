// Package redact keeps secrets out of where they do not belong: a [Redactor] masks
// those it knows in what the host says, its log, its status, and the errors it
// writes about a child; a [Detector] finds those it does not know by how they look,
// in what passes through the host.
package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"
)

// mask stands where a secret was.
const mask = "***"

// minSecret is the length below which a value is not taken for a secret: it would
// be found everywhere.
const minSecret = 6

// Redactor replaces the secrets it knows. Its zero value knows none; its methods
// may be called by many goroutines at once.
type Redactor struct {
	replacer atomic.Pointer[strings.Replacer]
}

// Know makes values the secrets, as they are and as JSON writes them, instead of those
// known before. Values of fewer than six bytes are left out.
func (r *Redactor) Know(values []string) {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return len(v) < minSecret })
	if len(values) == 0 {
		r.replacer.Store(nil)
		return
	}
	for _, v := range values[:len(values):len(values)] {
		values = append(values, asJSON(v)...)
	}
	// Of two that begin alike the longer one goes first, or its end would be shown.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(values))
	for _, v := range slices.Compact(values) {
		pairs = append(pairs, v, mask)
	}
	r.replacer.Store(strings.NewReplacer(pairs...))
}

// asJSON are the forms that a value takes inside JSON texts: as little escaped as
// can be, with <, > and & escaped too, and in ASCII alone.
func asJSON(value string) (forms []string) {
	for _, html := range []bool{false, true} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		_ = e.Encode(value) // a string always can be
		form := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
		forms = append(forms, form, ascii(form))
	}
	return forms
}

// ascii escapes what is not ASCII as JSON does.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// String returns s with every secret masked.
func (r *Redactor) String(s string) string {
	if replacer := r.replacer.Load(); replacer != nil {
		return replacer.Replace(s)
	}
	return s
}

// Strings is String for each of list, which it does not change.
func (r *Redactor) Strings(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = r.String(out[i])
	}
	return out
}

// Handler returns a handler that masks messages and the texts among attributes
// before next sees them.
func (r *Redactor) Handler(next slog.Handler) slog.Handler { return &handler{next, r} }

type handler struct {
	slog.Handler
	redactor *Redactor
}

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	if h.redactor.replacer.Load() == nil {
		return h.Handler.Handle(ctx, record)
	}
	masked := slog.NewRecord(record.Time, record.Level, h.redactor.String(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.redactor.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, masked)
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.redactor.attr(a)
	}
	return &handler{h.Handler.WithAttrs(masked), h.redactor}
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.redactor}
}

func (r *Redactor) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(r.String(v.String()))
	case slog.KindGroup:
		group := slices.Clone(v.Group())
		for i := range group {
			group[i] = r.attr(group[i])
		}
		a.Value = slog.GroupValue(group...)
	case slog.KindAny:
		switch any := v.Any().(type) {
		case error:
			a.Value = slog.StringValue(r.String(any.Error()))
		case []string:
			a.Value = slog.AnyValue(r.Strings(any))
		}
	}
	return a
}
