package mcphttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Mirror is an argument of a tool that a header repeats: a property of its input
// schema with x-mcp-header.
type Mirror struct {
	Header string   // with its prefix
	Path   []string // of the property, from the outermost
}

const (
	paramPrefix = "Mcp-Param-"
	// maxSafe is the largest integer that every client and server reads the same.
	maxSafe = 1<<53 - 1
	// maxMirrorDepth bounds how deep properties are looked for.
	maxMirrorDepth = 32
)

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// Mirrors returns the arguments that the schema wants repeated in headers. The
// error is one of them that cannot be: clients must not use such a tool.
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

// mirror sets the headers that repeat what m says.
func mirror(h http.Header, m *jsonrpc.Message, mirrors map[string][]Mirror) {
	h[MethodHeader] = []string{m.Method}
	member, ok := named[m.Method]
	if !ok {
		return
	}
	name, _ := rawjson.Text(rawjson.Get(m.Params, member))
	h[NameHeader] = []string{encodeValue(name)}
	if m.Method != protocol.MethodToolsCall {
		return
	}
	for _, p := range mirrors[name] {
		value := rawjson.Get(m.Params, "arguments")
		for _, key := range p.Path {
			value = rawjson.Get(value, key)
		}
		if text, ok := headerText(value); ok {
			h[p.Header] = []string{encodeValue(text)}
		}
	}
}

// CheckParams reports how the headers of a tools/call fall short of repeating what the
// schema of the tool's input wants repeated.
func CheckParams(h http.Header, params, schema json.RawMessage) error {
	mirrors, err := Mirrors(schema)
	if err != nil {
		return nil // clients do not know what to repeat
	}
	for _, m := range mirrors {
		value := rawjson.Get(params, "arguments")
		for _, key := range m.Path {
			value = rawjson.Get(value, key)
		}
		argument, sent := strings.Join(m.Path, "."), h[m.Header]
		_, sayable := headerText(value)
		switch {
		case !sayable && len(sent) == 0:
		case len(value) == 0 || string(value) == "null":
			return fmt.Errorf("header %s is there, the argument %s is not", m.Header, argument)
		case len(sent) == 0:
			return fmt.Errorf("header %s is required: it repeats the argument %s", m.Header, argument)
		case len(sent) > 1 || !repeats(sent[0], value):
			return fmt.Errorf("header %s is not what the argument %s is", m.Header, argument)
		}
	}
	return nil
}

// repeats reports whether a header says what the value of an argument is.
func repeats(header string, value json.RawMessage) bool {
	want, ok := headerText(value)
	if !ok {
		return false
	}
	got, err := decodeValue(header)
	if err == nil && value[0] != '"' && got != want {
		got, _ = headerText(json.RawMessage(got)) // 1.0 is 1
	}
	return err == nil && got == want
}

// headerText is the value of an argument as a header states it.
func headerText(value json.RawMessage) (string, bool) {
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

// encodeValue gives a value that is no plain ASCII, or could be taken for one that
// is encoded, the =?base64?…?= form.
func encodeValue(v string) string {
	plain := strings.TrimSpace(v) == v && !strings.HasPrefix(v, "=?base64?")
	for i := 0; i < len(v) && plain; i++ {
		plain = v[i] >= ' ' && v[i] < 0x7f
	}
	if plain {
		return v
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?="
}
