package consent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/supply/consent"
)

// BenchmarkStarts measures the comparison before a start and the one after it.
func BenchmarkStarts(b *testing.B) {
	for _, files := range []int{2, 20, 1000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			base := b.TempDir()
			dir := filepath.Join(base, "extensions", "kit")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for i := range files {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("lib%d.py", i)), nil, 0o644); err != nil {
					b.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(manifestText), 0o644); err != nil {
				b.Fatal(err)
			}
			found, err := discovery.Discover(b.Context(), discovery.Options{SearchPaths: []string{dir}})
			if err != nil || len(found.Candidates) != 1 {
				b.Fatal(found, err)
			}
			k, c := consent.Consent{Store: consent.NewStore(filepath.Join(base, "trust"))}, &found.Candidates[0]
			v, err := k.Extension(c)
			if err == nil {
				err = k.Store.Trust(consent.Trusted{ID: "kit", Verdict: v})
			}
			if err != nil {
				b.Fatal(err)
			}
			// wait until timestamps are old enough to be relied on
			for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
				if _, err := k.Extension(c); err != nil {
					b.Fatal(err)
				}
			}
			var after time.Duration
			for b.Loop() {
				still, err := k.Starts(c)
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if err := still(); err != nil {
					b.Fatal(err)
				}
				after += time.Since(began)
			}
			b.ReportMetric(float64(after.Nanoseconds())/float64(b.N), "ns/again")
		})
	}
}
