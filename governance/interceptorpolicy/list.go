package interceptorpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/nearest"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Bounds of a list.
const (
	maxPages        = 16
	maxInterceptors = 64
)

// codeUnknownMethod is JSON-RPC's code for a method that the server does not have.
const codeUnknownMethod = -32601

// read reads the list and returns the interceptors that the policy invokes, by name.
func (p *Policy) read(ctx context.Context) ([]*interceptor, error) {
	listed, err := p.pages(ctx)
	if err != nil {
		return nil, err
	}
	chosen := make(map[string]*interceptor)
	var names []string
	for _, raw := range listed {
		i, err := p.interceptor(raw, names)
		if err != nil {
			return nil, protocol.Errorf(protocol.HandshakeInvalid, "its %s cannot be used: %w", methodList, err)
		}
		names = append(names, i.name)
		if len(p.spec.Interceptors) == 0 || slices.Contains(p.spec.Interceptors, i.name) {
			chosen[i.name] = i
		}
	}
	if err := p.fits(chosen, names); err != nil {
		return nil, err
	}
	if err := p.configure(chosen); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(chosen),
		func(a, b *interceptor) int { return strings.Compare(a.name, b.name) }), nil
}

// pages returns the elements of all pages of the list.
func (p *Policy) pages(ctx context.Context) (listed []json.RawMessage, err error) {
	params := json.RawMessage("{}")
	for range maxPages {
		raw, err := p.caller.Call(ctx, methodList, params)
		if e, ok := errors.AsType[*protocol.Error](err); ok && e.Kind == protocol.ExtensionError &&
			e.Code == codeUnknownMethod {
			return nil, protocol.Errorf(protocol.HandshakeInvalid,
				"the server has no interceptors: it does not know %s (%w); a plugin server with invoke_hook is of "+
					"kind mcp", methodList, err)
		}
		if err != nil {
			return nil, err
		}
		var page []json.RawMessage
		if m, err := members(raw); err != nil || json.Unmarshal(m["interceptors"], &page) != nil || page == nil {
			return nil, protocol.Errorf(protocol.HandshakeInvalid, "its answer to %s has no list of interceptors: %s",
				methodList, display.CutWords(string(raw), 80))
		}
		if listed = append(listed, page...); len(listed) > maxInterceptors {
			return nil, protocol.Errorf(protocol.HandshakeInvalid, "it lists more than %d interceptors",
				maxInterceptors)
		}
		next := rawjson.Get(raw, "nextCursor")
		cursor, ok := rawjson.Text(next)
		switch {
		case !ok && !absent(next):
			return nil, protocol.Errorf(protocol.HandshakeInvalid, "the nextCursor of its %s is %s, not a text",
				methodList, orAbsent(next))
		case cursor == "":
			return listed, nil
		}
		params = rawjson.Set(json.RawMessage("{}"), "cursor", rawjson.Quote(cursor))
	}
	return nil, protocol.Errorf(protocol.HandshakeInvalid, "its %s does not end: more than %d pages", methodList,
		maxPages)
}

// fits reports interceptors that the spec names and the server lacks, that may not do in
// this category what they are for, or that would never be asked.
func (p *Policy) fits(chosen map[string]*interceptor, names []string) error {
	for _, name := range p.spec.Interceptors {
		if chosen[name] == nil {
			return protocol.Errorf(protocol.ConfigInvalid,
				"interceptors: the server has no interceptor %q%s; it has: %s", name, suggestion(name, names),
				strings.Join(names, ", "))
		}
	}
	asked := false
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		i := chosen[name]
		if i.mutates && !i.audit && p.spec.Category != governance.Content {
			return protocol.Errorf(protocol.ConfigInvalid,
				"category: interceptor %s changes payloads, which only category content may; name the others in "+
					"interceptors, and this one in a policy of that category", name)
		}
		foreign := i.foreign()
		asked = asked || len(foreign) < i.events()
		if len(foreign) > 0 {
			p.o.Log.Warn("an interceptor hooks events that do not occur here", "interceptor", name, "events", foreign)
		}
	}
	if !asked {
		return protocol.Errorf(protocol.HandshakeInvalid,
			"no interceptor of the server would ever be asked; it lists: %s", strings.Join(names, ", "))
	}
	return nil
}

// configure gives each interceptor its part of the spec's config.
func (p *Policy) configure(chosen map[string]*interceptor) error {
	names := slices.Sorted(maps.Keys(chosen))
	for _, name := range slices.Sorted(maps.Keys(p.spec.Config)) {
		i := chosen[name]
		if i == nil {
			return protocol.Errorf(protocol.ConfigInvalid,
				"config: %q is no interceptor of this policy%s; there are: %s", name, suggestion(name, names),
				strings.Join(names, ", "))
		}
		raw, err := json.Marshal(p.spec.Config[name])
		if err != nil || !rawjson.IsObject(raw) {
			return protocol.Errorf(protocol.ConfigInvalid, "config.%s: an interceptor is configured by a table", name)
		}
		i.config = raw
	}
	return nil
}

func suggestion(name string, names []string) string {
	if near := nearest.Of(name, names); near != "" {
		return " (" + near + "?)"
	}
	return ""
}
