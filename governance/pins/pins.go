// Package pins records the descriptor of each tool when it is first seen. A tool whose
// descriptor changes later is held until an operator approves the change.
package pins

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Pins is the content of a lock file and the changes found since. Its methods are safe for
// concurrent use.
type Pins struct {
	path string

	mu    sync.Mutex // guards the fields below
	tools table
	dirty map[name]bool // changed since the file was read or written
}

// table maps extension and tool to its entry.
type table map[string]map[string]entry

type name struct{ extension, tool string }

// entry is the state of one tool.
type entry struct {
	Pinned   descriptor  `json:"pinned"`
	Since    time.Time   `json:"since"`                 // when Pinned was recorded
	Approved string      `json:"approved_by,omitempty"` // who approved Pinned; "" for the descriptor seen first
	Held     *descriptor `json:"held,omitempty"`        // the present descriptor, while it differs from Pinned
	HeldFrom time.Time   `json:"held_since,omitzero"`
}

// Pin is one tool in [Pins.List].
type Pin struct {
	Extension  string    `json:"extension"`
	Tool       string    `json:"tool"` // as the extension names it
	Since      time.Time `json:"since"`
	ApprovedBy string    `json:"approved_by,omitempty"`
	Held       bool      `json:"held"` // a change waits for approval
	HeldSince  time.Time `json:"held_since,omitzero"`
	Diff       string    `json:"diff,omitempty"` // between the pinned and the present descriptor
}

// Open reads the lock file at path. Save creates a missing one.
func Open(path string) (*Pins, error) {
	tools, err := load(path)
	if err != nil {
		return nil, err
	}
	return &Pins{path: path, tools: tools, dirty: make(map[name]bool)}, nil
}

// Check compares the tool with its pin, or pins it when it is new. diff lists the changes,
// one per line: "- path: before" and "+ path: now". Titles, descriptions, schemas and
// annotations count; the order of keys does not. Call [Pins.Save] to keep the result.
func (p *Pins) Check(extension string, tool protocol.Tool) (ok bool, diff string) {
	now := newDescriptor(tool)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := name{extension, tool.Name}
	e, known := p.tools[extension][tool.Name]
	switch {
	case !known:
		p.setLocked(n, entry{Pinned: now, Since: time.Now().UTC().Truncate(time.Second)})
		return true, ""
	case e.Pinned.equal(now):
		if e.Held != nil { // the tool has returned to its pinned descriptor
			e.Held, e.HeldFrom = nil, time.Time{}
			p.setLocked(n, e)
		}
		return true, ""
	case e.Held == nil || !e.Held.equal(now):
		e.Held, e.HeldFrom = &now, time.Now().UTC().Truncate(time.Second)
		p.setLocked(n, e)
	}
	return false, e.Pinned.diff(now)
}

// Held reports whether a change of the tool needs an approval.
func (p *Pins) Held(extension, tool string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tools[extension][tool].Held != nil
}

func (p *Pins) setLocked(n name, e entry) {
	p.tools.set(n, e)
	p.dirty[n] = true
}

func (t table) set(n name, e entry) {
	if t[n.extension] == nil {
		t[n.extension] = make(map[string]entry)
	}
	t[n.extension][n.tool] = e
}

// ErrNothingHeld is the error of Approve for a tool that has nothing to approve.
var ErrNothingHeld = errors.New("no change of it waits for approval")

// Approve pins the present descriptor of the tool and saves it. by names the person.
func (p *Pins) Approve(extension, tool, by string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, known := p.tools[extension][tool]
	switch {
	case !known:
		return fmt.Errorf("no tool %s of %s is pinned: %w", tool, extension, ErrNothingHeld)
	case e.Held == nil:
		return fmt.Errorf("the tool %s of %s has not changed: %w", tool, extension, ErrNothingHeld)
	}
	p.setLocked(name{extension, tool}, entry{Pinned: *e.Held, Since: time.Now().UTC().Truncate(time.Second), Approved: by})
	return p.saveLocked()
}

// List returns all pins, sorted by extension and tool.
func (p *Pins) List() []Pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Pin
	for extension, tools := range p.tools {
		for tool, e := range tools {
			pin := Pin{Extension: extension, Tool: tool, Since: e.Since, ApprovedBy: e.Approved, Held: e.Held != nil, HeldSince: e.HeldFrom}
			if pin.Held {
				pin.Diff = e.Pinned.diff(*e.Held)
			}
			list = append(list, pin)
		}
	}
	slices.SortFunc(list, func(a, b Pin) int {
		return cmp.Or(cmp.Compare(a.Extension, b.Extension), cmp.Compare(a.Tool, b.Tool))
	})
	return list
}

// Save writes the changes to the lock file. Changes by other processes are kept and take
// effect.
func (p *Pins) Save() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saveLocked()
}

func (p *Pins) saveLocked() error {
	tools, err := load(p.path)
	if err != nil {
		return err
	}
	for n := range maps.Keys(p.dirty) {
		tools.set(n, p.tools[n.extension][n.tool])
	}
	if len(p.dirty) > 0 {
		if err := store(p.path, tools); err != nil {
			return err
		}
	}
	p.tools, p.dirty = tools, make(map[name]bool)
	return nil
}
