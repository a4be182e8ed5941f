package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/file/ownership"
)

// pending is what is noted about an exchange until it has ended. If its program is killed, the folder has files of both
// trees, and perhaps one that is not complete.
type pending struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// pendingEnding ends the file with the note about an exchange that has not ended.
const pendingEnding = ".exchange"

// maxPending is the largest such note, in bytes.
const maxPending = 4096

// begin notes that an exchange of dir begins. Files of an earlier one that was killed stay known as ours.
func (s Store) begin(dir string, p pending) error {
	if before, ok := s.killed(dir); ok && p.From == "" {
		p.From = before.To // the exchange before has written these
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return file.WritePrivate(s.notesOfCopy(dir)+pendingEnding, data)
}

// end notes that the exchange of dir has ended.
func (s Store) end(dir string) error {
	return ignoreMissing(os.Remove(s.notesOfCopy(dir) + pendingEnding))
}

// killed returns the exchange of dir that has begun and not ended. Unless the store is locked, it may be under way.
func (s Store) killed(dir string) (p pending, ok bool) {
	path := s.notesOfCopy(dir) + pendingEnding
	data, info, err := file.ReadRegular(path, maxPending, false)
	if err != nil || ownership.Own(path, info) != nil || json.Unmarshal(data, &p) != nil {
		return pending{}, false
	}
	return p, true
}

// takeOver adds the trees of an exchange that was killed to those whose files are ours, and has the file that it was
// writing removed. That is one that ends in newEnding and holds the beginning of a file of the tree, and so nothing of
// anybody else.
func (s Store) takeOver(x *exchange) error {
	p, ok := s.killed(x.dir)
	if !ok {
		return nil
	}
	for _, hash := range []string{p.From, p.To} {
		if hash == "" {
			continue
		}
		tree := s.noted(hash)
		if tree == nil {
			tree = s.notes(s.notesOfCopy(x.dir)).tree(hash)
		}
		x.ours = append(x.ours, tree)
	}
	source, err := s.Path(p.To)
	if err != nil {
		return nil // it removed a copy, and wrote nothing
	}
	of := s.noted(p.To)
	for name, e := range x.found {
		whole, unfinished := strings.CutSuffix(name, newEnding)
		if _, known := of[whole]; !unfinished || !known || !e.info.Mode().IsRegular() {
			continue
		}
		ours, err := begins(filepath.Join(x.dir, filepath.FromSlash(name)),
			filepath.Join(source, filepath.FromSlash(whole)), e.Size)
		if err != nil {
			return err
		}
		if ours {
			x.remove = append(x.remove, name)
			delete(x.found, name)
		}
	}
	return nil
}

// begins reports whether the file part, of size bytes, is the beginning of the file whole.
func begins(part, whole string, size int64) (bool, error) {
	var sums [2][sha256.Size]byte
	for i, path := range []string{part, whole} {
		f, info, err := file.OpenRegular(path, os.O_RDONLY, 0)
		if err != nil {
			return false, ignoreMissing(err)
		}
		h := sha256.New()
		_, err = io.CopyN(h, f, size)
		f.Close() // read only
		switch {
		case info.Size() < size || errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		sums[i] = [sha256.Size]byte(h.Sum(nil))
	}
	return sums[0] == sums[1], nil
}

// Withdraw puts dir back into its state before an exchange that was killed, and completes one that was to remove the
// copy. It touches nothing that somebody else wrote, and does nothing if no exchange was killed.
func (s Store) Withdraw(dir string) error {
	if _, err := os.Lstat(s.dir); err != nil {
		return ignoreMissing(err)
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	p, ok := s.killed(dir)
	if !ok {
		return nil
	}
	if p.To == "" {
		p = pending{From: "", To: p.From}
	}
	_, err = s.exchange(dir, p.To, p.From)
	if errors.As(err, new(Missing)) { // which files it wrote is not known any more
		return nil
	}
	return err
}
