// Package redact masks secrets. A [Redactor] masks known values in the texts of the host:
// log, status and errors. A [Detector] finds unknown secrets by their form, in requests and
// results.
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

// mask replaces a secret.
const mask = "***"

// minSecret is the minimum length of a secret, in bytes. Shorter values would match
// everywhere.
const minSecret = 6

// Redactor masks known secrets, and those that show their form. Its zero value knows none. Its
// methods are safe for concurrent use.
type Redactor struct {
	known atomic.Pointer[Known]
}

// SetSecrets replaces the set of secrets. Their forms in JSON, also in JSON within JSON, in
// addresses, markup, logs, hexadecimal and base64 are masked too, and the lines of those that have
// several. Texts of fewer than six bytes are ignored.
func (r *Redactor) SetSecrets(values []string) {
	r.known.Store(newKnown(distinct(slices.Clone(values))))
}

// asJSON returns the forms of value in JSON strings: with minimal escapes, with <, > and &
// escaped, and each of them in ASCII.
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

// ascii escapes all non-ASCII characters as JSON does.
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

// String returns s with every secret masked: those that are known, and those that [HoldsSecret]
// tells by their form, because a process prints secrets that nobody gave it.
func (r *Redactor) String(s string) string {
	s = r.Known(s)
	if len(s) < minForm {
		return s
	}
	masked, _ := secretsAlone().Text(s)
	return masked
}

// minForm is shorter than every secret that shows its form, with the name that some need.
const minForm = 10

// Known returns s with every known secret masked.
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

// Handler returns a handler that masks the message and the string attributes of each record
// for next.
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
