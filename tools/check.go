package tools

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/exthost/exthost/internal/rawjson"
)

// Arguments returns the arguments a tool is called with: raw itself, and {} for
// nothing and for null.
func Arguments(raw json.RawMessage) json.RawMessage {
	if t := bytes.TrimSpace(raw); len(t) == 0 || string(t) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// Validate checks arguments against the tool's input schema. It returns nil, or
// a *protocol.Error of kind invalid_arguments whose message a model can act on
// and whose Data is the list of [Problem]. A tool whose schema does not compile
// takes any object. Null and nothing are {}, see [Arguments].
func (e *Entry) Validate(args json.RawMessage) error {
	args = Arguments(args)
	faults := checkObject(args)
	if faults == nil && e.checker != nil && e.checker.err == nil {
		faults = e.checker.check(args)
	}
	if len(faults) == 0 {
		return nil
	}
	return problemError(e, faults)
}

func checkObject(args json.RawMessage) []fault {
	if c := bytes.TrimLeft(args, " \t\r\n")[0]; c != '{' {
		return []fault{{Problem: Problem{Expected: "an object", Got: typeName(c)}}}
	}
	return nil
}

// checker checks arguments against one compiled schema. Its work is bounded for
// every schema and every argument: small ones without references take at most
// one visit per pair of schema value and argument value, and all others, which
// may visit one value exponentially often, have their visits counted.
type checker struct {
	key    [sha256.Size]byte // of the schema's text
	schema *jsonschema.Schema
	doc    document
	shape  *shape // of the values that need no further check
	err    error  // why there is no schema

	mu      sync.RWMutex // held to write while visits are counted, to read otherwise
	metered bool
	fuel    int // visits left
}

const schemaURL = "mem:///schema.json"

// errTooCostly is what the parts called by the schema library panic with, since
// it offers no other way to stop it.
var errTooCostly = errors.New("more than can be checked; the tool's schema is too expensive for it, which its author must mend")

// compile turns a decoded schema into a checker, one with err set when it cannot.
func compile(doc document) (k *checker) {
	k = &checker{doc: doc, shape: shapeOf(doc.root)}
	defer func() {
		if r := recover(); r != nil { // the library panics on some hostile schemas
			k.schema, k.err = nil, fmt.Errorf("%v", r)
		}
	}()
	if doc.refs > maxSchemaRefs {
		k.err = fmt.Errorf("more than %d references", maxSchemaRefs)
		return k
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nil) // only what the schema itself holds can be referred to
	budget := maxSchemaPatterns
	c.UseRegexpEngine(func(p string) (jsonschema.Regexp, error) { return compilePattern(p, &budget) })
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "urn:exthost:meter",
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			return &meter{k, price(schema)}, nil
		}})
	c.AssertVocabs()
	if k.err = c.AddResource(schemaURL, doc.root); k.err == nil {
		k.schema, k.err = c.Compile(schemaURL)
	}
	return k
}

// price is what one visit of a schema object costs: itself, its alternatives and
// a share of the values it compares with.
func price(schema map[string]any) int {
	n := 1
	for key, v := range schema {
		list, _ := v.([]any)
		if slices.Contains(schemaLists, key) {
			n += len(list)
		} else {
			n += len(list) / 64
		}
	}
	return n
}

// meter counts the visits of one schema object.
type meter struct {
	checker *checker
	price   int
}

// Validate is called behind every visit, under the checker's lock. It pays for
// the children as well: those that fail at once are not counted themselves.
func (m *meter) Validate(_ *jsonschema.ValidatorContext, v any) {
	if !m.checker.metered {
		return
	}
	values := 1
	switch v := v.(type) {
	case map[string]any:
		values += len(v)
	case []any:
		values += len(v)
	}
	if m.checker.fuel -= values * m.price; m.checker.fuel < 0 {
		panic(errTooCostly)
	}
}

// check returns what is wrong with args, which are an object.
func (k *checker) check(args json.RawMessage) []fault {
	if rawjson.Check(args) == nil && k.shape.fits(args) {
		return nil
	}
	value, s, err := decode(args, bounds{maxArgumentNodes, maxArgumentDepth})
	if err == nil {
		err = k.validate(value, s.nodes)
	}
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return explain(k.doc.root, value, invalid)
	}
	return []fault{{Problem: Problem{Expected: "arguments that can be checked", Got: err.Error()}}}
}

func (k *checker) validate(value any, nodes int) (err error) {
	visits := nodes * k.doc.size
	switch {
	case visits > maxVisits:
		return errTooCostly
	case visits > maxUnmeteredVisits || k.doc.refs > 0:
		k.mu.Lock()
		k.metered, k.fuel = true, baseFuel+fuelPerNode*nodes
		defer func() {
			k.metered = false
			k.mu.Unlock()
		}()
	default:
		k.mu.RLock()
		defer k.mu.RUnlock()
	}
	defer func() {
		if recover() != nil {
			err = errTooCostly
		}
	}()
	return k.schema.Validate(value)
}

// pattern is a regular expression with a bound on what one match may cost. RE2
// takes time in proportion to size and input, never more.
type pattern struct {
	*regexp.Regexp
	size int
}

func compilePattern(s string, budget *int) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := unrolled(tree)
	if *budget -= size; *budget < 0 {
		return nil, fmt.Errorf("regular expressions of more than %d instructions", maxSchemaPatterns)
	}
	re, err := regexp.Compile(s)
	return pattern{re, size}, err
}

// MatchString implements jsonschema.Regexp.
func (p pattern) MatchString(s string) bool {
	if p.size*len(s) > maxMatchWork {
		panic(errTooCostly)
	}
	return p.Regexp.MatchString(s)
}

// unrolled estimates the size of an expression after its repeats are copied out.
func unrolled(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += unrolled(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
