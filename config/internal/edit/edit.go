// Package edit changes lists and tables in the text of configuration files and keeps every other byte, comments
// and order included.
//
// Each edit is verified by parsing the text before and after: only the list or table may differ. A notation that
// the package cannot change is an error that asks for a change by hand.
package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// List is a change of a list of strings in a section of a file.
type List struct {
	// Section.Key, such as extensions.disabled. A section within others, such as toolsets.review, has to be there.
	Section, Key string
	Add          []string // appended in order, unless already in the list
	Remove       string   // "" removes nothing; if Add is empty too, a missing list is added as []
}

// Apply changes a list in data, the content of the file called name. It returns the 1-based line of the change, or
// 0 if nothing changed.
func Apply(name string, data []byte, l List) (changed []byte, line int, err error) {
	file := notationOf(name)
	before, err := file.read(data)
	if err != nil {
		return nil, 0, err
	}
	want, err := l.applied(before)
	if err != nil {
		return nil, 0, err
	}
	same := func(after map[string]any) bool { return reflect.DeepEqual(after, want) }
	changed, err = file.rewrite(data, byHand(l.Section, l.Key), same, func(text string) (string, error) {
		return l.change(file, text, before)
	})
	if err != nil {
		return nil, 0, err
	}
	line = firstDifference(string(data), string(changed))
	if line > 0 && len(l.Add) > 0 {
		line += lineOf(strings.Split(string(changed), "\n")[line-1:], l.Add[0])
	}
	return changed, line, nil
}

// change changes the list in text, whose content is doc.
func (l *List) change(file notation, text string, doc map[string]any) (_ string, err error) {
	have, stated := list(doc, l.Section, l.Key)
	if !stated && len(l.Add) == 0 && l.Remove == "" {
		return file.add(text, l.Section, l.Key, "")
	}
	for _, v := range l.Add {
		if slices.Contains(have, v) {
			continue
		}
		if text, err = file.add(text, l.Section, l.Key, file.quote(v)); err != nil {
			return "", err
		}
	}
	if l.Remove != "" && slices.Contains(have, l.Remove) {
		return file.remove(text, l.Section, l.Key, l.Remove)
	}
	return text, nil
}

var bom = []byte("\xef\xbb\xbf")

func byHand(section, key string) error {
	return fmt.Errorf("%s.%s is written in a way that is not changed automatically; change it by hand", section, key)
}

// notation reads and changes files of one format.
type notation struct {
	decode func(data []byte, v any) error
	quote  func(value string) string
	key    func(name string) string
	is     string                                                // between a key and its value
	add    func(text, section, key, item string) (string, error) // creates a missing list; "" adds no item
	remove func(text, section, key, value string) (string, error)

	tableLines            func(t *Table) string
	setTable, removeTable func(text string, t *Table) (changed string, ok bool)
}

func notationOf(name string) notation {
	quote := scalar
	switch strings.ToLower(filepath.Ext(name)) {
	case ".toml":
		return notation{toml.Unmarshal, quoted, bare, " = ", addTOML, removeTOML, linesTOML, setTOML, removeTableTOML}
	case ".json": // YAML in flow style here, but other programs read it as JSON
		quote = quoted
	}
	add := func(text, section, key, item string) (string, error) { return addYAML(text, section, key, item, quote) }
	return notation{
		yaml.Unmarshal,
		quote,
		quote,
		": ",
		add,
		removeYAML,
		func(t *Table) string { return t.linesYAML(0, "") },
		setYAML,
		removeTableYAML,
	}
}

// quoted writes a text as JSON does, which YAML and TOML read too.
func quoted(text string) string { return string(rawjson.Quote(text)) }

// Literal writes a value of [Setting] on one line, in the notation of the file called name.
func Literal(name string, value any) string { return notationOf(name).literal(value) }

