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

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/file/ownership"
)

// version is a file's SHA-256 and its state in the file system.
type version struct {
	Sum string `json:"sha256"`
	file.Version
}

func (v *version) read(path string) error {
	f, _, err := file.OpenRegular(path, os.O_RDONLY, 0)
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

// hash1 computes dirhash.Hash1 from SHA-256 sums by file name.
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

// notesEnding ends the file with the notes about a tree.
const notesEnding = ".notes"

const maxNotes = 32 << 20 // bytes

// notes record the state of a tree when its files were last read, so that unchanged files need not be read again.
// The file has three parts on lines of their own: stamp, beside and files.
type notes struct {
	stamp  string   // hash over the state of all files and the tree's hash; if it matches, nothing was touched
	beside []string // paths beside the tree
	files  []byte   // JSON
}

// notes reads the notes about a tree. Unusable notes are ignored, and then every file is read.
func (s Store) notes(path string) (n notes) {
	data, info, err := file.ReadRegular(path+notesEnding, maxNotes, false)
	if err != nil || ownership.Own(path, info) != nil {
		return notes{}
	}
	lines := bytes.SplitN(data, []byte("\n"), 3)
	if len(lines) < 3 || json.Unmarshal(lines[1], &n.beside) != nil {
		return notes{files: lines[len(lines)-1]} // written by an older program
	}
	n.stamp, n.files = string(lines[0]), lines[2]
	return n
}

// tree returns the files of the tree with this hash, or nil if the notes do not match it.
func (n notes) tree(hash string) (tree files) {
	if json.Unmarshal(n.files, &tree) != nil {
		return nil
	}
	if got, err := tree.hash(); err != nil || got != hash {
		return nil
	}
	return tree
}

// note writes the notes about a verified tree. If that fails, the next Verify reads every file, and treats every
// file as part of the tree.
func (s Store) note(path string, n notes, tree files) {
	beside, err := json.Marshal(n.beside)
	if err != nil { // cannot happen: strings always encode
		return
	}
	if files, err := json.Marshal(tree); err == nil {
		_ = file.WritePrivate(path+notesEnding,
			bytes.Join([][]byte{[]byte(n.stamp), beside, files}, []byte("\n")))
	}
}
