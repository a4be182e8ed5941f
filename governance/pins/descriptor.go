package pins

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// descriptor is the part of a tool that the model sees, as canonical JSON: equal
// descriptors are equal bytes.
type descriptor struct {
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
}

func newDescriptor(t protocol.Tool) descriptor {
	return descriptor{t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations}.canonical()
}

func (d descriptor) canonical() descriptor {
	d.Title, d.Description = strings.ToValidUTF8(d.Title, "\ufffd"), strings.ToValidUTF8(d.Description, "\ufffd")
	d.InputSchema, d.OutputSchema, d.Annotations = canonical(d.InputSchema), canonical(d.OutputSchema), canonical(d.Annotations)
	return d
}

// canonical sorts keys and removes blanks; numbers keep their text. Invalid JSON becomes a
// JSON string.
func canonical(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	value, err := decode(raw)
	if err != nil {
		value = string(raw)
	}
	return encode(value)
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

func (d descriptor) equal(other descriptor) bool {
	return bytes.Equal(encode(d), encode(other))
}

// diff returns the differences of now from d, one per line.
func (d descriptor) diff(now descriptor) string {
	before, _ := decode(encode(d))
	after, _ := decode(encode(now))
	var list differences
	list.compare("", before, after)
	return strings.Join(list, "\n")
}

const (
	maxLines = 100 // of a diff
	maxValue = 400 // bytes of the value in a line
)

type differences []string

// missing is the value that one side lacks.
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
	l.add("-", path, before)
	l.add("+", path, after)
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

func (l *differences) add(sign, path string, value any) {
	switch {
	case value == (missing{}) || len(*l) > maxLines:
	case len(*l) == maxLines:
		*l = append(*l, "… and more")
	default:
		text := visible(string(encode(value)))
		if len(text) > maxValue {
			text = strings.ToValidUTF8(text[:maxValue], "") + "…"
		}
		*l = append(*l, fmt.Sprintf("%s %s: %s", sign, path, text))
	}
}

// visible escapes characters that a reader cannot see, such as bidirectional marks, and
// control characters of terminals.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsGraphic(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}
