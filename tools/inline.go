package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

const (
	maxInlined    = 1 << 20  // bytes of a schema without its references
	maxInlineWork = 16 << 20 // bytes read and written on the way there
)

var (
	errRecursive = errors.New("the vendor takes no references, and this schema refers to itself or to what is not in it")
	errInlined   = errors.New("the vendor takes no references, and this schema is too large without them")
)

// dropped are the members that mean nothing once references are gone.
var dropped = []string{"$schema", "$defs", "definitions", "$anchor", "$dynamicAnchor"}

// inline replaces references into the schema itself by what they refer to.
func inline(schema json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(schema, []byte(`"$`)) {
		return schema, nil
	}
	in := &inliner{root: schema, left: maxInlineWork, targets: map[string]json.RawMessage{}}
	root := slices.DeleteFunc(mustMembers(schema), func(m member) bool { return m.key == "$id" })
	out := in.expand(object(root), nil)
	if in.err == nil && len(out) > maxInlined {
		in.err = errInlined
	}
	return out, in.err
}

// inliner expands one schema; after the first error it only returns.
type inliner struct {
	root    json.RawMessage
	targets map[string]json.RawMessage // by reference
	left    int                        // bytes that may still be read and written
	err     error
}

// expand returns schema without references; open are those it stands inside of.
func (in *inliner) expand(schema json.RawMessage, open []string) json.RawMessage {
	if in.left -= len(schema); in.left < 0 {
		in.fail(errInlined)
	}
	if in.err != nil || !isObject(schema) {
		return schema
	}
	ms := prune(mustMembers(schema))
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
	in.left -= len(out)
	return out
}

// resolve puts the members of the schema a reference points to in its place.
// Members beside the reference stay where they only annotate or say the same.
func (in *inliner) resolve(ms []member, raw json.RawMessage, open []string) ([]member, []string) {
	var ref string
	_ = json.Unmarshal(raw, &ref)
	target := in.target(ref)
	if !isObject(target) || slices.Contains(open, ref) {
		in.fail(errRecursive)
		return ms, open
	}
	merged := prune(mustMembers(target))
	for _, m := range ms {
		switch m.key {
		case "$ref":
		case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment":
			merged = set(merged, m)
		default:
			if !bytes.Equal(at(merged, m.key), m.value) {
				in.fail(fmt.Errorf("the vendor takes no references, and %s stands beside one", cut(m.key, 64)))
			}
		}
	}
	return merged, append(slices.Clip(open), ref)
}

// target follows a reference of the form #/a/b; nil for any other and for one
// that leads nowhere.
func (in *inliner) target(ref string) json.RawMessage {
	if v, ok := in.targets[ref]; ok {
		return v
	}
	path, ok := strings.CutPrefix(ref, "#/")
	path, err := url.PathUnescape(path)
	var v json.RawMessage
	if ok && err == nil {
		v = in.root
		for _, token := range tokens(path) {
			if !isObject(v) {
				v = nil
				break
			}
			in.left -= len(v)
			v = at(mustMembers(v), token)
		}
	}
	in.targets[ref] = v
	return v
}

func prune(ms []member) []member {
	return slices.DeleteFunc(ms, func(m member) bool { return slices.Contains(dropped, m.key) })
}

// fail keeps the first error.
func (in *inliner) fail(err error) {
	if in.err == nil {
		in.err = err
	}
}
