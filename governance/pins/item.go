package pins

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Kind is a kind of thing that an extension says something of.
type Kind string

// The kinds that are pinned.
const (
	Tool         Kind = "tool"
	Introduction Kind = "introduction" // what a server says of itself in its handshake
	Prompt       Kind = "prompt"
	Resource     Kind = "resource"          // by its URI; its content is not pinned
	Template     Kind = "resource_template" // by its URI template
)

// Kinds returns the kinds that are pinned.
func Kinds() []Kind { return []Kind{Tool, Introduction, Prompt, Resource, Template} }

// Listed are the kinds that clients list, by the method that lists them.
var Listed = map[string]Kind{
	protocol.MethodPromptsList:       Prompt,
	protocol.MethodResourcesList:     Resource,
	protocol.MethodResourceTemplates: Template,
}

// Item is one thing that an extension says something of, with the words that a model sees.
type Item struct {
	Kind Kind
	Name string // as the extension names it

	said descriptor
}

// NewTool returns the item of a tool. Titles, descriptions, schemas and annotations count.
func NewTool(t protocol.Tool) Item {
	said := members{
		"input_schema": t.InputSchema, "output_schema": t.OutputSchema, "annotations": t.Annotations,
		"title": text(t.Title), "description": text(t.Description),
	}
	return Item{Tool, t.Name, said.descriptor()}
}

// Hash identifies what the item says: "sha256:" and hex. Neither the order of members counts nor
// white space.
func (i Item) Hash() string { return "sha256:" + i.said.hash() }

// NewListed returns the item of a prompt, a resource or a template as a server lists it, and
// its name, title, description, arguments and MIME type count. What changes from day to day
// does not: sizes, and annotations such as the time of the last change.
func NewListed(kind Kind, listed json.RawMessage) Item {
	key, also := "name", []string{"title", "description", "arguments"}
	switch kind {
	case Resource:
		key, also = "uri", []string{"name", "title", "description", "mimeType"}
	case Template:
		key, also = "uriTemplate", []string{"name", "title", "description", "mimeType"}
	}
	name, _ := rawjson.Text(rawjson.Get(listed, key))
	if ambiguous(listed) { // its clients may read what is not read here
		return Item{kind, name, canonical(listed)}
	}
	said := make(members)
	for _, member := range also {
		said[member] = rawjson.Get(listed, member)
	}
	return Item{kind, name, said.descriptor()}
}

// plainVersion is a version that says nothing else.
var plainVersion = regexp.MustCompile(`^[0-9A-Za-z.+_-]{0,40}$`)

// NewIntroduction returns the item of what a server says of itself. name tells its handshakes
// apart, where it has several. A plain version does not count: each update has another.
func NewIntroduction(name, instructions string, serverInfo json.RawMessage) Item {
	if version, ok := rawjson.Text(rawjson.Get(serverInfo, "version")); ok && plainVersion.MatchString(version) &&
		!ambiguous(serverInfo) {
		serverInfo = rawjson.Delete(serverInfo, "version")
	}
	return Item{Introduction, name, members{"instructions": text(instructions), "server_info": serverInfo}.descriptor()}
}

// Label names an item among those of its extension: a tool by its name, others with their
// kind in front, such as prompt:review.
func Label(kind Kind, name string) string {
	switch {
	case kind == Tool:
		return name
	case name == "":
		return string(kind)
	}
	return string(kind) + ":" + name
}

// plainLabel is a label that a shell takes as one word, and a reader as no other text.
var plainLabel = regexp.MustCompile(`^[0-9A-Za-z_.][0-9A-Za-z_.:/@+-]{0,200}$`)

// AcceptCommand returns the command that accepts an item. It leaves out a label that is not
// plain, and then accepts all of the extension: labels are the words of an extension, and who
// reads the command may paste it to a shell.
func AcceptCommand(extension string, kind Kind, name string) string {
	command := "exthost tools accept " + extension
	if label := Label(kind, name); plainLabel.MatchString(label) {
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
