//go:build !slim

package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// A revoked node is disconnected at once: its calls are lost, its tools disappear, and it reports the reason.
func TestRevokedNodeIsDisconnected(t *testing.T) {
	processtest.Leaks(t)
	dir, address := filepath.Join(t.TempDir(), "cluster"), "127.0.0.1:"+processtest.FreePorts(t, 1)[0]
	files, err := hub.Init(dir, "main", []string{"tls://" + address})
	if err != nil {
		t.Fatal(err)
	}
	h, err := hub.Open(within(t), hub.Options{Dir: dir, Listen: address, Log: logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(within(t)); err != nil {
			t.Error(err)
		}
	})
	invite := func(name string) string {
		t.Helper()
		text, err := files.Invite(name)
		file := filepath.Join(t.TempDir(), name)
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	node{Name: "gpu1", As: peers.AsMine, Join: invite("gpu1"), Plugins: x}.start(t)
	out := node{Name: "out", As: peers.AsMine, Join: invite("out"), Plugins: x}.open(t)
	front := node{Name: "quick", As: peers.AsMine, Join: invite("quick"), Forget: time.Second}.open(t)
	for _, name := range []string{"gpu1", "out"} {
		awaitTool(t, front, "ext_"+name+"_x_note", true)
	}
	file := filepath.Join(t.TempDir(), "notes")
	outcome := waiting(t, front, "ext_out_x_note", file)
	if err := files.Revoke("out"); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; !isLost(err) {
		t.Errorf("the call that ran: %v", err)
	}
	_, err = front.Call(within(t), "ext_out_x_echo", map[string]any{"n": 1})
	if kind := protocol.KindOf(err); kind != protocol.NotReady && kind != protocol.ToolNotFound {
		t.Errorf("the next call: %v", err)
	}
	awaitTool(t, front, "ext_out_x_note", false)
	if _, err := front.Call(within(t), "ext_gpu1_x_echo", map[string]any{"n": 1}); err != nil {
		t.Errorf("another node: %v", err)
	}
	eventually(t, "it says why", func() bool { return strings.Contains(out.Status().Cluster.Reason, "invited again") })
}
