package httpserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite openapi.json")

// TestOpenAPIIsCurrent generates the document from the operations and their types
// and compares it with the file.
func TestOpenAPIIsCurrent(t *testing.T) {
	got := generateOpenAPI(t)
	if *update {
		if err := os.WriteFile("openapi.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(string(openAPI), string(got)); diff != "" {
		t.Errorf("openapi.json is not what is served: run go generate ./httpserver (-have +want):\n%s", diff)
	}
}

type object = map[string]any

// generateOpenAPI describes the operations. Comments become descriptions.
func generateOpenAPI(t *testing.T) []byte {
	t.Helper()
	t.Chdir("..") // comments are found by import path below the module's root
	g := generator{&jsonschema.Reflector{Mapper: mapType, AllowAdditionalProperties: true}, make(object)}
	for _, dir := range []string{".", "httpserver", "protocol", "governance", "supervisor", "manifest", "tools", "internal/journal"} {
		if err := g.AddGoComments("github.com/exthost/exthost", dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir("httpserver")
	paths := make(map[string]object)
	for _, o := range operations() {
		path := apiRoot + o.path
		if paths[path] == nil {
			paths[path] = make(object)
		}
		paths[path][strings.ToLower(o.method)] = g.operation(&o)
	}
	doc := object{
		"openapi": "3.1.1",
		"info":    object{"title": "exthost", "version": "1", "description": "The operator's API of a running exthost. Durations are in nanoseconds, unknown members may come."},
		"servers": []object{{"url": "/"}}, "paths": paths, "security": []object{{"token": []string{}}},
		"components": object{"schemas": g.schemas, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
			"description": "made when exthost serve starts; on the unix socket none is needed"}}},
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.ReplaceAll(out, []byte("#/$defs/"), []byte("#/components/schemas/")), '\n')
}

type generator struct {
	*jsonschema.Reflector
	schemas object
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (g *generator) operation(o *operation) object {
	params := []object{}
	for _, m := range pathParameter.FindAllStringSubmatch(o.path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range o.query {
		params = append(params, object{"name": p.name, "in": "query", "description": p.summary, "schema": object{"type": "string"}})
	}
	ok := object{"description": "done"}
	status := "204"
	if o.answer != nil {
		status, ok["content"] = "200", object{"application/json": object{"schema": g.schema(o.answer)}}
	}
	if o.events != nil {
		events := make(object)
		for name, data := range o.events {
			events[name] = g.schema(data)
		}
		status, ok["content"] = "200", object{"text/event-stream": object{"schema": object{"type": "string", "description": "server-sent events; x-events has the schema of the data of each"}, "x-events": events}}
	}
	failed := object{"description": "what went wrong", "content": object{"application/json": object{"schema": g.schema(failure{})}}}
	op := object{"operationId": operationID(o), "summary": o.summary, "parameters": params, "responses": object{status: ok, "default": failed}}
	if o.body != nil {
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": g.schema(o.body)}}}
	}
	return op
}

// operationID is getStatus for GET /status.
func operationID(o *operation) string {
	id := strings.ToLower(o.method)
	for _, word := range strings.FieldsFunc(o.path, func(r rune) bool { return !('a' <= r && r <= 'z') }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

// schema is the schema of the type of v; that of its structs goes to the components.
func (g *generator) schema(v any) any {
	if _, raw := v.(json.RawMessage); raw {
		return true // somebody else's
	}
	s := g.Reflect(v)
	maps.Copy(g.schemas, map[string]any(definitions(s)))
	s.Definitions, s.Version, s.ID = nil, "", ""
	return s
}

func definitions(s *jsonschema.Schema) object {
	all := make(object)
	for name, def := range s.Definitions {
		all[name] = def
	}
	return all
}

// mapType describes the types that write themselves.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[slog.Level]():
		return &jsonschema.Schema{Type: "string"}
	case t == reflect.TypeFor[json.RawMessage]():
		return jsonschema.TrueSchema
	}
	if e, ok := reflect.Zero(t).Interface().(interface{ Values() []string }); ok && t.Kind() == reflect.String {
		s := &jsonschema.Schema{Type: "string"}
		for _, v := range e.Values() {
			s.Enum = append(s.Enum, v)
		}
		return s
	}
	return nil
}

// contract is the served document, for those who hold answers against it.
type contract struct {
	compiler *validator.Compiler
	paths    map[string]map[string]struct {
		Responses map[string]struct{ Content map[string]struct{} }
	}
}

// readContract compiles what is served, and strictly: a member that the document
// does not have is an error.
func readContract(t *testing.T, served []byte) *contract {
	t.Helper()

	doc, err := validator.UnmarshalJSON(bytes.NewReader(served))
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range doc.(object)["components"].(object)["schemas"].(object) {
		if s := schema.(object); s["properties"] != nil {
			s["additionalProperties"] = false
		}
	}
	c := &contract{compiler: validator.NewCompiler()}
	if err := c.compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	var parsed struct{ Paths json.RawMessage }
	if err := json.Unmarshal(served, &parsed); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(parsed.Paths, &c.paths); err != nil {
		t.Fatal(err)
	}
	return c
}

// check holds a value against the schema at a place of the document.
func (c *contract) check(t *testing.T, what string, place []string, value []byte) {
	t.Helper()
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	for i := range place {
		place[i] = escape.Replace(place[i])
	}
	schema, err := c.compiler.Compile("openapi.json#/" + strings.Join(place, "/"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := validator.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("%s: %v in %s", what, err, value)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%s is not what the document says: %v\n%.2000s", what, err, value)
	}
}

// TestEveryRouteIsDocumented asks for each documented path and finds it served, and
// finds each operation documented.
func TestEveryRouteIsDocumented(t *testing.T) {
	s, _ := adminServer(t)
	var served string
	if code := askAdmin(t, s, "GET", "/api/v1/openapi.json", "", &served); code != http.StatusOK {
		t.Fatal(code)
	}
	c := readContract(t, []byte(served))
	documented := make(map[string]bool)
	mux, ok := s.Config.Handler.(*http.ServeMux)
	if !ok {
		t.Fatalf("the API is a %T", s.Config.Handler)
	}
	for path, methods := range c.paths {
		for method := range methods {
			r, _ := http.NewRequest(strings.ToUpper(method), s.URL+strings.NewReplacer("{id}", "kit", "{name}", "ext_kit_say").Replace(path), nil)
			_, pattern := mux.Handler(r)
			if want := strings.ToUpper(method) + " " + path; pattern != want {
				t.Errorf("%s is documented, and served by %q", want, pattern)
			}
			documented[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, o := range operations() {
		if !documented[o.method+" "+apiRoot+o.path] {
			t.Errorf("%s %s is served and not documented", o.method, o.path)
		}
	}
}

// TestAnswersAreAsDocumented holds an answer of each operation, and a failure,
// against the document.
func TestAnswersAreAsDocumented(t *testing.T) {
	s, _ := adminServer(t)
	c := readContract(t, openAPI)
	bodies := map[string]string{"/tools/{name}/call": `{"n":1}`}
	askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_die/call", "{}", nil) // leaves evidence
	for _, o := range slices.SortedFunc(slices.Values(operations()), func(a, b operation) int { return cmp.Compare(a.path, b.path) }) {
		if o.events != nil {
			continue // TestEventsAreAsDocumented
		}
		path := apiRoot + o.path
		var answer string
		code := askAdmin(t, s, o.method, strings.NewReplacer("{id}", "kit", "{name}", "ext_kit_say").Replace(path), bodies[o.path], &answer)
		what := o.method + " " + path
		switch {
		case o.answer == nil && code == http.StatusNoContent:
		case o.answer != nil && code == http.StatusOK:
			c.check(t, what, []string{"paths", path, strings.ToLower(o.method), "responses", "200", "content", "application/json", "schema"}, []byte(answer))
		default:
			t.Errorf("%s: %d %s", what, code, answer)
		}
	}
	var answer string
	askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_die/call", "{}", &answer)
	c.check(t, "a failure", []string{"components", "schemas", "failure"}, []byte(answer))
}
