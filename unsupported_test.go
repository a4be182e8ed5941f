package exthost_test

import (
	"context"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

// A policy, hook or record that is written down and does not happen is worse than
// a host that does not start.
func TestConfigThatCannotBeKeptIsRefused(t *testing.T) {
	for key, state := range map[string]func(*config.Config){
		"plugins": func(c *config.Config) { c.Plugins = []governance.Spec{{Name: "p"}} },
	} {
		cfg := config.Default()
		cfg.Extensions.SearchPaths = []string{t.TempDir()}
		state(cfg)
		h, err := exthost.Open(context.Background(), cfg, exthost.Options{StateDir: t.TempDir()})
		if h != nil || protocol.KindOf(err) != protocol.ConfigInvalid || !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: Open = %v, %v", key, h, err)
		}
	}
	cfg := config.Default()
	cfg.Extensions.SearchPaths = []string{t.TempDir()}
	cfg.Plugins = []governance.Spec{{Name: "p", Disabled: true}}
	h, err := exthost.Open(context.Background(), cfg, exthost.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatalf("a disabled policy: %v", err)
	}
	h.Close()
}
