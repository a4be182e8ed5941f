package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/exthost/exthost/protocol"
)

var ann = Owner{Caller: "ann", Session: "s1"}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "results")
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(o.Dir, "*")); left != nil {
			t.Errorf("left behind: %q", left)
		}
	})
	return s
}

func put(t *testing.T, s *Store, text string) string {
	t.Helper()
	handle, err := s.Put(ann, Source{}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// pages reads a whole result page by page.
func pages(t *testing.T, s *Store, handle string, limit int) (text string, n int) {
	t.Helper()
	for offset := int64(0); ; n++ {
		p, err := s.Page(ann, handle, offset, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Text) > max(limit, utf8.UTFMax) || !utf8.ValidString(p.Text) || p.Text == "" && p.Total > 0 {
			t.Fatalf("page %d: %q", n, p.Text)
		}
		text += p.Text
		if p.Next == 0 {
			return text, n + 1
		}
		offset = p.Next
	}
}

func TestPagesAreTheWhole(t *testing.T) {
	s := open(t, Options{})
	for name, text := range map[string]string{
		"lines":    strings.Repeat("one line of many, żółw 乌龟 😀\n", 99),
		"one line": strings.Repeat("乌龟😀a", 300),
		"short":    "x",
		"empty":    "",
	} {
		handle := put(t, s, text)
		for _, limit := range []int{1, 2, 3, 7, 100, 1000, MaxPage} {
			if got, _ := pages(t, s, handle, limit); got != text {
				t.Errorf("%s in pages of %d is not the whole", name, limit)
			}
		}
	}
	handle := put(t, s, strings.Repeat("0123456789\n", 100))
	if p, _ := s.Page(ann, handle, 0, 100); !strings.HasSuffix(p.Text, "\n") || p.Next != 99 || p.Total != 1100 {
		t.Errorf("%+v", p)
	}
	handle = put(t, s, "a😀b")
	if p, _ := s.Page(ann, handle, 3, 9); p.Text != "😀b" || p.Offset != 1 {
		t.Errorf("from within a character: %+v", p)
	}
	if _, err := s.Page(ann, handle, 99, 9); err == nil || !strings.Contains(err.Error(), "has 6 bytes") {
		t.Error(err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	s := open(t, Options{})
	file := s.file(put(t, s, "x"))
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestHandlesAreBound checks that only the owner of a result can read it.
func TestHandlesAreBound(t *testing.T) {
	s := open(t, Options{})
	handle := put(t, s, "secret")
	anonymous, err := s.Put(Owner{Session: "s1"}, Source{}, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		owner  Owner
		handle string
		ok     bool
	}{
		{ann, handle, true}, {Owner{Caller: "ann", Session: "another"}, handle, true},
		{Owner{Node: "web", Caller: "ann", Session: "s1"}, handle, false},
		{Owner{Caller: "eve", Session: "s1"}, handle, false}, {Owner{Caller: "", Session: "s1"}, handle, false},
		{Owner{Caller: "", Session: "s1"}, anonymous, true}, {Owner{Caller: "", Session: "s2"}, anonymous, false},
		{ann, anonymous, false}, {ann, "../" + prefix + handle, false}, {ann, "", false},
	} {
		_, err := s.Page(tt.owner, tt.handle, 0, 10)
		if ok := err == nil; ok != tt.ok || !ok && !errors.Is(err, ErrUnknown) {
			t.Errorf("%+v with %q: %v", tt.owner, tt.handle, err)
		}
	}
}

// The handle of a caller of another node names the node that keeps the result.
func TestHandleNamesItsNode(t *testing.T) {
	s, owner := open(t, Options{Node: "gpu1"}), Owner{Node: "web", Caller: "ann"}
	handle, err := s.Put(owner, Source{Extension: "x"}, []byte("text"))
	there, ok := strings.CutPrefix(handle, "gpu1/")
	if err != nil || !ok || s.Source(there).Extension != "x" {
		t.Fatalf("%q, %v", handle, err)
	}
	if p, err := s.Page(owner, there, 0, 10); err != nil || p.Text != "text" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, other := range []Owner{{Node: "laptop", Caller: "ann"}, {Caller: "ann"}} {
		if _, err := s.Page(other, there, 0, 10); !errors.Is(err, ErrUnknown) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if handle := put(t, s, "x"); strings.Contains(handle, "/") {
		t.Errorf("%q of a caller here", handle)
	}
}

func TestQuota(t *testing.T) {
	s := open(t, Options{Quota: 100})
	first, second := put(t, s, strings.Repeat("a", 60)), put(t, s, strings.Repeat("b", 60))
	if _, err := s.Page(ann, first, 0, 10); !errors.Is(err, ErrUnknown) {
		t.Errorf("the oldest did not make room: %v", err)
	}
	if got, _ := pages(t, s, second, 10); len(got) != 60 {
		t.Errorf("the newest has %d bytes", len(got))
	}
	if _, err := s.Put(ann, Source{}, make([]byte, 101)); err == nil || !strings.Contains(err.Error(), "101 bytes") {
		t.Error(err)
	}
}

func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{})
		handle := put(t, s, "x")
		left := s.file("left-behind") // from a host that was killed
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(left, time.Now(), time.Now()); err != nil { // synctest time
			t.Fatal(err)
		}
		time.Sleep(DefaultMaxAge - time.Second) // synctest time
		synctest.Wait()
		if _, err := s.Page(ann, handle, 0, 1); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for _, file := range []string{s.file(handle), left} {
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s is still there", file)
			}
		}
		if _, err := s.Page(ann, handle, 0, 1); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
	})
}

func TestCall(t *testing.T) {
	s := open(t, Options{})
	handle := put(t, s, strings.Repeat("line\n", 10_000))
	var schema struct{ Required []string }
	if err := json.Unmarshal(Tool().InputSchema, &schema); err != nil || len(schema.Required) != 1 {
		t.Errorf("%v %v", schema, err)
	}
	result, err := s.Call(ann, nil, fmt.Appendf(nil, `{"handle":%q,"offset":5,"limit":11}`, handle))
	if want := `{"content":[{"type":"text","text":"line\nline\n"},{"type":"text","text":"[bytes 5 to 15 of 50000; go on with offset 15]"}]}`; err != nil || string(result) != want {
		t.Errorf("%s, %v", result, err)
	}
	result, err = s.Call(ann, nil, fmt.Appendf(nil, `{"handle":%q,"offset":49995}`, handle))
	if err != nil || !strings.Contains(string(result), "[bytes 49995 to 50000 of 50000; this is the end]") {
		t.Errorf("%s, %v", result, err)
	}
	for arguments, want := range map[string]string{
		`{"handle":"x"}`:           "call the tool again",
		`{"handle":"x","limit":0}`: "it can be 1 to 65536",
		`{"hand":"x"}`:             `unknown field "hand"`,
		``:                         "as the tool's schema says",
	} {
		if _, err := s.Call(ann, nil, []byte(arguments)); protocol.KindOf(err) != protocol.InvalidArguments ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

func TestUseAtOnce(t *testing.T) {
	s := open(t, Options{Quota: 1000})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				handle, err := s.Put(ann, Source{}, make([]byte, 300))
				if err != nil && !errors.Is(err, errEvicted) {
					t.Error(err)
				}
				if _, err := s.Page(ann, handle, 0, 100); err != nil && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s.size > 1000 {
		t.Errorf("%d bytes are kept", s.size)
	}
}
