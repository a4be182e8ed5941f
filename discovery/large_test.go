package discovery

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/stormtest"
)

// The number of extensions and of directory entries.
var largeManifests, largeEntries = stormtest.Sized(100, 1_000), stormtest.Sized(5_000, 100_000)

// largeTree builds a tree with these numbers of extensions and entries. Each extension has files and directories, and
// just as many directories have no manifest.
func largeTree(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	entries := 0
	mkdir := func(path string) {
		if err := os.MkdirAll(path, 0o755); err != nil {
			tb.Fatal(err)
		}
		entries++
	}
	file := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			tb.Fatal(err)
		}
		entries++
	}
	for i := range 40 {
		mkdir(filepath.Join(dir, fmt.Sprint("group", i)))
	}
	for i := range largeManifests {
		ext := filepath.Join(dir, fmt.Sprint("group", i%40), fmt.Sprint("ext", i))
		mkdir(ext)
		file(filepath.Join(ext, "plugin.toml"), valid(fmt.Sprint("ext", i)))
		for sub := range 3 {
			mkdir(filepath.Join(ext, fmt.Sprint("src", sub)))
			for f := range 14 {
				file(filepath.Join(ext, fmt.Sprint("src", sub), fmt.Sprint("file", f)), "")
			}
		}
	}
	for i := 0; entries < largeEntries; i++ {
		plain := filepath.Join(dir, fmt.Sprint("group", i%40), fmt.Sprint("plain", i))
		mkdir(plain)
		for f := 0; f < 25 && entries < largeEntries; f++ {
			file(filepath.Join(plain, fmt.Sprint("file", f)), "")
		}
	}
	return dir
}

func TestLargeTreeIsCompleteAndDeterministic(t *testing.T) {
	o := Options{SearchPaths: []string{largeTree(t)}}
	first := discover(t, o)
	if n := len(first.Candidates); n != largeManifests {
		t.Fatalf("found %d extensions, want %d", n, largeManifests)
	}
	bare, walked := fastest(t, o)
	t.Logf("walk and parse %v, a bare WalkDir %v: ratio %.2f", walked, bare, float64(walked)/float64(bare))
	again := discover(t, o)
	if diff := cmp.Diff(ids(first), ids(again)); diff != "" {
		t.Errorf("a second search differs:\n%s", diff)
	}
	if diff := cmp.Diff(first.Diagnostics, again.Diagnostics); diff != "" {
		t.Errorf("a second search says something else:\n%s", diff)
	}
}

// fastest returns the shortest times of both walks, which alternate.
func fastest(tb testing.TB, o Options) (bare, walked time.Duration) {
	bare, walked = time.Hour, time.Hour
	for range 3 {
		start := time.Now()
		entries := 0
		err := filepath.WalkDir(o.SearchPaths[0], func(string, fs.DirEntry, error) error { entries++; return nil })
		bare = min(bare, time.Since(start))
		if err != nil || entries != largeEntries+1 {
			tb.Fatalf("%d entries, %v", entries, err)
		}
		start = time.Now()
		if _, err := Discover(tb.Context(), o); err != nil {
			tb.Fatal(err)
		}
		walked = min(walked, time.Since(start))
	}
	return bare, walked
}

func BenchmarkDiscoverOverWalkDir(b *testing.B) {
	o := Options{SearchPaths: []string{largeTree(b)}}
	for b.Loop() {
		bare, walked := fastest(b, o)
		b.ReportMetric(float64(walked)/float64(bare), "ratio")
	}
}

// BenchmarkDiscoverMany compares the time per folder among 5,000 folders with that among 1,000.
func BenchmarkDiscoverMany(b *testing.B) {
	folders := func(n int) (each func() time.Duration) {
		dir := b.TempDir()
		for i := range n {
			id := fmt.Sprintf("x%04d", i)
			text := fmt.Sprintf("[plugin]\nid = %q\nversion = \"1.0.0\"\n[capabilities]\ntools = "+
				"[\"t\"]\n[transport]\ncommand = \"sh\"\n", id)
			if err := errors.Join(os.Mkdir(filepath.Join(dir, id), 0o700),
				os.WriteFile(filepath.Join(dir, id, "plugin.toml"), []byte(text), 0o600)); err != nil {
				b.Fatal(err)
			}
		}
		return func() time.Duration {
			began := time.Now()
			found, err := Discover(b.Context(), Options{SearchPaths: []string{dir}})
			if err != nil || len(found.Candidates) != n {
				b.Fatal(len(found.Candidates), err)
			}
			return time.Since(began) / time.Duration(n)
		}
	}
	few, many := folders(1000), folders(5000)
	for b.Loop() {
		var small, big stormtest.Durations
		for range 9 {
			small, big = append(small, few()), append(big, many())
		}
		b.ReportMetric(float64(small.Quantile(0.5)), "ns/folder-of-1000")
		b.ReportMetric(float64(big.Quantile(0.5)), "ns/folder-of-5000")
		b.ReportMetric(float64(big.Quantile(0.5))/float64(small.Quantile(0.5)), "5000/1000")
	}
	b.ReportMetric(0, "ns/op")
}

func TestOrderOfListingDoesNotMatter(t *testing.T) {
	// Entries are listed in their order of creation on some file systems, so the same tree is created in several
	// orders.
	var want *Result
	for seed := range uint64(4) {
		t.Chdir(t.TempDir())
		for _, n := range rand.New(rand.NewPCG(seed, 0)).Perm(60) {
			root, id := fmt.Sprint("ext", n/30), fmt.Sprint("id", n%30)
			if n == 11 || n == 12 {
				id = "twin" // a duplicate, so neither runs; id11 and id12 of the other root do
			}
			write(t, fmt.Sprintf("%s/d%02d/e%d/plugin.toml", root, n%20, n), valid(id))
			if n%5 == 0 {
				write(t, fmt.Sprintf("%s/d%02d/plugin.toml", root, n%20), broken)
			}
		}
		got := discover(t, Options{SearchPaths: []string{"ext0", "ext1"}})
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(ids(want), ids(got)); diff != "" || len(ids(got)) != 24 {
			t.Errorf("order %d: %d extensions\n%s", seed, len(ids(got)), diff)
		}
		if diff := cmp.Diff(want.Diagnostics, got.Diagnostics); diff != "" {
			t.Errorf("order %d:\n%s", seed, diff)
		}
	}
}
