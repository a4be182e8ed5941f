package descriptors

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

func entryOf(key string, descriptors ...string) *Entry {
	o := &Entry{
		Key: key,
		Handshake: runtime.Handshake{
			Protocol:        "mcp",
			ProtocolVersion: "2025-11-25",
			Capabilities:    json.RawMessage(`{ "tools":{}}`),
		},
	}
	for _, text := range descriptors {
		var name struct{ Name string }
		_ = json.Unmarshal([]byte(text), &name)
		o.Handshake.Tools = append(o.Handshake.Tools, protocol.Tool{Name: name.Name, Raw: json.RawMessage(text)})
	}
	return o
}

func initializeFirst(e *Entry) *Entry {
	e.Handshake.InitializeFirst = true
	return e
}

// A stored handshake survives a restart byte for byte, and changes are those since the previous handshake.
func TestEntrySurvivesRestart(t *testing.T) {
	cache := NewCache(t.TempDir())
	known, err := cache.Open("x")
	if err != nil || known.Last() != nil {
		t.Fatalf("an empty cache: %+v, %v", known.Last(), err)
	}
	first := entryOf("1", `{"name":"a", "description":"<b>","n":12345678901234567890}`)
	if err := known.Update(first, false); err != nil || known.Changes() != nil {
		t.Errorf("the first entry: %v, %v", known.Changes(), err)
	}
	known, err = cache.Open("x")
	if diff := cmp.Diff(first, known.Last()); err != nil || diff != "" {
		t.Errorf("after a restart: %v, %s", err, diff)
	}
	for _, tt := range []struct {
		name   string
		now    *Entry
		want   string
		stored bool
	}{
		{"the same", entryOf("1", string(first.Handshake.Tools[0].Raw)), "", false},
		{"another first request", initializeFirst(entryOf("1", string(first.Handshake.Tools[0].Raw))), "", true},
		{"another key", entryOf("2", string(first.Handshake.Tools[0].Raw)), "", true},
		{"another tool", entryOf("2", `{"name":"b"}`), `tool "b" is new; tool "a" is gone`, true},
	} {
		if err := cache.remove("x"); err != nil {
			t.Fatal(err)
		}
		err := known.Update(tt.now, false)
		if got := Describe(known.Changes()); err != nil || got != tt.want || known.Last() != tt.now {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
		if stored, err := cache.Load("x"); err != nil || (stored != nil) != tt.stored {
			t.Errorf("%s: stored %+v, %v", tt.name, stored, err)
		}
	}
}

// A change is reported until it is accepted, even across restarts. A tool that a running extension adds is no
// change.
func TestAcceptedTools(t *testing.T) {
	cache := NewCache(t.TempDir())
	reopen := func() *Known {
		t.Helper()
		known, err := cache.Open("x")
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	for _, step := range []struct {
		name      string
		entry     *Entry
		announced bool
		accept    string // a tool, or "all"
		want      string
	}{
		{"the first", entryOf("1", `{"name":"a"}`, `{"name":"b"}`), false, "", ""},
		{"an update", entryOf("2", `{"name":"a","title":"A"}`, `{"name":"c"}`), false, "",
			`tool "a" has a new title: "A"; tool "c" is new; tool "b" is gone`},
		{"the same program again", entryOf("2", `{"name":"a","title":"A"}`, `{"name":"c"}`), false, "",
			`tool "a" has a new title: "A"; tool "c" is new; tool "b" is gone`},
		{"one tool is accepted", nil, false, "c", `tool "a" has a new title: "A"; tool "b" is gone`},
		{"a tool that has not changed", nil, false, "c", `tool "a" has a new title: "A"; tool "b" is gone`},
		{"all are accepted", nil, false, "all", ""},
		{"one is added while it runs", entryOf("2", `{"name":"a","title":"A"}`, `{"name":"c"}`, `{"name":"d"}`), true,
			"", ""},
		{"one is altered while it runs", entryOf("2", `{"name":"a","title":"B"}`, `{"name":"c"}`, `{"name":"d"}`), true,
			"", `tool "a", title: "A" -> "B"`},
		{"and altered back", entryOf("2", `{"name":"a","title":"A"}`, `{"name":"c"}`, `{"name":"d"}`), false, "", ""},
		{"all are gone", entryOf("2"), false, "", `tool "a" is gone; tool "c" is gone; tool "d" is gone`},
		{"which is accepted", nil, false, "all", ""},
		{"they come back", entryOf("2", `{"name":"a"}`), false, "", `tool "a" is new`},
		{"which is accepted too", nil, false, "all", ""},
		{"it is withdrawn while it runs", entryOf("2"), true, "", ""},
		{"and comes back", entryOf("2", `{"name":"a"}`), true, "", ""},
		{"it is withdrawn again", entryOf("2"), true, "", ""},
		{"another one is there meanwhile", entryOf("2", `{"name":"b"}`), true, "", ""},
		{"it comes back after a restart", entryOf("2", `{"name":"a"}`, `{"name":"b"}`), false, "", ""},
		{"it is withdrawn once more", entryOf("2"), true, "", ""},
		{"it comes back as another tool", entryOf("2", `{"name":"a","title":"A"}`), true, "",
			`tool "a" has a new title: "A"`},
		{"that is accepted", nil, false, "all", ""},
		{"it is altered among many new ones", entryOf("2", append(many(80), `{"name":"a","title":"B"}`)...), true, "",
			Describe(tools.Diff(nil, entryOf("", many(80)...).Handshake.Tools))},
		{"they are accepted", nil, false, "all", ""},
		{"more is withdrawn than is kept",
			entryOf("2", `{"name":"a","title":"B"}`,
				`{"name":"large","title":"`+strings.Repeat("x", maxWithdrawn)+`"}`), false, "",
			Describe(tools.Diff(entryOf("", many(80)...).Handshake.Tools,
				entryOf("", `{"name":"large"}`).Handshake.Tools))},
		{"that is accepted as well", nil, false, "all", ""},
		{"and gone", entryOf("2", `{"name":"a","title":"B"}`), true, "", `tool "large" is gone`},
	} {
		known, before := reopen(), Describe(reopen().Changes())
		switch {
		case step.entry != nil:
			if err := known.Update(step.entry, step.announced); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
		default:
			if changed, err := known.Accept(only(strings.TrimPrefix(step.accept, "all"))); err != nil ||
				changed != (step.want != before) {
				t.Errorf("%s: %v, %v", step.name, changed, err)
			}
		}
		if got, stored := Describe(known.Changes()), Describe(reopen().Changes()); got != step.want ||
			stored != step.want {
			t.Errorf("%s: %q, stored %q, want %q", step.name, got, stored, step.want)
		}
	}
}

// many returns descriptors whose names sort before a.
func many(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(`{"name":"A%02d"}`, i))
	}
	return list
}

