package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// shownTools, shownPrompts and urisOf are the items of each server in these tests.
var (
	shownTools   = []string{"read", "write", "later"}
	shownPrompts = []string{"plan", "tell"}
)

func urisOf(id string) []string {
	return []string{"note://" + id + "/a", "note://" + id + "/deep/b", "secret://" + id + "/c"}
}

// serveShown is an MCP server of legacy ("older") or modern ("newer") versions with tools, one of which starts a
// task, prompts, resources, a template and completion. Each result names the server and the requested item; a tool
// call also sends a resource update.
func serveShown(versions string) {
	id := os.Getenv("EXTHOST_EXTENSION_ID")
	if id == "" {
		id = os.Getenv("SHOWN_ID")
	}
	list := func(kind string, names []string, format string) string {
		var items []string
		for _, name := range names {
			items = append(items, strings.ReplaceAll(format, "%", name))
		}
		return `{"resultType":"complete","` + kind + `":[` + strings.Join(items, ",") + `]}`
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for begun := 0; lines.Scan(); {
		frame := json.RawMessage(lines.Bytes())
		method, _ := rawjson.Text(rawjson.Get(frame, "method"))
		params := rawjson.Get(frame, "params")
		name, _ := rawjson.Text(rawjson.Get(params, "name"))
		uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
		task, _ := rawjson.Text(rawjson.Get(params, "taskId"))
		said := func(what string) string { return string(rawjson.Quote(id + " " + what)) }
		capabilities := `"capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"` + id + `","version":"1"}`
		var result string
		switch method {
		case "initialize":
			if versions == "older" {
				result = `{"protocolVersion":"2025-11-25",` + capabilities + `}`
			}
		case "server/discover":
			if versions == "newer" {
				result = `{"resultType":"complete","supportedVersions":["2026-07-28"],` + capabilities + `}`
			}
		case "tools/list":
			result = list("tools", shownTools,
				`{"name":"%","description":"tool % of `+id+`.","inputSchema":{"type":"object"}}`)
		case "prompts/list":
			result = list("prompts", shownPrompts, `{"name":"%","description":"prompt % of `+id+`."}`)
		case "resources/list":
			result = list("resources", urisOf(id), `{"uri":"%","name":"x"}`)
		case "resources/templates/list":
			result = list("resourceTemplates", []string{"note://" + id + "/t/{x}"}, `{"uriTemplate":"%","name":"x"}`)
		case "tools/call":
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`+"\n",
				urisOf(id)[2])
			result = `{"resultType":"complete","content":[{"type":"text","text":` + said("called "+name) + `}]}`
			if name == "later" {
				begun++
				result = fmt.Sprintf(`{"resultType":"task","taskId":"%s-t%d","status":"working"}`, id, begun)
				if versions == "older" {
					result = fmt.Sprintf(`{"task":{"taskId":"%s-t%d","status":"working"}}`, id, begun)
				}
			}
		case "prompts/get":
			result = `{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":` +
				said("prompts "+name) + `}}]}`
		case "resources/read":
			result = `{"resultType":"complete","contents":[{"uri":"` + uri + `","text":` + said("reads "+uri) + `}]}`
		case "resources/subscribe", "resources/unsubscribe":
			result = `{"resultType":"complete"}`
		case "completion/complete":
			ref := rawjson.Get(params, "ref")
			of, _ := rawjson.Text(rawjson.Get(ref, "name"))
			at, _ := rawjson.Text(rawjson.Get(ref, "uri"))
			result = `{"resultType":"complete","completion":{"values":[` + said("completes "+of+at) + `]}}`
		case "tasks/get":
			result = `{"resultType":"complete","taskId":"` + task + `","status":"working","by":"` + id + `"}`
		}
		switch n := rawjson.Get(frame, "id"); {
		case n == nil:
		case result == "":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s here"}}`+"\n", n, method)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", n, result)
		}
	}
}

// shownIDs maps the servers of [openShown] to their MCP versions. The registered names of alpha_x begin like those
// of alpha.
var shownIDs = map[string]string{"alpha": "older", "alpha_x": "older", "beta": "newer", "dest": "older"}

// openShown opens a host with these servers; dest is a destination.
func openShown(t testing.TB, toolsets map[string]config.Toolset, o exthost.Options) *exthost.Host {
	t.Helper()
	f := hosttest.NewFolder(t)
	for id, versions := range shownIDs {
		if id != "dest" {
			f.Add(id, hosttest.Plays("shown "+versions, "protocol = \"mcp\"\n"))
		}
	}
	cfg := f.Config()
	cfg.Toolsets, cfg.Tools.Call = toolsets, "one" // its name has none of those of tools
	d := config.Destination{
		Type:    config.DestinationStdio,
		Command: []string{hosttest.Exe(t)},
		Env:     map[string]string{processtest.ScriptVar: "shown older", "SHOWN_ID": "dest"},
	}
	d.StartTimeout, d.Instances = config.DefaultStartTimeout, "1"
	cfg.Destinations = config.Destinations{"dest": d}
	return f.OpenWith(cfg, o)
}

// thing is an item of a server.
type thing struct{ kind, id, own string }

// native returns the registered name, which patterns match.
func (x thing) native() string { return "ext_" + x.id + "_" + x.own }

func allThings() (list []thing) {
	for _, id := range slices.Sorted(maps.Keys(shownIDs)) {
		for _, own := range shownTools {
			list = append(list, thing{"tool", id, own})
		}
		for _, own := range shownPrompts {
			list = append(list, thing{"prompt", id, own})
		}
		for _, own := range urisOf(id) {
			list = append(list, thing{"resource", id, own})
		}
		list = append(list, thing{"template", id, "note://" + id + "/t/{x}"})
	}
	return list
}

// model decides what a toolset shows independently of the host: pattern by pattern.
func model(d config.Toolset, x thing) bool {
	for _, p := range d.Exclude {
		if glob.Match(p, x.native()) {
			return false
		}
	}
	for _, p := range d.Include {
		meant := ""
		for id := range shownIDs {
			if strings.HasPrefix(p, "ext_"+id+"_") && len(id) > len(meant) {
				meant = id
			}
		}
		if glob.Match(p, x.native()) && (meant == "" || meant == x.id) {
			return true
		}
	}
	return len(d.Include) == 0
}

// randomToolset returns a toolset of patterns that mostly match something.
func randomToolset(r *rand.Rand) (d config.Toolset) {
	things := allThings()
	pattern := func() string {
		x := things[r.IntN(len(things))]
		return []string{"ext_" + x.id + "_*", x.native(), "*_" + x.own, "ext_" + x.id + "_?????",
			"*" + x.own[len(x.own)/2:], "ext_*", "ext_[ab]*_*://*", "ext_" + x.id + "*",
			"ext_" + x.id + "_note:*"}[r.IntN(9)]
	}
	for range r.IntN(4) {
		d.Include = append(d.Include, pattern())
	}
	for range r.IntN(3) {
		d.Exclude = append(d.Exclude, pattern())
	}
	if prefixes := []string{"", "my_", "ext_alpha_", "ext_"}; r.IntN(2) == 0 {
		d.Prefix = &prefixes[r.IntN(len(prefixes))]
	}
	if x := things[r.IntN(len(things))]; x.kind == "tool" {
		d.Describe = map[string]string{x.native(): "described anew"}
	}
	return d
}

// shownName returns the name of a tool or prompt for clients of all extensions.
func shownName(d config.Toolset, x thing) string {
	if d.Prefix == nil {
		return x.native()
	}
	return *d.Prefix + strings.TrimPrefix(x.native(), "ext_")
}

// reaches sends a request and returns the response and everything the client received before it.
type reaches func(method, params string) (answer json.RawMessage, heard string)

// shownFront is a way for a client with a toolset to reach a host: all extensions, or one.
type shownFront struct {
	name      string
	extension string // "" for all
	modern    bool
	ask       reaches
}

// frontsTo returns the fronts for clients of a toolset; the HTTP fronts share one server.
func frontsTo(t *testing.T, h *exthost.Host, toolset string) (list []shownFront) {
	all := map[string]*way{
		"stdio":           overStdioWith(t, h, toolset, false),
		"stdio stateless": overStdioWith(t, h, toolset, true),
		"mcp":             overStreamable(t, h, "/t/"+toolset+"/mcp", false),
		"mcp stateless":   overStreamable(t, h, "/t/"+toolset+"/mcp", true),
		"sse":             overSSE(t, h, "/t/"+toolset+"/sse"),
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, shownFront{name: name, modern: all[name].stateless, ask: all[name].reaches(t)})
	}
	for _, id := range append([]string{""}, slices.Sorted(maps.Keys(shownIDs))...) {
		for _, version := range []string{"", protocol.MCP20251125, protocol.MCP20260728} {
			heard := hosttest.NewRecorder()
			s := &protocol.Session{
				ID:           toolset + id + version,
				Version:      version,
				Toolset:      toolset,
				Extension:    id,
				Client:       heard,
				Capabilities: json.RawMessage(`{}`),
			}
			list = append(list, shownFront{
				name:      "Go " + id + version,
				extension: id,
				modern:    protocol.IsModern(version),
				ask: func(method, params string) (json.RawMessage, string) {
					result, err := h.Do(context.Background(),
						&protocol.Call{
							Session:   s,
							Extension: id,
							Method:    method,
							Params:    json.RawMessage(params),
							Client:    s.Client,
						})
					if err != nil {
						return rawjson.Set(json.RawMessage(`{}`), "error", rawjson.Quote(err.Error())), ""
					}
					return rawjson.Set(json.RawMessage(`{}`), "result", result), strings.Join(heard.Told(), "\n")
				},
			})
		}
	}
	return list
}

