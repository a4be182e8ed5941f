package consent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/protocol"
)

// verdict is what a person is shown before an answer.
func (k *kit) verdict() *consent.Verdict {
	k.Helper()
	v, err := k.Extension(k.candidate())
	if err != nil {
		k.Fatal(err)
	}
	return v
}

// secrets returns the secrets that are granted.
func (k *kit) secrets() (names []string) {
	k.Helper()
	return k.verdict().Record.Secrets["kit"]
}

// age makes the record an hour old: file systems record times in steps, and tests are fast.
func (k *kit) age() {
	k.Helper()
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(k.dir)), "trust", "*.json"))
	if err != nil || len(paths) != 1 {
		k.Fatal(paths, err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(paths[0], old, old); err != nil {
		k.Fatal(err)
	}
}

// TestYesToAChangedRecord has another program change the record while a person is asked. Nothing of that is lost, and a
// revocation holds.
func TestYesToAChangedRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		before    func(*kit) // the question
		meanwhile func(*kit)
		says      string // why it may not run; "" if it may
		secrets   []string
	}{
		"granted": {
			meanwhile: func(k *kit) { k.change(func(r *consent.Record) { r.Grant("kit", "B_TOKEN") }) },
			secrets:   []string{"A_TOKEN", "B_TOKEN"},
		},
		"withdrawn": {
			before: func(k *kit) {
				k.change(func(r *consent.Record) { r.Grant("kit", "B_TOKEN", "C_TOKEN") })
			},
			meanwhile: func(k *kit) { k.change(func(r *consent.Record) { r.Withdraw("kit", "B_TOKEN") }) },
			secrets:   []string{"A_TOKEN", "C_TOKEN"},
		},
		"revoked":         {meanwhile: (*kit).revoke, says: "revoked"},
		"revoked, agreed": {before: (*kit).accept, meanwhile: (*kit).revoke, says: "revoked"},
		"revoked again": {
			before: func(k *kit) {
				k.revoke()
				k.age()
			},
			meanwhile: func(k *kit) {
				k.accept()
				k.revoke()
			},
			says: "revoked",
		},
		"revoked before": {before: (*kit).revoke, meanwhile: func(*kit) {}, secrets: []string{"A_TOKEN"}},
		"forgotten": {
			before: (*kit).accept,
			meanwhile: func(k *kit) {
				if err := k.Store.Forget(k.verdict().Record.Dir, consent.Extension); err != nil {
					k.Fatal(err)
				}
			},
			secrets: []string{"A_TOKEN"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			if tt.before != nil {
				tt.before(k)
			}
			v := k.verdict()
			tt.meanwhile(k)
			err := k.Store.Trust(consent.Trusted{ID: "kit", Verdict: v, Secrets: []string{"A_TOKEN"}})
			refused := protocol.KindOf(err) == protocol.Untrusted
			if refused != (tt.says != "") || !refused && err != nil {
				t.Error(err)
			}
			k.says(tt.says)
			if diff := cmp.Diff(tt.secrets, k.secrets()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUndo takes a yes back, and leaves what other programs have stored since.
func TestUndo(t *testing.T) {
	for name, tt := range map[string]struct {
		before, since func(*kit)
		says          string // why it may not run; "" if it may
		secrets       []string
	}{
		"first yes": {says: "nobody has agreed"},
		"with a grant before": {
			before:  func(k *kit) { k.change(func(r *consent.Record) { r.Grant("kit", "B_TOKEN") }) },
			says:    "nobody has agreed",
			secrets: []string{"B_TOKEN"},
		},
		"after a revocation": {before: (*kit).revoke, says: "revoked"},
		"after another yes": {
			before:  func(k *kit) { k.accept(); k.write("main.py", "import other\n") },
			says:    "it changed since it was trusted: main.py",
			secrets: []string{"A_TOKEN"},
		},
		"granted since": {
			since:   func(k *kit) { k.change(func(r *consent.Record) { r.Grant("kit", "B_TOKEN") }) },
			says:    "nobody has agreed",
			secrets: []string{"B_TOKEN"},
		},
		"revoked since": {since: (*kit).revoke, says: "revoked"},
		"agreed since to other files": {
			since:   func(k *kit) { k.write("main.py", "import other\n"); k.accept() },
			secrets: []string{"A_TOKEN"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			if tt.before != nil {
				tt.before(k)
			}
			v := k.verdict()
			if err := k.Store.Undo(v); err != nil { // there is nothing yet
				t.Fatal(err)
			}
			if err := k.Store.Trust(consent.Trusted{ID: "kit", Verdict: v, Secrets: []string{"A_TOKEN"}}); err != nil {
				t.Fatal(err)
			}
			k.says("")
			if tt.since != nil {
				tt.since(k)
			}
			if err := k.Store.Undo(v); err != nil {
				t.Fatal(err)
			}
			k.says(tt.says)
			if diff := cmp.Diff(tt.secrets, k.secrets()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRecordChangedAtOnce has several programs change one record at once. No change is lost.
func TestRecordChangedAtOnce(t *testing.T) {
	k := newKit(t)
	dir := k.verdict().Record.Dir
	const programs = 8
	var want []string
	errs := make([]error, programs)
	var changing sync.WaitGroup
	for n := range programs {
		name := fmt.Sprintf("TOKEN_%d", n)
		want = append(want, name)
		changing.Go(func() {
			errs[n] = k.Store.Change(dir, consent.Extension, func(r *consent.Record) error {
				r.Grant("kit", name)
				return nil
			})
		})
	}
	changing.Wait()
	if n := slices.IndexFunc(errs, func(err error) bool { return err != nil }); n >= 0 {
		t.Fatal(errs[n])
	}
	if diff := cmp.Diff(want, k.secrets()); diff != "" {
		t.Error(diff)
	}
}
