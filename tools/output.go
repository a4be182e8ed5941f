package tools

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/schema"
)

// Mismatch says how the result of a tools/call does not match an output schema, "" if it does. promised is false for a
// result about which the schema says nothing: an error, questions to the client, a task.
type Mismatch func(result json.RawMessage) (fault string, promised bool)

// mismatchOf returns the check against an output schema, which is compiled at the first use.
func mismatchOf(output json.RawMessage) Mismatch {
	if output == nil {
		return nil
	}
	compiled := sync.OnceValues(func() (*schema.Schema, error) {
		doc, err := readSchema(output)
		if err != nil {
			return nil, err
		}
		s := schema.Compile(doc)
		return s, s.Err()
	})
	return func(result json.RawMessage) (fault string, promised bool) {
		if !isFinal(result) {
			return "", false
		}
		structured := rawjson.Get(result, "structuredContent")
		if structured == nil {
			return "structuredContent is missing", true
		}
		s, err := compiled()
		if err != nil {
			return "the schema cannot be used: " + display.Cut(display.Visible(err.Error()), maxFaultText), true
		}
		return describeFaults(s.Check(structured)), true
	}
}

// isFinal reports whether a result of tools/call is that of a tool that did what it was asked for.
func isFinal(result json.RawMessage) bool {
	if kind := rawjson.Get(result, "resultType"); kind != nil && string(kind) != `"complete"` {
		return false
	}
	begun := rawjson.IsObject(rawjson.Get(result, "task")) && rawjson.Get(result, "content") == nil
	return !begun && string(rawjson.Get(result, "isError")) != "true"
}

// Bounds of a description of faults.
const (
	maxFaults    = 5
	maxFaultText = 200 // bytes of one
)

// describeFaults names the places and the requirements of faults, and not the values, which may be withheld.
func describeFaults(faults []schema.Fault) string {
	slices.SortStableFunc(faults, func(a, b schema.Fault) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Expected, b.Expected))
	})
	var texts []string
	for _, f := range faults[:min(len(faults), maxFaults)] {
		text := cmp.Or(f.Path, "structuredContent") + ": expected " + f.Expected
		texts = append(texts, display.Cut(display.Visible(text), maxFaultText))
	}
	return strings.Join(texts, "; ")
}
