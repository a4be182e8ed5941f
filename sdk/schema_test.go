package sdk

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

type base struct {
	ID string `json:"id"`
}

// The fields and tags of an input struct determine the schema.
func TestSchemaOf(t *testing.T) {
	const object = `"additionalProperties":false,"type":"object"`
	for name, tt := range map[string]struct{ got, want string }{
		"description": {schema[struct {
			A string `json:"a" jsonschema_description:"One, two"`
		}](), `{"properties":{"a":{"type":"string","description":"One, two"}},` + object + `,"required":["a"]}`},
		"keywords": {schema[struct {
			A string   `json:"a,omitempty" jsonschema:"enum=x,enum=y,default=x"`
			B int      `json:"b,omitempty" jsonschema:"minimum=1,maximum=9"`
			C []string `json:"c,omitempty" jsonschema:"maxItems=2"`
			D string   `json:"d,omitempty" jsonschema:"minLength=1,maxLength=5,pattern=^a"`
		}](), `{"properties":{"a":{"type":"string","enum":["x","y"],"default":"x"},"b":{"type":"integer","maximum":9,"minimum":1},` +
			`"c":{"items":{"type":"string"},"type":"array","maxItems":2},"d":{"type":"string","maxLength":5,"minLength":1,"pattern":"^a"}},` + object + `}`},
		"required and optional": {schema[struct {
			A string  `json:"a"`
			B string  `json:"b,omitempty"`
			C string  `json:"c,omitempty" jsonschema:"required"`
			D *int    `json:"d,omitempty"`
			E float64 `json:"e,omitzero"`
			F bool    `json:"-"`
			g bool
		}](), `{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"integer"},"e":{"type":"number"}},` + object + `,"required":["a","c"]}`},
		"embedded": {schema[struct {
			base
			B *base `json:"b"`
		}](), `{"properties":{"id":{"type":"string"},"b":{"properties":{"id":{"type":"string"}},` + object +
			`,"required":["id"]}},` + object + `,"required":["id","b"]}`},
		"maps": {schema[struct {
			A map[string]int `json:"a"`
			B map[string]any `json:"b"`
		}](), `{"properties":{"a":{"additionalProperties":{"type":"integer"},"type":"object"},"b":{"type":"object"}},` +
			object + `,"required":["a","b"]}`},
		"JSON, bytes and time": {schema[struct {
			A json.RawMessage `json:"a"`
			B any             `json:"b"`
			C []byte          `json:"c"`
			D time.Time       `json:"d"`
		}](), `{"properties":{"a":true,"b":true,"c":{"type":"string","contentEncoding":"base64"},"d":{"type":"string","format":"date-time"}},` + object + `,"required":["a","b","c","d"]}`},
		"any arguments": {schema[json.RawMessage](), `{"type":"object"}`},
	} {
		if tt.got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", name, tt.got, tt.want)
		}
	}
}

type tree struct {
	Name     string           `json:"name"`
	Children map[string]*tree `json:"children"`
}

// A struct that contains itself has no schema without references.
func TestRecursiveInput(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "field Root.Children ") ||
			!strings.Contains(text, "contains its own type") {
			t.Errorf("panicked with %s", text)
		}
	}()
	schemaOf[struct {
		Root []tree `json:"root"`
	}]()
	t.Error("no panic")
}

func schema[T any]() string { return string(schemaOf[T]()) }
