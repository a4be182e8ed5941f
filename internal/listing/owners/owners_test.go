package owners

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
)

// TestSkillsOwnTheirFiles finds the extension of a skill by the URIs of its files and directories, listed or not.
func TestSkillsOwnTheirFiles(t *testing.T) {
	var o Index
	l := List{Method: protocol.MethodSkillsList}
	list := func(items ...string) (list []json.RawMessage) {
		for _, uri := range items {
			list = append(list, json.RawMessage(`{"uri":"`+uri+`"}`))
		}
		return list
	}
	shown, shadowed := o.Update(l, []string{"a", "b"},
		[][]json.RawMessage{
			list("skill://x/SKILL.md", "skill://x/inner/SKILL.md"),
			list("skill://x/SKILL.md", "github://o/r/y/SKILL.md", "skill://x/inner/deep/SKILL.md"),
		}, nil, nil)
	if len(shown) != 4 {
		t.Errorf("%d are shown", len(shown))
	}
	for uri, want := range map[string]string{
		"skill://x/SKILL.md":     "a",
		"skill://x/ref/FORMS.md": "a",
		"skill://x":              "a",
		"skill://x/inner/deep/f": "b",
		"github://o/r/y/z/f":     "b",
		"github://o/r":           "",
		"skill://other/f":        "",
		"":                       "",
	} {
		if got, _ := o.Find("resource", uri, nil); got != want {
			t.Errorf("%q is of %q, want %q", uri, got, want)
		}
	}
	if len(shadowed) != 1 || shadowed[0].Extension != "b" || shadowed[0].By != "a" ||
		shadowed[0].Example != "skill://x/SKILL.md" {
		t.Errorf("shadowed: %+v", shadowed)
	}
	// the list of a was denied
	o.Update(l, []string{"a", "b"}, [][]json.RawMessage{nil, list("skill://z/SKILL.md")}, []string{"a"}, nil)
	if got := o.FindItem(l.Method, "skill://x/SKILL.md", nil, func(string) bool { return true }); got != "a" {
		t.Errorf("after a denial it is of %q", got)
	}
}

// A shared URI is reported once, and again when the conflict changes; after a failed list, what is known stays.
func TestSharedURIsAreReportedOnce(t *testing.T) {
	var o Index
	l := List{Method: protocol.MethodResourcesList, Key: "uri"}
	list := func(uris ...string) (items []json.RawMessage) {
		for _, uri := range uris {
			items = append(items, json.RawMessage(`{"uri":"`+uri+`"}`))
		}
		return items
	}
	order := []string{"a", "b"}
	update := func(kept []string, each ...[]json.RawMessage) []Shadow {
		_, shadowed := o.Update(l, order, each, kept, nil)
		return shadowed
	}
	want := []Shadow{{Method: l.Method, Extension: "b", By: "a", Example: "notes://1", Count: 2}}
	if diff := cmp.Diff(want, update(nil, list("notes://2", "notes://1"),
		list("notes://1", "notes://2", "own://b"))); diff != "" {
		t.Error(diff)
	}
	if got := update([]string{"a"}, nil, list("notes://1", "notes://2")); got != nil {
		t.Errorf("told again: %+v", got)
	}
	if diff := cmp.Diff(want, o.Shadows()); diff != "" {
		t.Error(diff)
	}
	if got := update(nil, list("notes://1"), list("notes://1")); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("after a change: %+v", got)
	}
	if got := o.Order(l.Method, []string{"0", "a", "b"}); !slices.Equal(got, []string{"a", "b", "0"}) {
		t.Errorf("a newcomer takes URIs: %q", got)
	}
	if update(nil, list("notes://1"), nil); len(o.Shadows()) != 0 {
		t.Errorf("after the second gave it up: %+v", o.Shadows())
	}
}

// An item that an extension lists twice, for example on a repeated page, is shown once.
func TestThingsListedTwiceAreShownOnce(t *testing.T) {
	for _, l := range []List{
		{protocol.MethodResourcesList, "uri"},
		{protocol.MethodResourceTemplates, "uriTemplate"},
		{protocol.MethodPromptsList, "name"},
	} {
		var o Index
		item := json.RawMessage(`{"` + l.Key + `":"x"}`)
		if shown, _ := o.Update(l, []string{"a"}, [][]json.RawMessage{{item, item}}, nil, nil); len(shown) != 1 {
			t.Errorf("%s: %s", l.Method, shown)
		}
	}
}

// A prompt keeps its registered name, even while its extension does not answer. Of prompts that arrive together,
// the exact name takes precedence.
func TestPromptsKeepTheirNames(t *testing.T) {
	l := List{Method: protocol.MethodPromptsList, Key: "name"}
	type step struct {
		each map[string]string // the name listed by each extension
		kept []string
	}
	for name, tt := range map[string]struct {
		steps []step
		want  string // extension and own name of ext_a_b_c
	}{
		"a newcomer that sorts first": {[]step{
			{each: map[string]string{"a_b": "c"}},
			{each: map[string]string{"a": "b_c", "a_b": "c"}},
		}, "a_b c"},
		"while the owner is silent": {[]step{
			{each: map[string]string{"a_b": "c"}},
			{each: map[string]string{"a": "b_c"}, kept: []string{"a_b"}},
		}, "a_b c"},
		"the exact name first": {[]step{{each: map[string]string{"a": "b.c", "a_b": "c"}}}, "a_b c"},
		"the owner gave it up": {[]step{
			{each: map[string]string{"a_b": "c"}},
			{each: map[string]string{"a": "b_c"}},
		}, "a b_c"},
	} {
		t.Run(name, func(t *testing.T) {
			var o Index
			for _, s := range tt.steps {
				order, each := []string{"a", "a_b"}, make([][]json.RawMessage, 2)
				for n, id := range order {
					if prompt := s.each[id]; prompt != "" {
						each[n] = []json.RawMessage{json.RawMessage(`{"name":"` + prompt + `"}`)}
					}
				}
				o.Update(l, order, each, s.kept, nil)
			}
			if extension, own := o.Find("prompt", "ext_a_b_c", nil); extension+" "+own != tt.want {
				t.Errorf("ext_a_b_c is %s %s, want %s", extension, own, tt.want)
			}
		})
	}
}

// Skills whose directories are whole schemes or hosts do not take resources from an extension that offers these by
// templates.
func TestSkillsTakeNoScheme(t *testing.T) {
	var o Index
	o.Update(List{"resources/templates/list", "uriTemplate"}, []string{"notes"},
		[][]json.RawMessage{{json.RawMessage(`{"uriTemplate":"note://me/{id}"}`)}}, nil, nil)
	var skills []json.RawMessage
	for _, directory := range []string{
		"note:/",
		"note://",
		"note://me",
		"https:/",
		"https://",
		"file:",
		"",
		"github://o",
	} {
		skills = append(skills, json.RawMessage(`{"uri":"`+directory+`/SKILL.md"}`))
	}
	o.Update(List{Method: protocol.MethodSkillsList}, []string{"evil"}, [][]json.RawMessage{skills}, nil, nil)
	for uri, want := range map[string]string{
		"note://me/5":        "notes",
		"note://me/SKILL.md": "evil",
		"note://you/5":       "",
		"https://a/b":        "",
		"file:///etc/x":      "",
		"x":                  "",
		"github://o/f":       "evil",
	} {
		if got, _ := o.Find("resource", uri, nil); got != want {
			t.Errorf("%q is of %q, want %q", uri, got, want)
		}
	}
}
