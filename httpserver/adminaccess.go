package httpserver

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// access changes who the clients of a host are, and what toolsets show them, in the files of its configuration.
type access struct{ desk Desk }

func accessOperations(a access) []operation {
	return []operation{
		{
			method:  "GET",
			path:    "/clients",
			summary: "The named clients of the configuration, as its files are now",
			answer:  statedClients{},
			handle:  a.clients,
		},
		{
			method:  "POST",
			path:    "/clients/{name}/add",
			summary: "Add a client; the answer has its token, which is shown this once",
			body:    ClientSettings{},
			answer:  ClientEdited{},
			handle:  a.addClient,
		},
		{
			method:  "POST",
			path:    "/clients/{name}/set",
			summary: "State what a client sees; its token stays",
			body:    ClientSettings{},
			answer:  ClientEdited{},
			handle: a.changeClient(func(c ClientSettings) config.ClientEdit {
				return config.ClientEdit{Replace: c.of}
			}),
		},
		{
			method:  "POST",
			path:    "/clients/{name}/remove",
			summary: "Remove a client: it is refused at once, and its sessions end",
			body:    ShownFile{},
			answer:  ClientEdited{},
			handle: a.changeClient(func(ClientSettings) config.ClientEdit {
				return config.ClientEdit{Remove: true}
			}),
		},
		{
			method:  "GET",
			path:    "/toolsets",
			summary: "The toolsets of the configuration, as its files are now",
			answer:  statedToolsets{},
			handle:  a.toolsets,
		},
		{
			method:  "POST",
			path:    "/toolsets/{name}/preview",
			summary: "The tools that a toolset shows, and those that it would show with other patterns and shapes",
			body:    ToolsetChange{},
			answer:  ToolsetPreview{},
			handle:  previewToolset,
		},
		{
			method:  "POST",
			path:    "/toolsets/{name}/add",
			summary: "Add a toolset, and reload",
			body:    ToolsetChange{},
			answer:  ToolsetEdited{},
			handle:  a.changeToolset(config.ToolsetEdit{New: true}),
		},
		{
			method:  "POST",
			path:    "/toolsets/{name}/set",
			summary: "State the patterns of a toolset and the shapes of tools, and reload; what else it states stays",
			body:    ToolsetChange{},
			answer:  ToolsetEdited{},
			handle:  a.changeToolset(config.ToolsetEdit{}),
		},
		{
			method:  "POST",
			path:    "/toolsets/{name}/remove",
			summary: "Remove a toolset that no client has, and reload",
			body:    ShownFile{},
			answer:  ToolsetEdited{},
			handle:  a.changeToolset(config.ToolsetEdit{Remove: true}),
		},
	}
}

type (
	statedClients struct {
		Clients  []StatedClient `json:"clients"`
		Toolsets []string       `json:"toolsets"` // their names
		File     string         `json:"file"`     // that a new client is written to; "": no file is changed here
		Digest   string         `json:"digest"`   // of this file
	}
	statedToolsets struct {
		Toolsets []StatedToolset `json:"toolsets"`
		File     string          `json:"file"`   // that a new toolset is written to; "": no file is changed here
		Digest   string          `json:"digest"` // of this file
	}
)

// StatedClient is a named client as the configuration states it.
type StatedClient struct {
	Name     string     `json:"name"`
	Token    bool       `json:"token"`               // it has a token, for HTTP
	Since    string     `json:"since,omitempty"`     // when its token was made; "": unknown
	OldUntil string     `json:"old_until,omitempty"` // when its previous token expires
	Toolset  string     `json:"toolset,omitempty"`   // of its own; "": server.toolset
	Mode     string     `json:"mode,omitempty"`      // of its own; "": tools.mode
	Scope    string     `json:"scope,omitempty"`     // all that its token opens; "": tools
	Stated   string     `json:"stated"`              // FILE:LINE
	Digest   string     `json:"digest,omitempty"`    // of that file; "": no file states it
	Sessions int        `json:"sessions"`            // in this host
	LastUsed *time.Time `json:"last_used,omitempty"` // nil: not since the host was started
}

