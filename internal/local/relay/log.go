package relay

import (
	"os"
	"sync"
)

// maxLog is the size in bytes at which the log of a background host is rotated. One older file is kept.
const maxLog = 1 << 20

// openLog opens a log for appending and returns its size. It rotates a log over maxLog.
func openLog(path string) (*os.File, int64, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Log is the log of a background host: a file of limited size, which is also the process's stderr.
type Log struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens the log at path.
func OpenLog(path string) (*Log, error) {
	l := &Log{path: path}
	return l, l.reopen()
}

// reopen opens the file again, rotated if need be, also as stderr. It must not run concurrently.
func (l *Log) reopen() error {
	f, size, err := openLog(l.path)
	if err != nil {
		return err
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size = f, size
	return becomeStderr(f)
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxLog {
		if err := l.reopen(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}
