package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// maxLine bounds a line of the log; those that are written are far shorter.
const maxLine = 1 << 20

// file is the log on disk. It belongs to the writer.
type file struct {
	path    string
	maxSize int64
	keep    int
	lock    *os.File
	f       *os.File
	size    int64 // of whole lines
	bare    bool  // holds no line yet
	last    link  // of the line before the next
	buf     []byte
}

// openFile takes the log for this process and finds its end. torn is what stood
// after the last whole line, nil when nothing did.
func openFile(o Options) (_ *file, torn []byte, err error) {
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, nil, err
	}
	lock, err := takeLock(o.Path + ".lock")
	if err != nil {
		return nil, nil, err
	}
	f := &file{path: o.Path, maxSize: o.MaxSize, keep: o.Keep, lock: lock}
	if torn, err = f.resume(); err != nil {
		return nil, nil, errors.Join(err, f.close())
	}
	return f, torn, nil
}

// resume opens the file and continues its chain, or that of the file before it.
func (f *file) resume() (torn []byte, err error) {
	if f.f, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
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
	f.bare = true
	before, err := os.Open(rotated(f.path, 1))
	if errors.Is(err, fs.ErrNotExist) {
		return torn, nil
	}
	if err != nil {
		return nil, err
	}
	defer before.Close() // was only read
	f.last, _, _, err = lastLine(before)
	return torn, err
}

// lastLine returns the link of the last whole line of r, where that ends, and what
// stands after it.
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
	last, ok := open(line)
	if !ok {
		return last, 0, nil, fmt.Errorf("the last line of %s is not as it was written: keep that file elsewhere and look into it, a new one will be begun", r.Name())
	}
	return last, from + int64(whole), torn, nil
}

// append writes records, a line each, and makes sure that they are on the disk.
// When it fails it returns those that are not.
func (f *file) append(records []byte) (rest []byte, err error) {
	for len(records) > 0 {
		if f.size >= f.maxSize && !f.bare {
			if err := f.rotate(); err != nil {
				return records, err
			}
		}
		buf, last := f.buf[:0], f.last
		if f.bare {
			buf, last = f.head(buf, last)
		}
		rest = records
		for len(rest) > 0 && f.size+int64(len(buf)) < f.maxSize {
			record, after, _ := bytes.Cut(rest, []byte("\n"))
			last.Seq++
			buf, last.Hash = seal(buf, record, last.Seq, last.Hash)
			rest = after
		}
		if err := f.put(buf); err != nil {
			return records, err
		}
		f.buf, f.last, f.bare, records = buf, last, false, rest
	}
	return nil, nil
}

// head appends the first line of a file.
func (f *file) head(buf []byte, last link) ([]byte, link) {
	r := Record{Kind: KindHead, Time: time.Now().UTC()}
	if last.Seq > 0 {
		r.After = filepath.Base(rotated(f.path, 1))
	}
	last.Seq++
	buf, last.Hash = seal(buf, r.append(nil), last.Seq, last.Hash)
	return buf, last
}

// put writes buf after the last whole line. What a failed write leaves is cut off
// when it can be, and else overwritten by the next.
func (f *file) put(buf []byte) error {
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

// rotate names the file .1 and those before it one up, and begins a new one. It can
// be called again after it has failed.
func (f *file) rotate() error {
	if _, err := os.Lstat(f.path); err == nil {
		for i := f.keep; i > 0; i-- {
			from := f.path
			if i > 1 {
				from = rotated(f.path, i-1)
			}
			if err := os.Rename(from, rotated(f.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if f.keep == 0 {
			if err := os.Remove(f.path); err != nil {
				return err
			}
		}
	}
	for i := f.keep + 1; os.Remove(rotated(f.path, i)) == nil; i++ { // more were kept once
	}
	next, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	old := f.f
	f.f, f.size, f.bare = next, 0, true
	return errors.Join(old.Close(), syncDir(filepath.Dir(f.path)))
}

func rotated(path string, n int) string { return path + "." + strconv.Itoa(n) }

// syncDir makes sure that the names in dir are on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() // was only read
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// close gives the log back.
func (f *file) close() error {
	var err error
	if f.f != nil {
		err = f.f.Close()
	}
	return errors.Join(err, f.lock.Close())
}