// StatedToolset is a toolset as the configuration states it.
type StatedToolset struct {
	Name string `json:"name"`
	config.Toolset
	Stated  string   `json:"stated"`           // FILE:LINE
	Digest  string   `json:"digest,omitempty"` // of that file; "": no file states it
	Clients []string `json:"clients"`          // who have it
	Default bool     `json:"default"`          // of all clients without their own
}

// ShownFile is the body of a request to remove something.
type ShownFile struct {
	Digest string `json:"digest"` // of the file as it was shown
}

// ClientSettings is the body of a request to add or change a client.
type ClientSettings struct {
	Toolset string `json:"toolset,omitempty"` // "": server.toolset
	Mode    string `json:"mode,omitempty"`    // how tools are listed to it: all, search, auto; "": tools.mode
	Scope   string `json:"scope,omitempty"`   // metrics: its token opens /metrics alone; "": tools
	Digest  string `json:"digest"`            // of the file as it was shown
}

// of returns c with these settings.
func (s ClientSettings) of(c config.Client) config.Client {
	c.Toolset, c.Mode, c.Scope = s.Toolset, s.Mode, s.Scope
	return c
}

// ClientEdited is the answer to a change of a client.
type ClientEdited struct {
	config.Edited
	Token string `json:"token,omitempty"` // of a new client
	Note  string `json:"note,omitempty"`  // what else the person should know
}

// ToolsetChange is the body of a request about a toolset.
type ToolsetChange struct {
	Include []string `json:"include,omitempty"` // none: everything
	Exclude []string `json:"exclude,omitempty"`
	// The shapes from now on of these tools, by registered name; {} shows a tool as it is. Those of other tools stay.
	Tools map[string]config.ShownTool `json:"tools,omitempty"`
	// Of a preview: the registered name of the tool whose definition is in the answer.
	Show   string `json:"show,omitempty"`
	Digest string `json:"digest,omitempty"` // of the file as it was shown; a preview needs none
	// Take patterns that match nothing now, tools that cannot be shown, and a toolset that shows nothing.
	Anyway bool `json:"anyway,omitempty"`
}

// ToolsetPreview is the answer of a preview.
type ToolsetPreview struct {
	Before []string `json:"before"` // tools of the toolset in force, by registered name; empty if there is none
	After  []string `json:"after"`
	// What is invalid, matches nothing or cannot be shown, and a toolset that shows nothing.
	Misfits []config.Misfit `json:"misfits"`
	// Approximate size of the tools of After in a model's context, and as their extensions state them.
	Tokens    int `json:"tokens"`
	WasTokens int `json:"was_tokens"`
	// The tool of Show with its descriptor as clients get it; absent if the toolset does not show it.
	Shown *Tool `json:"shown,omitempty"`
}

// ToolsetEdited is the answer to a change of a toolset.
type ToolsetEdited struct {
	config.Edited
	Change *status.Change `json:"change,omitempty"` // by the reload; nil: it failed
	Note   string         `json:"note,omitempty"`   // what else the person should know
}

// load reads the configuration.
func (a access) load() (*config.Config, config.LoadOptions, error) {
	if a.desk == nil {
		return nil, config.LoadOptions{}, errNoFiles
	}
	o := a.desk.LoadOptions()
	cfg, err := config.Load(o)
	return cfg, o, invalid(err)
}

var errNoFiles = protocol.Errorf(protocol.ConfigInvalid,
	"the configuration of this host is in no files that could be changed here")

// invalid returns err as a *protocol.Error.
func invalid(err error) error {
	if _, refused := errors.AsType[config.Refused](err); refused {
		return protocol.Errorf(protocol.ConfigInvalid, "%w", err)
	}
	if byHand, ok := errors.AsType[*config.ByHand](err); ok {
		if byHand.Lines == "" {
			return protocol.Errorf(protocol.ConfigInvalid, "%w", err)
		}
		return protocol.Errorf(protocol.ConfigInvalid, "%w; write this into it, and reload:\n%s", err, byHand.Lines)
	}
	return err
}

