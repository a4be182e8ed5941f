package dispatch

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// A page of an MCP App calls the tools of its server by the names that they have there, and clients forward its calls
// as they are (SEP-1865). A client of all extensions knows these tools by other names. So such a call is bound to the
// server of the page: by the page that the caller states in _meta, else by the pages that the client was given.
// Policies, hooks and the audit log see the registered name, and the caller's toolset applies, so a call by such a name
// reaches nothing that one by the registered name does not reach.

// bindToPage binds a call to the server of the page that its _meta states. The call then reaches only tools of that
// server. A page may state another one itself, if its client forwards the call as it is, so a client that was given
// pages cannot state one of a server whose pages it was not given.
func (d *Dispatcher) bindToPage(ctx context.Context, r *protocol.Call, t *toolCall) (*protocol.Call, error) {
	if !bytes.Contains(t.rest, []byte("resourceUri")) {
		return r, nil
	}
	page := tools.PageOf(rawjson.Get(t.rest, "_meta"))
	if page == "" {
		return r, nil
	}
	t.ofPage = true
	if r.Extension != "" {
		return r, nil
	}
	id, err := d.o.Aggregator.PageServer(ctx, r.Session, page)
	if err != nil {
		return nil, err
	}
	if shown := d.shown.of(r.Session); len(shown) > 0 && !slices.Contains(shown, id) {
		return nil, protocol.Errorf(protocol.ToolNotFound,
			"the call says that it is from %q, and this client was given no page of %s: read the page first",
			display.Cut(display.Visible(page), 200), id)
	}
	return boundTo(id, r), nil
}

func boundTo(extension string, r *protocol.Call) *protocol.Call {
	bound := *r
	bound.Extension = extension
	return &bound
}

// bindToShown binds a call of an unknown tool to the extension whose pages the client was given, if one of these alone
// has a tool of that name. It returns nil if none has. If the client was given pages of several extensions, it is
// unknown which of them calls: only tools that their servers mark for pages count then.
func (d *Dispatcher) bindToShown(r *protocol.Call, t *toolCall) (*protocol.Call, error) {
	shown, now := d.shown.of(r.Session), d.o.Snapshots.Load()
	view, err := now.View(r.Session)
	if len(shown) == 0 || err != nil {
		return nil, err
	}
	catalog := view.Tools(now.Catalog)
	var have []string
	unmarked := false
	for _, id := range shown {
		e, ok := catalog.LookupIn(id, t.name)
		if !ok {
			e, ok = catalog.Withheld(id, t.name)
		}
		if !ok {
			continue
		}
		may, stated := e.ForPages()
		if len(shown) == 1 || may && stated {
			have = append(have, id)
		}
		unmarked = unmarked || may && !stated
	}
	switch {
	case len(have) == 1:
		t.ofPage = true
		return boundTo(have[0], r), nil
	case len(have) == 0 && unmarked:
		return nil, protocol.Errorf(protocol.ToolNotFound,
			"there is no tool %q; this client was given pages of several servers, so a page calls a tool without "+
				"_meta.ui only if the call states the page as ui.resourceUri in _meta",
			display.Cut(display.Visible(t.name), 100))
	case len(have) == 0:
		return nil, nil
	}
	return nil, protocol.Errorf(protocol.ToolNotFound,
		"pages of %s call a tool %q: state the page as ui.resourceUri in _meta of the call, or call the tool by its "+
			"registered name, such as %s", strings.Join(have, " and "), display.Cut(display.Visible(t.name), 100),
		tools.NameOf(have[0], t.name))
}

func notForPages(e *tools.Entry) error {
	err := protocol.Errorf(protocol.ToolNotFound,
		`pages must not call tool %q: its _meta.ui.visibility does not have "app"`, e.Tool)
	err.Extension, err.Tool = e.Extension, e.Name
	return err
}

// Bounds of shownPages.
const (
	maxShownClients = 1024 // the one that was given a page first is forgotten
	maxShownServers = 64   // per client
)

// shownPages records which clients were given pages of which extensions. The zero value is empty. It is safe for
// concurrent use.
type shownPages struct {
	mu      sync.Mutex
	clients map[client][]string // ids of extensions
	order   []client            // the oldest first
}

// client identifies a client by its session or, without one, by the rest. Clients without a session and a name count as
// one.
type client struct{ session, caller, instance string }

func clientOf(s *protocol.Session) client {
	if s.ID != "" {
		return client{session: s.ID}
	}
	return client{caller: s.Caller, instance: s.Instance}
}

// of returns the extensions whose pages the client of s was given; none for a Go program, whose s is nil.
func (p *shownPages) of(s *protocol.Session) []string {
	if s == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.clients[clientOf(s)])
}

// read records that r, a request that succeeded, has read a page.
func (p *shownPages) read(r *protocol.Call) {
	if r.Method != protocol.MethodResourcesRead || r.Extension == "" {
		return
	}
	if uri, _ := rawjson.Text(rawjson.Get(r.Params, "uri")); strings.HasPrefix(uri, tools.PageScheme) {
		p.add(r.Session, r.Extension)
	}
}

// called records a call of a tool with a page, which a client that shows pages may have from an earlier session.
func (p *shownPages) called(c *Call) {
	if s := c.Request.Session; snapshot.ShowsPages(s) {
		p.add(s, c.entry.Extension)
	}
}

func (p *shownPages) add(s *protocol.Session, extension string) {
	if s == nil {
		return
	}
	of := clientOf(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	has, known := p.clients[of]
	if slices.Contains(has, extension) || len(has) == maxShownServers {
		return
	}
	if p.clients == nil {
		p.clients = make(map[client][]string)
	}
	if !known {
		if len(p.order) == maxShownClients {
			delete(p.clients, p.order[0])
			p.order = slices.Delete(p.order, 0, 1)
		}
		p.order = append(p.order, of)
	}
	p.clients[of] = append(has, extension)
}
