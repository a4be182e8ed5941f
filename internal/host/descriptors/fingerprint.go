package descriptors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Fingerprint returns a hash of everything that determines the tools of an extension: its manifest and configuration,
// the values of the variables in requires.env and env, the version of the host, and the files that its command line
// names. Files that these load in turn do not count: a change of the tools through them shows when the extension
// starts. The error is that of reading a file.
func Fingerprint(s *runtime.Spec, env ...string) (string, error) {
	manifest, err := json.Marshal(s.Manifest)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	part := func(name string, value []byte) { fmt.Fprintf(h, "%s %d\n%s\n", name, len(value), value) }
	part("host", []byte(fmt.Sprint(s.HostVersion, " ", protocol.Version)))
	part("manifest", manifest)
	part("config", s.Config)
	if len(s.Manifest.ToolTexts) > 0 {
		texts, err := json.Marshal(s.Manifest.ToolTexts)
		if err != nil {
			return "", err
		}
		part("texts", texts)
	}
	lookup := process.Lookup(s.Env)
	names := slices.Concat(s.Manifest.Requires.Env, env)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		value, _ := lookup(name)
		part("env "+name, []byte(value))
	}
	for _, file := range commandFiles(s) {
		version, err := fileVersion(file, s.Dir)
		if err != nil {
			return "", err
		}
		part("file "+file, []byte(version))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// OwnFiles returns the paths that the command line names, except a program found on PATH. A path need not exist:
// an editor may be replacing the file.
func OwnFiles(s *runtime.Spec) []string {
	return commandPaths(s, func(program string) bool {
		return s.Manifest.Transport.Script != "" || filepath.Base(program) != program
	})
}

// anyProgram selects every program.
func anyProgram(string) bool { return true }

// commandFiles returns the regular files among the words of the command line.
func commandFiles(s *runtime.Spec) []string {
	return slices.DeleteFunc(commandPaths(s, anyProgram), func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	})
}

// commandPaths returns each word of the command line as a path, whether or not there is a file. It omits a
// program that is not found, which the start reports, and one for which program is false.
func commandPaths(s *runtime.Spec, program func(word string) bool) (paths []string) {
	path, _ := process.Lookup(s.Env)("PATH")
	for i, word := range s.Manifest.Transport.CommandLine() {
		file := word
		switch {
		case i == 0 && !program(word):
			continue
		case i == 0 && word == "exthost" && s.Self != "":
			file = s.Self
		case i == 0 && s.Manifest.Transport.Script != "":
			file = filepath.Join(s.Dir, word)
		case i == 0:
			if file, _ = process.Resolve(word, s.Dir, path); file == "" {
				continue
			}
		case !filepath.IsAbs(word):
			file = filepath.Join(s.WorkDir(), word)
		}
		paths = append(paths, file)
	}
	return paths
}

// maxHashed is the size in bytes up to which a file is hashed. A larger file is likely a compiled program, which
// takes long to hash and is rarely rebuilt without changes.
const maxHashed = 4 << 20

// fileVersion returns a text that differs between versions of a file: for a small file below dir, the hash of its
// content and whether it is executable; else its size and time.
func fileVersion(file, dir string) (string, error) {
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
	return fmt.Sprintf("%x %v", h.Sum(nil), info.Mode()&0o111 != 0), err
}
