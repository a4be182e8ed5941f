package skills

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// errNoSkill is the error of a folder without SKILL.md, which is no skill.
var errNoSkill = errors.New("no skill")

// subfolders returns the names of the folders below skills, sorted.
func subfolders(root *os.Root) (names []string, err error) {
	switch info, err := root.Stat(Folder); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s is not read: %w", Folder, err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is no directory", Folder)
	}
	entries, err := readDir(root, Folder, maxSkills)
	if err != nil {
		return nil, fmt.Errorf("%s is not read: %w", Folder, err)
	}
	for _, e := range entries {
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// readDir returns the entries of a directory. It fails if there are more than most.
func readDir(root *os.Root, dir string, most int) ([]fs.DirEntry, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	entries, err := f.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > most {
		return nil, fmt.Errorf("it has more than %d entries", most)
	}
	return entries, nil
}

// reader reads the skills of one extension.
type reader struct {
	root   *os.Root
	before *Set     // read earlier; nil: none
	left   left     // what it may still read
	dirs   []string // see Set.Dirs
}

// left is what may still be read of the skills of one extension, valid or not. It is negative when more was read.
type left struct {
	files   int
	bytes   int64
	entries int // files and directories
	front   int // bytes of frontmatter, as it is written or as JSON
}

// enter records that a directory is read.
func (r *reader) enter(dir string) {
	if len(r.dirs) < maxDirs {
		r.dirs = append(r.dirs, filepath.Join(r.root.Name(), filepath.FromSlash(dir)))
	}
}

// skill reads the skill in a subfolder of skills. lost are the files that are left out.
func (r *reader) skill(name string) (k *Skill, lost []string, err error) {
	dir := path.Join(Folder, name)
	switch info, err := r.root.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, errNoSkill
	case err != nil:
		return nil, nil, wrong(sectionContains, "%s/%s does not lead to a folder below that of the extension: %v",
			Folder, name, reason(err))
	case !info.IsDir():
		return nil, nil, errNoSkill
	}
	r.enter(dir)
	main := path.Join(dir, MainFile)
	if _, err := r.root.Lstat(main); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errNoSkill
	}
	if err := r.spent(); err != nil {
		return nil, nil, err
	}
	entries, err := readDir(r.root, dir, maxEntries)
	if err != nil {
		return nil, nil, wrong(sectionLimits, "%s: %v", name, reason(err))
	}
	r.left.entries -= len(entries)
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == MainFile }) {
		return nil, nil, errNoSkill // on a system where case does not matter
	}
	k, text, err := r.main(name, main)
	if err != nil {
		return nil, nil, err
	}
	w := walk{reader: r, dir: dir, entries: maxEntries, before: r.before.Find(name)}
	w.add = w.file
	err = w.below("", entries, 0)
	r.left.files, r.left.bytes = r.left.files-len(w.found), r.left.bytes-w.bytes // also of a skill that is invalid
	if err == nil {
		err = r.spent()
	}
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(w.found, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	if i, found := slices.BinarySearchFunc(w.found, MainFile, func(f File, path string) int {
		return cmp.Compare(f.Path, path)
	}); !found || w.found[i].Digest != Digest(text) {
		return nil, nil, wrong(sectionFormat, "%s changed while it was read", MainFile)
	}
	k.Files = w.found
	return k, w.lost, nil
}

// main reads the SKILL.md of a skill, whose path is file.
func (r *reader) main(name, file string) (k *Skill, text []byte, err error) {
	switch info, err := r.root.Stat(file); {
	case err != nil:
		return nil, nil, wrong(sectionContains, "%s does not lead to a file below the folder of the extension: %v",
			MainFile, reason(err))
	case !info.Mode().IsRegular():
		return nil, nil, errNoSkill
	case info.Size() > maxMain:
		return nil, nil, wrong(sectionLimits, "%s: %v", MainFile, tooLarge(maxMain))
	}
	text, err = readFile(r.root, file, maxMain)
	if err != nil {
		return nil, nil, wrong(sectionLimits, "%s: %v", MainFile, err)
	}
	block, err := frontmatterOf(text)
	if r.left.front -= len(block); r.left.front < 0 {
		return nil, nil, r.spent()
	}
	if err == nil {
		k, err = parse(name, text)
	}
	if err != nil {
		r.left.bytes -= int64(len(text))
		return nil, nil, err
	}
	r.left.front -= max(len(k.Frontmatter)-len(block), 0)
	return k, text, r.spent()
}

