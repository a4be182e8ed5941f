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

	"github.com/exthost/exthost/internal/atomicfile"
	"github.com/exthost/exthost/internal/display"
	"github.com/exthost/exthost/internal/regular"
)

// Hidden holds the items whose descriptors have text that no reader sees, until the operator
// accepts that very descriptor. Its methods are safe for concurrent use.
type Hidden struct {
	path string

	mu       sync.Mutex          // guards the fields below
	accepted map[string][]string // hashes of descriptors, by extension
	held     map[subject]hiddenItem
	noted    map[subject]string // hidden characters in what is listed, other than tools, and not held
}

type subject struct {
	extension string
	kind      Kind
	name      string
}

// hiddenItem is the descriptor of an item that is held, and where its hidden text is.
type hiddenItem struct{ digest, shown string }

// maxNoted bounds what Check remembers.
const maxNoted = 1024

// OpenHidden reads what was accepted from the file at path. A missing one is empty. The error
// leaves a usable Hidden, which has accepted nothing.
func OpenHidden(path string) (*Hidden, error) {
	h := &Hidden{path: path, accepted: make(map[string][]string), held: make(map[subject]hiddenItem), noted: make(map[subject]string)}
	text, _, err := regular.Read(path, maxFile, false)
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

// Check reports whether an item with this descriptor may be listed, and remembers the answer.
// changed reports whether it is another answer than before.
func (h *Hidden) Check(extension string, kind Kind, name string, raw json.RawMessage) (ok, changed bool) {
	found := display.FindHidden(raw)
	at := subject{extension, kind, name}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, wasHeld := h.held[at]
	noted := h.noted[at]
	delete(h.held, at)
	delete(h.noted, at)
	switch {
	case len(found) == 0:
		return true, wasHeld || noted != ""
	case !found[0].Tag():
		if kind != Tool && len(h.noted) < maxNoted { // the catalog reports tools
			h.noted[at] = found[0].String()
		}
		return true, wasHeld || noted != h.noted[at]
	}
	digest := descriptor(bytes.TrimSpace(raw)).hash()
	if slices.Contains(h.accepted[extension], digest) {
		return true, wasHeld
	}
	if len(h.held) < maxItems || wasHeld || kind == Tool { // whose number is bounded elsewhere
		h.held[at] = hiddenItem{digest, describe(found, raw)}
	}
	return false, before.digest != digest
}

// describe says where a descriptor has hidden text, and what its tag characters spell.
func describe(found []display.Hidden, raw json.RawMessage) string {
	var lines []string
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

// Keep forgets the held tools of the extension other than these.
func (h *Hidden) Keep(extension string, tools []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.held, func(at subject, _ hiddenItem) bool {
		return at.extension == extension && at.kind == Tool && !slices.Contains(tools, at.name)
	})
}

// Any reports whether anything is held.
func (h *Hidden) Any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held) > 0
}

// Held reports whether an item is held.
func (h *Hidden) Held(extension string, kind Kind, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, held := h.held[subject{extension, kind, name}]
	return held
}

// List returns what is held, sorted by extension, kind and name.
func (h *Hidden) List() (list []Pin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, item := range h.held {
		list = append(list, Pin{Extension: at.extension, Kind: at.kind, Name: at.name, Label: Label(at.kind, at.name), Held: true, New: true, Diff: item.shown, Digest: item.digest})
	}
	return sorted(list)
}

// Noted returns the prompts and resources of the extension that are listed with characters that
// a reader does not see, sorted: the label of each, with the first such character.
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

// Accept accepts the descriptor of a held item, if it is the one with that digest. The error is
// ErrNothingHeld or ErrOther, or says why that could not be stored, and leaves it accepted for
// this process.
func (h *Hidden) Accept(extension string, kind Kind, name, digest string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := subject{extension, kind, name}
	switch item, ok := h.held[at]; {
	case !ok:
		return fmt.Errorf("the %s %s of %s: %w", kind, name, extension, ErrNothingHeld)
	case item.digest != digest:
		return fmt.Errorf("the %s %s of %s: %w", kind, name, extension, ErrOther)
	}
	h.accepted[extension] = append(h.accepted[extension], digest)
	delete(h.held, at)
	text, _ := json.Marshal(h.accepted) // lists of texts always encode
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	return atomicfile.WritePrivate(h.path, text)
}

// Names returns the labels of pins for one line, as a reader can see them.
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
