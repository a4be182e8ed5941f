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
	"strings"

	"github.com/exthost/exthost/internal/file/atomicfile"
	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/file/regular"
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

// notes say of a tree what its files were when all of them were read: a line each for the stamp, for
// the names of what lies beside them, and for the files. Those that the file system says are the same
// are not read again.
type notes struct {
	stamp  string   // of all versions, and the hash of the tree: what nothing has touched needs no other look
	beside []string // files that are not of the tree
	files  []byte   // JSON
}

// notes reads those about a tree. Without any that can be used, every file is read.
func (s Store) notes(path string) (n notes) {
	data, info, err := regular.Read(path+notesEnding, maxNotes, false)
	if err != nil || ownership.Own(path, info) != nil {
		return notes{}
	}
	lines := bytes.SplitN(data, []byte("\n"), 3)
	if len(lines) < 3 || json.Unmarshal(lines[1], &n.beside) != nil {
		return notes{files: lines[len(lines)-1]} // of an older program
	}
	n.stamp, n.files = string(lines[0]), lines[2]
	return n
}

// tree are the files of the tree of that hash. The hash proves them; nil: they are not known.
func (n notes) tree(hash string) (tree files) {
	if json.Unmarshal(n.files, &tree) != nil {
		return nil
	}
	if got, err := tree.hash(); err != nil || got != hash {
		return nil
	}
	return tree
}

// note writes the notes about a tree that is as it should be. Without them, the next Verify
// reads every file again, and takes none for one that is not of the tree.
func (s Store) note(path string, n notes, tree files) {
	beside, err := json.Marshal(n.beside)
	if err != nil { // of texts
		return
	}
	if files, err := json.Marshal(tree); err == nil {
		_ = atomicfile.WritePrivate(path+notesEnding,
			bytes.Join([][]byte{[]byte(n.stamp), beside, files}, []byte("\n")))
	}
}
