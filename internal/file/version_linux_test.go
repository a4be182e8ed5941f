package file

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"
)

// changedAt is the FileInfo of a file that was changed at a given time.
type changedAt struct {
	fs.FileInfo
	at time.Time
}

func (c changedAt) Sys() any {
	s := *c.FileInfo.Sys().(*syscall.Stat_t)
	s.Ctim = syscall.NsecToTimespec(c.at.UnixNano())
	return &s
}

// A change identifies a version once it is old enough that a later one has another time.
func TestVersionOf(t *testing.T) {
	path := t.TempDir() + "/f"
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	old := VersionOf(changedAt{info, time.Now().Add(-time.Hour)})
	if old.Change == 0 || old.Inode == 0 || old.Size != 1 || !old.Is(old) {
		t.Errorf("%+v", old)
	}
	if recent := VersionOf(changedAt{info, time.Now().Add(time.Hour)}); recent != (Version{Size: 1}) ||
		recent.Is(recent) {
		t.Errorf("%+v", recent)
	}
	if other := VersionOf(changedAt{info, time.Now().Add(-2 * time.Hour)}); old.Is(other) {
		t.Errorf("%+v is %+v", other, old)
	}
}
