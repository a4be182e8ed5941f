package store

import (
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

	"github.com/exthost/exthost/internal/atomicfile"
	"github.com/exthost/exthost/internal/ownership"
	"github.com/exthost/exthost/internal/regular"
)

// version is one version of a file: its SHA-256, and what the file system says of it.
type version struct {
	Sum    string `json:"sha256"`
	Size   int64  `json:"size,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Mtime  int64  `json:"mtime_ns,omitempty"`
	Change int64  `json:"ctime_ns,omitempty"` // 0: the system does not tell it
}

func (v version) same(w version) bool {
	return v.Size == w.Size && v.Inode == w.Inode && v.Mtime == w.Mtime && v.Change == w.Change
}

func (v *version) read(path string) error {
	f, _, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxTree+1)); err != nil {
		return err
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

// indexEnding is that of the notes beside a tree.
const indexEnding = ".json"

const maxIndex = 32 << 20 // bytes

// index reads the notes about a tree. Without any that can be used, every file is read.
func (s Store) index(path string) files {
	data, info, err := regular.Read(path+indexEnding, maxIndex, false)
	if err != nil || ownership.Own(path, info) != nil {
		return nil
	}
	var noted files
	if json.Unmarshal(data, &noted) != nil {
		return nil
	}
	return noted
}

// note writes the notes about a tree that is as it should be. Without them, the next Verify
// reads every file again.
func (s Store) note(path string, now, noted files) {
	if maps.Equal(now, noted) {
		return
	}
	if data, err := json.Marshal(now); err == nil {
		_ = atomicfile.WritePrivate(path+indexEnding, data)
	}
}