// reaches sends requests over w.
func (w *way) reaches(t *testing.T) reaches {
	id := 0
	return func(method, params string) (json.RawMessage, string) {
		id++
		members := strings.TrimSuffix(strings.TrimPrefix(params, "{"), "}")
		frame := w.request(t, id, method, members)
		return json.RawMessage(frame), strings.Join(w.told, "\n")
	}
}

// Clients of random toolsets request everything, at every front and in legacy and modern versions. Hidden items
// are never listed, called, read, subscribed to, completed, found by task or search, called by ext_call or
// suggested, and are answered like missing items. Shown items work, and policies see their registered names.
func TestToolsetHides(t *testing.T) {
	processtest.Leaks(t)
	r, toolsets := rand.New(rand.NewPCG(2, 26)), make(map[string]config.Toolset)
	for n := range stormtest.Sized(5, 150) {
		toolsets[fmt.Sprintf("set%d", n)] = randomToolset(r)
	}
	none := ""
	toolsets["nothing"] = config.Toolset{Exclude: []string{"*"}}
	toolsets["short"] = config.Toolset{
		Include: []string{"ext_alpha_*"},
		Exclude: []string{"*write", "*secret:*"},
		Prefix:  &none,
	}
	seen := new(seenNames)
	h := openShown(t, toolsets,
		exthost.Options{Policies: []governance.Member{member("seen", governance.Authorization, seen)}})
	for name, d := range toolsets {
		t.Run(name, func(t *testing.T) {
			for _, f := range frontsTo(t, h, name) {
				t.Run(f.name, func(t *testing.T) { (&reaching{t, d, f, seen}).all() })
			}
		})
	}
}

