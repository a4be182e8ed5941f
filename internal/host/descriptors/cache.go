// Package descriptors stores the tool descriptors of extensions, under a fingerprint of the program. A host then
// knows the tools of an extension before it starts, and notices tools that changed since the last handshake.
package descriptors

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

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// Entry is the outcome of an extension's last handshake.
type Entry struct {
	// Key is the [Fingerprint] of the program; "" if none could be made: then Handshake is not used before the
	// extension has started.
	Key       string
	Handshake runtime.Handshake
	// Accepted are the tools that the operator accepted last, or those of the first handshake. Nil: those of
	// Handshake.
	Accepted []protocol.Tool
	// Withdrawn are accepted tools that a running extension has removed. If one comes back with another
	// descriptor, it counts as altered rather than new.
	Withdrawn []protocol.Tool
}

// changes returns the differences between the accepted tools and those of the handshake.
func (e *Entry) changes() []tools.Change {
	if e == nil || e.Accepted == nil {
		return nil
	}
	return tools.Diff(e.Accepted, e.Handshake.Tools)
}

// Cache is a directory with one file per extension. If a file is missing or unreadable, the extension has to be
// started once to learn its tools.
type Cache string

// NewCache returns the cache below stateDir, the state directory of a host. The leading dot of its name sets it apart
// from the directories of extensions, whose ids never begin with a dot.
func NewCache(stateDir string) Cache { return Cache(filepath.Join(stateDir, ".descriptors")) }

// Known is the last known handshake of one extension, from this run of the host or an earlier run, stored in a
// [Cache]. It is safe for concurrent use.
type Known struct {
	cache Cache
	id    string

	mu   sync.Mutex // guards last and its file
	last *Entry
}

// Open loads the last known handshake of an extension. After an error, which says why an existing file is
// unusable, the Known is empty but usable.
func (c Cache) Open(id string) (*Known, error) {
	last, err := c.Load(id)
	return &Known{cache: c, id: id, last: last}, err
}

// Last returns the last known handshake, nil before the first.
func (k *Known) Last() *Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// Changes returns the differences from the tools that the operator accepted last, also across restarts of the
// host.
func (k *Known) Changes() []tools.Change { return k.Last().changes() }

// sameButTools reports whether two handshakes agree on everything that a host says about an extension, apart from
// tools.
func (e *Entry) sameButTools(now *Entry) bool {
	a, b := &e.Handshake, &now.Handshake
	return e.Key == now.Key && a.ServerVersion == b.ServerVersion && a.Protocol == b.Protocol &&
		a.ProtocolVersion == b.ProtocolVersion && a.InitializeFirst == b.InitializeFirst &&
		a.Instructions == b.Instructions && bytes.Equal(a.Capabilities, b.Capabilities) &&
		slices.Equal(a.Hooks, b.Hooks) && slices.Equal(a.Undeclared, b.Undeclared)
}

// maxDescribed bounds the changes that [Describe] lists.
const maxDescribed = 8

// Describe lists the first 8 changes on one line and counts the others.
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

// record is the file format. Descriptors are JSON strings that contain JSON, because encoding/json would change
// the bytes of a json.RawMessage.
type record struct {
	Format          int                   `json:"format"`
	Key             string                `json:"key,omitempty"`
	ServerVersion   string                `json:"server_version,omitempty"`
	Protocol        string                `json:"protocol"`
	ProtocolVersion string                `json:"protocol_version,omitempty"`
	InitializeFirst bool                  `json:"initialize_first,omitempty"`
	Tools           []string              `json:"tools"`
	Accepted        *[]string             `json:"accepted,omitempty"` // nil: same as tools
	Withdrawn       []string              `json:"withdrawn,omitempty"`
	Hooks           []string              `json:"hooks,omitempty"`
	Capabilities    string                `json:"capabilities,omitempty"`
	Instructions    string                `json:"instructions,omitempty"`
	Undeclared      []string              `json:"undeclared,omitempty"`
	Diagnostics     []protocol.Diagnostic `json:"diagnostics,omitempty"`
}

const (
	recordFormat = 2
	maxRecord    = 8 << 20 // bytes of one file; a larger one is not stored
	maxForgotten = 512     // files of unknown extensions that [Cache.Prune] leaves
)

