package processtest

import (
	"os"
	"os/exec"
	"testing"
)

const (
	optionalVar = "EXTHOST_TEST"
	optional    = "all"
)

// Optional skips a test that needs npm, pip or a browser, or takes long, unless EXTHOST_TEST=all.
func Optional(t testing.TB) {
	t.Helper()
	if !WantsAll() {
		t.Skipf("NOT TESTED: %s needs %s=%s", t.Name(), optionalVar, optional)
	}
}

// WantsAll reports whether EXTHOST_TEST=all, which runs the tests that are [Optional].
func WantsAll() bool { return os.Getenv(optionalVar) == optional }

// Needs skips the test if a program is missing.
func Needs(t testing.TB, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("NOT TESTED: %s needs %s, which is missing", t.Name(), name)
		}
	}
}
