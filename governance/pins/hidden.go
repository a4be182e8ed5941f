package pins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/display"
)

// Hidden holds back items whose descriptors contain invisible text, and tools whose descriptors
// differ from exthost.lock. An item is held until the operator accepts its exact descriptor. The
// methods are safe for concurrent use.
type Hidden struct {
	path string

	mu       sync.Mutex                      // guards the fields below
	accepted map[string][]string             // hashes of descriptors, by extension
	held     map[group]map[string]hiddenItem // by name
	beyond   map[group]bool                  // groups with more than MaxItems items to hold
	noted    map[subject]string              // first invisible character of listed items with Sent.Note
}

type subject struct {
	extension string
	kind      Kind
	name      string
}

// hiddenItem is the digest of a held descriptor, and its description for the operator.
type hiddenItem struct {
	digest, shown string
	unlocked      string // see [Pin].Unlocked
}

// maxNoted bounds the entries of Hidden.noted.
const maxNoted = 1024

// OpenHidden reads the accepted descriptors from the file at path. A missing file is empty. On an
// error the returned Hidden is usable and has accepted nothing.
func OpenHidden(path string) (*Hidden, error) {
	h := &Hidden{
		path:     path,
		accepted: make(map[string][]string),
		held:     make(map[group]map[string]hiddenItem),
		beyond:   make(map[group]bool),
		noted:    make(map[subject]string),
	}
	text, _, err := file.ReadRegular(path, maxFile, false)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &h.accepted)
	}
	if err != nil {
		h.accepted = make(map[string][]string)
		return h, fmt.Errorf("%s is not read, so that tools with hidden text are held again: %w", path, err)
	}
	return h, nil
}

// Sent is an item as an extension sends it.
type Sent struct {
	Extension string
	Kind      Kind
	Name      string // as the extension names it
	Raw       json.RawMessage
	Unlocked  string // the tool's [Item.Hash], if exthost.lock has another one or none
	Note      bool   // record invisible characters even if the item is not held for them
}

// Check reports whether an item with this descriptor may be listed. changed reports whether the
// answer, or what the operator is told about the item, differs from the last call for it.
func (h *Hidden) Check(s Sent) (ok, changed bool) {
	found := display.FindHidden(s.Raw)
	tagged := len(found) > 0 && found[0].Tag()
	at, g := subject{s.Extension, s.Kind, s.Name}, group{s.Extension, s.Kind}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, wasHeld := h.held[g][s.Name]
	noted := h.noted[at]
	delete(h.held[g], s.Name)
	delete(h.noted, at)
	switch {
	case len(found) == 0 && s.Unlocked == "":
		return true, wasHeld || noted != ""
	case !tagged && s.Unlocked == "":
		if s.Note && len(h.noted) < maxNoted {
			h.noted[at] = found[0].String()
		}
		return true, wasHeld || noted != h.noted[at]
	}
	digest := rawDigest(s.Raw)
	if slices.Contains(h.accepted[s.Extension], digest) {
		return true, wasHeld
	}
	if len(h.held[g]) >= MaxItems {
		h.beyond[g] = true
		return false, !wasHeld
	}
	if h.held[g] == nil {
		h.held[g] = make(map[string]hiddenItem)
	}
	h.held[g][s.Name] = hiddenItem{digest, describe(found, s.Raw, s.Unlocked != ""), s.Unlocked}
	return false, before.digest != digest
}

// describe lists the places of invisible text in a descriptor, and the text that its tag characters
// spell. With unlocked, the first line says that exthost.lock does not state this descriptor.
func describe(found []display.Hidden, raw json.RawMessage, unlocked bool) string {
	var lines []string
	if unlocked {
		lines = append(lines, "exthost.lock does not state this descriptor: "+
			display.Cut(visible(string(canonical(raw))), maxValue))
	}
	if len(found) == 0 {
		return lines[0]
	}
	for _, f := range found {
		lines = append(lines, "hidden text: "+display.Cut(visible(f.String()), 200))
	}
	spelled := strings.Map(func(r rune) rune {
		if r > 0xe001f && r < 0xe007f { // the tag characters of ASCII
			return r - 0xe0000
		}
		return -1
	}, string(canonical(raw)))
	return strings.Join(append(lines, "it spells: "+display.Cut(spelled, 400)), "\n")
}

