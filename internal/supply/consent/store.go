package consent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/file/ownership"
)

// Record is the user's decision about one folder.
type Record struct {
	Version int        `json:"version"`
	Dir     string     `json:"dir"`  // absolute, symbolic links resolved
	Kind    Kind       `json:"kind"` // what in the folder the record covers
	Trusted *time.Time `json:"accepted,omitempty"`
	Files   Files      `json:"files,omitempty"` // versions that the user trusted
	// for a configuration: its policies and hooks when it was trusted, for display; see config.Config.Rules
	Rules   []string            `json:"rules,omitempty"`
	Project string              `json:"project,omitempty"` // for an extension: project whose code is included
	Secrets map[string][]string `json:"secrets,omitempty"` // granted, by extension id
	// the user revoked trust: not even a bundled extension runs
	Revoked bool `json:"revoked,omitempty"`

	stored file.Version // of the file that it was read from
}

// Kind is the part of a folder that a record covers.
type Kind string

const (
	Extension     Kind = "extension"     // the extensions of its manifest
	Configuration Kind = "configuration" // the configuration files of a working directory
)

// version of the record format. Records with any other version are refused.
const version = 1

// maxRecord limits the size of a record, in bytes.
const maxRecord = 32 << 20

// Store keeps a user's records, one file per folder.
type Store struct{ dir string }

// NewStore returns the store in dir, which must belong to the user alone. The first record creates the directory.
func NewStore(dir string) Store { return Store{dir} }

func (s Store) path(dir string, kind Kind) string {
	sum := sha256.Sum256([]byte(string(kind) + "\n" + dir))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// Of returns the record of a folder, or an empty one.
func (s Store) Of(dir string, kind Kind) (*Record, error) {
	path := s.path(dir, kind)
	r, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Record{Version: version, Dir: dir, Kind: kind}, nil
	case err == nil && (r.Dir != dir || r.Kind != kind):
		err = fmt.Errorf("%s is the record of %s; remove it", path, r.Dir)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func read(path string) (*Record, error) {
	data, info, err := file.ReadRegular(path, maxRecord+1, false)
	if err != nil {
		return nil, err
	}
	if err := ownership.Own(path, info); err != nil {
		return nil, err
	}
	if len(data) > maxRecord {
		return nil, fmt.Errorf("%s is over %d MiB; remove it", path, maxRecord>>20)
	}
	r := new(Record)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s is no record of trust: %w; remove it", path, err)
	}
	if r.Version != version {
		return nil, fmt.Errorf("%s has version %d, and this program knows %d; remove it", path, r.Version, version)
	}
	r.stored = file.UnsettledVersionOf(info)
	return r, nil
}

// Change calls change with the record of a folder, and stores what it makes of it. No other program changes the record
// meanwhile, so that nothing of what they store is lost; change must not wait for anybody. After an error of change the
// record is as before.
func (s Store) Change(dir string, kind Kind, change func(*Record) error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := s.Of(dir, kind)
	if err == nil {
		err = change(r)
	}
	if err != nil {
		return err
	}
	return s.put(r)
}

// lock keeps other programs from changing records until unlock. It waits a few seconds for them.
func (s Store) lock() (unlock func(), err error) {
	unlock, err = file.LockDir(s.dir)
	if _, refused := errors.AsType[*fs.PathError](err); err == nil || refused {
		return unlock, err
	}
	return nil, fmt.Errorf("%s is being changed by another program; the same command again: %w", s.dir, err)
}

// put stores a record, and removes one that says nothing. The store must be locked.
func (s Store) put(r *Record) error {
	if r.Trusted == nil && !r.Revoked && len(r.Secrets) == 0 {
		return ignoreMissing(os.Remove(s.path(r.Dir, r.Kind)))
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return file.WritePrivate(s.path(r.Dir, r.Kind), append(data, '\n'))
}

// Modified returns when a record was last stored or removed; the zero time if there is none.
func (s Store) Modified() time.Time {
	if info, err := os.Stat(s.dir); err == nil {
		return info.ModTime()
	}
	return time.Time{}
}

// Writable returns an error if records could not be stored.
func (s Store) Writable() error { return file.Writable(filepath.Join(s.dir, "any.json")) }

// Forget removes the record of a folder.
func (s Store) Forget(dir string, kind Kind) error {
	unlock, err := s.lock()
	if err != nil {
		return ignoreMissing(err) // there is no record at all
	}
	defer unlock()
	return ignoreMissing(os.Remove(s.path(dir, kind)))
}

// All returns all readable records, sorted by folder, and the errors of the others.
func (s Store) All() (records []*Record, err error) {
	entries, err := os.ReadDir(s.dir)
	if err = ignoreMissing(err); err != nil {
		return nil, err
	}
	var broken []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		r, err := read(filepath.Join(s.dir, e.Name()))
		if err != nil {
			broken = append(broken, err)
			continue
		}
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b *Record) int {
		return strings.Compare(a.Dir+string(a.Kind), b.Dir+string(b.Kind))
	})
	return records, errors.Join(broken...)
}

// sameTrust reports whether two records of a folder say the same about what is trusted.
func (r *Record) sameTrust(other *Record) bool {
	if (r.Trusted == nil) != (other.Trusted == nil) || r.Trusted != nil && !r.Trusted.Equal(*other.Trusted) {
		return false
	}
	return r.Revoked == other.Revoked && r.Project == other.Project && len(r.Files.Differs(other.Files)) == 0
}

// Trust records that files are trusted from now on.
func (r *Record) Trust(files Files) {
	now := time.Now().UTC().Truncate(time.Second)
	r.Trusted, r.Files, r.Revoked = &now, files, false
}

// Revoke revokes trust and all granted secrets.
func (r *Record) Revoke() { *r = Record{Version: version, Dir: r.Dir, Kind: r.Kind, Revoked: true} }

// Grant adds secrets to those granted to an extension.
func (r *Record) Grant(id string, names ...string) {
	if len(names) == 0 {
		return
	}
	if r.Secrets == nil {
		r.Secrets = map[string][]string{}
	}
	all := slices.Sorted(slices.Values(slices.Concat(r.Secrets[id], names)))
	r.Secrets[id] = slices.Compact(all)
}

// Withdraw revokes secrets granted to an extension; without names, all of them. It reports whether it revoked any.
func (r *Record) Withdraw(id string, names ...string) bool {
	had := r.Secrets[id]
	kept := slices.DeleteFunc(slices.Clone(had),
		func(n string) bool { return len(names) == 0 || slices.Contains(names, n) })
	if r.Secrets = maps.Clone(r.Secrets); len(kept) > 0 {
		r.Secrets[id] = kept
	} else {
		delete(r.Secrets, id)
	}
	return len(kept) < len(had)
}
