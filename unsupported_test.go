package exthost_test

import (
	"context"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// A policy that is written down and does not happen is worse than a host that does
// not start.
func TestConfigThatCannotBeKeptIsRefused(t *testing.T) {
	cfg := newFolder(t).config()
	cfg.Plugins = []governance.Spec{{Name: "p"}}
	if h, err := exthost.Open(context.Background(), cfg, exthost.Options{StateDir: t.TempDir()}); h != nil || protocol.KindOf(err) != protocol.ConfigInvalid || !strings.HasPrefix(err.Error(), "plugins:") {
		t.Errorf("Open = %v, %v", h, err)
	}
	cfg.Plugins[0].Disabled = true
	h, err := exthost.Open(context.Background(), cfg, exthost.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatalf("a disabled policy: %v", err)
	}
	h.Close()
}
