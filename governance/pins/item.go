package pins

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Kind is a kind of item that an extension describes to models.
type Kind string

// The kinds that are pinned.
const (
	Tool         Kind = "tool"
	Introduction Kind = "introduction" // a server's instructions and serverInfo
	Prompt       Kind = "prompt"
	Resource     Kind = "resource"          // by its URI; its content is not pinned
	Template     Kind = "resource_template" // by its URI template
	Skill        Kind = "skill"             // in the extension's folder, by the URI of its SKILL.md, with all its files
	ListedSkill  Kind = "listed_skill"      // of an MCP server, likewise
)

// Kinds returns the kinds that are pinned.
func Kinds() []Kind {
	return []Kind{Tool, Introduction, Prompt, Resource, Template, Skill, ListedSkill}
}

// Listed maps list methods to the kinds that they list.
var Listed = map[string]Kind{
	protocol.MethodPromptsList:       Prompt,
	protocol.MethodResourcesList:     Resource,
	protocol.MethodResourceTemplates: Template,
	protocol.MethodSkillsList:        ListedSkill,
}

// Item is a tool, introduction, prompt, resource, template or skill, with the text that a model sees.
type Item struct {
	Kind Kind
	Name string // as the extension names it

	said descriptor
}

// NewTool returns the item of a tool. Its descriptor is made of titles, descriptions, schemas and
// annotations.
func NewTool(t protocol.Tool) Item {
	said := members{
		"input_schema":  t.InputSchema,
		"output_schema": t.OutputSchema,
		"annotations":   t.Annotations,
		"title":         text(t.Title),
		"description":   text(t.Description),
	}
	return Item{Tool, t.Name, said.descriptor()}
}

// Hash returns "sha256:" and the hex digest of the descriptor. White space, the order of members and
// the order that [rawjson.Unordered] removes do not change it.
func (i Item) Hash() string { return "sha256:" + i.said.unordered().hash() }

// NewListed returns the item of a prompt, a resource, a template or a skill as a server lists it. Its
// descriptor is made of name, title, description, arguments and MIME type; that of a skill, of its
// frontmatter and the digests of its files. Sizes and annotations are left out, because they change
// often.
func NewListed(kind Kind, listed json.RawMessage) Item {
	key, also := "name", []string{"title", "description", "arguments"}
	switch kind {
	case Resource:
		key, also = "uri", []string{"name", "title", "description", "mimeType"}
	case Template:
		key, also = "uriTemplate", []string{"name", "title", "description", "mimeType"}
	case Skill, ListedSkill:
		key, also = "uri", []string{"frontmatter", "resources", "hidden"}
	}
	name, _ := rawjson.Text(rawjson.Get(listed, key))
	if ambiguous(listed) { // a client may read either of two members with one name
		return Item{kind, name, canonical(listed)}
	}
	said := make(members)
	for _, member := range also {
		said[member] = rawjson.Get(listed, member)
	}
	return Item{kind, name, said.descriptor()}
}

// plainVersion matches a version without other text.
var plainVersion = regexp.MustCompile(`^[0-9A-Za-z.+_-]*$`)

// NewIntroduction returns the item of a server's instructions and serverInfo. An extension may have
// several handshakes, which name distinguishes. A plain version is left out, because every update
// changes it.
func NewIntroduction(name, instructions string, serverInfo json.RawMessage) Item {
	if version, ok := rawjson.Text(rawjson.Get(serverInfo, "version")); ok && len(version) <= 40 &&
		plainVersion.MatchString(version) && !ambiguous(serverInfo) {
		serverInfo = rawjson.Delete(serverInfo, "version")
	}
	return Item{Introduction, name, members{"instructions": text(instructions), "server_info": serverInfo}.descriptor()}
}

// Label names an item uniquely within its extension: a tool by its name, another item by its kind
// and name, such as prompt:review.
func Label(kind Kind, name string) string {
	switch {
	case kind == Tool:
		return name
	case name == "":
		return string(kind)
	}
	return string(kind) + ":" + name
}

// plainLabel matches a label that a shell reads as one word.
var plainLabel = regexp.MustCompile(`^[0-9A-Za-z_.][0-9A-Za-z_.:/@+-]*$`)

// AcceptCommand returns the command that accepts an item. Labels come from the extension and the
// command may be pasted into a shell, so a label that is not plain is left out: the command then
// accepts all items of the extension.
func AcceptCommand(extension string, kind Kind, name string) string {
	command := "exthost tools accept " + extension
	if label := Label(kind, name); len(label) <= 200 && plainLabel.MatchString(label) {
		command += " " + label
	}
	return command
}

// text returns s as JSON, nil when it is empty.
func text(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return encode(strings.ToValidUTF8(s, "\ufffd"))
}
