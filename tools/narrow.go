package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/schema"
)

// Arg is how an argument is shown. At most one of Fix, Default and Hide is set.
type Arg struct {
	Fix      json.RawMessage // always sent with this value, and not shown
	Default  json.RawMessage // sent if the caller does not state the argument, which need not
	Hide     bool            // neither shown nor sent
	Describe string          // replaces the description; "" keeps it
}

// narrowing rewrites a tool's input schema for callers who state a part of its arguments: of the rest the values are
// known, or they are never sent. What is left accepts the arguments of a caller exactly if the whole schema accepts
// these together with the known values.
type narrowing struct {
	root  json.RawMessage
	draft int // of JSON Schema: 4, 6, 7, 2019, 2020
	parts *schema.Parts
	args  map[string]Arg

	named    map[string]bool            // arguments that the schema names
	refs     []string                   // references that are being followed
	exactly  int                        // schemas around it in which a weaker one would not do: not, if and oneOf
	done     map[string]json.RawMessage // rewritten schemas, by pointer; ! before it if exactly is not 0
	patterns map[string]*regexp.Regexp  // of patternProperties, by their text
	written  int                        // bytes of rewritten schemas
	err      error                      // the first one
}

// maxNarrowed bounds the bytes of rewritten schemas: one that many references lead to is written in the place of each.
const maxNarrowed = 8 << 20

// draftOf returns the draft of JSON Schema by which a schema is read.
func draftOf(root json.RawMessage) int {
	stated, _ := rawjson.Text(rawjson.Get(root, "$schema"))
	for part, draft := range map[string]int{"draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019} {
		if strings.Contains(stated, part) {
			return draft
		}
	}
	return 2020
}

// since has the first draft that has a keyword; those before ignore it.
var since = map[string]int{
	"propertyNames": 6, "const": 6, "if": 7, "then": 7, "else": 7, "dependentRequired": 2019, "dependentSchemas": 2019,
	"unevaluatedProperties": 2019, "$recursiveRef": 2019, "$dynamicRef": 2020,
}

// errUnsatisfiable says that no arguments of a caller would be accepted.
var errUnsatisfiable = errors.New("the tool accepts no call with these values")

// narrow returns the schema of what callers state, and the names of all arguments that the schema names.
func narrow(root json.RawMessage, args map[string]Arg) (json.RawMessage, []string, error) {
	doc, err := readSchema(root)
	if err != nil {
		return nil, nil, err
	}
	n := &narrowing{
		root:     root,
		draft:    draftOf(root),
		parts:    doc.Parts(),
		args:     args,
		named:    make(map[string]bool),
		done:     make(map[string]json.RawMessage),
		patterns: make(map[string]*regexp.Regexp),
	}
	out := n.at("", root)
	names := slices.Sorted(maps.Keys(n.named))
	switch {
	case n.err != nil:
		return nil, names, n.err
	case isBool(out, false):
		return nil, names, errUnsatisfiable
	}
	if out, err = objectSchema(out); err == nil {
		out, err = prune(out)
	}
	return out, names, err
}

// always reports whether the argument is part of every call, and its value if that is known.
func (n *narrowing) always(name string) (value json.RawMessage, ok bool) {
	a, ours := n.args[name]
	return a.Fix, ours && (a.Fix != nil || a.Default != nil)
}

// never reports whether the argument is part of no call.
func (n *narrowing) never(name string) bool { return n.args[name].Hide }

func isBool(s json.RawMessage, is bool) bool { return string(s) == strconv.FormatBool(is) }

func (n *narrowing) fail(format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf(format, args...)
	}
}

// accepts reports whether the schema at a pointer accepts a value.
func (n *narrowing) accepts(pointer string, value json.RawMessage) bool {
	ok, err := n.parts.Accepts(pointer, value)
	if err != nil {
		n.fail("its schema cannot be used: %w", err)
	}
	return ok
}

// fits reports whether the schema at a pointer, of an argument, accepts the value that is stated for it.
func (n *narrowing) fits(pointer, name string) bool {
	a := n.args[name]
	if a.Default != nil && !n.accepts(pointer, a.Default) {
		n.fail("the default of %q is not accepted by the tool", name)
	}
	return a.Fix == nil || n.accepts(pointer, a.Fix)
}

// level is a schema of the arguments while its keywords are rewritten.
type level struct {
	*narrowing
	at       string // pointer of the schema
	alone    bool   // it is a reference, and older drafts ignore what is beside one
	out      []member
	required []string          // more required arguments
	all      []json.RawMessage // more schemas that must hold
	never    bool              // nothing is accepted
}

