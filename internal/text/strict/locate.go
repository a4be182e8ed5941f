package strict

import (
	"fmt"
	"strings"
)

// locator scans TOML and makes a positioned node for each key and value, without the value. It accepts more than
// TOML allows: the parser decides what is valid, except for the limits.
type locator struct {
	*Source
	at     int
	rules  Rules
	tables map[*Node]map[string]*Node // the values of each table by key
	each   func(Statement)            // called for each statement; nil: not called
	values int
	work   int // sum over keys of parts times depth: the cost for the parser
}

// level is the position of a key or value in the tree.
type level struct {
	depth int // nesting of keys and arrays
	bytes int // length of the keys
}

// keyPart is one part of a dotted key.
type keyPart struct {
	name  string
	start int
}

// locate returns the tree of a text. It stops at the first thing that is not TOML or exceeds a limit.
func locate(src *Source, rules Rules, each func(Statement)) (root *Node, stopped int, bad *Refusal) {
	l := &locator{Source: src, rules: rules.resolved(), tables: map[*Node]map[string]*Node{}, each: each}
	root = &Node{Pos: src.Pos(0)}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Refusal:
			bad, stopped = p, min(l.at, len(src.Text))
		default:
			panic(p)
		}
	}()
	l.document(root)
	return root, 0, nil
}

// fail unwinds to [locate].
func (l *locator) fail(format string, args ...any) {
	panic(&Refusal{Pos: l.Pos(l.at), Message: fmt.Sprintf(format, args...)})
}

func (l *locator) limit(format string, args ...any) {
	panic(&Refusal{Pos: l.Pos(l.at), Message: fmt.Sprintf(format, args...), Limit: true})
}

func (l *locator) document(root *Node) {
	table, in := root, level{}
	var header []keyPart
	for l.blank(); l.at < len(l.Text); l.blank() {
		start := l.at
		var key []keyPart
		var value *Node
		if l.peek() == '[' {
			table, header, in = l.header(root)
		} else {
			key, value = l.pair(table, in)
		}
		l.lineEnd()
		if l.each != nil {
			l.each(l.statement(start, header, key, value))
		}
	}
}

// header reads [a.b] or [[a.b]] and returns its table.
func (l *locator) header(root *Node) (*Node, []keyPart, level) {
	start, closing := l.at, "]"
	l.at++
	if l.peek() == '[' {
		l.at++
		closing = "]]"
	}
	key, in := l.key(level{})
	for range closing {
		l.expect("]")
	}
	if l.rules.AtKeys {
		start = key[0].start
	}
	if closing == "]" {
		return l.below(root, key, start), key, in
	}
	last := len(key) - 1
	list := l.field(l.below(root, key[:last], start), key[last], start)
	return l.item(list, start), key, in
}

// pair reads key = value into table.
func (l *locator) pair(table *Node, in level) ([]keyPart, *Node) {
	key, in := l.key(in)
	l.expect("=")
	l.space()
	last := len(key) - 1
	start := l.at
	n := l.field(l.below(table, key[:last], key[0].start), key[last], start)
	l.value(n, in)
	n.Text = l.Text[start:l.at]
	return key, n
}

func (l *locator) value(n *Node, in level) {
	if l.values++; l.values > l.rules.Values {
		l.limit("more than %d values", l.rules.Values)
	}
	switch l.peek() {
	case '[':
		if in.depth++; in.depth > l.rules.Depth {
			l.limit("nested more than %d deep", l.rules.Depth)
		}
		l.at++
		for l.blank(); l.peek() != ']'; l.blank() {
			start := l.at
			item := l.item(n, start)
			l.value(item, in)
			item.Text = l.Text[start:l.at]
			l.separator(']')
		}
		l.at++
	case '{':
		l.at++
		for l.blank(); l.peek() != '}'; l.blank() {
			l.pair(n, in)
			l.separator('}')
		}
		l.at++
	case '"', '\'':
		l.quoted()
	default:
		l.bare()
	}
}

// bare reads a value without quotes or brackets.
func (l *locator) bare() {
	end := strings.IndexAny(l.Text[l.at:], ",]}#\r\n")
	if end < 0 {
		end = len(l.Text) - l.at
	}
	bare := strings.TrimRight(l.Text[l.at:l.at+end], " \t")
	if bare == "" {
		l.fail("a value is missing")
	}
	l.at += len(bare)
}

// separator skips the comma after an element, which is optional after the last.
func (l *locator) separator(end byte) {
	l.blank()
	switch l.peek() {
	case ',':
		l.at++
	case end:
	default:
		l.fail("expected a comma or %c", end)
	}
}

