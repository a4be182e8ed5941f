package toolsearch

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/tools"
)

// A search finds the skills that have at least half of its words, best first, and depends on no hidden ones.
func TestFindSkills(t *testing.T) {
	skill := func(extension, name, description string) tools.FoundSkill {
		uri := "skill://" + extension + "/" + name + "/SKILL.md"
		return tools.FoundSkill{Extension: extension, Name: name, Description: description, URI: uri}
	}
	x := NewSkills([]tools.FoundSkill{
		skill("kit", "git-flow", "Follow the conventions for branches and commits."),
		skill("kit", "release", "Tag a release and write its notes."),
		skill("pay", "refunds", "Refund a customer. Commit nothing."),
		skill("pay", "secret", "Conventions for commits that nobody sees."),
	})
	visible := func(k *tools.FoundSkill) bool { return k.Name != "secret" }
	for query, want := range map[string]string{
		"conventions for git commits": "git-flow",
		"refund a customer":           "refunds",
		"tag the release":             "release",
		"commit":                      "refunds git-flow",
		"weather of tomorrow in oslo": "",
		"":                            "",
	} {
		var names []string
		for _, k := range x.Find(query, visible) {
			names = append(names, k.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
	long := tools.Found{Skills: []tools.FoundSkill{skill("kit", "a", strings.Repeat("x", 5000))}}
	if text := Text(long, byOne); len(text) > 600 || !strings.Contains(text, `{"kind":"skill","name":"a"`) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
