package tools

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// list is the tools of all extensions, or of one. Successive catalogs share a list with its encoded pages while it does
// not change, and its cursors stay valid that long.
type list struct {
	extension  string // "" for all
	generation uint64 // of the first catalog with this list
	entries    []*Entry
	views      [4]atomic.Pointer[encoded] // by View.index
}

// all returns the entries, none for a nil list.
func (l *list) all() []*Entry {
	if l == nil {
		return nil
	}
	return l.entries
}

// descriptor returns e's descriptor for this list.
func (l *list) descriptor(e *Entry) json.RawMessage {
	if l.extension == "" {
		return e.Descriptor
	}
	return e.Own
}

// newList returns the list of prev if it has the same entries, else a new one.
func (c *Catalog) newList(extension string, entries []*Entry, prev *Catalog) *list {
	if prev != nil {
		if l := prev.listOf(extension); l != nil && slices.Equal(l.entries, entries) {
			return l
		}
	}
	return &list{extension: extension, generation: c.generation, entries: entries}
}

func (c *Catalog) listOf(extension string) *list {
	if extension == "" {
		return c.all
	}
	return c.lists[extension]
}

// SameList reports whether both catalogs list the same tools with the same descriptors.
func (c *Catalog) SameList(other *Catalog) bool {
	return c.all == other.all || slices.EqualFunc(c.Entries(), other.Entries(), func(x, y *Entry) bool {
		return x == y || x.Name == y.Name && string(x.Descriptor) == string(y.Descriptor)
	})
}

// View selects what a client sees of a list.
type View struct {
	Pages  bool // include tools for pages of MCP Apps, see [Entry.AppsOnly]
	Modern bool // add the members that MCP requires since 2026-07-28
}

func (v View) index() (n int) {
	if v.Pages {
		n++
	}
	if v.Modern {
		n += 2
	}
	return n
}

func (v View) shows(e *Entry) bool { return v.Pages || !e.app.notModel }

// listPage is the number of tools on a page of [Catalog.List].
const listPage = 500

// List returns the result of tools/list: a page of at most 500 tools, selected as by [Catalog.Page]. visible limits the
// entries to those that the client may see. If visible is nil, the encoded page is cached and shared: do not modify it.
func (c *Catalog) List(extension, cursor string, v View, visible func(*Entry) bool) (json.RawMessage, error) {
	l := c.listOf(extension)
	if l == nil {
		l = c.newList(extension, nil, nil)
	}
	start, err := l.position(cursor)
	if err != nil {
		return nil, err
	}
	if visible == nil {
		if page := l.view(v).page(l, v, start); page != nil {
			return page, nil
		}
	}
	return l.encode(v, start, func(e *Entry) bool { return v.shows(e) && (visible == nil || visible(e)) }), nil
}

// encode encodes the result for a page.
func (l *list) encode(v View, start int, visible func(*Entry) bool) json.RawMessage {
	shown, next := l.page(start, listPage, visible)
	size := len(protocol.UncachedMembers) + 128 + len(l.extension)*2 + len(shown)
	for _, d := range shown {
		size += len(d)
	}
	out := append(make([]byte, 0, size), '{')
	if v.Modern {
		out = append(out, protocol.UncachedMembers...)
	}
	out = rawjson.AppendList(append(out, `"tools":`...), shown)
	if next > 0 {
		out = append(append(out, `,"nextCursor":`...), rawjson.Quote(l.cursor(next))...)
	}
	return slices.Clip(append(out, '}'))
}

// page returns the visible descriptors from start on, and the position of the next page, 0 at the end.
func (l *list) page(start, limit int, visible func(*Entry) bool) (shown []json.RawMessage, next int) {
	shown, size := make([]json.RawMessage, 0, min(limit, len(l.entries)-start)), 0
	for i, e := range l.entries[start:] {
		if visible != nil && !visible(e) {
			continue
		}
		d := l.descriptor(e)
		if len(shown) == limit || len(shown) > 0 && size+len(d) > maxPageBytes {
			return shown, start + i
		}
		shown, size = append(shown, d), size+len(d)
	}
	return shown, 0
}

// encoded caches the pages of a list in one view, each encoded on first use.
type encoded struct {
	starts []int
	pages  []atomic.Pointer[json.RawMessage]
}

// view returns the pages in a view. Concurrent callers may both create it, with equal content.
func (l *list) view(v View) *encoded {
	at := &l.views[v.index()]
	if w := at.Load(); w != nil {
		return w
	}
	w := new(encoded)
	for start, more := 0, true; more; more = start > 0 {
		w.starts = append(w.starts, start)
		_, start = l.page(start, listPage, v.shows)
	}
	w.pages = make([]atomic.Pointer[json.RawMessage], len(w.starts))
	at.CompareAndSwap(nil, w)
	return at.Load()
}

// page returns the page that begins at start, or nil if no page does: clients may ask for any position, and
// caching all of them would be too much.
func (w *encoded) page(l *list, v View, start int) json.RawMessage {
	n, found := slices.BinarySearch(w.starts, start)
	if !found {
		return nil
	}
	if page := w.pages[n].Load(); page != nil {
		return *page
	}
	page := l.encode(v, start, v.shows)
	w.pages[n].Store(&page)
	return page
}

func (l *list) cursor(position int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%d/%s", l.generation, position, l.extension))
}

// position returns the position of a cursor of this list.
func (l *list) position(cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	generation, rest, _ := strings.Cut(string(text), "/")
	position, id, _ := strings.Cut(rest, "/")
	n, atoiErr := strconv.Atoi(position)
	if err != nil || atoiErr != nil || n <= 0 || n >= len(l.entries) || id != l.extension ||
		generation != strconv.FormatUint(l.generation, 10) {
		return 0, protocol.Errorf(protocol.InvalidArguments,
			"the cursor is not of this list, which may have changed meanwhile; list again without a cursor")
	}
	return n, nil
}
