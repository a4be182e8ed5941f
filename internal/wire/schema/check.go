package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/exthost/exthost/internal/text/display"
)

// Schema is a compiled schema. Checks have bounded cost for every schema and arguments: a small schema without
// references visits each pair of schema value and argument value at most once; any other schema, which might visit a
// value exponentially often, has its visits counted.
type Schema struct {
	schema *jsonschema.Schema
	doc    Document
	shape  *shape // a fast check that accepts most valid values
	err    error  // from Compile

	mu      sync.RWMutex // write-locked while visits are counted, else read-locked
	metered bool
	fuel    int // visits left
}

const schemaURL = "mem:///schema.json"

// errTooCostly is the panic value in callbacks of the schema library, which cannot be stopped otherwise.
var errTooCostly = errors.New("more than can be checked; the tool's schema is too expensive, which its author must fix")

// Compile compiles a schema. [Schema.Err] returns the error.
func Compile(doc Document) (k *Schema) {
	k = &Schema{doc: doc, shape: shapeOf(doc.root)}
	c, err := k.compiler()
	if k.err = err; err == nil {
		k.err = k.compile(c, "")
	}
	return k
}

// compiler returns a compiler for the document.
func (k *Schema) compiler() (*jsonschema.Compiler, error) {
	if k.doc.refs > MaxRefs {
		return nil, fmt.Errorf("more than %d references", MaxRefs)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nil) // references within the schema only
	budget := maxPatterns
	c.UseRegexpEngine(func(p string) (jsonschema.Regexp, error) { return compilePattern(p, &budget) })
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "urn:exthost:meter",
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			return &meter{k, cost(schema)}, nil
		},
	})
	c.AssertVocabs()
	return c, c.AddResource(schemaURL, k.doc.root)
}

// compile compiles the schema at a fragment of the document; "" is the document.
func (k *Schema) compile(c *jsonschema.Compiler, fragment string) (err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some hostile schemas
			k.schema, err = nil, fmt.Errorf("%v", r)
		}
	}()
	k.schema, err = c.Compile(schemaURL + fragment)
	return k.readable(err)
}

// readable returns an error of the library. About a schema that is none it says in one line where the first fault is.
func (k *Schema) readable(err error) error {
	refused, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return err
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](refused.Err)
	if !ok {
		return err
	}
	faults := explainer{nil, k.doc.root}.problems(invalid)
	if len(faults) == 0 {
		return err
	}
	first := slices.MinFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Expected, b.Expected))
	})
	place, expected := cmp.Or(display.Cut(first.Path, maxText), "the schema"), first.Expected
	if first.Allowed != nil {
		list, _ := json.Marshal(first.Allowed) // decoded JSON always encodes
		expected += " " + string(list)
	}
	return fmt.Errorf("%s: expected %s, got %s", place, expected, first.Got)
}

// Err returns the error of Compile. A Schema with an error accepts every object.
func (k *Schema) Err() error { return k.err }

// cost returns the cost of one visit of a schema object: itself, its alternatives and a share of the values it
// compares with.
func cost(schema map[string]any) int {
	n := 1
	for key, v := range schema {
		list, _ := v.([]any)
		if slices.Contains(Lists, key) {
			n += len(list)
		} else {
			n += len(list) / 64
		}
	}
	return n
}

// meter counts the visits of one schema object.
type meter struct {
	checker *Schema
	cost    int
}

// Validate implements jsonschema.SchemaExt. The library calls it after every visit, under k.mu. It also charges for
// the children, because those that fail at once are not counted themselves.
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
	if m.checker.fuel -= values * m.cost; m.checker.fuel < 0 {
		panic(errTooCostly)
	}
}

// Check returns the faults of args, which must be an object.
func (k *Schema) Check(args json.RawMessage) []Fault {
	if k.err != nil {
		return nil
	}
	if k.shape.matches(args) {
		return nil
	}
	value, s, err := decode(args, bounds{MaxArgumentNodes, MaxArgumentDepth})
	if err == nil {
		err = k.validate(value, s.nodes)
	}
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		// An endlessly recursive schema yields no faults: it is not the arguments that are wrong.
		return explainer{k.doc.root, value}.problems(invalid)
	}
	return []Fault{{Expected: "arguments that can be checked", Got: err.Error()}}
}

func (k *Schema) validate(value any, nodes int) (err error) {
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

// pattern is a regular expression with bounded match cost: the cost of RE2 is proportional to its size times the
// input.
type pattern struct {
	*regexp.Regexp
	size int
}

func compilePattern(s string, budget *int) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := expandedSize(tree)
	if *budget -= size; *budget < 0 {
		return nil, fmt.Errorf("regular expressions of more than %d instructions", maxPatterns)
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

// expandedSize estimates the number of instructions of an expression with its repeats expanded.
func expandedSize(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += expandedSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

func CheckObject(args json.RawMessage) []Fault {
	if c := bytes.TrimLeft(args, " \t\r\n")[0]; c != '{' {
		return []Fault{{Expected: "an object", Got: TypeName(c)}}
	}
	return nil
}
