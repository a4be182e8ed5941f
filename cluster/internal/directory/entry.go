package directory

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode"

	"github.com/exthost/exthost/cluster/internal/wire"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/peers"
)

const (
	maxEntry  = 64 << 10 // bytes of an entry
	maxShares = 1024     // extensions per node
	maxWord   = 64       // bytes of a version, a feature or a state
	maxID     = 160      // bytes of the id of an extension
)

// entry is the announcement of a run. It is immutable; the next one has a higher Seq.
type entry struct {
	Node     string   `json:"node"`
	Run      string   `json:"run"`
	Started  int64    `json:"started"` // Unix milliseconds, by the clock of the node
	Seq      uint64   `json:"seq"`
	Version  string   `json:"version"`            // of exthost
	Wire     []string `json:"wire"`               // supported major versions
	Features []string `json:"features,omitempty"` // supported features
	Requires []string `json:"requires,omitempty"` // features that other nodes must support to communicate with it
	MaxBody  int64    `json:"max_body"`
	Leaving  bool     `json:"leaving,omitempty"`
	Shares   []shared `json:"shares,omitempty"`
	Waiting  int      `json:"waiting,omitempty"` // number of pending approval requests
	Asked    int64    `json:"asked,omitempty"`   // when the set of pending requests last changed, Unix milliseconds

	raw []byte
	sum sum
}

// shared is an extension in an entry. Its descriptors are fetched separately, by Digest: see [offer].
type shared struct {
	ID     string `json:"id"`
	As     string `json:"as"`
	State  string `json:"state"`
	Digest string `json:"digest"`
	Tools  int    `json:"tools"`
}

// sum is a prefix of the SHA-256 of an entry.
type sum [16]byte

func sumOf(raw []byte) sum {
	d := sha256.Sum256(raw)
	return sum(d[:16])
}

func (s *sum) mix(other sum) {
	for i := range s {
		s[i] ^= other[i]
	}
}

func (e *entry) address() wire.Address { return wire.Address{Node: e.Node, Run: e.Run} }

func (e *entry) tools() (n int) {
	for _, s := range e.Shares {
		n += s.Tools
	}
	return n
}

// compare orders entries of one node: by the start of the run, then by its name, then by Seq.
func (e *entry) compare(other *entry) int {
	return cmp.Or(cmp.Compare(e.Started, other.Started), cmp.Compare(e.Run, other.Run), cmp.Compare(e.Seq, other.Seq))
}

// incompatibility returns why this version cannot communicate with the node, or "".
func (e *entry) incompatibility(features []string) string {
	if !slices.Contains(e.Wire, wire.Major) {
		return fmt.Sprintf("it speaks %q and this node %s: its extensions are left out; run versions of exthost that "+
			"are closer", e.Wire, wire.Major)
	}
	for _, f := range e.Requires {
		if !slices.Contains(features, f) {
			return fmt.Sprintf("it requires %q, which this version does not know: its extensions are left out; "+
				"update exthost here", f)
		}
	}
	return ""
}

// encode sets raw and sum.
func (e *entry) encode() {
	e.raw, _ = json.Marshal(e) // cannot fail
	e.sum = sumOf(e.raw)
}

// decodeEntry parses an entry from an untrusted node.
func decodeEntry(raw []byte) (*entry, error) {
	if len(raw) > maxEntry {
		return nil, fmt.Errorf("an entry of %d bytes, more than %d", len(raw), maxEntry)
	}
	if err := rawjson.Check(raw); err != nil {
		return nil, fmt.Errorf("an entry: %w", err)
	}
	e := new(entry)
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, fmt.Errorf("an entry: %w", err)
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("the entry of %.40q: %w", e.Node, err)
	}
	e.raw, e.sum = bytes.Clone(raw), sumOf(raw)
	return e, nil
}

// idPattern matches the ids of manifests, optionally with a dot and the name of a server in a .mcp.json.
var idPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[A-Za-z0-9_.-]+)?$`)

func (e *entry) check() error {
	if err := settings.CheckName(e.Node); err != nil {
		return err
	}
	if !wire.IsRun(e.Run) {
		return fmt.Errorf("%.40q is no run", e.Run)
	}
	if len(e.Shares) > maxShares || e.MaxBody < 0 || e.Waiting < 0 {
		return errors.New("too many extensions, or a negative number")
	}
	for _, w := range slices.Concat([]string{e.Version}, e.Wire, e.Features, e.Requires) {
		if !isWord(w) {
			return fmt.Errorf("%.40q is no version or feature", w)
		}
	}
	seen := make(map[string]bool, len(e.Shares))
	for _, s := range e.Shares {
		switch {
		case len(s.ID) > maxID || !idPattern.MatchString(s.ID):
			return fmt.Errorf("%.40q is no id of an extension", s.ID)
		case seen[s.ID]:
			return fmt.Errorf("extension %s is there twice", s.ID)
		case s.As != peers.AsMine && s.As != peers.AsReplicas, !isWord(s.State), !isDigest(s.Digest), s.Tools < 0:
			return fmt.Errorf("extension %s is described in a form that does not exist", s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

func isWord(s string) bool {
	return len(s) <= maxWord && !slices.ContainsFunc([]rune(s), func(r rune) bool { return !unicode.IsPrint(r) })
}