// seenNames is a policy that records the tool names of calls.
type seenNames struct{ name atomic.Value }

// take returns and clears the latest name.
func (s *seenNames) take() string {
	name, _ := s.name.Swap("").(string)
	return name
}

func (s *seenNames) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if flow == governance.Request && x.Method == protocol.MethodToolsCall {
		s.name.Store(x.Tool)
	}
	return governance.Decision{}, nil
}

// reaching is a client that requests everything.
type reaching struct {
	t    *testing.T
	d    config.Toolset
	f    shownFront
	seen *seenNames
}

func (c *reaching) all() {
	var shown, hidden []thing
	for _, x := range allThings() {
		switch {
		case c.f.extension == "" && x.id == "dest", c.f.extension != "" && x.id != c.f.extension:
			if x.id != "dest" || c.f.extension != "" {
				hidden = append(hidden, x)
			}
		case model(c.d, x):
			shown = append(shown, x)
		default:
			hidden = append(hidden, x)
		}
	}
	c.lists(shown)
	c.finds(shown, hidden)
	for _, x := range shown {
		c.reach(x, true)
	}
	for _, x := range hidden {
		if c.f.extension == "" || x.id == c.f.extension {
			c.reach(x, false)
		}
	}
}

// name returns the client's name of a tool or prompt.
func (c *reaching) name(x thing) string {
	if c.f.extension != "" {
		return x.own
	}
	return shownName(c.d, x)
}

