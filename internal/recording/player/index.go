package player

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"regexp"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// index finds recorded calls by method and params.
type index struct {
	byKey map[uint64]*equals // by hash of the key; colliding entries are chained
	seed  maphash.Seed
	all   []*equals // in order of their first call
}

// equals are recorded calls with the same key, in order.
type equals struct {
	key
	name  string // of the tool or prompt, or the resource URI
	calls []*call
	next  int     // index in calls of the call that answers next
	chain *equals // next entry with the same hash
}

// key identifies equal calls.
type key struct {
	modern bool
	method string
	params string // see canonical
}

func newIndex() index { return index{byKey: make(map[uint64]*equals), seed: maphash.MakeSeed()} }

// add adds a call. name is the tool, prompt or resource URI.
func (x *index) add(k key, name string, c *call) {
	e := x.get(k)
	if e == nil {
		h := maphash.Comparable(x.seed, k)
		e = &equals{key: k, name: name, chain: x.byKey[h]}
		x.byKey[h], x.all = e, append(x.all, e)
	}
	e.calls = append(e.calls, c)
}

// get returns the calls with this key, or nil.
func (x *index) get(k key) *equals {
	e := x.byKey[maphash.Comparable(x.seed, k)]
	for e != nil && e.key != k {
		e = e.chain
	}
	return e
}

// nameOf returns the tool, prompt or resource URI that a request names.
func nameOf(params json.RawMessage) string {
	for _, member := range []string{"name", "uri"} {
		if name, ok := rawjson.Text(rawjson.Get(params, member)); ok {
			return name
		}
	}
	return ""
}

