package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func described(names ...string) (list []protocol.Tool) {
	for _, name := range names {
		list = append(list, protocol.Tool{
			Name: name,
			Raw: json.RawMessage(`{"name":"` + name +
				`","description":"Does.","x":12345678901234567890,"inputSchema":{"type":"object"}}`),
		})
	}
	return list
}

// short shows tools without the prefix ext_, and hides the tools of the extension secret.
func short(e *tools.Entry) (tools.Shown, bool) {
	shown := tools.Shown{Name: strings.TrimPrefix(e.Name, "ext_")}
	if e.Tool == "log" {
		shown.Description = "What was done."
	}
	return shown, e.Extension != "secret"
}

func TestSelect(t *testing.T) {
	all, _ := tools.NewCatalog(1, []tools.Source{
		{Tools: described("exthost_result_page")},
		{Extension: "git", Tools: described("log", "status", "old"), Withheld: []string{"old"}},
		{Extension: "exthost", Tools: described("result_page")},
		{Extension: "secret", Tools: described("key")},
	}, nil)
	s, refused := all.Select(short, nil)
	var names []string
	for _, e := range s.Entries() {
		names = append(names, e.Name+"="+e.Registered())
	}
	want := "exthost_result_page=exthost_result_page git_log=ext_git_log git_status=ext_git_status"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("it has %s", got)
	}
	if len(refused) != 1 || refused[0].Extension != "exthost" {
		t.Errorf("refused: %v", refused)
	}
	if e, ok := s.Withheld("", "git_old"); !ok || e.Registered() != "ext_git_old" {
		t.Error("a withheld tool is not there")
	}
	for _, name := range []string{"ext_git_log", "secret_key", "ext_secret_key", "exthost_old"} {
		if _, ok := s.Lookup(name); ok {
			t.Errorf("%s is there", name)
		}
	}
	e, _ := s.Lookup("git_log")
	if want := `{"name":"git_log","description":"What was done.","x":12345678901234567890,"inputSchema":{"type":"object"}}`; string(e.Descriptor) != want {
		t.Errorf("its descriptor is %s", e.Descriptor)
	}
	if want := `{"name":"log","description":"What was done.","x":12345678901234567890,"inputSchema":{"type":"object"}}`; string(e.Own) != want {
		t.Errorf("its own descriptor is %s", e.Own)
	}
	if own, ok := s.LookupIn("git", "log"); !ok || own != e {
		t.Error("it has another entry by its own name")
	}
	if page, err := s.List("secret", "", tools.View{}, nil); err != nil || string(page) != `{"tools":[]}` {
		t.Errorf("the tools of secret: %s %v", page, err)
	}
	again, _ := all.Select(short, s)
	if !again.SameList(s) || again.Entries()[1] != s.Entries()[1] {
		t.Error("entries are not reused")
	}
	other, _ := tools.NewCatalog(2, []tools.Source{{Extension: "git", Tools: described("log")}}, all)
	if next, _ := other.Select(short, s); next.SameList(s) || next.Entries()[0] != e {
		t.Error("what has not changed is made anew, or a change is not noticed")
	}
	if _, refused := all.Select(func(e *tools.Entry) (tools.Shown, bool) {
		return tools.Shown{Name: "same"}, e.Extension == "git"
	}, nil); len(refused) != 3 {
		t.Errorf("%d tools of one name are refused", len(refused))
	}
	if _, refused := all.Select(func(e *tools.Entry) (tools.Shown, bool) {
		return tools.Shown{Name: fmt.Sprintf("%065d", len(e.Tool))}, e.Tool == "log"
	}, nil); len(refused) != 1 {
		t.Error("a name of 65 bytes is not refused")
	}
}
