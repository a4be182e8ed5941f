package builtin

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/glob"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// pinConfig is the config of the built-in policy pin, which holds a tool whose description
// or schema has changed since it was first seen:
//
//	file: exthost.lock   # the pinned descriptors; default: pins.json in the host's state directory
//
// A held tool is in no list, and its calls are denied with descriptor_changed until an
// operator approves the change. A relative path resolves against the directory of the
// configuration file. Category authorization only; match may state only extensions.
type pinConfig struct {
	File string `json:"file"`
}

// Pin is the policy pin. Its owner opens it, calls [pins.Pins.Check] for each tool, and
// removes held tools from lists.
type Pin struct {
	file       string
	extensions glob.List
	pins       *pins.Pins // nil until Open
}

func newPin(s governance.Spec) (governance.Policy, error) {
	var c pinConfig
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if s.Category != governance.Authorization {
		return nil, settings.Wrong("category", "the policy pin decides what may be called, so its category is %s, not %s", governance.Authorization, s.Category)
	}
	m := s.Match
	if len(m.Tools)+len(m.Methods)+len(m.Callers)+len(m.Direction) > 0 {
		return nil, settings.Wrong("match", "the policy pin guards whole extensions, so only extensions can be matched")
	}
	return &Pin{file: c.File, extensions: m.Extensions}, nil
}

// Open opens the lock file of the config, or fallback when the config names none.
func (p *Pin) Open(fallback string) (err error) {
	p.file = cmp.Or(p.file, fallback)
	p.pins, err = pins.Open(p.file)
	return err
}

// Pins returns the pins of the lock file. It panics before Open.
func (p *Pin) Pins() *pins.Pins {
	if p.pins == nil {
		panic("builtin: Pins of a Pin that is not open")
	}
	return p.pins
}

// Guards reports whether the tools of an extension are pinned.
func (p *Pin) Guards(extension string) bool {
	return extension != "" && (len(p.extensions) == 0 || p.extensions.Match(extension))
}

// Decide implements [governance.Policy].
func (p *Pin) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow != governance.Request || x.Method != protocol.MethodToolsCall || !x.ToChild || p.pins == nil {
		return governance.Decision{}, nil
	}
	tool, _ := rawjson.Text(rawjson.Get(x.Request, "name"))
	if !p.pins.Held(x.Extension, tool) {
		return governance.Decision{}, nil
	}
	return governance.Decision{Action: governance.Deny, Code: string(protocol.DescriptorChanged),
		Reason: fmt.Sprintf("%s does not say of itself what it said when it was pinned; the operator sees the change with exthost policy pins, and lets it pass with exthost tools accept %s %s",
			x.Tool, x.Extension, tool)}, nil
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
