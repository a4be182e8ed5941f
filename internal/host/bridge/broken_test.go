//go:build unix

package bridge

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// A destination whose program was missing at the start of the host accepts connections once the program exists:
// after each cooldown one connection checks again.
func TestBrokenDestinationIsCheckedAgain(t *testing.T) {
	m := &manifest.Manifest{Transport: manifest.Transport{Kind: manifest.KindStdio, Cmd: manifest.Command{"later"}}}
	dir := t.TempDir()
	d := &Destination{
		Unit:   &unit.Unit{Spec: &runtime.Spec{Manifest: m, Dir: dir, Env: []string{"PATH=" + dir}}},
		Config: config.Destination{Type: config.DestinationStdio},
	}
	missing := d.look(t.Context())
	if protocol.KindOf(missing) != protocol.SpawnFailed {
		t.Fatal(missing)
	}
	refused := func(when string) {
		t.Helper()
		if err := d.unable(t.Context()); protocol.KindOf(err) != protocol.Failed {
			t.Errorf("%s: %v", when, err)
		}
	}
	over := func() { d.broken.Store(&broken{missing, time.Now().Add(-1)}) }
	over()
	refused("the program is still missing")
	if until := d.broken.Load().until; !until.After(time.Now()) {
		t.Errorf("the next connection looks again at %v", until)
	}
	if err := os.WriteFile(filepath.Join(dir, "later"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("during the cooldown")
	over()
	if err := d.unable(t.Context()); err != nil || d.Failure() != nil {
		t.Errorf("the program is there: %v", err)
	}
}
