package snapshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Catalog returns the current tools of the extensions, and the problems with them. before is the previous
// catalog, nil for the first. clients are the named clients, which change without a new plan.
func (p *Plan) Catalog(number uint64, before *tools.Catalog, clients []string) (*tools.Catalog, []protocol.Diagnostic) {
	var sources []tools.Source
	if p.Policies.Offloads() || p.hasRemotePages() {
		sources = append(sources, tools.Source{Tools: []protocol.Tool{results.Tool()}}) // the host's own tool
	}
	for _, id := range p.Reserved {
		sources = append(sources, tools.Source{Extension: id})
	}
	diags := slices.Clone(p.LeftOut)
	known := p.absent()
	known.Clients, known.Place = clients, p.Config.PlaceOfPolicy
	for x := range p.Ordered {
		offered, found := x.Tools()
		if known.Extensions = append(known.Extensions, x.ID()); len(offered) == 0 {
			known.Silent = append(known.Silent, x.ID())
		}
		for _, d := range found {
			d.Extension = x.ID()
			diags = append(diags, d)
		}
		diags = append(diags, hiddenText(x)...)
		diags = append(diags, x.Changed(p.Policies.PinsToolsOf(x.ID()))...)
		if p.Extensions[x.ID()] == x {
			p.Policies.LookAtSkills(x.ID(), p.Skills[x.ID()].Entries())
		}
		withheld, found := p.Policies.Withheld(x.Unit, offered)
		diags = append(diags, found...)
		diags = append(diags, p.unknownTools(x, offered)...)
		sources = append(sources,
			tools.Source{Extension: x.ID(), Tools: offered, Withheld: withheld, Risk: p.risksOf(x)})
	}
	for d := range p.orderedDestinations {
		diags = append(diags, p.Policies.WithheldBefore(d.Unit)...)
		known.Extensions, known.Silent = append(known.Extensions, d.ID()), append(known.Silent, d.ID())
	}
	p.Policies.Name(known.Extensions)
	catalog, found := tools.NewCatalog(number, sources, before)
	for _, e := range catalog.Entries() {
		known.Tools = append(known.Tools, e.Name)
	}
	for _, id := range known.Extensions {
		known.Tools = append(known.Tools, catalog.WithheldOf(id)...)
	}
	known.Arguments = func(tool string) []string {
		e, ok := catalog.Lookup(tool)
		if !ok {
			return nil
		}
		return argumentNames(e.InputSchema)
	}
	return catalog, slices.Concat(diags, found, p.Policies.Unmatched(known), known.UnmatchedHooks(p.Config.Hooks))
}

// argumentNames returns the arguments that a schema names.
func argumentNames(schema json.RawMessage) []string {
	var named map[string]json.RawMessage
	_ = json.Unmarshal(rawjson.Get(schema, "properties"), &named) // an invalid schema names none
	return slices.Sorted(maps.Keys(named))
}

// risksOf returns the function that returns the risks of an extension's tools: the operator's word counts before that
// of the manifest and of the tool.
func (p *Plan) risksOf(x *unit.Extension) func(tool string, annotations json.RawMessage) protocol.Risk {
	stated := p.Config.Extensions.Entries[x.ID()].Tools
	return func(tool string, annotations json.RawMessage) protocol.Risk {
		return cmp.Or(stated[tool].Risk, x.RiskOf(tool, annotations))
	}
}

// unknownTools reports the tools that the configuration or the manifest has settings for, and that the extension does
// not offer: a misspelled name protects nothing.
func (p *Plan) unknownTools(x *unit.Extension, offered []protocol.Tool) (diags []protocol.Diagnostic) {
	if len(offered) == 0 {
		return nil
	}
	names := make([]string, len(offered))
	for i, t := range offered {
		names[i] = t.Name
	}
	report := func(key, tool string) {
		if slices.Contains(names, tool) {
			return
		}
		d := protocol.Diagnostic{
			Level:     protocol.LevelWarn,
			Code:      policies.CodeUnmatched,
			Extension: x.ID(),
			Path:      x.Candidate.Path,
			Message:   fmt.Sprintf("%s names %q, and the extension offers no such tool", key, display.Escape(tool)),
			Hint:      "exthost tools list shows the names, behind ext_" + x.ID() + "_",
		}
		if near := text.Nearest(tool, names); near != "" {
			d.Hint = fmt.Sprintf("did you mean %q?", near)
		}
		diags = append(diags, d)
	}
	for _, tool := range slices.Sorted(maps.Keys(p.Config.Extensions.Entries[x.ID()].Tools)) {
		report("extensions.entries."+x.ID()+".tools", tool)
	}
	for _, tool := range slices.Sorted(maps.Keys(x.Candidate.Manifest.Risk)) {
		report("[risk]", tool)
	}
	return diags
}

// hasRemotePages reports whether another node holds long results of its extensions, to be read in pages.
func (p *Plan) hasRemotePages() bool {
	return slices.ContainsFunc(slices.Concat(p.Remote, p.Replicas), (*unit.Extension).HasRemotePages)
}

// hiddenText reports invisible characters in the instructions and server info of an MCP server.
func hiddenText(x *unit.Extension) []protocol.Diagnostic {
	hs := x.Handshake()
	if hs == nil {
		return nil
	}
	said := rawjson.Set(json.RawMessage(`{}`), "instructions", rawjson.Quote(hs.Instructions))
	if len(hs.ServerInfo) > 0 {
		said = rawjson.Set(said, "serverInfo", hs.ServerInfo)
	}
	found := display.FindHidden(said)
	if len(found) == 0 {
		return nil
	}
	return []protocol.Diagnostic{{
		Level:     protocol.LevelWarn,
		Code:      "hidden_text",
		Extension: x.ID(),
		Path:      x.Candidate.Path,
		Message: fmt.Sprintf("what the server says of itself has characters that a reader does not see: %s; clients "+
			"get it without them", found[0]),
		Hint: "ask its author why they are there",
	}}
}

// absent returns the ids of extensions that are not in force but that patterns of policies may select: disabled,
// skipped and unusable ones.
func (p *Plan) absent() policies.Known {
	ids := slices.Clone(p.Config.Extensions.Disabled)
	for _, c := range p.Skipped {
		ids = append(ids, c.ID)
	}
	for _, d := range p.Diagnostics {
		if d.Extension != "" {
			ids = append(ids, d.Extension)
		}
	}
	return policies.Known{
		Extensions: ids,
		Silent:     slices.Clone(ids),
		AnyCaller:  p.Config.Server.Auth.OAuth.Issuer != "" || p.Config.Cluster.Joins(),
	}
}