// at returns the rewritten schema s, which is at a pointer of the root; true and false stand for schemas that accept
// everything and nothing.
func (n *narrowing) at(pointer string, s json.RawMessage) json.RawMessage {
	if !isObject(s) || n.err != nil {
		return s
	}
	key := pointer
	if n.exactly > 0 {
		key = "!" + pointer
	}
	if out, known := n.done[key]; known {
		return out
	}
	ms, err := members(s)
	if err != nil {
		n.fail("its schema cannot be read: %w", err)
		return s
	}
	l := &level{narrowing: n, at: pointer, alone: n.draft < 2019 && at(ms, "$ref") != nil}
	for _, m := range ms {
		if l.ignores(m.key) {
			l.out = append(l.out, m)
		} else {
			l.keyword(m, ms)
		}
	}
	out := s
	if l.never || l.required != nil || l.all != nil || !slices.EqualFunc(l.out, ms, sameMember) {
		out = l.join()
		n.written += len(out)
	}
	n.done[key] = out
	if n.written > maxNarrowed {
		n.fail("its schema is too large to be shown in part")
	}
	return out
}

// exact is at for a schema that counts as it is, also where it refuses.
func (n *narrowing) exact(pointer string, s json.RawMessage) json.RawMessage {
	n.exactly++
	defer func() { n.exactly-- }()
	return n.at(pointer, s)
}

// ignores reports whether the draft ignores a keyword, or does so beside a reference.
func (l *level) ignores(key string) bool { return l.alone && key != "$ref" || since[key] > l.draft }

// besideReference are the keywords that count beside a reference in every draft.
var besideReference = append([]string{"$schema", "$comment", "title", "description"}, definitions...)

func sameMember(a, b member) bool { return a.key == b.key && bytes.Equal(a.value, b.value) }

