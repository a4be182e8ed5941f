package store

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of one tree. Archives that exceed them are refused.
const (
	MaxArchive = 256 << 20 // bytes of an archive
	maxTree    = 1 << 30   // bytes of a tree's files
	MaxFiles   = 50_000    // files and directories in a tree
	maxRatio   = 200       // unpacked bytes per byte of the archive
	smallFiles = 16 << 20  // unpacked bytes up to which maxRatio does not apply
	maxPath    = 512       // bytes of a path
	maxDepth   = 40        // elements of a path
)

// Tree is a tree of files under construction. Its files are read-only, and no path leads out of it.
type Tree struct {
	dir   string
	names map[string]string // path by its folded form, as a case-insensitive file system sees it
	kinds map[string]bool   // whether a path is a directory, by the same key
	bytes int64
}

// Form is an archive format.
type Form string

const (
	Zip   Form = "zip"
	Tar   Form = "tar"
	TarGz Form = "tar.gz"
)

// Unpack adds the files of an archive below the path at, dropping the first strip elements of their names. The
// error names the refused entry.
func (t *Tree) Unpack(form Form, data []byte, at string, strip int) error {
	return t.unpack(form, data, at, strip, nil)
}

// UnpackLinks is Unpack for an archive in which symbolic links may lead to files and directories of the archive. The
// tree gets copies in their place.
func (t *Tree) UnpackLinks(form Form, data []byte, at string, strip int) error {
	return t.unpack(form, data, at, strip, &links{targets: map[string]string{}})
}

func (t *Tree) unpack(form Form, data []byte, at string, strip int, l *links) error {
	if len(data) > MaxArchive {
		return fmt.Errorf("the archive is over %d MiB", MaxArchive>>20)
	}
	before := t.bytes
	budget := max(int64(len(data))*maxRatio, smallFiles)
	u := unpacking{
		t:     t,
		at:    at,
		strip: strip,
		left:  func() int64 { return min(maxTree-t.bytes, budget-(t.bytes-before)) },
		links: l,
	}
	if err := u.entries(form, data, budget); err != nil {
		return err
	}
	return u.follow()
}

// entries adds all entries of the archive, links aside.
func (u unpacking) entries(form Form, data []byte, budget int64) error {
	switch form {
	case Zip:
		return u.zip(data)
	case Tar:
		return u.tar(bytes.NewReader(data))
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("the archive is no gzip: %w", err)
	}
	defer z.Close()
	return u.tar(io.LimitReader(z, budget+int64(MaxFiles)*1024))
}

// Top returns the only directory of the tree's root, "" if there is anything else: the folder that many archives have
// around their files.
func (t *Tree) Top() (string, error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil || len(entries) != 1 || !entries[0].IsDir() || strings.HasPrefix(entries[0].Name(), ".") {
		return "", err
	}
	return entries[0].Name(), nil
}

// Clear removes all files of the tree.
func (t *Tree) Clear() error {
	if err := removeAll(t.dir); err != nil {
		return err
	}
	t.names, t.kinds, t.bytes = map[string]string{}, map[string]bool{}, 0
	return os.Mkdir(t.dir, 0o700)
}

type unpacking struct {
	t     *Tree
	at    string
	strip int
	left  func() int64 // bytes that may still be unpacked

	links *links // symbolic links; nil: none is allowed
}

