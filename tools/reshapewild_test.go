package tools_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// realServer is a server with its tools, as it lists them.
type realServer struct {
	ID, Package, Version, License string
	Tools                         []json.RawMessage
}

// realServers are the servers of testdata/servers.json, which says how it is made.
func realServers(t testing.TB) []realServer {
	t.Helper()
	text, err := os.ReadFile("testdata/servers.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Servers []realServer }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Servers
}

// instance returns a value that a schema is likely to accept. root has the targets of its references.
func instance(root, s json.RawMessage, depth int) json.RawMessage {
	get := func(key string) json.RawMessage { return rawjson.Get(s, key) }
	number := func(key string) (n int) { _ = json.Unmarshal(get(key), &n); return n }
	var list []json.RawMessage
	if ref, is := rawjson.Text(get("$ref")); is && depth < 20 {
		target := root
		for _, key := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			target = rawjson.Get(target, key)
		}
		return instance(root, target, depth+1)
	}
	if value := get("const"); value != nil {
		return value
	}
	if json.Unmarshal(get("enum"), &list) == nil && len(list) > 0 {
		return list[0]
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if json.Unmarshal(get(key), &list) == nil && len(list) > 0 {
			return instance(root, list[0], depth+1)
		}
	}
	kind, _ := rawjson.Text(get("type"))
	if json.Unmarshal(get("type"), &list) == nil && len(list) > 0 {
		kind, _ = rawjson.Text(list[0])
	}
	switch kind {
	case "integer", "number":
		return fmt.Appendf(nil, "%d", max(1, number("minimum"), number("exclusiveMinimum")+1))
	case "boolean":
		return json.RawMessage("true")
	case "null":
		return json.RawMessage("null")
	case "array":
		return rawjson.AppendList(nil, slices.Repeat([]json.RawMessage{instance(root, get("items"), depth+1)},
			max(1, number("minItems"))))
	case "object":
		var required []string
		_ = json.Unmarshal(get("required"), &required)
		call := make(map[string]string)
		for _, name := range required {
			call[name] = string(instance(root, rawjson.Get(get("properties"), name), depth+1))
		}
		return encode(call)
	}
	return rawjson.Quote(strings.Repeat("x", max(1, number("minLength"))))
}

// callsOf returns calls of a tool without one of its arguments: all others, the required ones, and these with one more,
// one less and each one of a wrong type. full has a value for each argument.
func callsOf(full map[string]string, required []string, without string) (list []map[string]string) {
	all, least := maps.Clone(full), make(map[string]string)
	delete(all, without)
	for _, name := range required {
		if name != without && full[name] != "" {
			least[name] = full[name]
		}
	}
	list = []map[string]string{all, least, with(least, "no such argument", "1")}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		less := maps.Clone(least)
		delete(less, name)
		list = append(list, less, with(least, name, full[name]), with(least, name, `{"x":[1]}`))
	}
	return list
}

// Over the tools of real servers, what is shown accepts exactly the calls that the tool accepts with the values that
// clients do not state, and sends these. A client that states one of them is refused.
func TestReshapedSchemasOfRealServersAreExact(t *testing.T) {
	seen, shapes, accepted, refused, skipped := 0, 0, 0, 0, 0
	for _, server := range realServers(t) {
		for _, raw := range server.Tools {
			c, _ := tools.NewCatalog(1, []tools.Source{{Extension: "x", Tools: []protocol.Tool{{Raw: raw}}}}, nil)
			if len(c.Entries()) != 1 {
				t.Errorf("%s: no tool: %.100s", server.ID, raw)
				continue
			}
			seen++
			whole := c.Entries()[0]
			at := server.ID + " " + whole.Tool
			var required []string
			_ = json.Unmarshal(rawjson.Get(whole.InputSchema, "required"), &required)
			full := make(map[string]string)
			for name, s := range rawjson.Members(rawjson.Get(whole.InputSchema, "properties")) {
				full[name] = string(instance(whole.InputSchema, s, 0))
			}
			check := func(name string, arg tools.Arg) {
				shapes++
				value := string(arg.Fix) + string(arg.Default)
				e, reason := reshaped(c, &tools.Reshape{Args: map[string]tools.Arg{name: arg}})
				if e == nil && !strings.Contains(reason, "accepts no call") && !strings.Contains(reason, "default of") {
					t.Errorf("%s: %s = %s: %s", at, name, value, reason)
				}
				for _, call := range callsOf(full, required, name) {
					want := whole.Validate(encode(with(call, name, value))) == nil
					if e == nil {
						if want {
							t.Errorf("%s: %s = %s is refused, and %s is accepted", at, name, value, encode(call))
						}
						continue
					}
					sent, err := e.Sent(encode(call))
					if err == nil && arg.Default != nil {
						err = whole.Validate(sent)
					}
					if (err == nil) != want || err == nil && !rawjson.Equal(sent, encode(with(call, name, value))) {
						t.Errorf("%s: %s = %s shows %s: %s is sent as %s, %v; accepted with it: %t", at, name, value,
							e.InputSchema, encode(call), sent, err, want)
					}
					if want {
						accepted++
					} else {
						refused++
					}
				}
				if e == nil {
					skipped++
					return
				}
				_, err := e.Sent(encode(full))
				if (err != nil) != (arg.Default == nil) && whole.Validate(encode(full)) == nil {
					t.Errorf("%s: %s = %s: a caller states it: %v", at, name, value, err)
				}
				shown := rawjson.Get(rawjson.Get(e.InputSchema, "properties"), name)
				if (shown != nil) != (arg.Default != nil) {
					t.Errorf("%s: %s = %s is shown as %s", at, name, value, shown)
				}
			}
			for name, value := range full {
				check(name, tools.Arg{Fix: json.RawMessage(value)})
				check(name, tools.Arg{Default: json.RawMessage(value)})
				check(name, tools.Arg{Hide: true})
			}
		}
	}
	t.Logf("%d tools in %d shapes, of which %d cannot be: %d calls accepted, %d refused", seen, shapes, skipped,
		accepted, refused)
	if seen < 200 || accepted < refused/10 || refused < accepted/10 || skipped > shapes/3 {
		t.Error("the tools, or the calls, are not those that this test is about")
	}
}
