package owners

import (
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// TestSkillsOwnTheirFiles finds the extension of a skill by the URIs of its files and
// directories, listed or not.
func TestSkillsOwnTheirFiles(t *testing.T) {
	var o Index
	l := List{Method: protocol.MethodSkillsList}
	list := func(items ...string) (list []json.RawMessage) {
		for _, uri := range items {
			list = append(list, json.RawMessage(`{"uri":"`+uri+`"}`))
		}
		return list
	}
	shown := o.Update(l, []string{"a", "b"}, [][]json.RawMessage{list("skill://x/SKILL.md", "skill://x/inner/SKILL.md"), list("skill://x/SKILL.md", "github://o/r/y/SKILL.md", "skill://x/inner/deep/SKILL.md")}, nil, nil)
	if len(shown) != 4 {
		t.Errorf("%d are shown", len(shown))
	}
	for uri, want := range map[string]string{
		"skill://x/SKILL.md": "a", "skill://x/ref/FORMS.md": "a", "skill://x": "a", "skill://x/inner/deep/f": "b", "github://o/r/y/z/f": "b", "github://o/r": "", "skill://other/f": "", "": "",
	} {
		if got, _ := o.Find("resource", uri, nil); got != want {
			t.Errorf("%q is of %q, want %q", uri, got, want)
		}
	}
	if got := o.NewlyHidden(l.Method); len(got) != 1 || o.NewlyHidden(l.Method) != nil {
		t.Errorf("hidden: %q", got)
	}
	o.Update(l, []string{"a", "b"}, [][]json.RawMessage{nil, list("skill://z/SKILL.md")}, []string{"a"}, nil) // the list of a was denied
	if got := o.FindItem(l.Method, "skill://x/SKILL.md", nil, func(string) bool { return true }); got != "a" {
		t.Errorf("after a denial it is of %q", got)
	}
}

// TestSkillsTakeNoScheme has an extension list skills whose directories are schemes and hosts:
// resources that others offer by templates stay theirs.
func TestSkillsTakeNoScheme(t *testing.T) {
	var o Index
	o.Update(List{"resources/templates/list", "uriTemplate"}, []string{"notes"}, [][]json.RawMessage{{json.RawMessage(`{"uriTemplate":"note://me/{id}"}`)}}, nil, nil)
	var skills []json.RawMessage
	for _, directory := range []string{"note:/", "note://", "note://me", "https:/", "https://", "file:", "", "github://o"} {
		skills = append(skills, json.RawMessage(`{"uri":"`+directory+`/SKILL.md"}`))
	}
	o.Update(List{Method: protocol.MethodSkillsList}, []string{"evil"}, [][]json.RawMessage{skills}, nil, nil)
	for uri, want := range map[string]string{
		"note://me/5": "notes", "note://me/SKILL.md": "evil", "note://you/5": "", "https://a/b": "", "file:///etc/x": "", "x": "", "github://o/f": "evil",
	} {
		if got, _ := o.Find("resource", uri, nil); got != want {
			t.Errorf("%q is of %q, want %q", uri, got, want)
		}
	}
}
