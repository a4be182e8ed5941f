package toolsearch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/tools"
)

// Bounds of a signature, in bytes unless stated otherwise.
const (
	maxArguments = 16 // arguments of a tool
	maxType      = 60 // the type of one argument
	maxSentence  = 160
)

// Signature returns a tool on one line: name(argument: type, optional?: type) - what it does.
func Signature(e *tools.Entry) string {
	if s := Summary(e); s != "" {
		return e.Name + Arguments(e) + " - " + s
	}
	return e.Name + Arguments(e)
}

// Arguments returns the arguments of a tool and their types, (argument: type, optional?: type), required ones
// first.
func Arguments(e *tools.Entry) string {
	var names []string
	_ = json.Unmarshal(rawjson.Get(e.InputSchema, "required"), &names) // without a list, none is required
	var required, optional []string
	for name, schema := range rawjson.Members(rawjson.Get(e.InputSchema, "properties")) {
		text := display.Prefix(display.Visible(strings.Join(strings.Fields(name), " ")), maxType)
		if slices.Contains(names, name) {
			required = append(required, text+": "+typeOf(schema))
		} else {
			optional = append(optional, text+"?: "+typeOf(schema))
		}
	}
	all := append(required, optional...)
	if left := len(all) - maxArguments; left > 0 {
		all = append(all[:maxArguments], fmt.Sprintf("… %d more", left))
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// typeOf returns the type of an argument in common notation: string, string[], "a"|"b".
func typeOf(schema json.RawMessage) string {
	var values []string
	if json.Unmarshal(rawjson.Get(schema, "enum"), &values) == nil && len(values) > 0 {
		for n := range values {
			values[n] = string(rawjson.Quote(display.Visible(values[n])))
		}
		if text := strings.Join(values, "|"); len(text) <= maxType {
			return text
		}
	}
	var one string
	var several []string
	switch raw := rawjson.Get(schema, "type"); {
	case json.Unmarshal(raw, &one) == nil && one == "array":
		if item := typeOf(rawjson.Get(schema, "items")); !strings.ContainsRune(item, '|') && len(item) < maxType {
			return item + "[]"
		}
		return "array"
	case one != "":
		return display.Prefix(display.Visible(one), maxType)
	case json.Unmarshal(raw, &several) == nil && len(several) > 0:
		return display.Prefix(display.Visible(strings.Join(several, "|")), maxType)
	}
	return "any"
}

// Summary returns the first sentence of a tool's description.
func Summary(e *tools.Entry) string {
	text := withoutLabel(e)
	if text == "" {
		text = e.Title
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if n := strings.Index(text, ". "); n >= 0 {
		text = text[:n+1]
	}
	text = strings.Join(strings.Fields(text), " ") // U+2028 begins a line too
	if len(text) > maxSentence {
		text = display.CutWords(text, maxSentence)
	}
	return text
}