func (a access) clients(h *exthost.Host, _ *http.Request) (any, error) {
	list := statedClients{Clients: []StatedClient{}, Toolsets: []string{}}
	if a.desk == nil {
		return list, nil
	}
	cfg, o, err := a.load()
	if err != nil {
		return nil, err
	}
	list.Toolsets = orEmpty(slices.Sorted(maps.Keys(cfg.Toolsets)))
	list.File, list.Digest = newPlace(o, "server")
	place := places(cfg)
	now := h.Admin().Status()
	for _, name := range slices.Sorted(maps.Keys(cfg.Server.Clients)) {
		c := cfg.Server.Clients[name]
		s := StatedClient{
			Name:     name,
			Token:    c.TokenHash != "",
			Since:    c.Since,
			OldUntil: c.OldUntil,
			Toolset:  c.Toolset,
			Mode:     c.Mode,
			Scope:    c.Scope,
		}
		if s.Stated, s.Digest, err = place(strict.Join("server.clients", name)); err != nil {
			return nil, err
		}
		for _, one := range now.Clients {
			if one.Caller == name && one.Session != "" {
				s.Sessions++
			}
		}
		for _, one := range now.NamedClients {
			if one.Name == name {
				s.LastUsed = one.LastUsed
			}
		}
		list.Clients = append(list.Clients, s)
	}
	return list, nil
}

// newPlace returns the file that something new of a section is written to, and its digest; "" if there is no place.
func newPlace(o config.LoadOptions, section string) (file, digest string) {
	file, err := config.UserFile(o, section)
	if err == nil {
		digest, err = config.Digest(file)
	}
	if err != nil {
		return "", ""
	}
	return file, digest
}

// places returns a function that returns where a key is stated, and the digest of that file. It reads each file once.
func places(cfg *config.Config) func(key string) (stated, digest string, err error) {
	digests := map[string]string{"": ""} // by file
	return func(key string) (_, _ string, err error) {
		file := cfg.Origins.File(key)
		if _, known := digests[file]; !known {
			digests[file], err = config.Digest(file)
		}
		return cfg.Origins.Of(key), digests[file], err
	}
}

// edit makes an edit of the configuration, bound to the digest of its file.
func (a access) edit(ctx context.Context, digest string, edit func(config.LoadOptions) (config.Edited, error),
) (done config.Edited, note string, err error) {
	if a.desk == nil {
		return done, "", errNoFiles
	}
	if digest == "" {
		return done, "", protocol.Errorf(protocol.InvalidArguments,
			"the digest of the file is needed, as the list shows it: only a file that somebody has seen is changed")
	}
	missed, err := a.desk.Edit(ctx, func() error {
		done, err = edit(a.desk.LoadOptions())
		return invalid(err)
	})
	if len(missed) > 0 {
		note = "not all hosts have applied it, and these go on as before: " + strings.Join(missed, "; ")
	}
	return done, note, err
}

func (a access) addClient(h *exthost.Host, r *http.Request) (any, error) {
	var body ClientSettings
	if err := decode(r, "the client", &body); err != nil {
		return nil, err
	}
	cfg, _, err := a.load()
	if err != nil {
		return nil, err
	}
	token := clienttoken.New()
	fresh := body.of(config.Client{
		TokenHash: clienttoken.Hash(token),
		Since:     time.Now().UTC().Format(time.RFC3339),
	})
	answer, err := a.applyClient(h, r, body.Digest, config.ClientEdit{New: &fresh})
	if byHand, ok := errors.AsType[*config.ByHand](err); ok { // its lines have the hash of a token that nobody has
		return nil, protocol.Errorf(protocol.ConfigInvalid, "%w; exthost client add %s shows a token and the lines "+
			"to write", byHand, r.PathValue("name"))
	}
	if err != nil {
		return nil, err
	}
	answer.Token = token
	if len(cfg.Server.Clients) == 0 && !cfg.Server.Auth.Stated() {
		answer.Note = joined("It is the first: from now on, clients over HTTP that show no token are refused",
			answer.Note)
	}
	return answer, nil
}

// changeClient returns the handler of a change of an existing client.
func (a access) changeClient(change func(ClientSettings) config.ClientEdit) handler {
	return func(h *exthost.Host, r *http.Request) (any, error) {
		var body ClientSettings
		if err := decode(r, "the client", &body); err != nil {
			return nil, err
		}
		return a.applyClient(h, r, body.Digest, change(body))
	}
}

