package exthost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// memory is where the host keeps what extensions offered at their last handshake:
// one file for each, so that the tools of one that starts on demand are known
// before it runs, and a change is noticed after the host was away. What is not
// there, or cannot be read, only costs a start.
type memory string

// memoryOf returns the memory of the host whose state directory is stateDir. No
// extension's id begins with a dot.
func memoryOf(stateDir string) memory { return memory(filepath.Join(stateDir, ".descriptors")) }

// offer is what an extension last offered.
type offer struct {
	// Key is the fingerprint of what offered it; "" when it does not count, since
	// the extension starts with the host anyway.
	Key       string
	Handshake runtime.Handshake
}

// record is an offer as a file holds it. Descriptors are texts: as JSON they would
// not keep their bytes.
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
	maxRecord    = 8 << 20 // bytes of one file; a larger offer is not kept
	maxRecords   = 512     // files; the oldest go
)

// recall returns the last known offer of an extension, nil when there is none, and
// why a file that is there cannot be used.
func (m memory) recall(id string) (*offer, error) {
	info, err := os.Stat(m.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxRecord) {
		err = errors.New("it is not a regular file of at most 8 MiB")
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(m.file(id))
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	return r.offer()
}

func (r *record) offer() (*offer, error) {
	if r.Format != recordFormat {
		return nil, fmt.Errorf("its format is %d, not %d", r.Format, recordFormat)
	}
	o := &offer{Key: r.Key, Handshake: runtime.Handshake{
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

// keep writes what an extension offers, in place of what was there.
func (m memory) keep(id string, o *offer) error {
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
		return errors.Join(err, m.drop(id))
	}
	if err := os.MkdirAll(string(m), 0o700); err != nil {
		return err
	}
	m.trim()
	return m.write(id, data)
}

// write replaces a file in one step: others read it at any time.
func (m memory) write(id string, data []byte) error {
	f, err := os.CreateTemp(string(m), "new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), m.file(id))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (m memory) drop(id string) error {
	if err := os.Remove(m.file(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (m memory) file(id string) string { return filepath.Join(string(m), id+".json") }

// trim makes room for one more file.
func (m memory) trim() {
	entries, _ := os.ReadDir(string(m))
	if len(entries) < maxRecords {
		return
	}
	age := func(e os.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return age(a).Compare(age(b)) })
	for _, e := range entries[:len(entries)-maxRecords+1] {
		_ = os.Remove(filepath.Join(string(m), e.Name())) // it may be gone already
	}
}
