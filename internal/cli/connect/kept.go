package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/file"
)

// kept is the record of a server in a settings file, for --undo. The record and the backup of the file are in the state
// directory: a backup next to the file could end up in a repository.
type kept struct {
	File    string `json:"file"`
	Name    string `json:"name"`
	After   string `json:"after"`              // hash of the file with the server
	Exact   bool   `json:"exact"`              // the backup is the file as it was before the server was added
	Created bool   `json:"created,omitempty"`  // the file did not exist before
	Dir     string `json:"dir,omitempty"`      // directory created for the file; "": it existed
	NoTable bool   `json:"no_table,omitempty"` // the file had no table of servers before

	place string // the directory of the record
}

const (
	recordName = "record.json"
	backupName = "backup"
)

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// recall reads the record of the server in a file; it is empty if there is none.
func recall(file, name string) (*kept, error) {
	state, err := exthost.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	k := &kept{
		File:  file,
		Name:  name,
		place: filepath.Join(filepath.Dir(state), "connected", hash([]byte(file + "\x00" + name))[:16]),
	}
	data, err := os.ReadFile(filepath.Join(k.place, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(data, k) != nil || k.File != file || k.Name != name {
		// An unreadable record counts as none: --undo finds the server without it.
		return &kept{File: file, Name: name, place: k.place}, nil
	}
	return k, nil
}

// before returns the file as it was before the server was added. It returns false if data, the file now, has changed
// since.
func (k *kept) before(data []byte) ([]byte, bool) {
	if !k.Exact || hash(data) != k.After {
		return nil, false
	}
	before, err := os.ReadFile(k.backup())
	return before, err == nil
}

func (k *kept) backup() string { return filepath.Join(k.place, backupName) }

// keep writes the record and the backup, for a server that is about to be added or changed.
func (k *kept) keep(s *settings, after []byte, added bool) error {
	backup := true
	switch {
	case added:
		table, err := s.client.HasTable(s.data)
		if err != nil {
			return err
		}
		k.Exact, k.Created, k.NoTable = true, !s.exists, !table
	case k.Exact && k.After == hash(s.data):
		backup = false // the backup of the file without the server stays
	default:
		k.Exact = false // something else changed the file meanwhile
	}
	k.After = hash(after)
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(k.place, 0o700); err != nil {
		return err
	}
	if backup {
		if err := file.WritePrivate(k.backup(), s.data); err != nil {
			return err
		}
	}
	return file.WritePrivate(filepath.Join(k.place, recordName), append(data, '\n'))
}

// forget removes the record and replaces the backup by the current file, which still has the server.
func (k *kept) forget(s *settings) error {
	if err := os.MkdirAll(k.place, 0o700); err != nil {
		return err
	}
	err := file.WritePrivate(k.backup(), s.data)
	if gone := os.Remove(filepath.Join(k.place, recordName)); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
