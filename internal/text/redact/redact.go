// Package redact masks secrets. A [Redactor] masks known values in the host's own output: log, status and errors.
// A [Detector] finds unknown secrets by their form in requests and results.
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

// mask replaces a known secret.
const mask = "***"

// minSecret is the minimum length of a secret in bytes. Shorter values would match everywhere.
const minSecret = 6

// Redactor masks known secrets, and unknown ones by their form. The zero value knows none. Its methods are safe
// for concurrent use.
type Redactor struct {
	known atomic.Pointer[Known]
}

// SetSecrets replaces the known secrets. Their encodings in JSON (nested too), addresses, markup, logs,
// hexadecimal and base64 are masked as well, and each line of a secret with several. Values shorter than six bytes
// are ignored.
func (r *Redactor) SetSecrets(values []string) {
	r.known.Store(newKnown(distinct(slices.Clone(values))))
}

// asJSON returns the spellings of value in JSON strings: minimal escapes, with <, > and & escaped, and both in
// ASCII.
func asJSON(value string) (forms []string) {
	for _, html := range []bool{false, true} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		_ = e.Encode(value) // a string always encodes
		form := unquoted(strings.TrimSuffix(b.String(), "\n"))
		forms = append(forms, form, ascii(form))
	}
	return forms
}

// ascii escapes non-ASCII characters as JSON does.
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

// String masks every known secret in s. It also masks secrets by their form, as a process may print secrets that it did
// not get from the host.
func (r *Redactor) String(s string) string {
	s = r.Known(s)
	if len(s) < minForm {
		return s
	}
	masked, _ := secretsAlone().Text(s)
	return masked
}

// minForm is below the length of any secret that is found by its form, name included.
const minForm = 10

// Known masks only known secrets.
func (r *Redactor) Known(s string) string {
	return r.known.Load().mask(s)
}

// Strings returns a copy of list with every secret masked.
func (r *Redactor) Strings(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = r.String(out[i])
	}
	return out
}

// Handler wraps next to mask the message and string attributes of each record.
func (r *Redactor) Handler(next slog.Handler) slog.Handler { return &handler{next, r} }

type handler struct {
	slog.Handler
	redactor *Redactor
}

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, record slog.Record) error {
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
