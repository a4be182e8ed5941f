package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/governance/internal/strictjson"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// descriptor holds, as canonical JSON, the part of an item that a model sees. Equal descriptors
// have equal bytes. Nil means that the item is unknown.
type descriptor json.RawMessage

// MarshalJSON implements [json.Marshaler].
func (d descriptor) MarshalJSON() ([]byte, error) { return json.RawMessage(d).MarshalJSON() }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *descriptor) UnmarshalJSON(raw []byte) error {
	if *d = nil; string(raw) != "null" {
		*d = canonical(raw)
	}
	return nil
}

// members are the parts of a descriptor. Nil ones are left out.
type members map[string]json.RawMessage

func (m members) descriptor() descriptor {
	said := make(map[string]json.RawMessage)
	for key, value := range m {
		if len(value) > 0 {
			said[key] = json.RawMessage(canonical(value))
		}
	}
	return encode(said)
}

// canonical sorts keys and removes blanks; numbers keep their text. JSON that is invalid or
// ambiguous becomes a JSON string.
func canonical(raw []byte) descriptor {
	value, err := decode(raw)
	if err != nil || ambiguous(raw) {
		value = string(raw)
	}
	return encode(value)
}

// ambiguous reports whether two readers may read different values, because the names of two members
// of an object are equal or differ in case alone.
func ambiguous(raw json.RawMessage) bool { return strictjson.NoTwins(raw) != nil }

// hash identifies a descriptor.
func (d descriptor) hash() string {
	sum := sha256.Sum256(d)
	return hex.EncodeToString(sum[:])
}

func decode(raw []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}

func encode(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // value was decoded from JSON or is a string
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// equal reports whether two descriptors say the same. The order of lists that have none is no difference.
func (d descriptor) equal(other descriptor) bool {
	return bytes.Equal(d, other) || d != nil && other != nil && bytes.Equal(d.unordered(), other.unordered())
}

// unordered returns d without the order that [rawjson.Unordered] removes.
func (d descriptor) unordered() descriptor { return encode(rawjson.Unordered(d.value())) }

// diff returns the differences between d and now, one per line.
func (d descriptor) diff(now descriptor) string {
	var list differences
	list.compare("", d.value(), now.value())
	return strings.Join(list, "\n")
}

func (d descriptor) value() any {
	value, err := decode(d)
	if err != nil {
		return map[string]any{} // the item is unknown
	}
	return value
}

const (
	maxLines = 100     // of a diff
	maxValue = 4 << 10 // bytes of the value in a line
	around   = 60      // bytes before and after the part of a text that differs
)

type differences []string

// missing stands for a value that only the other side of a comparison has.
type missing struct{}

// compare adds the differences between two decoded values at path.
func (l *differences) compare(path string, before, after any) {
	switch b := before.(type) {
	case map[string]any:
		if a, ok := after.(map[string]any); ok {
			l.objects(path, b, a)
			return
		}
	case []any:
		if a, ok := after.([]any); ok {
			for i := range max(len(a), len(b)) {
				l.compare(fmt.Sprintf("%s[%d]", path, i), item(b, i), item(a, i))
			}
			return
		}
	}
	if before != (missing{}) && after != (missing{}) && bytes.Equal(encode(before), encode(after)) {
		return
	}
	from, to := shown(before), shown(after)
	if before != (missing{}) && after != (missing{}) {
		from, to = excerpts(from, to)
	}
	if before != (missing{}) {
		l.add("-", path, from)
	}
	if after != (missing{}) {
		l.add("+", path, to)
	}
}

// shown returns a value as JSON in which every character can be seen.
func shown(value any) string {
	if value == (missing{}) {
		return ""
	}
	return visible(string(encode(value)))
}

// excerpts shortens two long texts to the parts that differ, with some text around them.
func excerpts(a, b string) (string, string) {
	if max(len(a), len(b)) <= 4*around {
		return a, b
	}
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	cut := func(s string) string {
		from, to := max(0, head-around), min(len(s), len(s)-tail+around)
		out := strings.ToValidUTF8(s[from:to], "")
		if from > 0 {
			out = "…" + out
		}
		if to < len(s) {
			out += "…"
		}
		return out
	}
	return cut(a), cut(b)
}

func (l *differences) objects(path string, before, after map[string]any) {
	keys := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		b, inBefore := before[key]
		a, inAfter := after[key]
		if !inBefore {
			b = missing{}
		}
		if !inAfter {
			a = missing{}
		}
		l.compare(strings.TrimPrefix(path+"."+visible(key), "."), b, a)
	}
}

func item(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return missing{}
}

func (l *differences) add(sign, path, text string) {
	switch {
	case len(*l) > maxLines:
	case len(*l) == maxLines:
		*l = append(*l, "… and more")
	default:
		if more := len(text) - maxValue; more > 0 {
			text = strings.ToValidUTF8(text[:maxValue], "") + fmt.Sprintf("… and %d bytes more", more)
		}
		*l = append(*l, strings.TrimSuffix(sign+" "+path, " ")+": "+text)
	}
}

// visible escapes characters that a reader cannot see, such as bidirectional marks, and
// control characters of terminals.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsGraphic(r) && !display.Invisible(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}
