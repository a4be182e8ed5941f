package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

var update = flag.Bool("update", false, "rewrite openapi.json")

// TestOpenAPIIsCurrent generates the document from the operations and the types of their data, and compares it with
// the file.
func TestOpenAPIIsCurrent(t *testing.T) {
	got := generateOpenAPI(t)
	if *update {
		if err := os.WriteFile("openapi.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(openAPI), string(got)); diff != "" {
		t.Errorf("openapi.json is not what is served: run go generate ./httpserver (-have +want):\n%s", diff)
	}
}

type object = map[string]any

// namer returns schemaName as a function that fails t for two types of one name.
func namer(t *testing.T) func(reflect.Type) string {
	named := make(map[string]reflect.Type)
	return func(of reflect.Type) string {
		name := schemaName(of)
		if of.Kind() != reflect.Struct || name == "" {
			return name // no component
		}
		if before, ok := named[name]; ok && before != of {
			t.Errorf("%s.%s and %s.%s are one component of the document", before.PkgPath(), name, of.PkgPath(), name)
		}
		named[name] = of
		return name
	}
}

// schemaName returns a name for a Go type in the document: a type of package status is named after what it describes.
func schemaName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[status.Extension](), reflect.TypeFor[status.Instance](), reflect.TypeFor[status.Policy](),
		reflect.TypeFor[status.Audit](),
		reflect.TypeFor[status.Destination](), reflect.TypeFor[status.Host](), reflect.TypeFor[status.Watch]():
		return t.Name() + "Status"
	case reflect.TypeFor[status.Verdict](), reflect.TypeFor[status.Denial]():
		return "Status" + t.Name()
	case reflect.TypeFor[audit.Record](), reflect.TypeFor[audit.Payload]():
		return "Audit" + t.Name()
	case reflect.TypeFor[approval.Request]():
		return "Approval" + t.Name()
	}
	return t.Name()
}

