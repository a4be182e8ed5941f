package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/benchtest"
	"github.com/exthost/exthost/peers"
)

// BenchmarkFarCall compares a call at another node, of a process of its own, with what it is made
// of: a call of the same extension at this host, and a request over the same server to another
// process that returns the body.
func BenchmarkFarCall(b *testing.B) {
	s := startServers(b, 1)
	startNode(b, s.urls(), "gpu1", peers.AsMine)
	spawn(b, "answer "+s.urls()[0])
	web := open(b, join(b, s.urls(), "web", peers.AsMine), true)
	alone := open(b, nil, true)
	awaitTool(b, web, "ext_gpu1_x_echo", true)
	conn, err := nats.Connect(s.urls()[0])
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	args := json.RawMessage(fmt.Sprintf(`{"text":%s}`, benchtest.Text(100)))
	call := func(h *exthost.Host, tool string) func() error {
		return func() error {
			r, err := h.Call(context.Background(), tool, args)
			if err == nil && len(r) < len(args) {
				err = errors.New("a result of the wrong size")
			}
			return err
		}
	}
	ways := []benchtest.Way{
		{Name: "request", Call: func() error {
			_, err := conn.Request("answer", args, time.Minute)
			return err
		}},
		{Name: "alone", Call: call(alone, "ext_x_echo")},
		{Name: "local", Call: call(web, "ext_x_echo")},
		{Name: "far", Call: call(web, "ext_gpu1_x_echo")},
	}
	for _, l := range []benchtest.Load{benchtest.Sequential, benchtest.Callers16, benchtest.Callers64} {
		b.Run(l.Name, func(b *testing.B) { l.Compare(b, ways...) })
	}
}
