package strict

import (
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML reads one document within the default [Rules]. It returns nil after a syntax error or at a limit; other
// errors, such as a duplicate key, are reported and skipped.
func YAML(src *Source, r *Report) *Node {
	y := yamlReader{Source: src, report: r}
	dec := yaml.NewDecoder(strings.NewReader(src.Text))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	if err == nil {
		if err = dec.Decode(&next); err == nil {
			r.Add(y.place(&next), "put everything into the first", "a second YAML document")
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		r.Add(Pos{File: src.file, Line: lineOf(src.Text, err)}, "", "not valid YAML: %s", yamlMessage(err))
		return nil
	}
	if len(doc.Content) == 0 { // nothing but comments
		return &Node{Pos: src.Pos(0), Kind: Map}
	}
	n := y.node(doc.Content[0], 0)
	if y.full {
		return nil
	}
	return n
}

// lineOf returns the line of a syntax error in text: that where a bracket or a quote was opened that is never closed,
// else that of the error. yaml.v3 loses the first line of a text, and counts those of its parser from 0, unlike those
// of its scanner.
func lineOf(text string, err error) int {
	line := func(err error) int {
		n, _ := strconv.Atoi(yamlLine.FindStringSubmatch(err.Error())[1])
		return n
	}
	if byParser.MatchString(yamlMessage(err)) {
		return line(err) + 1
	}
	below := err // the same error, where the first line is the second one
	for dec, doc := yaml.NewDecoder(strings.NewReader("\n"+text)), new(yaml.Node); below == err; {
		if again := dec.Decode(doc); again != nil {
			below = again
		}
	}
	if unclosed.MatchString(yamlMessage(err)) {
		return line(below)
	}
	return max(line(below)-1, 0)
}

var (
	unclosed = regexp.MustCompile(`^did not find expected ','`)
	byParser = regexp.MustCompile(`^(did not find expected (<|node content|key|'-')|` +
		`found (undefined tag handle|duplicate %|incompatible YAML))`)
)

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

func yamlMessage(err error) string { return yamlLine.ReplaceAllString(err.Error(), "") }

// yamlReader converts nodes of yaml.v3.
type yamlReader struct {
	*Source
	report *Report
	nodes  int          // created so far, aliases expanded
	full   bool         // a limit was hit and reported
	open   []*yaml.Node // aliases being expanded
}

// place returns n's position; yaml.v3 counts columns in characters.
func (y *yamlReader) place(n *yaml.Node) Pos { return y.posOfRune(n.Line, n.Column) }

func (y *yamlReader) node(n *yaml.Node, depth int) *Node {
	pos := y.place(n)
	y.nodes++
	switch {
	case y.full:
		return &Node{Pos: pos}
	case y.nodes > maxNodes:
		return y.stop(pos, "more than %d values, aliases counted as often as they are used", maxNodes)
	case depth > maxDepth:
		return y.stop(pos, "nested more than %d deep", maxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return y.alias(n, depth)
	case yaml.MappingNode:
		return y.mapping(n, depth)
	case yaml.SequenceNode:
		list := &Node{Pos: pos, Kind: List}
		for _, item := range n.Content {
			list.Items = append(list.Items, y.node(item, depth+1))
		}
		return list
	}
	return y.scalar(n, pos)
}

func (y *yamlReader) stop(pos Pos, format string, args ...any) *Node {
	y.full = true
	y.report.Add(pos, "", format, args...)
	return &Node{Pos: pos}
}

func (y *yamlReader) alias(n *yaml.Node, depth int) *Node {
	if slices.Contains(y.open, n.Alias) {
		return y.stop(y.place(n), "*%s contains itself", n.Value)
	}
	y.open = append(y.open, n.Alias)
	defer func() { y.open = y.open[:len(y.open)-1] }()
	out := y.node(n.Alias, depth+1)
	out.Pos = y.place(n)
	return out
}

func (y *yamlReader) mapping(n *yaml.Node, depth int) *Node {
	out := &Node{Pos: y.place(n), Kind: Map}
	var merged []*Node
	seen := map[string]Pos{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], y.node(n.Content[i+1], depth+1)
		pos := y.place(key)
		switch {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			merged = append(merged, value)
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			y.report.Add(pos, "write it in quotes", "a key must be a string")
		default:
			if have, ok := seen[key.Value]; ok {
				y.report.Add(pos, "keep one of the two", "%s is already defined at %s", quote(key.Value), have)
				continue
			}
			seen[key.Value] = pos
			out.Fields = append(out.Fields, Field{Key: key.Value, Pos: pos, Value: value})
		}
	}
	for _, m := range merged {
		y.mergeKey(out, m)
	}
	return out
}

// mergeKey handles `<<: *base`: keys that out does not state come from base.
func (y *yamlReader) mergeKey(out, from *Node) {
	switch from.Kind {
	case List:
		for _, item := range from.Items {
			y.mergeKey(out, item)
		}
	case Map:
		for _, f := range from.Fields {
			if out.field(f.Key) == nil {
				out.Fields = append(out.Fields, f)
			}
		}
	default:
		y.report.Add(from.Pos, "", "<< wants a map or a list of maps, not %s", from.Kind)
	}
}

func (y *yamlReader) scalar(n *yaml.Node, pos Pos) *Node {
	out := &Node{Pos: pos, Kind: String, Text: n.Value}
	var v any
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return out
	case "!!null":
		out.Kind = Null
		return out
	case "!!bool", "!!int", "!!float":
		if err := n.Decode(&v); err != nil {
			y.report.Add(pos, "", "%s", yamlMessage(err))
			return out
		}
	default:
		y.report.Add(pos, "remove the tag", "tag %s is not supported", n.ShortTag())
		out.Kind = Null
		return out
	}
	switch v := v.(type) {
	case bool:
		out.Kind, out.Value = Bool, v
	case int:
		out.Kind, out.Value = Int, int64(v)
	case int64:
		out.Kind, out.Value = Int, v
	case uint64:
		out.Kind, out.Value = Int, json.Number(strconv.FormatUint(v, 10))
	case float64:
		out.Kind, out.Value = Float, v
		// too big for yaml.v3's integers
		if whole, ok := new(big.Int).SetString(strings.TrimPrefix(out.Text, "+"), 10); ok {
			out.Kind, out.Value = Int, json.Number(whole.String())
		}
	}
	return out
}
