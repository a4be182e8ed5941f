package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/wire/schema"
)

const (
	maxInlined    = 1 << 20  // bytes of a schema with its references replaced
	maxInlineWork = 16 << 20 // bytes read and written while replacing them
)

var (
	errRecursive = errors.New("the vendor takes no references, and this schema refers to itself or to what is not " +
		"in it")
	errInlined = errors.New("the vendor takes no references, and this schema is too large without them")
)

// removedKeys have no meaning without references.
var removedKeys = []string{"$schema", "$defs", "definitions", "$anchor", "$dynamicAnchor"}

// inline replaces references within the schema by their targets.
func inline(description string, schema json.RawMessage) (string, json.RawMessage, error) {
	if !bytes.Contains(schema, []byte(`"$`)) {
		return description, schema, nil
	}
	in := &inliner{root: schema, budget: maxInlineWork, targets: map[string]json.RawMessage{}}
	root := slices.DeleteFunc(mustMembers(schema), func(m member) bool { return m.key == "$id" })
	out := in.expand(object(root), nil)
	if in.err == nil && len(out) > maxInlined {
		in.err = errInlined
	}
	return description, out, in.err
}

// inliner expands one schema. After the first error its methods return immediately.
type inliner struct {
	root    json.RawMessage
	targets map[string]json.RawMessage // by reference
	budget  int                        // bytes that may still be read and written
	err     error
}

// expand returns schema without references. open are the references being expanded.
func (in *inliner) expand(schema json.RawMessage, open []string) json.RawMessage {
	if in.budget -= len(schema); in.budget < 0 {
		in.fail(errInlined)
	}
	if in.err != nil || !isObject(schema) {
		return schema
	}
	ms := withoutRemoved(mustMembers(schema))
	for ref := at(ms, "$ref"); ref != nil && in.err == nil; ref = at(ms, "$ref") {
		ms, open = in.resolve(ms, ref, open)
	}
	for _, key := range []string{"$dynamicRef", "$recursiveRef", "$id"} {
		if at(ms, key) != nil {
			in.fail(errRecursive)
		}
	}
	if in.err != nil {
		return schema
	}
	out := object(children(ms, func(child json.RawMessage) json.RawMessage { return in.expand(child, open) }))
	in.budget -= len(out)
	return out
}

// resolve replaces a reference by the members of its target. Annotations beside the reference stay; other members
// must be the same in the target.
func (in *inliner) resolve(ms []member, raw json.RawMessage, open []string) ([]member, []string) {
	var ref string
	_ = json.Unmarshal(raw, &ref)
	target := in.target(ref)
	if !isObject(target) || slices.Contains(open, ref) {
		in.fail(errRecursive)
		return ms, open
	}
	merged := withoutRemoved(mustMembers(target))
	for _, m := range ms {
		switch m.key {
		case "$ref":
		case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment":
			merged = set(merged, m)
		default:
			if !bytes.Equal(at(merged, m.key), m.value) {
				in.fail(fmt.Errorf("the vendor takes no references, and %s stands beside one", display.Cut(m.key, 64)))
			}
		}
	}
	return merged, append(slices.Clip(open), ref)
}

// target resolves a reference of the form #/a/b. It returns nil for any other form and for a missing target.
func (in *inliner) target(ref string) json.RawMessage {
	if v, ok := in.targets[ref]; ok {
		return v
	}
	path, ok := strings.CutPrefix(ref, "#/")
	path, err := url.PathUnescape(path)
	var v json.RawMessage
	if ok && err == nil {
		v = in.root
		for _, token := range schema.SplitPointer(path) {
			if !isObject(v) {
				v = nil
				break
			}
			in.budget -= len(v)
			v = at(mustMembers(v), token)
		}
	}
	in.targets[ref] = v
	return v
}

func withoutRemoved(ms []member) []member {
	return slices.DeleteFunc(ms, func(m member) bool { return slices.Contains(removedKeys, m.key) })
}

// fail records the first error.
func (in *inliner) fail(err error) {
	if in.err == nil {
		in.err = err
	}
}
