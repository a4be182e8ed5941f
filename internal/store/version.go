package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/atomicfile"
	"github.com/exthost/exthost/internal/ownership"
	"github.com/exthost/exthost/internal/regular"
)

// version is one version of a file: its SHA-256, and what the file system says of it.
type version struct {
	Sum string `json:"sha256"`
	regular.Version
}

func (v *version) read(path string) error {
	f, _, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	switch n, err := io.Copy(h, io.LimitReader(f, v.Size+1)); {
	case err != nil:
		return err
	case n != v.Size:
		return fmt.Errorf("%s changed while it was read", path)
	}
	v.Sum = hex.EncodeToString(h.Sum(nil))
	return nil
}

// hash1 is dirhash.Hash1 of files whose SHA-256 is known already, by their names.
func hash1(sums map[string]string) (string, error) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if strings.Contains(name, "\n") {
			return "", fmt.Errorf("%q is no name of a file", name)
		}
		fmt.Fprintf(h, "%s  %s\n", sums[name], name)
	}
	return "h1:" + base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

// notesEnding is that of the notes beside a tree.
const notesEnding = ".notes"

const maxNotes = 32 << 20 // bytes

// notes say of a tree what its files were when all of them were read, so that those that the file
// system says are the same are not read again.
type notes struct {
	stamp string // of all versions, and the hash of the tree: what nothing has touched needs no other look
	files []byte // JSON
}

// notes reads those about a tree. Without any that can be used, every file is read.
func (s Store) notes(path string) notes {
	data, info, err := regular.Read(path+notesEnding, maxNotes, false)
	if err != nil || ownership.Own(path, info) != nil {
		return notes{}
	}
	stamp, files, _ := bytes.Cut(data, []byte("\n"))
	return notes{string(stamp), files}
}

// versions are those of the files; nil when there are none.
func (n notes) versions() (noted files) {
	if json.Unmarshal(n.files, &noted) != nil {
		return nil
	}
	return noted
}

// note writes the notes about a tree that is as it should be. Without them, the next Verify
// reads every file again.
func (s Store) note(path, stamp string, now files) {
	if data, err := json.Marshal(now); err == nil {
		_ = atomicfile.WritePrivate(path+notesEnding, slices.Concat([]byte(stamp+"\n"), data))
	}
}

// stamp is one hash of what the file system says of all files, and of the hash of the tree; ""
// where it does not tell of every change.
func (f files) stamp(hash string) string {
	h := sha256.New()
	var line []byte
	for _, name := range slices.Sorted(maps.Keys(f)) {
		v := f[name]
		if v.Change == 0 {
			return ""
		}
		line = append(strconv.AppendQuote(line[:0], name), ' ')
		for _, n := range []int64{v.Size, int64(v.Inode), v.Mtime, v.Change} {
			line = append(strconv.AppendInt(line, n, 10), ' ')
		}
		h.Write(append(line, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)) + " " + hash
}