// holds reports whether a schema accepts every object.
func holds(s json.RawMessage) bool {
	if !isObject(s) {
		return isBool(s, true)
	}
	for key, value := range rawjson.Members(s) {
		switch key {
		case "title", "description", "$comment", "default", "examples", "deprecated":
		case "type":
			if string(value) != `"object"` {
				return false
			}
		case "properties":
			if len(mustMembers(value)) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// keyword rewrites one keyword; ms are all of the schema.
func (l *level) keyword(m member, ms []member) {
	switch m.key {
	case "$ref":
		l.reference(m)
	case "properties":
		l.properties(m)
	case "patternProperties", "additionalProperties", "propertyNames":
		l.others(m, ms)
		l.out = append(l.out, m)
	case "required":
		l.require(m)
	case "minProperties", "maxProperties":
		l.count(m)
	case "dependentRequired", "dependentSchemas", "dependencies":
		l.dependent(m)
	case "allOf", "anyOf", "oneOf":
		l.branches(m)
	case "not":
		l.not(m)
	case "if", "then", "else":
		l.conditional(m, ms)
	case "$id", "id", "const", "enum", "unevaluatedProperties", "$dynamicRef", "$recursiveRef":
		l.indivisible(m)
	default:
		l.out = append(l.out, m)
	}
}

// indivisible refuses a keyword that cannot be rewritten, unless it says nothing.
func (l *level) indivisible(m member) {
	identifies := m.key == "$id" || m.key == "id" && l.draft == 4
	switch {
	case m.key == "unevaluatedProperties" && isBool(m.value, true):
	case m.key == "id" && !identifies, identifies && l.at == "":
		l.out = append(l.out, m)
	case identifies:
		l.fail("its schema has parts with an %s of their own, to which references are relative", m.key)
	default:
		l.fail("its schema has %s where it describes the arguments, which cannot be shown in part", m.key)
	}
}

// join returns the rewritten schema.
func (l *level) join() json.RawMessage {
	if l.alone { // what takes its place is no reference
		l.out = slices.DeleteFunc(l.out, func(m member) bool { return !slices.Contains(besideReference, m.key) })
	}
	if len(l.required) > 0 {
		l.require(member{"required", mustMarshal(l.required)})
	}
	if l.never {
		return json.RawMessage("false")
	}
	if len(l.all) > 0 {
		i := slices.IndexFunc(l.out, func(m member) bool { return m.key == "allOf" })
		if i < 0 {
			l.out, i = append(l.out, member{"allOf", json.RawMessage("[]")}), len(l.out)
		}
		l.out[i].value = rawjson.AppendList(nil, append(items(l.out[i].value), l.all...))
	}
	return object(l.out)
}

func mustMarshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // of strings and numbers
	return raw
}

// add adds a schema that must hold.
func (l *level) add(s json.RawMessage) {
	switch {
	case isBool(s, false):
		l.never = true
	case !holds(s):
		l.all = append(l.all, s)
	}
}

// reference follows a reference, and puts what it leads to in its place if that changes.
func (l *level) reference(m member) {
	ref, _ := rawjson.Text(m.value)
	pointer, local := strings.CutPrefix(ref, "#")
	target := find(l.root, pointer)
	switch {
	case !local || target == nil || pointer != "" && pointer[0] != '/':
		l.fail("its schema refers to %q, which is no place in it", ref)
	case slices.Contains(l.refs, ref):
		l.fail("its schema refers to itself at %q", ref)
	default:
		l.refs = append(l.refs, ref)
		narrowed := l.narrowing.at(pointer, target)
		l.refs = l.refs[:len(l.refs)-1]
		if bytes.Equal(narrowed, target) {
			l.out = append(l.out, m)
		} else {
			l.add(narrowed)
		}
	}
}

// properties takes the arguments that callers do not state out of properties, and describes others.
func (l *level) properties(m member) {
	if !isObject(m.value) {
		l.out = append(l.out, m)
		return
	}
	in, out := mustMembers(m.value), []member(nil)
	for _, p := range in {
		l.named[p.key] = true
		a, ours := l.args[p.key]
		switch {
		case !ours:
		case !l.fits(l.at+"/properties/"+schema.EscapePointer(p.key), p.key):
			l.never = true
			continue
		case a.Fix != nil || a.Hide:
			continue
		default:
			p.value = a.describe(p.value)
		}
		out = append(out, p)
	}
	if !slices.EqualFunc(in, out, sameMember) {
		m.value = object(out)
	}
	l.out = append(l.out, m)
}

// describe returns the schema of an argument with its description and default.
func (a Arg) describe(s json.RawMessage) json.RawMessage {
	if !isObject(s) {
		s = json.RawMessage(`{}`)
	}
	if rawjson.Get(s, "$ref") != nil { // older drafts ignore what is beside a reference
		s = object([]member{{"allOf", rawjson.AppendList(nil, []json.RawMessage{s})}})
	}
	if a.Describe != "" {
		s = rawjson.Set(s, "description", rawjson.Quote(a.Describe))
	}
	if a.Default != nil {
		s = rawjson.Set(s, "default", a.Default)
	}
	return s
}

// others checks known values against keywords about arguments that properties does not name. Those keywords stay.
func (l *level) others(m member, ms []member) {
	properties, patterns := mustMembers(at(ms, "properties")), mustMembers(at(ms, "patternProperties"))
	for name, a := range l.args {
		if a.Fix == nil && a.Default == nil {
			continue
		}
		pointer := l.at + "/" + m.key
		switch m.key {
		case "propertyNames":
			if !l.accepts(pointer, rawjson.Quote(name)) {
				l.never = true
			}
		case "additionalProperties":
			other := at(properties, name) == nil && l.matching(patterns, name) == nil
			if other && !l.fits(pointer, name) {
				l.never = true
			}
		case "patternProperties":
			for _, pattern := range l.matching(patterns, name) {
				if !l.fits(pointer+"/"+schema.EscapePointer(pattern), name) {
					l.never = true
				}
			}
		}
	}
}

// matching returns the keys of patternProperties that match a name.
func (n *narrowing) matching(patterns []member, name string) (list []string) {
	for _, p := range patterns {
		re, known := n.patterns[p.key]
		if !known {
			var err error
			if re, err = regexp.Compile(p.key); err != nil {
				n.fail("its schema has the pattern %q: %w", p.key, err)
			}
			n.patterns[p.key] = re
		}
		if re != nil && re.MatchString(name) {
			list = append(list, p.key)
		}
	}
	return list
}

// missing returns the required arguments that callers have to state; ok is false if one is never sent.
func (n *narrowing) missing(names []string) (left []string, ok bool) {
	for _, name := range names {
		if n.never(name) {
			return nil, false
		}
		if _, always := n.always(name); !always && !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	return left, true
}

// require takes the arguments that are always there out of a list of required ones.
func (l *level) require(m member) {
	var names []string
	if json.Unmarshal(m.value, &names) != nil {
		l.out = append(l.out, m)
		return
	}
	for _, name := range names {
		l.named[name] = true
	}
	left, ok := l.missing(names)
	if !ok {
		l.never = true
		return
	}
	if i := slices.IndexFunc(l.out, func(m member) bool { return m.key == "required" }); i >= 0 {
		var have []string
		_ = json.Unmarshal(l.out[i].value, &have) // was written here
		left = append(have, left...)
		slices.Sort(left)
		l.out[i].value = mustMarshal(slices.Compact(left))
	} else if len(left) > 0 {
		if len(left) < len(names) {
			m.value = mustMarshal(left)
		}
		l.out = append(l.out, m)
	}
}

// count adjusts a number of arguments by those that are always there.
func (l *level) count(m member) {
	number, err := strconv.ParseFloat(string(m.value), 64)
	if err != nil {
		l.out = append(l.out, m)
		return
	}
	var defaults []string
	for _, name := range slices.Sorted(maps.Keys(l.args)) {
		switch a := l.args[name]; {
		case a.Fix != nil:
			number--
		case a.Default != nil:
			defaults = append(defaults, name)
		}
	}
	if l.exactly == 0 { // the tool refuses what a weaker number lets pass
		if m.key == "minProperties" {
			number -= float64(len(defaults))
		}
		defaults = nil
	}
	if s := l.counted(m.key, number, defaults); len(defaults) == 0 && isObject(s) {
		l.out = append(l.out, mustMembers(s)...)
	} else {
		l.add(s)
	}
}

// maxCounted bounds the defaults that a bound on the number of arguments may depend on: each doubles the cases.
const maxCounted = 4

// counted returns the schema that bounds the number of arguments by the keyword key. defaults are those that are sent
// even if the caller leaves them out.
func (l *level) counted(key string, number float64, defaults []string) json.RawMessage {
	switch {
	case key == "minProperties" && number <= 0:
		return json.RawMessage("true")
	case key == "maxProperties" && number < 0:
		return json.RawMessage("false")
	case len(defaults) == 0:
		return object([]member{{key, mustMarshal(number)}})
	case len(defaults) > maxCounted:
		l.fail("its schema counts its arguments in a way that cannot be shown with %d defaults", len(defaults))
		return json.RawMessage("true")
	}
	stated := object([]member{{"required", mustMarshal(defaults[:1])}})
	missing := object([]member{{"not", stated}})
	cases := make([]json.RawMessage, 0, 2)
	for i, when := range []json.RawMessage{stated, missing} {
		both := []json.RawMessage{when, l.counted(key, number-float64(i), defaults[1:])}
		cases = append(cases, object([]member{{"allOf", rawjson.AppendList(nil, both)}}))
	}
	return object([]member{{"anyOf", rawjson.AppendList(nil, cases)}})
}

// dependent rewrites what arguments require: of one that is always there it holds always, of one that never is, never.
func (l *level) dependent(m member) {
	if !isObject(m.value) {
		l.out = append(l.out, m)
		return
	}
	in, out := mustMembers(m.value), []member(nil)
	for _, d := range in {
		_, always := l.always(d.key)
		var names []string
		switch list := json.Unmarshal(d.value, &names) == nil && isArray(d.value); {
		case l.narrowing.never(d.key):
		case list:
			left, ok := l.missing(names)
			switch {
			case always && !ok:
				l.never = true
			case always:
				l.required = append(l.required, left...)
			case !ok: // the argument cannot be stated
				none := object([]member{{d.key, json.RawMessage("false")}})
				l.all = append(l.all, object([]member{{"properties", none}}))
			case len(left) == len(names):
				out = append(out, d)
			case len(left) > 0:
				out = append(out, member{d.key, mustMarshal(left)})
			}
		default:
			s := l.narrowing.at(l.at+"/"+m.key+"/"+schema.EscapePointer(d.key), d.value)
			if always {
				l.add(s)
			} else {
				out = append(out, member{d.key, s})
			}
		}
	}
	switch {
	case slices.EqualFunc(in, out, sameMember):
		l.out = append(l.out, m)
	case len(out) > 0:
		l.out = append(l.out, member{m.key, object(out)})
	}
}

// branches rewrites alternatives, and leaves out those that are decided.
func (l *level) branches(m member) {
	if !isArray(m.value) {
		l.out = append(l.out, m)
		return
	}
	in, open := items(m.value), []json.RawMessage(nil)
	met := 0 // branches that accept everything
	for i, s := range in {
		rewrite := l.narrowing.at
		if m.key == "oneOf" {
			rewrite = l.exact
		}
		switch s = rewrite(l.at+"/"+m.key+"/"+strconv.Itoa(i), s); {
		case isBool(s, false) && m.key == "allOf":
			l.never = true
		case isBool(s, false):
		case holds(s):
			met++
		default:
			open = append(open, s)
		}
	}
	if slices.EqualFunc(in, open, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		l.out = append(l.out, m)
	} else {
		l.decide(m.key, met, open)
	}
}

// decide adds what is left of alternatives. met is how many of them every call meets, and open those that depend on the
// call.
func (l *level) decide(key string, met int, open []json.RawMessage) {
	switch {
	case key == "allOf" && len(open) > 0, key == "anyOf" && met == 0 && len(open) > 1, key == "oneOf" && met == 0 &&
		len(open) > 1:
		l.out = append(l.out, member{key, rawjson.AppendList(nil, open)})
	case key == "allOf", key == "anyOf" && met > 0:
	case met == 0 && len(open) == 1:
		l.add(open[0])
	case met == 0 || met > 1:
		l.never = true
	case len(open) > 0: // no other may hold
		l.add(object([]member{{"not", object([]member{{"anyOf", rawjson.AppendList(nil, open)}})}}))
	}
}

func (l *level) not(m member) {
	switch s := l.exact(l.at+"/not", m.value); {
	case holds(s):
		l.never = true
	case !isBool(s, false):
		l.out = append(l.out, member{"not", s})
	}
}

// conditional rewrites if, then and else together, at the keyword if. The others alone mean nothing.
func (l *level) conditional(m member, ms []member) {
	if m.key != "if" {
		return
	}
	branches := make(map[string]json.RawMessage)
	for _, key := range []string{"if", "then", "else"} {
		if s := at(ms, key); s != nil {
			branches[key] = l.exact(l.at+"/"+key, s)
		}
	}
	decided := ""
	switch {
	case holds(branches["if"]):
		decided = "then"
	case isBool(branches["if"], false):
		decided = "else"
	}
	for _, key := range []string{"if", "then", "else"} {
		switch s := branches[key]; {
		case s == nil:
		case decided == "":
			l.out = append(l.out, member{key, s})
		case decided == key:
			l.add(s)
		}
	}
}

// find returns the value at a JSON Pointer, nil if there is none.
func find(root json.RawMessage, pointer string) json.RawMessage {
	if pointer == "" {
		return root
	}
	value := root
	for _, key := range schema.SplitPointer(pointer[1:]) {
		switch {
		case isObject(value):
			value = rawjson.Get(value, key)
		case isArray(value):
			list := items(value)
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(list) {
				return nil
			}
			value = list[i]
		default:
			return nil
		}
	}
	return value
}

// definitions are the keywords that hold schemas for references.
var definitions = []string{"$defs", "definitions"}

// prune removes definitions that nothing refers to any more. Other references than to definitions are errors: what they
// lead to may have changed.
func prune(s json.RawMessage) (json.RawMessage, error) {
	ms := mustMembers(s)
	used := make(map[string]bool)
	var collect func(value json.RawMessage) error
	collect = func(value json.RawMessage) error {
		switch {
		case isArray(value):
			for _, item := range items(value) {
				if err := collect(item); err != nil {
					return err
				}
			}
		case isObject(value):
			for key, v := range rawjson.Members(value) {
				ref, text := rawjson.Text(v)
				if key != "$ref" || !text {
					if err := collect(v); err != nil {
						return err
					}
					continue
				}
				parts := schema.SplitPointer(strings.TrimPrefix(ref, "#/"))
				if !strings.HasPrefix(ref, "#/") || len(parts) < 2 || !slices.Contains(definitions, parts[0]) {
					return fmt.Errorf("its schema refers to %q, which is not the same in a part of it", ref)
				}
				if place := parts[0] + "/" + parts[1]; !used[place] {
					used[place] = true
					if err := collect(rawjson.Get(at(ms, parts[0]), parts[1])); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	defines := func(m member) bool { return slices.Contains(definitions, m.key) }
	if err := collect(object(slices.DeleteFunc(slices.Clone(ms), defines))); err != nil {
		return nil, err
	}
	var out []member
	for _, m := range ms {
		if slices.Contains(definitions, m.key) && isObject(m.value) {
			kept := slices.DeleteFunc(mustMembers(m.value), func(d member) bool { return !used[m.key+"/"+d.key] })
			if m.value = object(kept); len(kept) == 0 {
				continue
			}
		}
		out = append(out, m)
	}
	return object(out), nil
}
