package cluster_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// An operation on a remote extension that is not allowed is refused with the node and the command to use
// there.
func TestOperatorOfAnotherNode(t *testing.T) {
	urls := sharedServers(t)
	startNode(t, urls, "gpu1", peers.AsMine)
	h, err := exthost.Open(within(t), config.Default(), exthost.Options{
		StateDir: t.TempDir(),
		Logger:   logger(),
		Cluster:  join(t, urls, "front", peers.AsMine),
		Disable:  func(id string, _ bool) error { t.Errorf("%s is written", id); return nil },
	})
	front := closed(t, h, err)
	awaitTool(t, front, "ext_gpu1_x_pid", true)
	before, err := front.Call(within(t), "ext_gpu1_x_pid", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := front.Admin()
	for command, run := range map[string]func(ctx context.Context) error{
		"restart": func(ctx context.Context) error { return a.Restart(ctx, "gpu1.x") },
		"disable": func(ctx context.Context) error { return a.Disable(ctx, "gpu1.x") },
		"enable":  func(ctx context.Context) error { return a.Enable(ctx, "gpu1.x") },
		"status":  func(context.Context) error { _, err := a.Spec("gpu1.x"); return err },
		"calls record FILE": func(ctx context.Context) error {
			return front.Recordings().Record(ctx, exthost.RecordOptions{Extensions: []string{"gpu1.x"}},
				new(bytes.Buffer))
		},
	} {
		err := run(within(t))
		if protocol.KindOf(err) != protocol.InvalidArguments || !strings.Contains(err.Error(), "node gpu1") ||
			!strings.Contains(err.Error(), "exthost "+command+" x there") {
			t.Errorf("%s: %v", command, err)
		}
	}
	if err := a.Restart(within(t), "gpu1.y"); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("one that the node does not have: %v", err)
	}
	if after, err := front.Call(within(t), "ext_gpu1_x_pid", nil); err != nil || after.Text() != before.Text() {
		t.Errorf("%s before, %s after, %v", before, after, err)
	}
}