// spent returns the error of a skill if too much was read for it to be served, nil if not.
func (r *reader) spent() error {
	const together = "the skills of the extension together have more than "
	switch {
	case r.left.files < 0:
		return wrong(sectionLimits, together+"%d files", maxAllFiles)
	case r.left.bytes < 0:
		return wrong(sectionLimits, together+"%d MiB", maxAllBytes>>20)
	case r.left.entries < 0:
		return wrong(sectionLimits, together+"%d files and directories", maxAllEntries)
	case r.left.front < 0:
		return wrong(sectionLimits, together+"%d MiB of frontmatter", maxAllFrontmatter>>20)
	}
	return nil
}

// reason returns an error of the file system without the operation and the path.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// walk collects the files of one skill.
type walk struct {
	*reader
	dir    string // of the skill, below the root
	before *Skill // read earlier; nil: none
	// add adds a file, by its path within the skill and below the root
	add     func(name, full string, info fs.FileInfo) error
	found   []File
	lost    []string
	bytes   int64
	entries int // that may still be seen
}

// Paths returns the absolute paths of the files of all skills below root, valid or not, but for skills that exceed a
// limit and so are never served. It reads none of them.
func Paths(root string) (paths []string) {
	in, err := os.OpenRoot(root)
	if err != nil {
		return nil
	}
	defer in.Close() // read only
	names, _ := subfolders(in)
	for _, name := range names {
		dir := path.Join(Folder, name)
		entries, err := readDir(in, dir, maxEntries)
		if err != nil || !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == MainFile }) {
			continue
		}
		var found []string
		w := walk{reader: &reader{root: in}, dir: dir, entries: maxEntries}
		w.add = func(name, full string, info fs.FileInfo) error {
			found = append(found, filepath.Join(root, filepath.FromSlash(full)))
			w.bytes += info.Size()
			if len(found) > maxFiles || w.bytes > maxBytes || name == MainFile && info.Size() > maxMain {
				return errNoSkill
			}
			return nil
		}
		if w.below("", entries, 0) == nil {
			paths = append(paths, found...)
		}
	}
	return paths
}

// ofTools are names that programs write beside the files of an author. They are no part of a skill.
var ofTools = []string{".git", "__pycache__", ".DS_Store"}

