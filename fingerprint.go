package exthost

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// fingerprint is a hash of what decides which tools an extension offers: its
// manifest and configuration, the variables that either names, the version of the
// host, and the files that its command line names, by content when they are part of
// the extension and else by place, size and time. What those files load is not
// looked at: that shows when the extension starts.
func fingerprint(s *runtime.Spec, entry config.Entry) (string, error) {
	manifest, err := json.Marshal(s.Manifest)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	part := func(what string, value []byte) { fmt.Fprintf(h, "%s %d\n%s\n", what, len(value), value) }
	part("host", []byte(fmt.Sprint(s.HostVersion, " ", protocol.Version)))
	part("manifest", manifest)
	part("config", s.Config)
	lookup := process.Lookup(s.Env)
	names := slices.AppendSeq(slices.Clone(s.Manifest.Requires.Env), maps.Keys(entry.Env))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		value, _ := lookup(name)
		part("env "+name, []byte(value))
	}
	for _, file := range namedFiles(s) {
		sum, err := identify(file, s.Dir)
		if err != nil {
			return "", err
		}
		part("file "+file, []byte(sum))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// namedFiles are the regular files that the words of the command line name.
func namedFiles(s *runtime.Spec) (files []string) {
	words := commandLine(s.Manifest.Transport)
	path, _ := process.Lookup(s.Env)("PATH")
	cwd := s.Manifest.Transport.Cwd
	if !filepath.IsAbs(cwd) {
		cwd = filepath.Join(s.Dir, cwd)
	}
	for i, word := range words {
		file := word
		switch {
		case i == 0 && word == "exthost" && s.Self != "":
			file = s.Self
		case i == 0 && s.Manifest.Transport.Script != "":
			file = filepath.Join(s.Dir, word)
		case i == 0:
			if file, _ = process.Resolve(word, s.Dir, path); file == "" {
				continue // its start says what is wrong
			}
		case !filepath.IsAbs(word):
			file = filepath.Join(cwd, word)
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files
}

// maxHashed is how large a file may be to be told by its content. A larger one is
// a compiled program, which hardly anybody writes for nothing.
const maxHashed = 4 << 20

// identify returns what tells the file from another version of it.
func identify(file, dir string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(dir, file); err != nil || !filepath.IsLocal(rel) || info.Size() > maxHashed {
		return fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano()), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return string(h.Sum(nil)), err
}
