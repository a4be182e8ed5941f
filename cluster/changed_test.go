package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// A descriptor that changes during a call does not end it. If it changed before the call and the caller has
// not heard of it, the call is refused and never runs.
func TestChangedDescriptor(t *testing.T) {
	urls, dir := sharedServers(t), t.TempDir()
	h, err := openHost(join(t, urls, "gpu1", peers.AsMine), dir, exe(t), x)
	owner := closed(t, h, err)
	var deaf atomic.Bool
	way := newProxy(t, urls[0], func(c crossing) int {
		if deaf.Load() && !c.up && (c.head.Kind == wire.Here || c.head.Kind == wire.Have) {
			return 0
		}
		return 1
	})
	front := open(t, join(t, []string{way.url()}, "front", peers.AsMine), false)
	shown := func(h *exthost.Host, tool, text string) {
		t.Helper()
		eventually(t, text, func() bool {
			e, ok := h.Tools().Lookup(tool)
			return ok && strings.Contains(string(e.Raw), text)
		})
	}
	describe := func(text string) {
		t.Helper()
		if err := (plugin{Describe: text}).install(dir, exe(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := owner.Admin().Reload(within(t)); err != nil {
			t.Fatal(err)
		}
		shown(owner, "ext_x_note", text)
	}
	describe("the first")
	shown(front, "ext_gpu1_x_note", "the first")
	file, till, outcome := filepath.Join(t.TempDir(), "notes"), filepath.Join(t.TempDir(), "till"), make(chan error, 1)
	go func() {
		_, err := front.Call(within(t), "ext_gpu1_x_note", map[string]any{"file": file, "text": "a", "till": till})
		outcome <- err
	}()
	eventually(t, "the call runs", func() bool { return len(noted(t, file)) == 1 })
	describe("the second")
	shown(front, "ext_gpu1_x_note", "the second")
	if err := os.WriteFile(till, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; err != nil {
		t.Errorf("a call that ran: %v", err)
	}
	deaf.Store(true)
	describe("the third")
	_, err = front.Call(within(t), "ext_gpu1_x_note", map[string]any{"file": file, "text": "b"})
	if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.DescriptorChanged ||
		e.Outcome != "" {
		t.Errorf("a call of what the owner does not offer any more: %#v", err)
	}
	if _, err := front.Call(within(t), "ext_gpu1_x_echo", map[string]any{"n": 1}); err != nil {
		t.Errorf("a tool that has not changed: %v", err)
	}
	deaf.Store(false)
	shown(front, "ext_gpu1_x_note", "the third")
	if _, err := front.Call(within(t), "ext_gpu1_x_note", map[string]any{"file": file, "text": "c"}); err != nil {
		t.Error(err)
	}
	if ran := noted(t, file); !slices.Equal(ran, []string{"a", "c"}) {
		t.Errorf("ran: %q", ran)
	}
}

// A second host with the name of a running node does not start, and its error contains the name.
func TestNameIsTaken(t *testing.T) {
	urls := sharedServers(t)
	first := open(t, join(t, urls, "gpu1", peers.AsMine), true)
	h, err := openHost(join(t, urls, "gpu1", peers.AsMine), t.TempDir(), exe(t), x)
	if err == nil {
		t.Fatal(h.Close())
	}
	if protocol.KindOf(err) != protocol.ConfigInvalid || !strings.Contains(err.Error(), "node gpu1") ||
		!strings.Contains(err.Error(), "--node") {
		t.Errorf("%v", err)
	}
	if _, err := first.Call(within(t), "ext_x_echo", map[string]any{"n": 1}); err != nil ||
		first.Status().Cluster.Reason != "" {
		t.Errorf("the first: %v, %q", err, first.Status().Cluster.Reason)
	}
}