// generateOpenAPI generates the document. Comments of Go types become descriptions.
func generateOpenAPI(t *testing.T) []byte {
	t.Helper()
	t.Chdir("..") // the generator finds comments by import path below the module's root
	g := generator{
		&jsonschema.Reflector{Mapper: mapType, Namer: namer(t), AllowAdditionalProperties: true},
		make(object),
	}
	for _, dir := range []string{".", "status", "httpserver", "protocol", "governance", "supervisor", "manifest",
		"tools", "internal/observe/journal", "governance/audit", "config", "internal/listing/toolset",
		"internal/host/policies"} {
		if err := g.AddGoComments("github.com/exthost/exthost", dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, comment := range g.CommentMap {
		g.CommentMap[name] = strings.ReplaceAll(comment, "\n", " ")
	}
	t.Chdir("httpserver")
	paths := make(map[string]object)
	for _, o := range operations(nil) {
		path := apiRoot + o.path
		if paths[path] == nil {
			paths[path] = make(object)
		}
		paths[path][strings.ToLower(o.method)] = g.operation(&o)
	}
	doc := object{
		"openapi": "3.1.1",
		"info": object{
			"title":   "exthost",
			"version": "1",
			"description": "The operator's API of a running host. Durations are in milliseconds with a fraction, " +
				"unknown members may come.",
		},
		"servers": []object{{"url": "/"}}, "paths": paths, "security": []object{{"token": []string{}}},
		"components": object{
			"schemas": g.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "made when exthost serve starts; on the unix socket none is needed"}},
		},
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
		params = append(params,
			object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range o.query {
		params = append(params,
			object{"name": p.name, "in": "query", "description": p.summary, "schema": object{"type": "string"}})
	}
	ok := object{"description": "done"}
	status, content := "204", make(object)
	if o.answer != nil {
		content["application/json"] = object{"schema": g.schema(o.answer)}
	}
	if o.events != nil {
		events := make(object)
		for name, data := range o.events {
			events[name] = g.schema(data)
		}
		content["text/event-stream"] = object{
			"schema": object{
				"type":        "string",
				"description": "server-sent events; x-events has the schema of the data of each",
			},
			"x-events": events,
		}
	}
	if o.write != nil {
		lines := object{"schema": object{"type": "string", "description": "JSON lines"}}
		if o.lines != nil {
			lines["x-lines"] = g.schema(o.lines)
		}
		content["application/x-ndjson"] = lines
	}
	if len(content) > 0 {
		status, ok["content"] = "200", content
	}
	failed := object{
		"description": "what went wrong",
		"content":     object{"application/json": object{"schema": g.schema(failure{})}},
	}
	op := object{
		"operationId": operationID(o),
		"summary":     o.summary,
		"parameters":  params,
		"responses":   object{status: ok, "default": failed},
	}
	if o.body != nil {
		op["requestBody"] = object{
			"required": true,
			"content":  object{"application/json": object{"schema": g.schema(o.body)}},
		}
	}
	return op
}

// operationID returns getStatus for GET /status.
func operationID(o *operation) string {
	id := strings.ToLower(o.method)
	for _, word := range strings.FieldsFunc(o.path, func(r rune) bool { return !('a' <= r && r <= 'z') }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

// schema returns the schema of the type of v, and adds its structs to the components.
func (g *generator) schema(v any) any {
	if _, raw := v.(json.RawMessage); raw {
		return true // a type of another module
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

// mapType returns the schemas of types with their own JSON encoding.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[protocol.Duration]():
		return &jsonschema.Schema{Type: "number"}
	case t == reflect.TypeFor[slog.Level](), t == reflect.TypeFor[status.StageName]():
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

// contract checks answers against the served document.
type contract struct {
	compiler *validator.Compiler
	paths    map[string]map[string]struct {
		Responses map[string]struct{ Content map[string]struct{} }
	}
}

// readContract compiles the served document so that undocumented members are errors.
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

// check validates a value by the schema at a place in the document.
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

// TestEveryRouteIsDocumented checks that each documented path is served and each operation is documented.
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
			r, _ := http.NewRequest(strings.ToUpper(method),
				s.URL+strings.NewReplacer("{id}", "kit", "{name}", "ext_kit_say", "{extension}", "kit", "{tool}",
					"say").Replace(path), nil)
			_, pattern := mux.Handler(r)
			if want := strings.ToUpper(method) + " " + path; pattern != want {
				t.Errorf("%s is documented, and served by %q", want, pattern)
			}
			documented[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, o := range operations(nil) {
		if !documented[o.method+" "+apiRoot+o.path] {
			t.Errorf("%s %s is served and not documented", o.method, o.path)
		}
	}
}

// TestAnswersAreAsDocumented validates an answer of each operation, and a failure.
func TestAnswersAreAsDocumented(t *testing.T) {
	asks := governance.Member{
		Spec:   governance.Spec{Name: "asks", Category: governance.Authorization},
		Policy: asking{},
	}
	o := exthost.Options{Policies: []governance.Member{asks}}
	cfg := config.Default()
	rulings(&o, cfg)
	files := newDesk(t, "toolsets: {talk: {include: [ext_kit_*]}}\n")
	files.states(t, &o, cfg)
	h := openKitWith(t, cfg, o)
	s := httptest.NewServer(Admin(h, files))
	defer s.Close()
	c := readContract(t, openAPI)
	ids := map[string]func() string{
		"/approvals/{id}/approve": func() string { return approvalRequest(t, h) },
		"/approvals/{id}/deny":    func() string { return approvalRequest(t, h) },
		"/calls/{id}":             func() string { return fmt.Sprint(h.Admin().Calls(1)[0].ID) },
		"/decisions/{id}":         func() string { return h.Admin().Traces(1)[0].ID },
	}
	bodies := map[string]string{
		"/tools/{name}/call":       `{"n":1}`,
		"/policies/test":           `{"tool":"ext_kit_say"}`,
		"/policies/rehearse":       `{"policy":"asks"}`,
		"/approvals/{id}/deny":     `{"reason":"no"}`,
		"/trust":                   `{"digest":"sha256:1"}`,
		"/toolsets/{name}/preview": `{"include":["ext_kit_say"]}`,
	}
	edits := map[string]string{
		"/clients/{name}/add":     `"toolset":"talk"`,
		"/clients/{name}/set":     `"mode":"search"`,
		"/clients/{name}/remove":  "",
		"/toolsets/{name}/add":    `"include":["ext_kit_say"]`,
		"/toolsets/{name}/set":    `"include":["ext_kit_*"],"exclude":["ext_kit_die"]`,
		"/toolsets/{name}/remove": "",
	}
	var answer string
	askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_die/call", "{}", &answer) // produces evidence
	c.check(t, "a failure", []string{"components", "schemas", "failure"}, []byte(answer))
	for _, o := range operations(nil) {
		if o.answer == nil && (o.events != nil || o.write != nil) {
			continue // see TestEventsAreAsDocumented, TestRecording
		}
		id := "kit"
		if ids[o.path] != nil {
			id = ids[o.path]()
		}
		if more, edits := edits[o.path]; edits {
			bodies[o.path] = bound(t, files.file(), more)
		}
		path, what := apiRoot+o.path, o.method+" "+o.path
		asked := strings.NewReplacer("{id}", id, "{name}", "ext_kit_say", "{extension}", "kit", "{tool}",
			"say").Replace(path)
		code := askAdmin(t, s, o.method, asked, bodies[o.path], &answer)
		switch {
		case o.answer == nil && code == http.StatusNoContent:
		case o.answer != nil && code == http.StatusOK:
			c.check(t, what, []string{
				"paths",
				path,
				strings.ToLower(o.method),
				"responses",
				"200",
				"content",
				"application/json",
				"schema",
			}, []byte(answer))
		// there is no pin and no recording
		case (strings.HasPrefix(o.path, "/pins/") || o.path == "/record/stop") && code == http.StatusNotFound:
			c.check(t, what, []string{"components", "schemas", "failure"}, []byte(answer))
		default:
			t.Errorf("%s: %d %s", what, code, answer)
		}
	}
}

// asking is a policy that asks about one tool.
type asking struct{}

func (asking) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow == governance.Request && strings.HasSuffix(x.Tool, "_fail") {
		return governance.Decision{Action: governance.Ask, Reason: "sure?"}, nil
	}
	return governance.Decision{}, nil
}

// approvalRequest makes a call that waits for approval, and returns the id of its request.
func approvalRequest(t *testing.T, h *exthost.Host) string {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = h.Call(context.Background(), "ext_kit_fail", nil)
	}()
	t.Cleanup(func() { get(t, ended, "the call that was asked about") })
	for e := range h.Admin().Events(t.Context(), status.EventApprovals) {
		if len(*e.Approvals) > 0 {
			return (*e.Approvals)[0].ID
		}
	}
	t.Fatal("nobody was asked")
	return ""
}

// TestEventsAreAsDocumented validates an event of each kind.
func TestEventsAreAsDocumented(t *testing.T) {
	asks := governance.Member{
		Spec:   governance.Spec{Name: "asks", Category: governance.Authorization},
		Policy: asking{},
	}
	s, h := serveAdmin(t, exthost.Options{Policies: []governance.Member{asks}})
	c := readContract(t, openAPI)
	next := openEvents(t, s, "")
	seen := make(map[string]int)
	read := func(kind string) (data string) {
		t.Helper()
		for {
			got, data := next()
			seen[got]++
			c.check(t, got, []string{"paths", "/api/v1/events", "get", "responses", "200", "content",
				"text/event-stream", "x-events", got}, []byte(data))
			if got == kind {
				return data
			}
		}
	}
	read("status")
	if code := askAdmin(t, s, "POST", "/api/v1/tools/ext_kit_die/call", "{}", nil); code != http.StatusBadGateway {
		t.Fatal(code)
	}
	if data := read("call"); !strings.Contains(data, `"outcome":"child_exited"`) {
		t.Error(data)
	}
	if seen["log"] == 0 { // the last record may arrive before or after the state event
		read("log")
	}
	if id := approvalRequest(t, h); !strings.Contains(read("approvals"), id) {
		t.Error("the approval request was not told")
	} else if code := askAdmin(t, s, "POST", "/api/v1/approvals/"+id+"/deny", "", nil); code != http.StatusNoContent {
		t.Error(code)
	}
	read("approvals")
	if code := askAdmin(t, s, "POST", "/api/v1/extensions/kit/restart", "", nil); code != http.StatusNoContent {
		t.Fatal(code)
	}
	read("state")
	if code := askAdmin(t, s, "POST", "/api/v1/reload", "", nil); code != http.StatusOK {
		t.Fatal(code)
	}
	read("reload")
	read("status")
	if seen["status"] > 20 {
		t.Errorf("the status was told %d times", seen["status"])
	}
}

// openEvents returns a function that reads the name and data of the next event.
func openEvents(t *testing.T, s *httptest.Server, query string) (next func() (name, data string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	return func() (name, data string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream has ended: %v", err)
			}
			if text, ok := strings.CutPrefix(line, "event: "); ok {
				name = strings.TrimSpace(text)
			}
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				return name, text
			}
		}
	}
}

// The stream contains only the requested kinds, and unknown kinds are refused.
func TestEventsAreChosen(t *testing.T) {
	s, h := adminServer(t)
	next := openEvents(t, s, "?kinds=call")
	if _, err := h.Call(t.Context(), "ext_kit_say", nil); err != nil {
		t.Fatal(err)
	}
	if name, data := next(); name != "call" || !strings.Contains(data, "ext_kit_say") {
		t.Errorf("%s %s", name, data)
	}
	for _, query := range []string{"?kinds=calls", "?kinds=call,,", "?level=loud"} {
		var failed struct{ Error *Fault }
		if code := askAdmin(t, s, "GET", "/api/v1/events"+query, "", &failed); code != http.StatusBadRequest ||
			failed.Error.Kind != protocol.InvalidArguments {
			t.Errorf("%s: %d %+v", query, code, failed.Error)
		}
	}
}