// Keep forgets the held items of a kind that are not in names, the complete list of that kind of the
// extension.
func (h *Hidden) Keep(extension string, kind Kind, names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.held[group{extension, kind}],
		func(name string, _ hiddenItem) bool { return !slices.Contains(names, name) })
	maps.DeleteFunc(h.noted, func(at subject, _ string) bool {
		return kind != Tool && at.extension == extension && at.kind == kind && !slices.Contains(names, at.name)
	})
}

// Any reports whether any item is held.
func (h *Hidden) Any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, names := range h.held {
		if len(names) > 0 {
			return true
		}
	}
	return len(h.beyond) > 0
}

// Held reports whether an item is held, and whether its descriptor differs from exthost.lock.
func (h *Hidden) Held(extension string, kind Kind, name string) (held, unlocked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	item, held := h.held[group{extension, kind}][name]
	return held, item.unlocked != ""
}

// rawDigest returns the digest of the descriptor as sent, without surrounding space. Canonical JSON
// is not used, because another form of it may hide text.
func rawDigest(raw json.RawMessage) string { return descriptor(bytes.TrimSpace(raw)).hash() }

// Beyond reports whether, since the host started, more than [MaxItems] items of a kind had to be
// held. The names of the items beyond MaxItems are not stored.
func (h *Hidden) Beyond(extension string, kind Kind) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beyond[group{extension, kind}]
}

// List returns the held items, sorted by extension, kind and name.
func (h *Hidden) List() (list []Pin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for g, names := range h.held {
		for name, item := range names {
			list = append(list,
				Pin{
					Extension: g.extension,
					Kind:      g.kind,
					Name:      name,
					Label:     Label(g.kind, name),
					Held:      true,
					New:       true,
					Unlocked:  item.unlocked,
					Diff:      item.shown,
					Digest:    item.digest,
				})
		}
	}
	return sorted(list)
}

// Noted returns the labels of items of the extension that are listed although they contain
// invisible characters, sorted, each with the first such character.
func (h *Hidden) Noted(extension string) (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, where := range h.noted {
		if at.extension == extension {
			list = append(list, display.Cut(visible(Label(at.kind, at.name)), 80)+" ("+where+")")
		}
	}
	slices.Sort(list)
	return list
}

// Accept accepts the held descriptor of an item, if its digest is the given one. The error is
// ErrNothingHeld, ErrOther, or that of writing the file; if writing fails, the descriptor is
// accepted for this process only.
func (h *Hidden) Accept(extension string, kind Kind, name, digest string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := group{extension, kind}
	switch item, ok := h.held[g][name]; {
	case !ok:
		return fmt.Errorf("the %s %s of %s: %w", kind, name, extension, ErrNothingHeld)
	case item.digest != digest:
		return fmt.Errorf("the %s %s of %s: %w", kind, name, extension, ErrOther)
	}
	h.accepted[extension] = append(h.accepted[extension], digest)
	delete(h.held[g], name)
	text, _ := json.Marshal(h.accepted) // lists of texts always encode
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	return file.WritePrivate(h.path, text)
}

// Names joins the labels of pins in one line, with invisible characters escaped.
func Names(list []Pin) string {
	const most = 20
	var labels []string
	for _, p := range list[:min(len(list), most)] {
		label := display.Cut(visible(p.Label), 100)
		if p.New {
			label += " (new)"
		}
		labels = append(labels, label)
	}
	if more := len(list) - most; more > 0 {
		labels = append(labels, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(labels, ", ")
}
