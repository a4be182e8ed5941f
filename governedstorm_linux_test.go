package exthost_test

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// approverSpec is a required policy of a kind over one extension, in a process that
// approves two calls of three.
func approverSpec(program, extension string, kind governance.Kind) governance.Spec {
	s := governance.Spec{Name: "over-" + extension, Kind: kind, Category: governance.Authorization, Required: true, Cmd: []string{program, "approve", string(kind)},
		Flows: []governance.Flow{governance.Request}, Match: governance.Match{Extensions: []string{extension}}}
	s.Normalize()
	return s
}

// policyStorm has callers call extensions, over each of which there is a required
// policy that is killed all the time.
type policyStorm struct {
	t       *testing.T
	h       *exthost.Host
	left    atomic.Int64 // kills
	done    chan struct{}
	ledgers [stormExtensions]ledger
}

// TestG1NothingRunsUnapproved kills required policies at random moments, those of
// their start among them, in a whole host. What an extension has carried out is what
// its policy had approved before, less the approvals that died on their way.
func TestG1NothingRunsUnapproved(t *testing.T) {
	kills := sized(100, 1_000)
	program := subject(t)
	processtest.Leaks(t)
	random := randomly(t)
	f, state := newFolder(t), t.TempDir()
	cfg := f.config()
	never, none := -1, manifest.Duration(0)
	cfg.Extensions.Defaults.Restart = manifest.Restart{MaxAttempts: &never, BaseBackoff: &none}
	for i := range stormExtensions {
		f.add(stormID(i), runs(program))
		cfg.Plugins = append(cfg.Plugins, approverSpec(program, stormID(i), []governance.Kind{governance.KindNative, governance.KindGRPC}[i%2]))
	}
	s := &policyStorm{t: t, h: f.openWith(cfg, exthost.Options{StateDir: state}), done: make(chan struct{})}
	s.left.Store(int64(kills))
	began := time.Now()
	var killers, callers sync.WaitGroup
	for i := range stormExtensions {
		r := random()
		killers.Go(func() { s.kill(i, r) })
		for j := range stormCallers {
			r := random()
			callers.Go(func() { s.call(i, j, r) })
		}
	}
	killers.Wait()
	close(s.done)
	callers.Wait()
	took := time.Since(began)
	if err := s.h.Close(); err != nil {
		t.Error(err)
	}
	var all tally
	for i := range stormExtensions {
		journal := filepath.Join(state, stormID(i), "journal")
		for o, n := range s.ledgers[i].reconcile(t, journal) {
			all[o] += n
		}
		s.approved(journal, filepath.Join(state, ".policies", "policy-over-"+stormID(i), "approved"))
	}
	if all[answered] == 0 || all[unsent] == 0 || all[uncertain] > 0 {
		t.Error("no storm")
	}
	t.Logf("%d kills in %v: %v; load %s", kills, took.Round(time.Millisecond), all, load())
}

// kill kills one process of a policy after another.
func (s *policyStorm) kill(i int, r *rand.Rand) {
	last := 0
	for s.left.Add(-1) >= 0 {
		for killed := false; !killed; {
			var pid int
			eventually(s.t, "the policy over "+stormID(i)+" lives", func() bool { pid = s.pid(i); return pid != 0 && pid != last })
			<-time.After(time.Duration(r.Int64N(int64(moments[r.IntN(len(moments))]))))
			killed, last = kill(pid), pid
		}
	}
}

func (s *policyStorm) pid(i int) int {
	for _, p := range s.h.Status().Policies {
		if p.Name == "over-"+stormID(i) && len(p.Process.Instances) > 0 {
			return p.Process.Instances[0].PID
		}
	}
	return 0
}

// call calls until the storm is over. Nothing but a policy keeps a call from its
// extension.
func (s *policyStorm) call(extension, caller int, r *rand.Rand) {
	for {
		select {
		case <-s.done:
			return
		default:
			s.ledgers[extension].call(s.t, s.h, stormID(extension), caller, r, protocol.GovernanceUnavailable, protocol.Rejected)
		}
	}
}

// approved wants every call of the extension's journal in that of its policy.
func (s *policyStorm) approved(journal, approvals string) {
	approved := make(map[string]bool)
	for _, nonce := range noncesOf(s.t, approvals) {
		approved[nonce] = true
	}
	for _, nonce := range noncesOf(s.t, journal) {
		if !approved[nonce] {
			s.t.Errorf("%s: %s was carried out, and never approved", journal, nonce)
		}
	}
}

// noncesOf are the lines of a journal.
func noncesOf(t *testing.T, journal string) (list []string) {
	f, err := os.Open(journal)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		list = append(list, lines.Text())
	}
	return list
}
