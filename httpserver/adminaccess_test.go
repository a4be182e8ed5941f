package httpserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
)

// bound returns a body with the digest of a file as it is now.
func bound(t *testing.T, file, more string) string {
	t.Helper()
	digest, err := config.Digest(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(fmt.Sprintf(`{"digest":%q,%s}`, digest, more), ",}", "}", 1)
}

// serveAccess serves the API of a host whose clients and toolsets are in the files of a desk.
func serveAccess(t *testing.T, text string) (*httptest.Server, *exthost.Host, *desk) {
	t.Helper()
	files := newDesk(t, text)
	var o exthost.Options
	cfg := config.Default()
	files.states(t, &o, cfg)
	h := openKitWith(t, cfg, o)
	s := httptest.NewServer(Admin(h, files))
	t.Cleanup(s.Close)
	return s, h, files
}

// A client that is added is let in by the token of the answer, and refused once it is removed; the file keeps what else
// is in it. An edit of a file that has changed since it was shown, or was not shown, changes nothing.
func TestClientsAreEdited(t *testing.T) {
	s, h, files := serveAccess(t, "# mine\ntoolsets: {talk: {include: [ext_kit_say]}}\n")
	var list statedClients
	if code := askAdmin(t, s, "GET", "/api/v1/clients", "", &list); code != http.StatusOK ||
		list.File != files.file() || len(list.Clients) != 0 || !cmp.Equal(list.Toolsets, []string{"talk"}) {
		t.Fatalf("%d %+v", code, list)
	}
	shown := fmt.Sprintf(`{"toolset":"talk","digest":%q}`, list.Digest)
	var added ClientEdited
	if code := askAdmin(t, s, "POST", "/api/v1/clients/ada/add", shown, &added); code != http.StatusOK ||
		added.Token == "" || !strings.Contains(added.Note, "It is the first") {
		t.Fatalf("%d %+v", code, added)
	}
	if name, _, ok := h.Clients().ByToken(added.Token); !ok || name != "ada" || h.Clients().Toolset("ada") != "talk" {
		t.Errorf("its token is that of %q", name)
	}
	if code := askAdmin(t, s, "GET", "/api/v1/clients", "", &list); code != http.StatusOK || len(list.Clients) != 1 ||
		list.Clients[0].Toolset != "talk" || list.Clients[0].LastUsed == nil ||
		!strings.HasPrefix(list.Clients[0].Stated, files.file()+":") {
		t.Errorf("%d %+v", code, list)
	}
	text, _ := os.ReadFile(files.file())
	if !strings.HasPrefix(string(text), "# mine\ntoolsets: {talk: {include: [ext_kit_say]}}\n") ||
		strings.Contains(string(text), added.Token) {
		t.Errorf("the file is\n%s", text)
	}
	for name, tt := range map[string]struct {
		path, body string
		code       int
		field      string
	}{
		"a stale digest": {"/clients/bob/add", shown, http.StatusConflict, ""},
		"no digest":      {"/clients/bob/add", `{}`, http.StatusBadRequest, ""},
		"a name twice":   {"/clients/ada/add", bound(t, files.file(), ""), http.StatusBadRequest, "name"},
		"no name":        {"/clients/a%20b/add", bound(t, files.file(), ""), http.StatusBadRequest, "name"},
		"no toolset":     {"/clients/ada/set", bound(t, files.file(), `"toolset":"tlak"`), http.StatusNotFound, "toolset"},
		"no mode":        {"/clients/ada/set", bound(t, files.file(), `"mode":"serach"`), http.StatusBadRequest, "mode"},
		"nobody":         {"/clients/eve/set", bound(t, files.file(), ""), http.StatusNotFound, ""},
		"an odd member":  {"/clients/ada/set", bound(t, files.file(), `"token":"x"`), http.StatusBadRequest, ""},
	} {
		var failed struct{ Error Fault }
		code := askAdmin(t, s, "POST", "/api/v1"+tt.path, tt.body, &failed)
		field := ""
		if wrong := config.MisfitsOf(failed.Error.Err()); len(wrong) > 0 {
			field = wrong[0].Field
		}
		if code != tt.code || field != tt.field {
			t.Errorf("%s: %d %q %+v", name, code, field, failed.Error)
		}
	}
	if after, _ := os.ReadFile(files.file()); string(after) != string(text) {
		t.Errorf("a refused edit has changed the file:\n%s", after)
	}
	if code := askAdmin(t, s, "POST", "/api/v1/clients/ada/set", bound(t, files.file(), `"mode":"search"`),
		nil); code != http.StatusOK || h.Clients().Toolset("ada") != "" {
		t.Errorf("set: %d, toolset %q", code, h.Clients().Toolset("ada"))
	}
	if code := askAdmin(t, s, "POST", "/api/v1/clients/ada/remove", bound(t, files.file(), ""),
		nil); code != http.StatusOK {
		t.Errorf("remove: %d", code)
	}
	if _, _, ok := h.Clients().ByToken(added.Token); ok {
		t.Error("the token of a removed client is let in")
	}
}

// Where a person has to add a client to the file, the error does not show the hash of a token that nobody has.
func TestClientIsAddedByHand(t *testing.T) {
	s, _, files := serveAccess(t, "server: {clients: ! {bob: &b {mode: all}, eve: *b}}\n")
	var failed failure
	code := askAdmin(t, s, "POST", "/api/v1/clients/ada/add", bound(t, files.file(), ""), &failed)
	if code != http.StatusConflict || !strings.Contains(failed.Error.Message, "exthost client add ada") ||
		strings.Contains(failed.Error.Message, "token_hash") {
		t.Errorf("%d %s", code, failed.Error.Message)
	}
	code = askAdmin(t, s, "POST", "/api/v1/clients/eve/set", bound(t, files.file(), `"mode":"search"`), &failed)
	if code != http.StatusConflict || !strings.Contains(failed.Error.Message, "\n    eve:\n      mode: search") {
		t.Errorf("an existing one: %d %s", code, failed.Error.Message)
	}
}

// A toolset is shown before and after a change of its patterns; what matches nothing is refused with a suggestion
// unless the operator means it; the change counts at once, and keeps the comments of the file.
func TestToolsetsAreEdited(t *testing.T) {
	s, h, files := serveAccess(t,
		"toolsets:\n  talk:\n    include:\n      - ext_kit_say # aloud\n      - ext_kit_die\n")
	tools := func() (names []string) {
		t.Helper()
		catalog, err := h.Toolsets().Tools("talk")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range catalog.Entries() {
			names = append(names, e.Name)
		}
		return names
	}
	var list statedToolsets
	if code := askAdmin(t, s, "GET", "/api/v1/toolsets", "", &list); code != http.StatusOK || len(list.Toolsets) != 1 ||
		!strings.HasPrefix(list.Toolsets[0].Stated, files.file()+":") || list.Toolsets[0].Digest == "" {
		t.Fatalf("%d %+v", code, list)
	}
	var p ToolsetPreview
	askAdmin(t, s, "POST", "/api/v1/toolsets/talk/preview", `{"include":["ext_kit_s*","ext_ktt_*"]}`, &p)
	want := ToolsetPreview{
		Before: []string{"ext_kit_die", "ext_kit_say"},
		After:  []string{"ext_kit_say"},
		Misfits: []config.Misfit{{
			Field:      "include",
			Value:      "ext_ktt_*",
			Message:    `"ext_ktt_*" of include matches nothing that there is`,
			Suggestion: "ext_kit_*",
		}},
		Tokens:    p.Tokens,
		WasTokens: p.Tokens,
	}
	if diff := cmp.Diff(want, p); diff != "" || p.Tokens == 0 {
		t.Error(diff)
	}
	p = ToolsetPreview{}
	if askAdmin(t, s, "POST", "/api/v1/toolsets/fresh/preview", `{"exclude":["*"]}`, &p); len(p.Before)+len(p.After) != 0 ||
		len(p.Misfits) != 1 || !strings.Contains(p.Misfits[0].Message, "shows nothing") {
		t.Errorf("a toolset of nothing: %+v", p)
	}
	set := func(more string) (code int, failed struct{ Error Fault }) {
		t.Helper()
		code = askAdmin(t, s, "POST", "/api/v1/toolsets/talk/set", bound(t, files.file(), more), &failed)
		return code, failed
	}
	if code, failed := set(`"include":["ext_kit_syy"]`); code != http.StatusBadRequest ||
		config.MisfitsOf(failed.Error.Err())[0].Suggestion != "ext_kit_say" {
		t.Errorf("a tool that there is not: %d %+v", code, failed)
	}
	if code, failed := set(`"include":["ext_kit_say","ext_kit_grumble","ext_later_*"],"anyway":true`); code !=
		http.StatusOK {
		t.Errorf("%d %+v", code, failed)
	}
	if got := tools(); !cmp.Equal(got, []string{"ext_kit_grumble", "ext_kit_say"}) {
		t.Errorf("the toolset shows %q", got)
	}
	text, _ := os.ReadFile(files.file())
	if want := "toolsets:\n  talk:\n    include:\n      - ext_kit_say # aloud\n      - ext_kit_grumble\n" +
		"      - ext_later_*\n"; string(text) != want {
		t.Errorf("the file is\n%s", text)
	}
	stale := fmt.Sprintf(`{"include":["ext_kit_say"],"digest":%q}`, list.Toolsets[0].Digest)
	var failed struct{ Error Fault }
	if code := askAdmin(t, s, "POST", "/api/v1/toolsets/talk/set", stale, &failed); code != http.StatusConflict ||
		failed.Error.Kind != protocol.ConfigInvalid || !strings.Contains(failed.Error.Message, "has changed since") {
		t.Errorf("a stale digest: %d %+v", code, failed.Error)
	}
	var added ToolsetEdited
	if code := askAdmin(t, s, "POST", "/api/v1/toolsets/more/add", bound(t, files.file(), `"exclude":["*_die"]`),
		&added); code != http.StatusOK || added.Change == nil || added.Note != "" {
		t.Errorf("add: %d %+v", code, added)
	}
	if shown, err := h.Toolsets().Tools("more"); err != nil || len(shown.Entries()) != 4 {
		t.Errorf("the new one shows %d tools, %v", len(shown.Entries()), err)
	}
	if code := askAdmin(t, s, "POST", "/api/v1/toolsets/more/remove", bound(t, files.file(), ""),
		nil); code != http.StatusOK {
		t.Errorf("remove: %d", code)
	}
	if _, err := h.Toolsets().Tools("more"); err == nil {
		t.Error("a removed toolset is there")
	}
}

// A tool is shown before and after a change of its shape; one that cannot be shown so is refused unless the operator
// means it; the change counts at once, and leaves the rest of the file.
func TestShapesAreEdited(t *testing.T) {
	const text = "toolsets:\n  talk:\n    include: [ext_kit_say, ext_kit_place]\n" +
		"    tools: {ext_kit_say: {describe: Aloud.}} # mine\n"
	s, h, files := serveAccess(t, text)
	const shape = `"include":["ext_kit_say","ext_kit_place"],"tools":{"ext_kit_place":{"name":"there","args":{"region":{"fix":"north"}}}}`
	var p ToolsetPreview
	askAdmin(t, s, "POST", "/api/v1/toolsets/talk/preview", `{`+shape+`,"show":"ext_kit_place"}`, &p)
	if p.Shown == nil || p.Shown.Name != "there" || p.Shown.Arguments != "()" ||
		p.Shown.Was.Arguments != "(region?: string)" || strings.Contains(string(p.Shown.Descriptor), "region") ||
		p.Tokens >= p.WasTokens || len(p.Misfits) > 0 {
		t.Errorf("%+v", p)
	}
	const wrong = `"include":["ext_kit_say","ext_kit_place"],"tools":{"ext_kit_place":{"args":{"regoin":{"hide":true}}}}`
	p = ToolsetPreview{}
	askAdmin(t, s, "POST", "/api/v1/toolsets/talk/preview", `{`+wrong+`,"show":"ext_kit_place"}`, &p)
	if p.Shown != nil || len(p.Misfits) != 1 || p.Misfits[0].Field != "tools.ext_kit_place" ||
		!strings.Contains(p.Misfits[0].Message, `did you mean "region"?`) || len(p.After) != 1 {
		t.Errorf("an argument that there is not: %+v", p)
	}
	set := func(more string) (code int, failed struct{ Error Fault }) {
		t.Helper()
		code = askAdmin(t, s, "POST", "/api/v1/toolsets/talk/set", bound(t, files.file(), more), &failed)
		return code, failed
	}
	for _, body := range []string{wrong, `"tools":{"ext_kit_place":{"name":"a b"}}`, `"tools":{"ext_kit_palce":{"name":"b"}}`} {
		if code, failed := set(body); code != http.StatusBadRequest ||
			!strings.HasPrefix(config.MisfitsOf(failed.Error.Err())[0].Field, "tools.ext_kit_p") {
			t.Errorf("%s: %d %+v", body, code, failed)
		}
	}
	if code, failed := set(`"tools":{"ext_kit_place":{"args":{"region":{"fxi":1}}}}`); code != http.StatusBadRequest ||
		!strings.Contains(failed.Error.Message, "fxi") {
		t.Errorf("an odd member: %d %+v", code, failed)
	}
	if after, _ := os.ReadFile(files.file()); string(after) != text {
		t.Errorf("a refused edit has changed the file:\n%s", after)
	}
	if code, failed := set(shape); code != http.StatusOK {
		t.Fatalf("%d %+v", code, failed)
	}
	var shown Tool
	if code := askAdmin(t, s, "GET", "/api/v1/tools/there?toolset=talk", "", &shown); code != http.StatusOK ||
		shown.Was == nil || shown.Was.Name != "ext_kit_place" {
		t.Errorf("%d %+v", code, shown)
	}
	if code := askAdmin(t, s, "GET", "/api/v1/tools/ext_kit_place?toolset=talk", "", nil); code != http.StatusNotFound {
		t.Errorf("by its registered name: %d", code)
	}
	if shown, err := h.Toolsets().Tools("talk"); err != nil || len(shown.Entries()) != 2 {
		t.Errorf("%v, %v", shown, err)
	}
	want := strings.Replace(text, "tools: {", "tools: {ext_kit_place: {name: there, args: {region: {fix: north}}}, ", 1)
	if after, _ := os.ReadFile(files.file()); string(after) != want {
		t.Errorf("the file is\n%s", after)
	}
	if code, failed := set(`"include":["ext_kit_say","ext_kit_place"],"tools":{"ext_kit_place":{}}`); code != http.StatusOK {
		t.Errorf("%d %+v", code, failed)
	}
	if after, _ := os.ReadFile(files.file()); string(after) != text {
		t.Errorf("without the shape, the file is\n%s", after)
	}
}

// A host whose configuration is in no files says so.
func TestAccessWithoutFiles(t *testing.T) {
	s, _ := adminServer(t)
	for _, o := range accessOperations(access{}) {
		var failed struct{ Error *Fault }
		path := apiRoot + strings.ReplaceAll(o.path, "{name}", "x")
		code := askAdmin(t, s, o.method, path, `{"digest":"sha256:0"}`, &failed)
		edits := o.method == "POST" && !strings.HasSuffix(path, "/preview")
		if !edits && code != http.StatusOK || edits && (code != http.StatusConflict || failed.Error == nil) {
			t.Errorf("%s: %d %+v", path, code, failed.Error)
		}
	}
}
