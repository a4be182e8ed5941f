// Package pins records the tools, introduction, prompts and resources of each extension when they
// are first seen. It holds back later changes and additions until an operator approves them.
package pins

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/file"
)

// Pins is the content of a lock file and the changes found since. Its methods are safe for
// concurrent use.
type Pins struct {
	path, within string

	mu    sync.Mutex // guards the fields below
	seen  table
	open  map[group]firstList // first lists with missing pages
	dirty map[group]dirtyPart // changed since the file was read or written
}

// group is all items of one kind of one extension.
type group struct {
	extension string
	kind      Kind
}

// table maps groups to their entries by name. A group with no entries was seen and had no items.
type table map[group]map[string]entry

// firstList is the first list of a group while pages of it are missing.
type firstList struct {
	began time.Time
	next  string // the cursor of the next page
}

// maxFirst bounds the time in which pages of a first list are pinned. Without it, an extension
// could leave the list open and add items at any time.
const maxFirst = time.Minute

// dirtyPart is the set of names in a group whose entries have changed.
type dirtyPart map[string]bool

// entry is the state of one item.
type entry struct {
	Pinned   descriptor `json:"pinned,omitempty"`      // nil: added after the first list, never approved
	Since    time.Time  `json:"since,omitzero"`        // when Pinned was recorded
	Approved string     `json:"approved_by,omitempty"` // who approved Pinned; "" if Pinned is from the first list
	Held     descriptor `json:"held,omitempty"`        // the present descriptor, while it differs from Pinned
	HeldFrom time.Time  `json:"held_since,omitzero"`
}

// MaxItems bounds the recorded items of one kind per extension. Further items are held and have
// no entry.
const MaxItems = 10_000

// Pin is one item in [Pins.List].
type Pin struct {
	Extension  string    `json:"extension"`
	Kind       Kind      `json:"kind"`
	Name       string    `json:"name"`  // as the extension names it
	Label      string    `json:"label"` // unique within the extension; see [Label]
	Since      time.Time `json:"since,omitzero"`
	ApprovedBy string    `json:"approved_by,omitempty"`
	Held       bool      `json:"held"`          // a change waits for approval
	New        bool      `json:"new,omitempty"` // added after the first list, never approved
	HeldSince  time.Time `json:"held_since,omitzero"`
	// the differences from the pinned to the current descriptor, one per line
	Diff   string `json:"diff,omitempty"`
	Digest string `json:"digest,omitempty"` // of the descriptor that waits for approval; "" for none
	// the tool's [Item.Hash] if exthost.lock has another one or none
	Unlocked string `json:"unlocked,omitempty"`
}

// Open reads the lock file at path. If the file is missing, Save creates it. The file, with
// symbolic links followed, must be in the directory within; "" allows any directory.
func Open(path, within string) (*Pins, error) {
	if err := file.CheckBelow(within, path); err != nil {
		return nil, fmt.Errorf("pins: %w", err)
	}
	seen, err := load(path)
	if err != nil {
		return nil, err
	}
	return &Pins{
		path:   path,
		within: within,
		seen:   seen,
		open:   make(map[group]firstList),
		dirty:  make(map[group]dirtyPart),
	}, nil
}

// List is the items of one kind of an extension, or one page of them.
type List struct {
	Extension string
	Kind      Kind
	Items     []Item
	Cursor    string // of this page; "" for the first
	Next      string // cursor of the next page; "" for the last
	Whole     bool   // Items are all items of this kind
}

// Look compares the items of a list with their pins and returns the names of the items to hold
// back. It pins all items of the first list of a kind, including its further pages. changed reports
// whether Save has something to write.
func (p *Pins) Look(l List) (held []string, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, before := group{l.Extension, l.Kind}, len(p.dirty[group{l.Extension, l.Kind}])
	_, known := p.seen[g]
	list := p.open[g]
	first := !known || l.Cursor != "" && list.next == l.Cursor && time.Since(list.began) < maxFirst
	if !known {
		list.began = time.Now()
		p.seen.see(g)
		p.noteLocked(g, "")
	}
	twice := make(map[string]bool) // names of which one item is held: others of that name are held too
	for _, item := range l.Items {
		if !twice[item.Name] && !p.lookLocked(g, item, first) {
			held, twice[item.Name] = append(held, item.Name), true
		}
	}
	if first {
		delete(p.open, g)
		if l.Next != "" {
			p.open[g] = firstList{list.began, l.Next}
		}
	}
	if l.Whole {
		p.forgetLocked(g, l.Items)
	}
	return held, len(p.dirty[g]) > before
}

// lookLocked reports whether an item equals its pin.
func (p *Pins) lookLocked(g group, now Item, first bool) bool {
	e, known := p.seen[g][now.Name]
	switch {
	case !known && len(p.seen[g]) >= MaxItems:
		return false
	case !known && first:
		p.setLocked(g, now.Name, entry{Pinned: now.said, Since: today()})
		return true
	case known && e.Pinned.equal(now.said):
		if e.Held != nil { // the item has its pinned descriptor again
			e.Held, e.HeldFrom = nil, time.Time{}
			p.setLocked(g, now.Name, e)
		}
		return true
	case e.Held == nil || !e.Held.equal(now.said):
		e.Held, e.HeldFrom = now.said, today()
		p.setLocked(g, now.Name, e)
	}
	return false
}