// A handshake that is too large to be stored is in use for this process only, and the file of the previous one is
// removed.
func TestTooLargeEntryIsNotStored(t *testing.T) {
	cache := NewCache(t.TempDir())
	known, err := cache.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := known.Update(entryOf("1", `{"name":"a"}`), false); err != nil {
		t.Fatal(err)
	}
	large := entryOf("1", `{"name":"a","description":"`+strings.Repeat("x", maxRecord)+`"}`)
	if err := known.Update(large, false); err == nil || len(known.Changes()) != 1 || known.Last() != large {
		t.Errorf("%d changes, %v", len(known.Changes()), err)
	}
	if stored, err := cache.Load("x"); stored != nil || err != nil {
		t.Errorf("the old file: %+v, %v", stored, err)
	}
}

// Prune leaves the files of all known extensions, and the latest files of unknown ones.
func TestPrune(t *testing.T) {
	const present, gone = 700, maxForgotten + 3
	cache, long := NewCache(t.TempDir()), time.Now().Add(-time.Hour)
	if err := cache.Store("here0", entryOf("1", `{"name":"a"}`)); err != nil {
		t.Fatal(err)
	}
	write := func(id string, age time.Time) {
		t.Helper()
		if err := errors.Join(os.WriteFile(cache.file(id), nil, 0o600),
			os.Chtimes(cache.file(id), age, age)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range present {
		write(fmt.Sprintf("here%d", i), long)
	}
	for i := range gone {
		write(fmt.Sprintf("gone%d", i), long.Add(time.Duration(i+1)*time.Second))
	}
	has := func(id string) bool { return strings.HasPrefix(id, "here") }
	if err := cache.Store("here0", entryOf("2", `{"name":"a"}`)); err != nil {
		t.Fatal(err)
	}
	cache.Prune(has)
	files, err := os.ReadDir(string(cache))
	if err != nil {
		t.Fatal(err)
	}
	kept := make(map[bool]int)
	for _, f := range files {
		kept[has(f.Name())]++
		if f.Name() == "gone2.json" {
			t.Error("the oldest are kept")
		}
	}
	if diff := cmp.Diff(map[bool]int{true: present, false: maxForgotten}, kept); diff != "" {
		t.Errorf("kept of extensions that are there, and of others: %s", diff)
	}
}

// Open of a damaged file returns an error and a usable, empty Known.
func TestDamagedFileIsAnEmptyEntry(t *testing.T) {
	cache := NewCache(t.TempDir())
	if err := cache.Store("x", entryOf("1", `{"name":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(cache), "x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := cache.Open("x")
	if err == nil || known == nil || known.Last() != nil {
		t.Fatalf("%+v, %v", known, err)
	}
	if err := known.Update(entryOf("1", `{"name":"b"}`), false); err != nil || known.Changes() != nil {
		t.Errorf("the next offer: %v, %v", known.Changes(), err)
	}
}

// One tool can be accepted despite many other changes.
func TestAcceptOneOfManyChanges(t *testing.T) {
	known, err := NewCache(t.TempDir()).Open("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []*Entry{
		entryOf("1", `{"name":"z"}`),
		entryOf("2", append(many(80), `{"name":"z","title":"Z"}`)...),
	} {
		if err := known.Update(o, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []bool{true, false} {
		if changed, err := known.Accept(only("z")); changed != want || err != nil {
			t.Errorf("accepting: %t, %v; want %t", changed, err, want)
		}
	}
}

// only selects one tool, or all with "".
func only(tool string) func(Pending) bool {
	return func(p Pending) bool { return tool == "" || tool == p.Tool }
}