// applyClient changes the client that the path names, in the file and in the host.
func (a access) applyClient(h *exthost.Host, r *http.Request, digest string, c config.ClientEdit,
) (answer ClientEdited, err error) {
	c.Name, c.Digest = r.PathValue("name"), digest
	answer.Edited, answer.Note, err = a.edit(r.Context(), digest, func(o config.LoadOptions) (config.Edited, error) {
		return config.EditClient(o, c)
	})
	if err != nil {
		return answer, err
	}
	h.Admin().Logger().Info("a client was changed", "client", c.Name, "new", c.New != nil, "removed", c.Remove,
		"file", answer.File, "by", operator(r))
	if err := h.Clients().Reload(); err != nil {
		answer.Note = joined("it is written, and this host goes on with the clients of before: "+protocol.Reason(err),
			answer.Note)
	}
	return answer, nil
}

// joined returns two notes as one text; "" is no note.
func joined(a, b string) string { return strings.Trim(a+". "+b, ". ") }

func (a access) toolsets(*exthost.Host, *http.Request) (any, error) {
	list := statedToolsets{Toolsets: []StatedToolset{}}
	if a.desk == nil {
		return list, nil
	}
	cfg, o, err := a.load()
	if err != nil {
		return nil, err
	}
	list.File, list.Digest = newPlace(o, "exthost")
	place := places(cfg)
	for _, name := range slices.Sorted(maps.Keys(cfg.Toolsets)) {
		s := StatedToolset{
			Name:    name,
			Toolset: cfg.Toolsets[name],
			Clients: []string{},
			Default: cfg.Server.Toolset == name,
		}
		if s.Stated, s.Digest, err = place(strict.Join("toolsets", name)); err != nil {
			return nil, err
		}
		for client, c := range cfg.Server.Clients {
			if c.Toolset == name {
				s.Clients = append(s.Clients, client)
			}
		}
		slices.Sort(s.Clients)
		list.Toolsets = append(list.Toolsets, s)
	}
	return list, nil
}

func previewToolset(h *exthost.Host, r *http.Request) (any, error) {
	var body ToolsetChange
	if err := decode(r, "the toolset", &body); err != nil {
		return nil, err
	}
	now, then, wrong := h.Toolsets().Preview(r.PathValue("name"), body.Include, body.Exclude, body.Tools)
	p := ToolsetPreview{Before: registered(now), After: registered(then), Misfits: orEmpty(wrong)}
	for _, e := range then {
		p.Tokens += e.Tokens()
		p.WasTokens += e.Original().Tokens()
		if e.Registered() == body.Show {
			shown := ToolOf(e)
			shown.Descriptor = e.Descriptor
			p.Shown = &shown
		}
	}
	return p, nil
}

func registered(list []*tools.Entry) []string {
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Registered()
	}
	slices.Sort(names)
	return names
}

// changeToolset returns the handler of a change of a toolset.
func (a access) changeToolset(t config.ToolsetEdit) handler {
	return func(h *exthost.Host, r *http.Request) (any, error) {
		var body ToolsetChange
		if err := decode(r, "the toolset", &body); err != nil {
			return nil, err
		}
		t := t
		t.Name, t.Include, t.Exclude, t.Digest = r.PathValue("name"), body.Include, body.Exclude, body.Digest
		t.Tools = body.Tools
		if !t.Remove && !body.Anyway {
			_, _, wrong := h.Toolsets().Preview(t.Name, body.Include, body.Exclude, body.Tools)
			if len(wrong) > 0 {
				return nil, config.NewMisfits(protocol.InvalidArguments, wrong...)
			}
		}
		var answer ToolsetEdited
		var err error
		answer.Edited, answer.Note, err = a.edit(r.Context(), t.Digest,
			func(o config.LoadOptions) (config.Edited, error) { return config.EditToolset(o, t) })
		if err != nil {
			return nil, err
		}
		h.Admin().Logger().Info("a toolset was changed", "toolset", t.Name, "new", t.New, "removed", t.Remove, "file",
			answer.File, "by", operator(r))
		if answer.Change, err = h.Nodes().Reload(r.Context(), "", operator(r)); err != nil {
			answer.Note = joined("it is written, and not applied: "+protocol.Reason(err), answer.Note)
		}
		return answer, nil
	}
}
