package test

import (
	"context"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// A configured policy that has no effect is worse than a host that does not start.
func TestConfigThatCannotBeKeptIsRefused(t *testing.T) {
	cfg := hosttest.NewFolder(t).Config()
	cfg.Plugins = []governance.Spec{{Name: "p"}}
	if h, err := exthost.Open(context.Background(), cfg, exthost.Options{StateDir: t.TempDir()}); h != nil ||
		protocol.KindOf(err) != protocol.ConfigInvalid || !strings.HasPrefix(err.Error(), "policy p: ") {
		t.Errorf("Open = %v, %v", h, err)
	}
	cfg.Plugins[0].Disabled = true
	h, err := exthost.Open(context.Background(), cfg, exthost.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatalf("a disabled policy: %v", err)
	}
	h.Close()
}

// If a program does not link a configured policy, the error names it and tells how to link it.
func TestPolicyThatIsNotLinkedIsRefused(t *testing.T) {
	cfg := hosttest.NewFolder(t).Config()
	for want, s := range map[string]governance.Spec{
		"policy p: builtin: this program does not link cel: set PolicyKinds.CEL of its exthost.Options to " +
			"celpolicy.New": {
			Builtin: "cel",
			Config:  map[string]any{"when": "true"},
		},
		"policy p: kind: this program does not link grpc: set PolicyKinds.GRPC of its exthost.Options to " +
			"grpcpolicy.NewInstance": {
			Kind: governance.KindGRPC,
			Cmd:  []string{"no-such-program"},
		},
	} {
		s.Name, s.Category = "p", governance.Authorization
		cfg.Plugins = []governance.Spec{s}
		h, err := exthost.Open(t.Context(), cfg, exthost.Options{StateDir: t.TempDir()})
		if h != nil || protocol.KindOf(err) != protocol.ConfigInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("Open = %v, %v; want: %s", h, err, want)
		}
	}
}

// A reload does not accept a policy that the program does not link.
func TestReloadOfPolicyThatIsNotLinkedIsRefused(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	next := f.Config()
	next.Plugins = []governance.Spec{
		{Name: "p", Builtin: "cel", Category: governance.Authorization, Config: map[string]any{"when": "true"}},
	}
	h := f.OpenWith(f.Config(), exthost.Options{Reread: func() (*config.Config, error) { return next, nil }})
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); protocol.KindOf(err) != protocol.ConfigInvalid ||
		len(h.Status().Policies) != 0 {
		t.Errorf("Reload: %v, with policies %+v", err, h.Status().Policies)
	}
}