// canonical returns params with sorted members and without _meta, which differs between equal calls. Native extensions
// have _meta inside their arguments.
func canonical(params json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(params))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return ""
	}
	if object, ok := value.(map[string]any); ok {
		delete(object, "_meta")
		if arguments, ok := object["arguments"].(map[string]any); ok {
			if delete(arguments, "_meta"); len(arguments) == 0 {
				delete(object, "arguments")
			}
		}
		if len(object) == 0 {
			return ""
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // decoded values always encode
	return strings.TrimSuffix(b.String(), "\n")
}

// find returns the call that answers a request, or an error. If nearest is set, find falls back to the most similar
// call, and gives the last answer again once all have been given.
func (x *index) find(modern bool, method string, params json.RawMessage, nearest bool) (*call, error) {
	asked := canonical(params)
	e := x.get(key{modern, method, asked})
	if e == nil {
		e = x.masked(modern, method, asked)
	}
	if e != nil {
		if e.next < len(e.calls) {
			e.next++
			return e.calls[e.next-1], nil
		}
		if nearest || repeats(method) {
			return e.calls[len(e.calls)-1], nil
		}
		return nil, fmt.Errorf("%s was recorded %s, and is asked for once more; record more of them, or replay with "+
			"match = \"nearest\"", describe(method, e.name, e.params), times(len(e.calls)))
	}
	near, sameName := x.nearest(modern, method, nameOf(params), asked)
	if near != nil && sameName && (nearest || strings.HasPrefix(method, protocol.MethodHookPrefix)) {
		if near.next < len(near.calls) {
			near.next++
		}
		return near.calls[near.next-1], nil
	}
	hint := "nothing of that kind was recorded"
	if near != nil {
		hint = "the nearest recorded call is " + describe(near.method, near.name, near.params)
	}
	return nil, fmt.Errorf("%s was not recorded; %s", describe(method, nameOf(params), asked), hint)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// repeats reports whether clients may send equal requests any number of times, as when polling. Then the last recorded
// answer is given again.
func repeats(method string) bool {
	return strings.HasSuffix(method, "/list") || method == protocol.MethodDiscover || method == protocol.MethodTasksGet
}

// shownParams limits the params in an error, in bytes.
const shownParams = 200

// describe formats a call for an error.
func describe(method, name, params string) string {
	if method != protocol.MethodToolsCall {
		return strings.TrimSpace(method + " " + display.Cut(params, shownParams))
	}
	arguments := rawjson.Get([]byte(params), "arguments")
	return strings.TrimSpace(name + " " + display.Cut(string(arguments), shownParams))
}

// nearest returns the recorded calls of method most similar to asked, and whether they have the same name. It
// returns nil if method was not recorded.
func (x *index) nearest(modern bool, method, name, asked string) (best *equals, sameName bool) {
	most := -1
	for _, e := range x.all {
		if e.method != method {
			continue
		}
		score := similarity(e.params, asked)
		if e.modern == modern {
			score += 1 << 20
		}
		if e.name == name {
			score += 1 << 40
		}
		if score > most {
			best, most = e, score
		}
	}
	return best, best != nil && best.name == name
}

// similarity scores two canonical params: equal arguments weigh most, then common prefixes and suffixes.
func similarity(a, b string) int {
	score := 0
	ours, theirs := rawjson.Get([]byte(a), "arguments"), rawjson.Get([]byte(b), "arguments")
	rawjson.Each(ours, func(name []byte, value json.RawMessage) bool {
		if bytes.Equal(value, rawjson.Get(theirs, string(name))) {
			score += 1000
		}
		return true
	})
	n := 0
	for n < min(len(a), len(b), 400) && a[n] == b[n] {
		n++
	}
	m := 0
	for m < min(len(a), len(b), 400)-n && a[len(a)-1-m] == b[len(b)-1-m] {
		m++
	}
	return score + n + m
}

// masks match the placeholders of masked secrets.
var masks = regexp.MustCompile(`\*\*\*|\[redacted:[a-z0-9_-]{1,64}\]`)

// masked returns the calls whose params equal the asked ones except for masked secrets.
func (x *index) masked(modern bool, method, asked string) *equals {
	for _, e := range x.all {
		if e.modern == modern && e.method == method && e.matches(asked) {
			return e
		}
	}
	return nil
}

// matches reports whether the recorded params contain masks and equal asked otherwise.
func (e *equals) matches(asked string) bool {
	recorded := e.params
	if !strings.Contains(recorded, "***") && !strings.Contains(recorded, "[redacted:") {
		return false
	}
	for recorded != "" {
		if recorded[0] != '"' { // punctuation between strings
			n := strings.IndexByte(recorded, '"')
			if n < 0 {
				return recorded == asked
			}
			if !strings.HasPrefix(asked, recorded[:n]) {
				return false
			}
			recorded, asked = recorded[n:], asked[n:]
			continue
		}
		n, m := textEnd(recorded), textEnd(asked)
		if !mayBe(recorded[:n], asked[:m]) {
			return false
		}
		recorded, asked = recorded[n:], asked[m:]
	}
	return asked == ""
}

// textEnd returns the length of the string or number at the start of canonical JSON.
func textEnd(raw string) int {
	if !strings.HasPrefix(raw, `"`) {
		return len(raw) - len(strings.TrimLeft(raw, "-+.0123456789eE"))
	}
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// mayBe reports whether a recorded string matches asked with masks as wildcards. A mask alone also matches a
// number.
func mayBe(recorded, asked string) bool {
	if recorded == asked {
		return true
	}
	found := masks.FindAllStringIndex(recorded, -1)
	if len(found) == 0 {
		return false
	}
	if !strings.HasPrefix(asked, `"`) {
		return asked != "" && recorded == `"***"`
	}
	first, last := found[0][0], found[len(found)-1][1]
	if len(asked) < first+len(recorded)-last || !strings.HasPrefix(asked, recorded[:first]) ||
		!strings.HasSuffix(asked, recorded[last:]) {
		return false
	}
	asked = asked[first : len(asked)-len(recorded)+last]
	for i := range len(found) - 1 { // leftmost matches leave the most text for later pieces
		piece := recorded[found[i][1]:found[i+1][0]]
		at := strings.Index(asked, piece)
		if at < 0 {
			return false
		}
		asked = asked[at+len(piece):]
	}
	return true
}