// below adds the files of a directory of the skill. at is its path within the skill.
func (w *walk) below(at string, entries []fs.DirEntry, depth int) error {
	if w.entries -= len(entries); w.entries < 0 {
		return wrong(sectionLimits, "more than %d files and directories", maxEntries)
	}
	for _, e := range entries {
		if slices.Contains(ofTools, e.Name()) {
			continue
		}
		name := path.Join(at, e.Name())
		if why := unservable(e.Name()); why != "" {
			return wrong(sectionMapping, "%q: the name of a file %s", display.Cut(name, maxFileName), why)
		}
		if len(name) > maxPath {
			return wrong(sectionLimits, "%s: a path of more than %d bytes", display.Cut(name, maxFileName), maxPath)
		}
		full := path.Join(w.dir, name)
		info, err := w.root.Stat(full)
		switch {
		case err != nil:
			w.lost = append(w.lost, name)
		case info.IsDir() && depth == maxDepth:
			return wrong(sectionLimits, "%s: directories are nested more than %d deep", name, maxDepth)
		case info.IsDir():
			w.enter(full)
			inner, err := readDir(w.root, full, w.entries)
			if err != nil {
				return wrong(sectionLimits, "%s: %v", name, reason(err))
			}
			w.left.entries -= len(inner)
			if err := w.below(name, inner, depth+1); err != nil {
				return err
			}
		case !info.Mode().IsRegular():
			w.lost = append(w.lost, name)
		default:
			if err := w.add(name, full, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// unservable returns why a name cannot be part of a URI that every client reads in the same way; "" if it can.
func unservable(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case len(name) > maxFileName:
		return fmt.Sprintf("has more than %d bytes", maxFileName)
	case strings.ContainsRune(name, '\\'):
		return "has a backslash"
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || display.Invisible(r) }):
		return "has characters that a reader does not see"
	}
	return ""
}

// file adds one file.
func (w *walk) file(name, full string, info fs.FileInfo) error {
	if len(w.found) == maxFiles {
		return wrong(sectionLimits, "more than %d files", maxFiles)
	}
	now := file.VersionOf(info)
	if was := w.before.File(name); was != nil && was.version.Is(now) && w.bytes+was.Size <= maxBytes {
		w.bytes += was.Size
		w.found = append(w.found, *was)
		return nil
	}
	var data []byte
	room := maxBytes - w.bytes
	err := error(tooLarge(room))
	if info.Size() <= room {
		data, err = readFile(w.root, full, room)
	}
	if err != nil {
		if errors.As(err, new(tooLarge)) {
			return wrong(sectionLimits, "more than %d MiB together, with %s", maxBytes>>20, name)
		}
		return wrong(sectionLayout, "%s cannot be read: %v", name, reason(err))
	}
	w.bytes += int64(len(data))
	f := File{
		Path:       name,
		Digest:     Digest(data),
		Size:       int64(len(data)),
		Text:       isText(data),
		Executable: info.Mode()&0o111 != 0,
		version:    now,
	}
	f.MIME = typeOf(name, data, f.Text)
	if f.Text {
		f.Hidden = hidden(data)
	}
	w.found = append(w.found, f)
	return nil
}

// tooLarge is the error of a file that has more bytes than may be read.
type tooLarge int64

func (e tooLarge) Error() string { return fmt.Sprintf("more than %d bytes", int64(e)) }

// readFile returns the content of a regular file below root, of at most limit bytes.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	data, _, err := file.ReadRegularIn(root, name, limit+1)
	if err == nil && int64(len(data)) > limit {
		err = tooLarge(limit)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Digest returns the digest of a file with this content, as [File.Digest] has it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func isText(data []byte) bool {
	return utf8.Valid(data) && !slices.Contains(data, 0)
}

// types are the media types of files that skills usually have. The tables of a system differ between machines.
var types = map[string]string{
	".md": "text/markdown", ".txt": "text/plain", ".json": "application/json", ".yaml": "application/yaml",
	".yml": "application/yaml", ".toml": "application/toml", ".csv": "text/csv", ".html": "text/html",
	".css": "text/css", ".xml": "application/xml", ".svg": "image/svg+xml", ".py": "text/x-python",
	".js": "text/javascript", ".mjs": "text/javascript", ".ts": "text/x-typescript", ".sh": "text/x-shellscript",
}

// typeOf returns the media type of a file.
func typeOf(name string, data []byte, text bool) string {
	if of, ok := types[strings.ToLower(path.Ext(name))]; ok && text {
		return of
	}
	if text {
		return "text/plain"
	}
	of, _, err := mime.ParseMediaType(http.DetectContentType(data))
	if err != nil || strings.HasPrefix(of, "text/") {
		return "application/octet-stream"
	}
	return of
}

// maxHidden bounds [File.Hidden], in characters.
const maxHidden = 400

// hidden returns the characters of a text that a model reads and a reader does not see, as [File.Hidden] has them.
func hidden(data []byte) string {
	found := display.FindHidden(rawjson.AppendText(nil, data))
	if len(found) == 0 {
		return ""
	}
	if !found[0].Tag() {
		return " " + string(found[0].Rune) // after a blank it has no purpose, wherever it stood
	}
	var spelled []rune
	for _, r := range string(data) {
		if display.IsTag(r) && len(spelled) < maxHidden {
			spelled = append(spelled, r)
		}
	}
	return " " + string(spelled)
}
