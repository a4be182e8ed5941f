package mcphttp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/rawjson"
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
	if !strings.Contains(string(schema), "x-mcp-header") {
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
	if m.Method != "tools/call" {
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