// forgetLocked removes the entries of items that were never approved and are not in present.
func (p *Pins) forgetLocked(g group, present []Item) {
	has := make(map[string]bool, len(present))
	for _, item := range present {
		has[item.Name] = true
	}
	for name, e := range p.seen[g] {
		if e.Pinned == nil && !has[name] {
			delete(p.seen[g], name)
			p.noteLocked(g, name)
		}
	}
}

// Held reports whether a change of an item needs an approval.
func (p *Pins) Held(extension string, kind Kind, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[group{extension, kind}][name].Held != nil
}

// Beyond reports whether an item has no entry because [MaxItems] is reached.
func (p *Pins) Beyond(extension string, kind Kind, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := p.seen[group{extension, kind}]
	_, known := names[name]
	return !known && len(names) >= MaxItems
}

// Full returns the kinds for which an extension has reached [MaxItems].
func (p *Pins) Full(extension string) []Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(Kinds(), func(kind Kind) bool { return len(p.seen[group{extension, kind}]) < MaxItems })
}

func (p *Pins) setLocked(g group, name string, e entry) {
	p.seen.see(g)
	p.seen[g][name] = e
	p.noteLocked(g, name)
}

func (p *Pins) noteLocked(g group, name string) {
	if p.dirty[g] == nil {
		p.dirty[g] = make(dirtyPart)
	}
	p.dirty[g][name] = true
}

// see marks the group as seen.
func (t table) see(g group) {
	if t[g] == nil {
		t[g] = make(map[string]entry)
	}
}

func today() time.Time { return time.Now().UTC().Truncate(time.Second) }

// The errors of Approve.
var (
	ErrNothingHeld = errors.New("no change of it waits for approval")
	ErrOther       = errors.New("it has changed again since it was shown")
)

// Approve pins the held descriptor of an item, if its digest is the given one, and saves the lock
// file. by names the person.
func (p *Pins) Approve(extension string, kind Kind, name, digest, by string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := group{extension, kind}
	e, known := p.seen[g][name]
	switch {
	case !known:
		return fmt.Errorf("no %s %s of %s is pinned: %w", kind, name, extension, ErrNothingHeld)
	case e.Held == nil:
		return fmt.Errorf("the %s %s of %s has not changed: %w", kind, name, extension, ErrNothingHeld)
	case e.Held.hash() != digest:
		return fmt.Errorf("the %s %s of %s: %w", kind, name, extension, ErrOther)
	}
	p.setLocked(g, name, entry{Pinned: e.Held, Since: today(), Approved: by})
	return p.saveLocked()
}

// List returns all pins, sorted by extension, kind and name.
func (p *Pins) List() []Pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Pin
	for g, names := range p.seen {
		for name, e := range names {
			list = append(list, e.pin(g, name))
		}
	}
	return sorted(list)
}

// HeldOf returns the held items of an extension, sorted by kind and name.
func (p *Pins) HeldOf(extension string) (list []Pin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, kind := range Kinds() {
		g := group{extension, kind}
		for name, e := range p.seen[g] {
			if e.Held != nil {
				list = append(list, e.pin(g, name))
			}
		}
	}
	return sorted(list)
}

func (e *entry) pin(g group, name string) Pin {
	pin := Pin{
		Extension:  g.extension,
		Kind:       g.kind,
		Name:       name,
		Label:      Label(g.kind, name),
		Since:      e.Since,
		ApprovedBy: e.Approved,
		Held:       e.Held != nil,
		HeldSince:  e.HeldFrom,
	}
	if pin.Held {
		pin.New, pin.Diff, pin.Digest = e.Pinned == nil, e.Pinned.diff(e.Held), e.Held.hash()
	}
	return pin
}

func sorted(list []Pin) []Pin {
	order := Kinds()
	slices.SortFunc(list, func(a, b Pin) int {
		return cmp.Or(cmp.Compare(a.Extension, b.Extension),
			cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// Save writes the changes to the lock file. It first reads the file again, so that changes by other
// processes remain and take effect in p.
func (p *Pins) Save() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saveLocked()
}

func (p *Pins) saveLocked() error {
	seen, err := load(p.path)
	if err != nil {
		return err
	}
	for g, names := range p.dirty {
		seen.see(g)
		for name := range names {
			if e, ok := p.seen[g][name]; ok {
				seen[g][name] = e
			} else {
				delete(seen[g], name)
			}
		}
	}
	if len(p.dirty) > 0 {
		path, err := file.Below(p.within, p.path)
		if err != nil {
			return fmt.Errorf("pins: %w", err)
		}
		if err := seen.store(path); err != nil {
			return err
		}
	}
	p.seen, p.dirty = seen, make(map[group]dirtyPart)
	return nil
}