func (n notation) literal(value any) string {
	switch value := value.(type) {
	case string:
		return n.quote(value)
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = n.literal(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var set []Setting
		for _, key := range slices.Sorted(maps.Keys(value)) {
			set = append(set, Setting{key, value[key]})
		}
		return "{" + n.inline(set) + "}"
	}
	raw, _ := json.Marshal(value) // a number, true, false or null
	return string(raw)
}

// decoded returns the value that a file has after value was written to it; ok is false if the file would have another
// one.
func (n notation) decoded(value any) (out any, ok bool) {
	if text, is := value.(string); is {
		return text, true
	}
	doc, err := n.read([]byte("v" + n.is + n.literal(value)))
	if err != nil {
		return nil, false
	}
	got, err := json.Marshal(doc["v"])
	if err != nil {
		return nil, false
	}
	want, err := json.Marshal(value)
	return doc["v"], err == nil && rawjson.Equal(got, want)
}

func (n notation) read(data []byte) (doc map[string]any, err error) {
	err = n.decode(data, &doc)
	if doc == nil {
		doc = map[string]any{}
	}
	return doc, err
}

// rewrite applies change to the text of a file, without byte order mark and with \n as line ends. It returns the error
// refusal if the new content is not as wanted.
func (n notation) rewrite(data []byte, refusal error, wanted func(after map[string]any) bool,
	change func(text string) (string, error)) ([]byte, error) {
	body := bytes.TrimPrefix(data, bom)
	text, err := change(strings.ReplaceAll(string(body), "\r\n", "\n"))
	if err != nil {
		return nil, err
	}
	text = withLineEnds(text, string(body))
	if after, err := n.read([]byte(text)); err != nil || !wanted(after) {
		return nil, refusal
	}
	return slices.Concat(data[:len(data)-len(body)], []byte(text)), nil
}

func list(doc map[string]any, section, key string) (values []string, ok bool) {
	for _, part := range strings.Split(section, ".") {
		doc, _ = doc[part].(map[string]any)
	}
	items, ok := doc[key].([]any)
	for _, item := range items {
		s, isText := item.(string)
		ok = ok && isText
		values = append(values, s)
	}
	return values, ok
}

func (l *List) applied(doc map[string]any) (map[string]any, error) {
	out := maps.Clone(doc)
	table := out
	for _, part := range strings.Split(l.Section, ".") {
		have, ok := table[part].(map[string]any)
		if !ok && table[part] != nil {
			return nil, byHand(l.Section, l.Key)
		}
		below := map[string]any{}
		maps.Copy(below, have)
		table[part], table = below, below
	}
	values, ok := list(doc, l.Section, l.Key)
	if !ok && table[l.Key] != nil {
		return nil, byHand(l.Section, l.Key)
	}
	for _, v := range l.Add {
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	values = slices.DeleteFunc(values, func(v string) bool { return v == l.Remove })
	items := make([]any, len(values))
	for i, v := range values {
		items[i] = v
	}
	table[l.Key] = items
	return out, nil
}

// withLineEnds restores the line ends of original in text, whose lines end in \n. A new line ends like the one
// before it.
func withLineEnds(text, original string) string {
	lines, before := strings.SplitAfter(text, "\n"), strings.SplitAfter(original, "\n")
	same := func(i, j int) bool { return lines[i] == strings.Replace(before[j], "\r\n", "\n", 1) }
	head, tail := 0, 0
	for most := min(len(lines), len(before)); head < most && same(head, head); head++ {
		lines[head] = before[head]
	}
	for most := min(len(lines), len(before)) - head; tail < most &&
		same(len(lines)-1-tail, len(before)-1-tail); tail++ {
		lines[len(lines)-1-tail] = before[len(before)-1-tail]
	}
	model := before[max(0, head-1)]
	for i := head; i < len(lines)-tail; i++ {
		if strings.HasSuffix(model, "\r\n") && strings.HasSuffix(lines[i], "\n") {
			lines[i] = strings.TrimSuffix(lines[i], "\n") + "\r\n"
		}
	}
	return strings.Join(lines, "")
}

// firstDifference returns the first line that differs, or 0.
func firstDifference(a, b string) int {
	if a == b {
		return 0
	}
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1
		}
	}
	return min(len(x), len(y)) + 1
}

// lineOf returns the index of the line with the value, or 0.
func lineOf(lines []string, value string) int {
	whole := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(value) + `($|[^\w.-])`)
	return max(0, slices.IndexFunc(lines, whole.MatchString))
}

func insert(text string, at int, s string) string { return text[:at] + s + text[at:] }

// lineEnd returns the offset of the newline that ends the line of at.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}

func lineStart(text string, at int) int { return strings.LastIndexByte(text[:at], '\n') + 1 }

// insertBelow inserts a line below the line of at.
func insertBelow(text string, at int, line string) string {
	end := lineEnd(text, at)
	if end == len(text) {
		return text + "\n" + line + "\n"
	}
	return insert(text, end+1, line+"\n")
}

// appended adds a paragraph at the end.
func appended(text, paragraph string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if strings.TrimSpace(text) != "" {
		text += "\n"
	}
	return text + paragraph
}
