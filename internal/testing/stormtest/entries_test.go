package stormtest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/testing/stormtest"
)

// Wherever a write is cut, the entries before and after it are complete, and its own entry is complete or missing.
func TestCutWrites(t *testing.T) {
	var before, cut strings.Builder
	for to, entry := range map[*strings.Builder]string{&before: "3.12", &cut: "3.123"} {
		if err := stormtest.AddEntry(to, entry); err != nil {
			t.Fatal(err)
		}
	}
	for n := range cut.Len() {
		got := stormtest.WholeEntries(before.String() + cut.String()[:n] + before.String())
		got = slices.DeleteFunc(got, func(entry string) bool { return entry == "3.123" })
		if want := []string{"3.12", "3.12"}; !slices.Equal(got, want) {
			t.Errorf("cut after %d bytes: %q, want %q and perhaps the cut one", n, got, want)
		}
	}
}