// lists compares the listed items with the shown ones.
func (c *reaching) lists(shown []thing) {
	for _, l := range []struct{ method, member, key, kind string }{
		{"tools/list", "tools", "name", "tool"}, {"prompts/list", "prompts", "name", "prompt"},
		{"resources/list", "resources", "uri", "resource"},
		{"resources/templates/list", "resourceTemplates", "uriTemplate", "template"},
	} {
		var want, got []string
		for _, x := range shown {
			if x.kind != l.kind {
				continue
			}
			if l.key == "name" {
				want = append(want, c.name(x))
			} else {
				want = append(want, x.own)
			}
		}
		answer, heard := c.f.ask(l.method, `{}`)
		var list []map[string]any
		if rawjson.Get(answer, "error") == nil {
			if err := json.Unmarshal(rawjson.Get(rawjson.Get(answer, "result"), l.member), &list); err != nil {
				c.t.Fatalf("%s: %s", l.method, answer)
			}
		}
		for _, item := range list {
			got = append(got, item[l.key].(string))
			if text := c.d.Describe["ext_"+c.nativeOf(item[l.key].(string))]; text != "" && l.kind == "tool" &&
				item["description"] != text {
				c.t.Errorf("%s is described %v", item[l.key], item["description"])
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			c.t.Errorf("%+v: %s has %q, want %q; %s", c.d, l.method, got, want, heard)
		}
	}
}

// excludes reports whether the toolset excludes a tool of the host.
func (c *reaching) excludes(tool string) bool {
	return slices.ContainsFunc(c.d.Exclude, func(p string) bool { return glob.Match(p, tool) })
}

// finds searches for each tool.
func (c *reaching) finds(shown, hidden []thing) {
	for _, x := range slices.Concat(shown, hidden) {
		if x.kind != "tool" || c.f.extension == "dest" { // has tools of its own
			continue
		}
		answer, _ := c.f.ask("tools/call",
			fmt.Sprintf(`{"name":"ext_find","arguments":{"query":"tool %s of %s"}}`, x.own, x.id))
		if failed := rawjson.Get(answer, "error") != nil; failed != (c.f.extension != "" || c.excludes("ext_find")) {
			c.t.Errorf("%+v: ext_find: %s", c.d, answer)
		} else if failed {
			continue
		}
		text := protocol.ToolResult(rawjson.Get(answer, "result")).Text()
		if named := strings.Contains(text, `{"name":"`+c.name(x)+`",`); slices.Contains(shown, x) && !named {
			c.t.Errorf("%+v: %s is shown, and not found: %s", c.d, x.native(), text)
		}
		for _, y := range hidden {
			if y.kind == "tool" &&
				(strings.Contains(text, "tool "+y.own+" of "+y.id+".") || strings.Contains(text, y.native())) {
				c.t.Errorf("%+v: %s is hidden, and found: %s", c.d, y.native(), text)
			}
		}
	}
}

// nativeOf returns a tool's registered name without ext_.
func (c *reaching) nativeOf(name string) string {
	switch {
	case c.f.extension != "":
		return c.f.extension + "_" + name
	case c.d.Prefix == nil:
		return strings.TrimPrefix(name, "ext_")
	}
	return strings.TrimPrefix(name, *c.d.Prefix)
}

// reach sends every request about x.
func (c *reaching) reach(x thing, shown bool) {
	q := func(s string) string { return string(rawjson.Quote(s)) }
	var requests [][2]string
	name := c.name(x)
	switch x.kind {
	case "tool":
		requests = [][2]string{{"tools/call", `{"name":` + q(name) + `,"arguments":{}}`}}
		if x.own == "later" && !c.f.modern {
			requests[0][1] = `{"name":` + q(name) + `,"arguments":{},"task":{}}`
		}
		if c.f.extension == "" && !c.excludes("ext_call") {
			wrapped := strings.Replace(requests[0][1], `"name":`+q(name)+`,"arguments":{}`,
				`"name":"ext_call","arguments":{"tool":`+q(name)+`,"arguments":{}}`, 1)
			requests = append(requests, [2]string{"tools/call", wrapped})
		}
	case "prompt":
		requests = [][2]string{
			{"prompts/get", `{"name":` + q(name) + `}`},
			{"completion/complete",
				`{"ref":{"type":"ref/prompt","name":` + q(name) + `},"argument":{"name":"a","value":""}}`},
		}
	case "resource":
		requests = [][2]string{{"resources/read", `{"uri":` + q(x.own) + `}`}}
		if !c.f.modern {
			requests = append(requests, [2]string{"resources/subscribe", `{"uri":` + q(x.own) + `}`})
		}
	case "template":
		requests = [][2]string{
			{"completion/complete",
				`{"ref":{"type":"ref/resource","uri":` + q(x.own) + `},"argument":{"name":"x","value":""}}`},
		}
	}
	for _, r := range requests {
		c.seen.take()
		answer, heard := c.f.ask(r[0], r[1])
		seen := c.seen.take()
		failed := rawjson.Get(answer, "error") != nil
		if secret := urisOf(x.id)[2]; strings.Contains(heard, secret) && !model(c.d, thing{"resource", x.id, secret}) {
			c.t.Errorf("%+v: the client hears of a hidden resource: %s", c.d, heard)
		}
		if shown {
			if failed && r[0] == "resources/subscribe" && x.id == "beta" {
				continue // does not support subscriptions/listen
			}
			if failed {
				c.t.Errorf("%+v: %s %s is shown, and fails: %s", c.d, r[0], r[1], answer)
			} else if x.kind == "tool" && seen != x.native() {
				c.t.Errorf("policies see %s as %q", x.native(), seen)
			} else if own := x.id + " "; r[0] != "resources/subscribe" && x.own != "later" &&
				!bytes.Contains(answer, []byte(own)) {
				c.t.Errorf("%s %s was answered by another: %s", r[0], r[1], answer)
			}
			if x.own == "later" && !failed {
				c.task(answer, x)
			}
			continue
		}
		if !failed || seen != "" {
			c.t.Errorf("%+v: %s %s is hidden, and works: %s (seen as %q)", c.d, r[0], r[1], answer, seen)
		}
		c.sameAsNothing(r, x, answer)
	}
}

// suggested matches a suggested name, which may be any shown one.
var suggested = regexp.MustCompile(`, did you mean [^ ]*\?`)

// sameAsNothing checks that a hidden item is refused like a missing one.
func (c *reaching) sameAsNothing(r [2]string, x thing, answer json.RawMessage) {
	other := strings.NewReplacer(x.own, x.own[:len(x.own)-1]+"qq", c.name(x), c.name(x)[:len(c.name(x))-1]+"qq")
	missing := thing{x.kind, x.id, x.own[:len(x.own)-1] + "qq"}
	if model(c.d, missing) {
		return // another pattern matches the other name
	}
	params := other.Replace(r[1])
	nothing, _ := c.f.ask(r[0], params)
	plain := func(frame json.RawMessage) string {
		text := suggested.ReplaceAllString(string(rawjson.Get(frame, "error")), "")
		return strings.NewReplacer(missing.own, "X", c.name(missing), "X", x.own, "X", c.name(x), "X").Replace(text)
	}
	if plain(answer) != plain(nothing) {
		c.t.Errorf("%+v: what is hidden and what there is not differ:\n%s\n%s", c.d, answer, nothing)
	}
	for _, y := range allThings() {
		if y != x && y.id != "dest" && !model(c.d, y) && y.kind != "template" &&
			strings.Contains(string(answer), y.native()) {
			c.t.Errorf("%s %s names %s, which is hidden: %s", r[0], r[1], y.native(), answer)
		}
	}
}

// task requests the task that a call of later started.
func (c *reaching) task(answer json.RawMessage, x thing) {
	if c.f.modern != (shownIDs[x.id] == "newer") {
		return // no tasks in common
	}
	result := rawjson.Get(answer, "result")
	if inner := rawjson.Get(result, "task"); inner != nil {
		result = inner
	}
	id, ok := rawjson.Text(rawjson.Get(result, "taskId"))
	if !ok {
		c.t.Fatalf("%s began no task: %s", x.native(), answer)
	}
	if got, _ := c.f.ask("tasks/get", `{"taskId":"`+id+`"}`); rawjson.Get(got, "error") != nil {
		c.t.Errorf("the task of %s: %s", x.native(), got)
	}
}