func (u unpacking) zip(data []byte) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return fmt.Errorf("the archive is no zip: %w", err)
	}
	if len(z.File) > MaxFiles {
		return fmt.Errorf("the archive has over %d entries", MaxFiles)
	}
	for _, f := range z.File {
		mode := f.Mode()
		if mode.Type() == fs.ModeSymlink && u.links != nil {
			if err := u.zipLink(f); err != nil {
				return err
			}
			continue
		}
		if kind := mode.Type(); kind != 0 && !kind.IsDir() {
			return fmt.Errorf("%q is a %s; only files and directories are unpacked", f.Name, kindName(kind))
		}
		if f.Flags&1 != 0 {
			return fmt.Errorf("%q is encrypted", f.Name)
		}
		if strings.HasSuffix(f.Name, "/") || mode.IsDir() {
			if err := u.add(f.Name, true, 0, nil); err != nil {
				return err
			}
			continue
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%q: %w", f.Name, err)
		}
		err = errors.Join(u.add(f.Name, false, mode, r), r.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

func (u unpacking) tar(r io.Reader) error {
	for n, tr := 0, tar.NewReader(r); ; n++ {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the archive cannot be read: %w", err)
		case n > MaxFiles:
			return fmt.Errorf("the archive has over %d entries", MaxFiles)
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader: // git stores the commit here
		case tar.TypeDir:
			err = u.add(h.Name, true, 0, nil)
		case tar.TypeReg:
			err = u.add(h.Name, false, h.FileInfo().Mode(), tr)
		case tar.TypeSymlink:
			if u.links != nil {
				err = u.link(h.Name, h.Linkname)
				break
			}
			err = fmt.Errorf("%q is a symbolic link to %q; only files and directories are unpacked", h.Name, h.Linkname)
		case tar.TypeLink:
			err = fmt.Errorf("%q is a hard link to %q; only files and directories are unpacked", h.Name, h.Linkname)
		default:
			err = fmt.Errorf("%q is a device, a FIFO or something else; only files and directories are unpacked",
				h.Name)
		}
		if err != nil {
			return err
		}
	}
}

// place returns the path of an entry in the tree, "" for a directory that is dropped.
func (u unpacking) place(name string, dir bool) (string, error) {
	rel, err := clean(name)
	if err != nil {
		return "", err
	}
	parts := strings.Split(rel, "/")
	if len(parts) <= u.strip {
		if dir {
			return "", nil
		}
		return "", fmt.Errorf("%q lies outside of the folder of the archive", name)
	}
	if rel = path.Join(append([]string{u.at}, parts[u.strip:]...)...); rel == "." {
		return "", nil
	}
	return rel, nil
}

// add adds one entry of the archive.
func (u unpacking) add(name string, dir bool, mode fs.FileMode, r io.Reader) error {
	rel, err := u.place(name, dir)
	if err != nil || rel == "" {
		return err
	}
	if dir {
		return u.t.mkdir(rel)
	}
	return u.t.add(rel, mode, r, u.left())
}

// clean validates and cleans the path of an entry.
func clean(name string) (string, error) {
	switch {
	case name == "" || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r"):
		return "", fmt.Errorf("%q is no name of a file", name)
	case strings.ContainsAny(name, `\:`):
		return "", fmt.Errorf("%q has a backslash or a colon, which some systems take for a part of the path", name)
	case strings.HasPrefix(name, "/"):
		return "", fmt.Errorf("%q is an absolute path", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%q leads out of the archive", name)
		}
	}
	rel := path.Clean(name)
	if len(rel) > maxPath || strings.Count(rel, "/") >= maxDepth {
		return "", fmt.Errorf("%.80q… is over %d bytes or %d directories deep", name, maxPath, maxDepth)
	}
	if !filepath.IsLocal(filepath.FromSlash(rel)) {
		return "", fmt.Errorf("%q leads out of the archive", name)
	}
	return rel, nil
}

// fold returns the form of a path in which case and Unicode normalization do not matter.
func fold(rel string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(rel))) }

// claim records a path. It refuses two paths that some file systems treat as the same.
func (t *Tree) claim(rel string, dir bool) error {
	key := fold(rel)
	if other, ok := t.names[key]; ok {
		switch {
		case other != rel:
			return fmt.Errorf("%q and %q are one file where case does not count", other, rel)
		case !dir || !t.kinds[key]:
			return fmt.Errorf("%q is there twice", rel)
		}
		return nil
	}
	if len(t.names) >= MaxFiles {
		return fmt.Errorf("it has over %d files", MaxFiles)
	}
	t.names[key], t.kinds[key] = rel, dir
	return nil
}

// unclaim forgets a path.
func (t *Tree) unclaim(rel string) {
	delete(t.names, fold(rel))
	delete(t.kinds, fold(rel))
}

func (t *Tree) mkdir(rel string) error {
	if rel == "." {
		return nil
	}
	if err := t.mkdir(path.Dir(rel)); err != nil {
		return err
	}
	if err := t.claim(rel, true); err != nil {
		return err
	}
	err := os.Mkdir(filepath.Join(t.dir, filepath.FromSlash(rel)), 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// add writes one file of at most limit bytes. It uses only the executable bits of mode.
func (t *Tree) add(rel string, mode fs.FileMode, r io.Reader, limit int64) error {
	if err := t.mkdir(path.Dir(rel)); err != nil {
		return err
	}
	perm := fs.FileMode(0o444)
	if mode&0o111 != 0 {
		perm = 0o555
	}
	key := fold(rel)
	if t.names[key] == rel && !t.kinds[key] {
		return t.again(rel, perm, r, limit)
	}
	if err := t.claim(rel, false); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(t.dir, filepath.FromSlash(rel)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, max(limit, 0)+1))
	t.bytes += n
	if err == nil && n > limit {
		err = fmt.Errorf("at %q the files are too large: over %d MiB together, or over %d times the archive", rel,
			maxTree>>20, maxRatio)
	}
	return errors.Join(err, f.Chmod(perm), f.Close())
}

// again reads a file that is there already, as some archives of npm have one twice, and refuses another one: which of
// the two counts differs between programs that unpack.
func (t *Tree) again(rel string, perm fs.FileMode, r io.Reader, limit int64) error {
	f, err := os.Open(filepath.Join(t.dir, filepath.FromSlash(rel)))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%q is there twice, also as a symbolic link", rel)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	first, second := sha256.New(), sha256.New()
	n, err := io.Copy(second, io.LimitReader(r, max(limit, 0)+1))
	t.bytes += n
	if err != nil {
		return err
	}
	if _, err := io.Copy(first, f); err != nil {
		return err
	}
	if n > limit || info.Mode().Perm() != perm || !bytes.Equal(first.Sum(nil), second.Sum(nil)) {
		return fmt.Errorf("%q is there twice, and is not the same", rel)
	}
	return nil
}

// Add writes one file to the tree.
func (t *Tree) Add(name string, data []byte) error {
	rel, err := clean(name)
	if err != nil {
		return err
	}
	return t.add(rel, 0, bytes.NewReader(data), maxTree-t.bytes)
}

func kindName(kind fs.FileMode) string {
	if kind&fs.ModeSymlink != 0 {
		return "symbolic link"
	}
	return "device, a FIFO or something else"
}