// key reads a dotted key and returns the level below it.
func (l *locator) key(in level) (key []keyPart, below level) {
	for {
		l.space()
		in.depth++
		switch {
		case in.depth > l.rules.Depth:
			l.limit("nested more than %d deep", l.rules.Depth)
		case len(key) == l.rules.Parts:
			l.limit("a key of more than %d parts", l.rules.Parts)
		}
		part := l.part()
		key = append(key, part)
		in.bytes += len(part.name) + 1
		if most := l.rules.KeyBytes; most > 0 && in.bytes > most {
			l.limit("the keys down to here have more than %d bytes", most)
		}
		l.space()
		if l.peek() != '.' {
			break
		}
		l.at++
	}
	l.work += len(key) * in.depth
	if l.rules.Work > 0 && l.work > l.rules.Work {
		l.limit("too many deep keys")
	}
	return key, in
}

func (l *locator) part() keyPart {
	start := l.at
	if c := l.peek(); c == '"' || c == '\'' {
		return keyPart{l.quoted(), start}
	}
	end := strings.IndexAny(l.Text[start:], " \t.=]\"'#\r\n")
	if end <= 0 {
		l.fail("a key is missing")
	}
	l.at += end
	return keyPart{l.Text[start:l.at], start}
}

// field returns the value of a key of n, creating it at start if it is new.
func (l *locator) field(n *Node, key keyPart, start int) *Node {
	if v := l.tables[n][key.name]; v != nil {
		return v
	}
	if l.tables[n] == nil {
		l.tables[n] = map[string]*Node{}
	}
	if l.rules.AtKeys {
		start = key.start
	}
	v := &Node{Pos: l.Pos(start)}
	l.tables[n][key.name] = v
	n.Fields = append(n.Fields, Field{key.name, l.Pos(key.start), v})
	return v
}

// below follows keys down from n; in an array of tables it enters the last one.
func (l *locator) below(n *Node, keys []keyPart, start int) *Node {
	for _, key := range keys {
		n = l.field(n, key, start)
		if len(n.Items) > 0 {
			n = n.Items[len(n.Items)-1]
		}
	}
	return n
}

func (l *locator) item(n *Node, start int) *Node {
	item := &Node{Pos: l.Pos(start)}
	n.Items = append(n.Items, item)
	return item
}

// quoted reads a string of any of the four forms and returns its content, or "" for the multi-line forms, which
// keys cannot have.
func (l *locator) quoted() string {
	q := l.Text[l.at : l.at+1]
	if strings.HasPrefix(l.Text[l.at:], q+q+q) {
		l.at += 3
		l.until(q+q+q, q == `"`)
		for range 2 { // up to two quotes before the closing three belong to the string
			if strings.HasPrefix(l.Text[l.at:], q) {
				l.at++
			}
		}
		return ""
	}
	l.at++
	start := l.at
	l.until(q, q == `"`)
	content := l.Text[start : l.at-1]
	if q == `"` {
		return unescape(content)
	}
	return content
}

func (l *locator) until(end string, escapes bool) {
	for l.at < len(l.Text) {
		switch {
		case strings.HasPrefix(l.Text[l.at:], end):
			l.at += len(end)
			return
		case len(end) == 1 && l.Text[l.at] == '\n':
			l.fail("a string does not end on its line")
		case escapes && l.Text[l.at] == '\\':
			l.at++
		}
		l.at++
	}
	l.at = len(l.Text)
	l.fail("a string does not end")
}

// unescape resolves the escapes of a basic string.
func unescape(content string) string {
	if strings.Contains(content, `\`) {
		doc, _ := parse(`"` + content + `" = 0`)
		table, _ := doc.(map[string]any)
		for key := range table {
			return key
		}
	}
	return content
}

func (l *locator) peek() byte {
	if l.at < len(l.Text) {
		return l.Text[l.at]
	}
	return 0
}

func (l *locator) expect(s string) {
	l.space()
	if !strings.HasPrefix(l.Text[l.at:], s) {
		l.fail("expected %s", s)
	}
	l.at += len(s)
}

func (l *locator) space() {
	l.at = len(l.Text) - len(strings.TrimLeft(l.Text[l.at:], " \t"))
}

// blank skips blanks, line ends and comments.
func (l *locator) blank() {
	for {
		l.at = len(l.Text) - len(strings.TrimLeft(l.Text[l.at:], " \t\r\n"))
		if l.peek() != '#' {
			return
		}
		l.comment()
	}
}

func (l *locator) comment() {
	line, _, _ := strings.Cut(l.Text[l.at:], "\n")
	l.at += len(line)
}

func (l *locator) lineEnd() {
	l.space()
	switch l.peek() {
	case '#':
		l.comment()
	case '\r', '\n', 0:
	default:
		l.fail("expected the end of the line")
	}
}
