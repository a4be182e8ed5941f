package exthost

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/runtime"
)

// bigFile is the size from which a file is known by its size and time instead of
// by what is in it: that is a compiled program, which is not written for nothing.
const bigFile = 4 << 20

// source is what an extension is made of: a digest of its manifest, of what the
// configuration adds, and of the files that its command names.
type source [sha256.Size]byte

// sourceOf reads what s would run now.
func sourceOf(s *runtime.Spec) source {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	// What does not encode, which nothing here does, would make two sources differ.
	if err := enc.Encode([]any{s.ID, s.Dir, s.Manifest, s.Options, s.Config, slices.Sorted(slices.Values(s.Env))}); err != nil {
		fmt.Fprint(sum, err)
	}
	t := s.Manifest.Transport
	for _, word := range slices.Concat([]string{t.Command, t.Script}, t.Cmd, t.Args) {
		if word != "" && !filepath.IsAbs(word) {
			word = filepath.Join(s.Dir, word)
		}
		addFile(sum, word)
	}
	return source(sum.Sum(nil))
}

// addFile adds the file that is called word, if one is.
func addFile(sum io.Writer, word string) {
	info, err := os.Stat(word)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	fmt.Fprintln(sum, word, info.Mode(), info.Size())
	if info.Size() >= bigFile {
		fmt.Fprintln(sum, info.ModTime().UnixNano())
		return
	}
	f, err := os.Open(word)
	if err != nil {
		fmt.Fprintln(sum, err)
		return
	}
	defer f.Close()
	_, _ = io.Copy(sum, f) // what cannot be read cannot be run either, and says so
}
