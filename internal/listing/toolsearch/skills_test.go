package toolsearch

import (
	"strings"
	"testing"
)

// A search finds the skills that have at least half of its words, best first, and depends on no hidden ones.
func TestFindSkills(t *testing.T) {
	x := NewSkills([]Skill{
		{"kit", "git-flow", "Follow the conventions for branches and commits.", "skill://kit/git-flow/SKILL.md"},
		{"kit", "release", "Tag a release and write its notes.", "skill://kit/release/SKILL.md"},
		{"pay", "refunds", "Refund a customer. Commit nothing.", "skill://pay/refunds/SKILL.md"},
		{"pay", "secret", "Conventions for commits that nobody sees.", "skill://pay/secret/SKILL.md"},
	})
	visible := func(k *Skill) bool { return k.Name != "secret" }
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
	long := Answer{Skills: []Skill{{"kit", "a", strings.Repeat("x", 5000), "skill://kit/a/SKILL.md"}}}
	if text := long.Text(byOne); len(text) > 600 || !strings.Contains(text, `{"kind":"skill","name":"a"`) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
