package mcphttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Mirror is an argument of a tool that is repeated in a header, because its property in the input schema has
// x-mcp-header (MCP 2026-07-28, basic/transports/streamable-http).
type Mirror struct {
	Header string   // with the prefix Mcp-Param-
	Path   []string // of the property, outermost first
}

// argument returns the mirrored argument in the params of a tools/call.
func (m *Mirror) argument(params json.RawMessage) json.RawMessage {
	value := rawjson.Get(params, "arguments")
	for _, key := range m.Path {
		value = rawjson.Get(value, key)
	}
	return value
}

const (
	paramPrefix = "Mcp-Param-"
	// maxSafe is the largest integer that is exact as a float64, which many peers decode numbers to.
	maxSafe = 1<<53 - 1
	// maxMirrorDepth is the max nesting of properties searched for x-mcp-header.
	maxMirrorDepth = 32
)

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// Mirrors returns the arguments that must be repeated in headers according to a tool's input schema. It returns an
// error for an invalid x-mcp-header; clients must not use such a tool.
func Mirrors(schema json.RawMessage) ([]Mirror, error) {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil, nil
	}
	var found []Mirror
	err := findMirrors(schema, nil, func(m Mirror) error {
		for _, other := range found {
			if strings.EqualFold(other.Header, m.Header) {
				return fmt.Errorf("two properties have x-mcp-header %q", m.Header[len(paramPrefix):])
			}
		}
		found = append(found, m)
		return nil
	})
	return found, err
}

func findMirrors(schema json.RawMessage, path []string, add func(Mirror) error) error {
	if len(path) > maxMirrorDepth {
		return nil
	}
	for name, property := range rawjson.Members(rawjson.Get(schema, "properties")) {
		at := append(path[:len(path):len(path)], name)
		if wanted := rawjson.Get(property, "x-mcp-header"); wanted != nil {
			header, _ := rawjson.Text(wanted)
			kind, _ := rawjson.Text(rawjson.Get(property, "type"))
			switch {
			case !headerToken.MatchString(header):
				return fmt.Errorf("x-mcp-header of %s is no name of a header", strings.Join(at, "."))
			case kind != "string" && kind != "integer" && kind != "boolean":
				return fmt.Errorf("%s has x-mcp-header and is no string, integer or boolean", strings.Join(at, "."))
			}
			if err := add(Mirror{Header: http.CanonicalHeaderKey(paramPrefix + header), Path: at}); err != nil {
				return err
			}
		}
		if err := findMirrors(property, at, add); err != nil {
			return err
		}
	}
	return nil
}

// CheckParams returns an error if the headers of a tools/call do not repeat the mirrored arguments.
func CheckParams(h http.Header, params, schema json.RawMessage) error {
	mirrors, err := Mirrors(schema)
	if err != nil {
		return nil // no client can know the headers for such a schema
	}
	for _, m := range mirrors {
		value := m.argument(params)
		argument, sent := strings.Join(m.Path, "."), h[m.Header]
		_, hasText := headerText(value)
		switch {
		case !hasText && len(sent) == 0:
		case len(value) == 0 || string(value) == "null":
			return fmt.Errorf("header %s is there, the argument %s is not", m.Header, argument)
		case len(sent) == 0:
			return fmt.Errorf("header %s is required: it repeats the argument %s", m.Header, argument)
		case len(sent) > 1 || !headerEqual(sent[0], value):
			return fmt.Errorf("header %s is not what the argument %s is", m.Header, argument)
		}
	}
	return nil
}

// headerEqual reports whether a header has the value of an argument.
func headerEqual(header string, value json.RawMessage) bool {
	want, ok := headerText(value)
	if !ok {
		return false
	}
	got, err := decodeValue(header)
	if err == nil && value[0] != '"' && got != want {
		got, _ = headerText(json.RawMessage(got)) // 1.0 equals 1
	}
	return err == nil && got == want
}

// headerText returns an argument as header text. ok is false for values that cannot be repeated in a header: objects,
// arrays, null, fractions and unsafe integers.
func headerText(value json.RawMessage) (text string, ok bool) {
	if text, ok := rawjson.Text(value); ok {
		return text, true
	}
	switch string(value) {
	case "true", "false":
		return string(value), true
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || n != float64(int64(n)) || n > maxSafe || n < -maxSafe {
		return "", false
	}
	return strconv.FormatInt(int64(n), 10), true
}
