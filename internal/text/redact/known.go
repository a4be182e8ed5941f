package redact

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Known is an immutable set of known secrets. A nil Known is empty.
type Known struct {
	replacer *strings.Replacer
	recorded func() *strings.Replacer // masks halves of secrets too
}

func newKnown(values []string) *Known {
	if len(values) == 0 {
		return nil
	}
	return &Known{
		replacerOf(values),
		sync.OnceValue(func() *strings.Replacer { return replacerOf(withHalves(values)) }),
	}
}

// replacerOf returns a replacer that masks all encodings of values.
func replacerOf(values []string) *strings.Replacer {
	var texts []string
	for _, v := range values {
		for _, text := range shown(v) {
			texts = append(texts, forms(text)...)
		}
	}
	texts = distinct(texts)
	// Longer secrets first, so that the end of one that begins with another is masked too.
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(texts))
	for _, v := range texts {
		pairs = append(pairs, v, mask)
	}
	return strings.NewReplacer(pairs...)
}

// mask masks every secret in s.
func (k *Known) mask(s string) string {
	if k == nil {
		return s
	}
	return k.replacer.Replace(s)
}

// minSplit is the minimum length of secrets whose halves are masked. Halves of shorter ones are too often part of
// other texts, where a mask would be wrong and would reveal the half.
const minSplit = 16

// withHalves adds the halves of long secrets: if two messages share a secret, one of them contains a half.
func withHalves(values []string) []string {
	all := slices.Clone(values)
	for _, v := range values {
		if half := (len(v) + 1) / 2; len(v) >= minSplit {
			all = append(all, v[:half], v[len(v)-half:])
		}
	}
	return distinct(all)
}

// Snapshot returns the current set of secrets.
func (r *Redactor) Snapshot() *Known { return r.known.Load() }

// ahead is the number of bytes searched beyond an excerpt, so that a secret on its edge is seen whole.
const ahead = 8 << 10

// Text returns an excerpt of up to most bytes for the audit log and approval requests, without known secrets and
// findings of [Default]. A nil Redactor knows no secrets.
func (r *Redactor) Text(text string, most int) string {
	text, cut := text[:min(len(text), most+ahead)], len(text) > most+ahead
	if r != nil {
		text = r.Known(text)
	}
	text, _ = Default().Text(text)
	return excerpt(text, cut, most)
}

// JSON is [Redactor.Text] for JSON: escapes in strings are resolved, and halves of known secrets are masked too. The
// only error is ctx's.
func (r *Redactor) JSON(ctx context.Context, raw []byte, most int) ([]byte, error) {
	raw, cut := raw[:min(len(raw), most+ahead)], len(raw) > most+ahead
	if r != nil {
		if known := r.known.Load(); known != nil {
			raw = known.maskJSON(raw)
		}
	}
	masked, _, err := Default().JSON(ctx, raw)
	return excerpt(masked, cut, most), err
}

// excerpt returns at most most bytes of a masked text. If the text was cut, its end is dropped: it may be a part of a
// secret, and masks shorter than their secrets may have moved it into the excerpt.
func excerpt[T string | []byte](masked T, cut bool, most int) T {
	if cut {
		masked = masked[:max(0, len(masked)-ahead)]
	}
	return masked[:min(len(masked), most)]
}

// Recorded masks secrets in a JSON value, for a recording: secrets that k or others know, in any escaping, their
// halves, and secrets by their form. Other bytes stay, and valid JSON stays valid: a number that is a secret becomes a
// string.
func (k *Known) Recorded(raw []byte, others ...*Known) []byte {
	for _, set := range append(others, k) {
		if set != nil {
			raw = set.maskJSON(raw)
		}
	}
	if len(raw) < minForm {
		return raw
	}
	masked, _, err := secretsAlone().JSON(context.Background(), raw)
	if err != nil {
		return []byte(`"` + mask + `"`)
	}
	return masked
}

// maskJSON masks known secrets in valid JSON.
func (k *Known) maskJSON(raw []byte) []byte {
	replacer := k.recorded()
	if bytes.IndexByte(raw, '\\') < 0 {
		masked := replacer.Replace(string(raw))
		if masked == string(raw) {
			return raw
		}
		if rawjson.Check([]byte(masked)) == nil {
			return []byte(masked)
		}
	}
	return maskTokens(raw, replacer)
}

// maskTokens masks each string and number of valid JSON.
func maskTokens(raw []byte, replacer *strings.Replacer) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end, err := rawjson.SkipString(raw, i)
			if err != nil {
				end = len(raw)
			}
			out = append(out, maskString(raw[i:end], replacer)...)
			i = end
		case c == '-' || isDigit(c):
			end := i + 1
			for end < len(raw) && (isDigit(raw[end]) || bytes.IndexByte([]byte("+-.eE"), raw[end]) >= 0) {
				end++
			}
			if number := string(raw[i:end]); replacer.Replace(number) != number {
				out = append(out, `"`+mask+`"`...)
			} else {
				out = append(out, number...)
			}
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

// maskString masks a quoted JSON string. If the secret is visible only after unescaping, the string is encoded
// anew; if it is in JSON within the string, the whole string is masked.
func maskString(quoted []byte, replacer *strings.Replacer) []byte {
	masked := replacer.Replace(string(quoted[1 : len(quoted)-1]))
	if out := []byte(`"` + masked + `"`); rawjson.Check(out) == nil {
		quoted = out
	} else {
		quoted = []byte(`"` + mask + `"`)
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted
	}
	text := string(rawjson.Unquote(quoted))
	if masked := replacer.Replace(text); masked != text {
		quoted, text = rawjson.AppendText(nil, masked), masked
	}
	for range maxNesting {
		if strings.IndexByte(text, '\\') < 0 {
			break
		}
		text = string(unescape(nil, []byte(text)))
		if replacer.Replace(text) != text {
			return []byte(`"` + mask + `"`)
		}
	}
	return quoted
}
