package storm

import (
	"path/filepath"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/grpcpolicy"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// approverSpec returns a required policy over one extension, whose process approves two calls of three.
func approverSpec(program, extension string, kind governance.Kind) governance.Spec {
	s := governance.Spec{
		Name:     "over-" + extension,
		Kind:     kind,
		Category: governance.Authorization,
		Cmd:      []string{program, "approve", string(kind)},
		Flows:    []governance.Flow{governance.Request},
		Match:    governance.Match{Extensions: []string{extension}},
	}
	s.Normalize()
	return s
}

// TestNothingRunsUnapproved kills required policies of a host at random moments, also during their start. Every call
// that an extension carried out was approved before. The reverse need not hold: an approval can get lost.
func TestNothingRunsUnapproved(t *testing.T) {
	kills := stormtest.Sized(20, 1_000)
	program := subject(t)
	processtest.Leaks(t)
	random := randomly(t)
	f, state := hosttest.NewFolder(t), t.TempDir()
	cfg := f.Config()
	never, none := -1, manifest.Duration(0)
	cfg.Extensions.Defaults.Restart = manifest.Restart{MaxAttempts: &never, BaseBackoff: &none}
	for i := range stormExtensions {
		f.Add(stormID(i), runs(program))
		cfg.Plugins = append(cfg.Plugins,
			approverSpec(program, stormID(i), []governance.Kind{governance.KindNative, governance.KindGRPC}[i%2]))
	}
	h := f.OpenWith(cfg, exthost.Options{
		StateDir:    state,
		PolicyKinds: exthost.PolicyKinds{GRPC: grpcpolicy.NewInstance},
	})
	s := &storm{
		t:    t,
		h:    h,
		pid:  func(i int) int { return policyPID(h, i) },
		ends: []protocol.Kind{protocol.GovernanceUnavailable, protocol.Rejected},
	}
	if all := s.rage(kills, random, state); all[answered] == 0 || all[unsent] == 0 || all[uncertain] > 0 {
		t.Error("no storm")
	}
	for i := range stormExtensions {
		approved(t, journalOf(state, i), filepath.Join(state, ".policies", "policy-over-"+stormID(i), "approved"))
	}
}

// policyPID returns the process of the policy over an extension, 0 if it has none.
func policyPID(h *exthost.Host, i int) int {
	for _, p := range h.Status().Policies {
		if p.Name == "over-"+stormID(i) && len(p.Process.Instances) > 0 {
			return p.Process.Instances[0].PID
		}
	}
	return 0
}

// approved checks that the policy's journal has every call of the extension's journal.
func approved(t *testing.T, journal, approvals string) {
	t.Helper()
	approved := make(map[string]bool)
	for _, nonce := range entriesOf(t, approvals) {
		approved[nonce] = true
	}
	for _, nonce := range entriesOf(t, journal) {
		if !approved[nonce] {
			t.Errorf("%s: %s was carried out, and never approved", journal, nonce)
		}
	}
}