// Load returns the stored handshake of an extension, nil if there is none. The error says why an existing file is
// unusable.
func (c Cache) Load(id string) (*Entry, error) {
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
	return r.entry()
}

func (r *record) entry() (*Entry, error) {
	if r.Format != recordFormat {
		return nil, fmt.Errorf("its format is %d, not %d", r.Format, recordFormat)
	}
	o := &Entry{
		Key: r.Key,
		Handshake: runtime.Handshake{
			ServerVersion:   r.ServerVersion,
			Protocol:        r.Protocol,
			ProtocolVersion: r.ProtocolVersion,
			InitializeFirst: r.InitializeFirst,
			Hooks:           r.Hooks,
			Instructions:    r.Instructions,
			Undeclared:      r.Undeclared,
			Diagnostics:     r.Diagnostics,
		},
	}
	if r.Capabilities != "" {
		o.Handshake.Capabilities = json.RawMessage(r.Capabilities)
	}
	if r.Capabilities != "" && rawjson.Check([]byte(r.Capabilities)) != nil {
		return nil, errors.New("a descriptor in it is not JSON")
	}
	var err error
	if o.Handshake.Tools, err = parseTools(nil, r.Tools); err == nil && r.Accepted != nil {
		o.Accepted, err = parseTools([]protocol.Tool{}, *r.Accepted)
	}
	if err == nil {
		o.Withdrawn, err = parseTools(nil, r.Withdrawn)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// parseTools appends the tools of descriptors to list.
func parseTools(list []protocol.Tool, descriptors []string) ([]protocol.Tool, error) {
	for _, text := range descriptors {
		if rawjson.Check([]byte(text)) != nil {
			return nil, errors.New("a descriptor in it is not JSON")
		}
		name, ok := rawjson.Text(rawjson.Get([]byte(text), "name"))
		if !ok {
			return nil, errors.New("a tool in it has no name")
		}
		list = append(list, protocol.Tool{Name: name, Raw: json.RawMessage(text)})
	}
	return list, nil
}

func descriptors(list []protocol.Tool) []string {
	texts := []string{}
	for _, t := range list {
		texts = append(texts, string(t.Raw))
	}
	return texts
}

// Store replaces the stored handshake of an extension. If it is over 8 MiB, Store removes the old file and
// returns an error.
func (c Cache) Store(id string, o *Entry) error {
	hs := &o.Handshake
	r := record{
		Format:          recordFormat,
		Key:             o.Key,
		ServerVersion:   hs.ServerVersion,
		Protocol:        hs.Protocol,
		ProtocolVersion: hs.ProtocolVersion,
		InitializeFirst: hs.InitializeFirst,
		Tools:           descriptors(hs.Tools),
		Hooks:           hs.Hooks,
		Capabilities:    string(hs.Capabilities),
		Instructions:    hs.Instructions,
		Undeclared:      hs.Undeclared,
		Diagnostics:     hs.Diagnostics,
	}
	if o.Accepted != nil {
		r.Accepted = new(descriptors(o.Accepted))
	}
	if len(o.Withdrawn) > 0 {
		r.Withdrawn = descriptors(o.Withdrawn)
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
	return file.WritePrivate(c.file(id), data)
}

func (c Cache) remove(id string) error {
	if err := os.Remove(c.file(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (c Cache) file(id string) string { return filepath.Join(string(c), id+".json") }

// Prune bounds the cache: of the files of extensions for which has is false, it leaves the latest 512. The files of
// other extensions stay, however many: without its file, an extension would be started with every start of the host,
// and its accepted tools would be forgotten.
func (c Cache) Prune(has func(id string) bool) {
	files, _ := os.ReadDir(string(c))
	gone := slices.DeleteFunc(files, func(f os.DirEntry) bool { return has(strings.TrimSuffix(f.Name(), ".json")) })
	if len(gone) <= maxForgotten {
		return
	}
	modified := make(map[os.DirEntry]time.Time, len(gone))
	for _, f := range gone {
		if info, err := f.Info(); err == nil { // another process may have removed it
			modified[f] = info.ModTime()
		}
	}
	slices.SortFunc(gone, func(a, b os.DirEntry) int { return modified[a].Compare(modified[b]) })
	for _, f := range gone[:len(gone)-maxForgotten] {
		_ = os.Remove(filepath.Join(string(c), f.Name()))
	}
}
