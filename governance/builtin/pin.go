package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// pinConfig is the config of the built-in policy pin, which holds back new and changed tools,
// introductions, prompts, resources and skills of an extension until an operator approves them:
//
//	file: pins.lock                  # the pinned descriptors; default: pins.json in the host's state directory
//	kinds: [tool, prompt]            # default: tool, introduction, prompt, resource, resource_template,
//	                                 # skill, listed_skill
//
// Held items are not listed, and calls of them are denied with descriptor_changed; a held
// introduction is not sent. At most 10,000 items of each kind are pinned for one extension; further
// ones are held. Resources are pinned by URI, without their content: leave them out for a server
// whose resources come and go. A relative path resolves against the directory of the configuration
// file. Category authorization only; match may state only extensions.
type pinConfig struct {
	File  string      `json:"file"`
	Kinds []pins.Kind `json:"kinds"`
}

// Pin is the policy pin. Its owner opens it, calls [pins.Pins.Look] for each list, and removes
// the held items from the list.
type Pin struct {
	file       string
	within     string      // the directory that file must be in; "": any
	kinds      []pins.Kind // none: all
	extensions glob.List
	pins       *pins.Pins // nil until Open
}

func newPin(s governance.Spec) (governance.Policy, error) {
	var c pinConfig
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if s.Category != governance.Authorization {
		return nil, settings.Wrong("category",
			"the policy pin decides what may be called, so its category is %s, not %s", governance.Authorization,
			s.Category)
	}
	m := s.Match
	if len(m.Tools)+len(m.Methods)+len(m.Callers)+len(m.Direction) > 0 {
		return nil, settings.Wrong("match", "the policy pin guards whole extensions, so only extensions can be matched")
	}
	for i, kind := range c.Kinds {
		if !slices.Contains(pins.Kinds(), kind) {
			return nil, settings.Wrong(fmt.Sprintf("config.kinds[%d]", i), "%q is not pinned; the kinds are %s", kind,
				join(pins.Kinds()))
		}
	}
	return &Pin{file: c.File, within: s.Within, kinds: c.Kinds, extensions: m.Extensions}, nil
}

// Open opens the lock file of the config, or fallback when the config names none.
func (p *Pin) Open(fallback string) (err error) {
	dir := ""
	if p.file == "" {
		p.file = fallback
	} else {
		dir = p.within
	}
	p.pins, err = pins.Open(p.file, dir)
	return err
}

// Pins returns the pins of the lock file. It panics before Open.
func (p *Pin) Pins() *pins.Pins {
	if p.pins == nil {
		panic("builtin: Pins of a Pin that is not open")
	}
	return p.pins
}

// Guards reports whether the extension's items of kind are pinned.
func (p *Pin) Guards(extension string, kind pins.Kind) bool {
	return extension != "" && (len(p.extensions) == 0 || p.extensions.Match(extension)) &&
		(len(p.kinds) == 0 || slices.Contains(p.kinds, kind))
}

// Decide implements [governance.Policy].
func (p *Pin) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow != governance.Request || !x.ToChild || p.pins == nil {
		return governance.Decision{}, nil
	}
	kind, name := PinSubject(x.Method, x.Request)
	if kind != "" && !p.Guards(x.Extension, kind) {
		kind = ""
	}
	if p.Guards(x.Extension, pins.ListedSkill) {
		for _, uri := range SkillsAround(x.Method, x.Request) {
			if p.pins.Held(x.Extension, pins.ListedSkill, uri) {
				kind, name = pins.ListedSkill, uri
			}
		}
	}
	if kind == "" {
		return governance.Decision{}, nil
	}
	what := x.Tool
	if kind != pins.Tool {
		what = fmt.Sprintf("%s of %s", pins.Label(kind, name), x.Extension)
	}
	d := governance.Decision{Action: governance.Deny, Code: string(protocol.DescriptorChanged)}
	switch {
	case p.pins.Held(x.Extension, kind, name):
		d.Reason = fmt.Sprintf("%s does not say of itself what it said when it was pinned; the operator sees the "+
			"change with exthost policy pins, and lets it pass with %s",
			what, pins.AcceptCommand(x.Extension, kind, name))
	case p.pins.Beyond(x.Extension, kind, name):
		d.Reason = what + " is not pinned: " + p.NoRoom(x.Extension, kind)
	default:
		return governance.Decision{}, nil
	}
	return d, nil
}

// NoRoom returns the message for an extension with too many items of kind, with the next step.
func (p *Pin) NoRoom(extension string, kind pins.Kind) string {
	return fmt.Sprintf("of %s %d items of kind %s are pinned, and no more can be; while no host runs, remove those "+
		"that are gone from the policy's file, or leave %[3]s out of its kinds",
		extension, pins.MaxItems, kind)
}

// PinSubject returns the item that a request uses; kind is "" when it uses none.
func PinSubject(method string, params json.RawMessage) (kind pins.Kind, name string) {
	switch method {
	case protocol.MethodToolsCall:
		kind, name = pins.Tool, textOf(params, "name")
	case protocol.MethodPromptsGet:
		kind, name = pins.Prompt, textOf(params, "name")
	case protocol.MethodResourcesRead, protocol.MethodResourcesSubscribe:
		kind, name = pins.Resource, textOf(params, "uri")
	case protocol.MethodSkillsGet:
		kind, name = pins.ListedSkill, textOf(params, "uri")
	case protocol.MethodDirectoryRead:
		kind, name = pins.Resource, textOf(params, "uri")
	case protocol.MethodComplete:
		ref := rawjson.Get(params, "ref")
		if kind, name = pins.Prompt, textOf(ref, "name"); textOf(ref, "type") != "ref/prompt" {
			kind, name = pins.Template, textOf(ref, "uri")
		}
	}
	return kind, name
}

// maxAround bounds the directories above a file.
const maxAround = 32

// SkillsAround returns the URIs of the skills that the file or directory may lie in which a request reads.
func SkillsAround(method string, params json.RawMessage) (uris []string) {
	switch method {
	case protocol.MethodResourcesRead, protocol.MethodResourcesSubscribe, protocol.MethodDirectoryRead:
	default:
		return nil
	}
	for dir := textOf(params, "uri"); dir != "" && len(uris) < maxAround; {
		uris = append(uris, dir+"/SKILL.md")
		dir = dir[:max(strings.LastIndexByte(dir, '/'), 0)]
	}
	return uris
}

func textOf(object json.RawMessage, key string) string {
	text, _ := rawjson.Text(rawjson.Get(object, key))
	return text
}

func join(kinds []pins.Kind) string {
	var names []string
	for _, kind := range kinds {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// Writes returns the file that the policy of s writes, as its config states it; "" for none.
func Writes(s *governance.Spec) string {
	if s.Builtin != "pin" {
		return ""
	}
	file, _ := s.Config["file"].(string)
	return file
}

// Resolve makes relative paths in the config of s absolute, relative to dir.
func Resolve(s *governance.Spec, dir string) {
	if s.Builtin != "pin" {
		return
	}
	if file, ok := s.Config["file"].(string); ok && file != "" && !filepath.IsAbs(file) {
		s.Config["file"] = filepath.Join(dir, file)
	}
}
