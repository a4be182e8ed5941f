package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/exthost/exthost/internal/file"
)

// maxLine bounds a line that is read; the lines written are far shorter.
const maxLine = 1 << 20

// logFile is the log on disk. Only the writer goroutine uses it.
type logFile struct {
	path    string
	maxSize int64
	keep    int
	lock    *os.File
	f       *os.File
	size    int64 // up to the end of the last complete line
	empty   bool  // has no line
	last    link  // of the last line
	buf     []byte
}

// openFile locks the log for this process and finds its end. torn is the incomplete last
// line, nil when there is none.
func openFile(o Options) (_ *logFile, torn []byte, err error) {
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, nil, err
	}
	lock, err := takeLock(o.Path + ".lock")
	if err != nil {
		return nil, nil, err
	}
	f := &logFile{path: o.Path, maxSize: o.MaxSize, keep: o.Keep, lock: lock}
	if torn, err = f.resume(); err != nil {
		return nil, nil, errors.Join(err, f.close())
	}
	return f, torn, nil
}

// resume opens the file and continues its chain. If the file is empty, it continues the chain of
// the previous file.
func (f *logFile) resume() (torn []byte, err error) {
	if f.f, _, err = file.OpenRegular(f.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if f.last, f.size, torn, err = lastLine(f.f); err != nil {
		return nil, err
	}
	if torn != nil {
		if err := f.f.Truncate(f.size); err != nil {
			return nil, err
		}
	}
	if f.size > 0 {
		return torn, nil
	}
	f.empty = true
	before, _, err := file.OpenRegular(rotated(f.path, 1), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return torn, nil
	}
	if err != nil {
		return nil, err
	}
	defer before.Close() // read only: the error does not matter
	f.last, _, _, err = lastLine(before)
	return torn, err
}

// lastLine returns the hash-chain link of the last complete line of r, the offset at which that line ends, and the
// bytes after it.
func lastLine(r *os.File) (last link, end int64, torn []byte, err error) {
	info, err := r.Stat()
	if err != nil {
		return last, 0, nil, err
	}
	from := max(0, info.Size()-2*maxLine)
	tail := make([]byte, info.Size()-from)
	if _, err := r.ReadAt(tail, from); err != nil && err != io.EOF {
		return last, 0, nil, err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if whole < len(tail) {
		torn = tail[whole:]
	}
	if whole == 0 && from == 0 {
		return last, 0, torn, nil
	}
	line := tail[bytes.LastIndexByte(tail[:max(0, whole-1)], '\n')+1 : max(0, whole-1)]
	last, ok := parseLink(line)
	if !ok {
		return last, 0, nil, fmt.Errorf("the last line of %s is not as it was written: keep that file elsewhere and "+
			"look into it, a new one will be begun", r.Name())
	}
	return last, from + int64(whole), torn, nil
}

// append writes and syncs records, one per line. When it fails, rest holds the records that
// are not on disk.
func (f *logFile) append(records []byte) (rest []byte, err error) {
	for len(records) > 0 {
		if f.size >= f.maxSize && !f.empty {
			if err := f.rotate(); err != nil {
				return records, err
			}
		}
		buf, last := f.buf[:0], f.last
		if f.empty {
			buf, last = f.appendHead(buf, last)
		}
		rest = records
		for len(rest) > 0 && f.size+int64(len(buf)) < f.maxSize {
			record, after, _ := bytes.Cut(rest, []byte("\n"))
			last.Seq++
			buf, last.Hash = seal(buf, record, last.Seq, last.Hash)
			rest = after
		}
		if err := f.writeAtEnd(buf); err != nil {
			return records, err
		}
		f.buf, f.last, f.empty, records = buf, last, false, rest
	}
	return nil, nil
}

func (f *logFile) appendHead(buf []byte, last link) ([]byte, link) {
	r := Record{Kind: KindHead, Time: time.Now().UTC()}
	if last.Seq > 0 {
		r.After = filepath.Base(rotated(f.path, 1))
	}
	last.Seq++
	buf, last.Hash = seal(buf, r.append(nil), last.Seq, last.Hash)
	return buf, last
}

// writeAtEnd writes buf after the last complete line. After a failed write it truncates the
// file; should that fail too, the next write overwrites the remains.
func (f *logFile) writeAtEnd(buf []byte) error {
	_, err := f.f.WriteAt(buf, f.size)
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.f.Truncate(f.size))
	}
	f.size += int64(len(buf))
	return nil
}

// rotate renames the file to .1, increments the number of the older ones, and creates a new
// file. It may be called again after an error.
func (f *logFile) rotate() error {
	if err := file.Rotate(f.path, f.keep); err != nil {
		return err
	}
	next, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	old := f.f
	f.f, f.size, f.empty = next, 0, true
	return errors.Join(old.Close(), syncDir(filepath.Dir(f.path)))
}

func rotated(path string, n int) string { return file.RotatedName(path, n) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() // read only: the error does not matter
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

func (f *logFile) close() error {
	var err error
	if f.f != nil {
		err = f.f.Close()
	}
	return errors.Join(err, f.lock.Close())
}
