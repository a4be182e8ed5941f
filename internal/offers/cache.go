// Package offers remembers what an extension offered, under a fingerprint of what
// would run. A host then knows the tools of an extension before the extension
// starts, and notices tools that changed since the last handshake.
package offers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// Offer is the outcome of an extension's last handshake.
type Offer struct {
	// Key is the [Fingerprint] of the program that made the offer; "" where none could be
	// made. Such an offer never stands in for a handshake.
	Key       string
	Handshake runtime.Handshake
}

// Cache is a directory with one file for each extension's last offer. A file that
// is missing or unreadable costs one start of the extension and nothing else.
type Cache string

// NewCache returns the cache below stateDir, the state directory of a host. The
// leading dot keeps it apart from the directories of extensions, whose ids never
// begin with a dot.
func NewCache(stateDir string) Cache { return Cache(filepath.Join(stateDir, ".descriptors")) }

// Known is the last known offer of one extension, from its last handshake in this
// host's life or before, backed by a file of a [Cache]. It is safe for concurrent use.
type Known struct {
	cache Cache
	id    string

	mu   sync.Mutex // guards last and its file
	last *Offer
}

// Open loads the last known offer of an extension. The error says why an existing
// file cannot be used; the Known is usable and empty then, and never nil.
func (c Cache) Open(id string) (*Known, error) {
	last, err := c.Load(id)
	return &Known{cache: c, id: id, last: last}, err
}

// Last returns the last known offer, nil before the first.
func (k *Known) Last() *Offer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// Update makes now the last known offer, stores it if it differs from the one before,
// and returns how the tools changed; no changes for a first offer. The error says why
// the offer could not be stored, and leaves it in force for this process.
func (k *Known) Update(now *Offer) (changes []tools.Change, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := k.last
	k.last = now
	if last != nil {
		changes = tools.Diff(last.Handshake.Tools, now.Handshake.Tools)
		if len(changes) == 0 && last.sameButTools(now) {
			return nil, nil
		}
	}
	return changes, k.cache.Store(k.id, now)
}

// sameButTools reports whether two offers agree on everything, apart from tools, that
// a host says about an extension without running it.
func (o *Offer) sameButTools(now *Offer) bool {
	a, b := &o.Handshake, &now.Handshake
	return o.Key == now.Key && a.ServerVersion == b.ServerVersion && a.Protocol == b.Protocol && a.Era == b.Era &&
		a.Instructions == b.Instructions && bytes.Equal(a.Capabilities, b.Capabilities) && slices.Equal(a.Hooks, b.Hooks)
}

// maxDescribed is how many changes [Describe] lists.
const maxDescribed = 8

// Describe lists the first 8 changes in one line and counts the others.
func Describe(changes []tools.Change) string {
	var parts []string
	for _, c := range changes[:min(len(changes), maxDescribed)] {
		parts = append(parts, c.String())
	}
	if more := len(changes) - maxDescribed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// record is the file format of an offer. Descriptors are JSON strings that hold JSON:
// encoding/json would change the bytes of a json.RawMessage.
type record struct {
	Format        int                   `json:"format"`
	Key           string                `json:"key,omitempty"`
	ServerVersion string                `json:"server_version,omitempty"`
	Protocol      string                `json:"protocol"`
	Era           string                `json:"era,omitempty"`
	Tools         []string              `json:"tools"`
	Hooks         []string              `json:"hooks,omitempty"`
	Capabilities  string                `json:"capabilities,omitempty"`
	Instructions  string                `json:"instructions,omitempty"`
	Diagnostics   []protocol.Diagnostic `json:"diagnostics,omitempty"`
}

const (
	recordFormat = 1
	maxRecord    = 8 << 20 // bytes of one file; a larger offer is not stored
	maxRecords   = 512     // files; the oldest are removed
)

// Load returns the stored offer of an extension, nil when there is none. The error
// says why an existing file cannot be used.
func (c Cache) Load(id string) (*Offer, error) {
	info, err := os.Stat(c.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxRecord) {
		err = errors.New("it is not a regular file of at most 8 MiB")
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.file(id))
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	return r.offer()
}

func (r *record) offer() (*Offer, error) {
	if r.Format != recordFormat {
		return nil, fmt.Errorf("its format is %d, not %d", r.Format, recordFormat)
	}
	o := &Offer{Key: r.Key, Handshake: runtime.Handshake{
		ServerVersion: r.ServerVersion, Protocol: r.Protocol, Era: r.Era, Hooks: r.Hooks,
		Instructions: r.Instructions, Diagnostics: r.Diagnostics,
	}}
	if r.Capabilities != "" {
		o.Handshake.Capabilities = json.RawMessage(r.Capabilities)
	}
	for _, text := range append([]string{r.Capabilities}, r.Tools...) {
		if text != "" && rawjson.Check([]byte(text)) != nil {
			return nil, errors.New("a descriptor in it is not JSON")
		}
	}
	for _, text := range r.Tools {
		name, ok := rawjson.Text(rawjson.Get([]byte(text), "name"))
		if !ok {
			return nil, errors.New("a tool in it has no name")
		}
		o.Handshake.Tools = append(o.Handshake.Tools, protocol.Tool{Name: name, Raw: json.RawMessage(text)})
	}
	return o, nil
}

// Store replaces the stored offer of an extension. When the offer is over 8 MiB,
// Store removes the old file too and returns an error. It keeps at most 512 files,
// and removes the oldest to make room.
func (c Cache) Store(id string, o *Offer) error {
	hs := &o.Handshake
	r := record{Format: recordFormat, Key: o.Key, ServerVersion: hs.ServerVersion, Protocol: hs.Protocol, Era: hs.Era,
		Tools: []string{}, Hooks: hs.Hooks, Capabilities: string(hs.Capabilities), Instructions: hs.Instructions, Diagnostics: hs.Diagnostics}
	for _, t := range hs.Tools {
		r.Tools = append(r.Tools, string(t.Raw))
	}
	data, err := json.Marshal(r)
	if err == nil && len(data) > maxRecord {
		err = errors.New("it offers more than 8 MiB")
	}
	if err != nil {
		return errors.Join(err, c.remove(id))
	}
	if err := os.MkdirAll(string(c), 0o700); err != nil {
		return err
	}
	c.makeRoom()
	return c.write(id, data)
}

// write replaces a file in one step, because another process may read it at any time.
func (c Cache) write(id string, data []byte) error {
	f, err := os.CreateTemp(string(c), "new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.file(id))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (c Cache) remove(id string) error {
	if err := os.Remove(c.file(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (c Cache) file(id string) string { return filepath.Join(string(c), id+".json") }

// makeRoom removes the oldest files until one more fits.
func (c Cache) makeRoom() {
	entries, _ := os.ReadDir(string(c))
	if len(entries) < maxRecords {
		return
	}
	modified := func(e os.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return modified(a).Compare(modified(b)) })
	for _, e := range entries[:len(entries)-maxRecords+1] {
		_ = os.Remove(filepath.Join(string(c), e.Name())) // another process may have removed it already
	}
}
