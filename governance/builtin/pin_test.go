package builtin_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/protocol"
)

// A call of an item beyond MaxItems is denied, with the limit and the next step.
func TestCallsBeyondThePins(t *testing.T) {
	policy, err := builtin.New(governance.Spec{Name: "pin", Builtin: "pin", Category: governance.Authorization})
	if err != nil {
		t.Fatal(err)
	}
	p := policy.(*builtin.Pin)
	if err := p.Open(filepath.Join(t.TempDir(), "pins")); err != nil {
		t.Fatal(err)
	}
	list := pins.List{Extension: "x", Kind: pins.Prompt}
	for n := range pins.MaxItems + 1 {
		list.Items = append(list.Items, pins.NewListed(pins.Prompt, json.RawMessage(fmt.Sprintf(`{"name":"p%d"}`, n))))
	}
	p.Pins().Look(list)
	get := func(name string) string {
		return ask(t, p, governance.Request,
			governance.Exchange{
				Method:    protocol.MethodPromptsGet,
				Extension: "x",
				ToChild:   true,
				Request:   json.RawMessage(`{"name":"` + name + `"}`),
			})
	}
	if got := get("p0"); got != "allow" {
		t.Errorf("the first: %s", got)
	}
	got := get(fmt.Sprint("p", pins.MaxItems))
	bound := fmt.Sprint(pins.MaxItems, " items of kind prompt")
	if !strings.Contains(got, bound) || !strings.Contains(got, "leave prompt out") {
		t.Errorf("the last: %s", got)
	}
}

// A skill that a server lists with other files than before is denied in all its forms, and no other skill.
func TestListedSkillsArePinned(t *testing.T) {
	policy, err := builtin.New(governance.Spec{Name: "pin", Builtin: "pin", Category: governance.Authorization})
	if err != nil {
		t.Fatal(err)
	}
	p := policy.(*builtin.Pin)
	if err := p.Open(filepath.Join(t.TempDir(), "pins")); err != nil {
		t.Fatal(err)
	}
	listed := func(name, digest string) pins.Item {
		return pins.NewListed(pins.ListedSkill, json.RawMessage(`{"uri":"skill://acme/`+name+`/SKILL.md","frontmatter":`+
			`{"name":"`+name+`"},"resources":[{"uri":"skill://acme/`+name+`/SKILL.md","digest":"`+digest+`","size":1}]}`))
	}
	look := func(digest string) []string {
		held, _ := p.Pins().Look(pins.List{
			Extension: "x",
			Kind:      pins.ListedSkill,
			Items:     []pins.Item{listed("one", digest), listed("two", "sha256:2")},
		})
		return held
	}
	if held := look("sha256:1"); held != nil {
		t.Fatalf("held at first: %q", held)
	}
	if held := look("sha256:9"); len(held) != 1 || held[0] != "skill://acme/one/SKILL.md" {
		t.Fatalf("held: %q", held)
	}
	for _, c := range []struct {
		method, uri string
		denied      bool
	}{
		{protocol.MethodSkillsGet, "skill://acme/one/SKILL.md", true},
		{protocol.MethodResourcesRead, "skill://acme/one/SKILL.md", true},
		{protocol.MethodResourcesRead, "skill://acme/one/deep/file.md", true},
		{protocol.MethodResourcesSubscribe, "skill://acme/one/deep/file.md", true},
		{protocol.MethodDirectoryRead, "skill://acme/one", true},
		{protocol.MethodSkillsGet, "skill://acme/two/SKILL.md", false},
		{protocol.MethodResourcesRead, "skill://acme/two/one/file.md", false},
		{protocol.MethodDirectoryRead, "skill://acme", false},
		{protocol.MethodResourcesRead, "", false},
	} {
		got := ask(t, p, governance.Request, governance.Exchange{
			Method:    c.method,
			Extension: "x",
			ToChild:   true,
			Request:   json.RawMessage(`{"uri":"` + c.uri + `"}`),
		})
		denied := strings.Contains(got, "exthost tools accept x listed_skill:skill://acme/one/SKILL.md")
		if denied != c.denied || !denied && got != "allow" {
			t.Errorf("%s %s: %s", c.method, c.uri, got)
		}
	}
}
