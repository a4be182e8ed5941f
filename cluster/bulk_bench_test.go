package cluster_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/peers"
)

// BenchmarkSmallCallsBesideLongBodies measures small calls while sixteen bodies of 15 MiB travel to a node that reads
// 40 MB/s, and back.
func BenchmarkSmallCallsBesideLongBodies(b *testing.B) {
	const bodies, size, rate = 16, 15 << 20, 40e6
	s := startServers(b, 3)
	node{Name: "gpu1", As: peers.AsMine, URLs: s.urls()[1:2], Plugins: []plugin{{}, {ID: "other"}}}.start(b)
	way := newProxy(b, s.urls()[0], func(c crossing) int {
		if !c.up {
			time.Sleep(time.Duration(float64(len(c.raw)) / rate * float64(time.Second)))
		}
		return 1
	})
	front := open(b, join(b, []string{way.url()}, "front", peers.AsMine), false)
	awaitTool(b, front, "ext_gpu1_x_echo", true)
	awaitTool(b, front, "ext_gpu1_other_echo", true)
	text := bytes.Repeat([]byte("x"), size)
	var took stormtest.Durations
	for b.Loop() {
		var callers sync.WaitGroup
		for range bodies {
			callers.Go(func() {
				if err := echo(b, front, "ext_gpu1_x_echo", text); err != nil {
					b.Error(err)
				}
			})
		}
		over := make(chan struct{})
		go func() { callers.Wait(); close(over) }()
		for going := true; going; {
			began := time.Now()
			if err := echo(b, front, "ext_gpu1_other_echo", []byte("small")); err != nil {
				b.Error(err)
			}
			took = append(took, time.Since(began))
			select {
			case <-over:
				going = false
			default:
			}
		}
	}
	b.ReportMetric(float64(took.Quantile(0.5).Microseconds())/1e3, "p50-ms")
	b.ReportMetric(float64(took.Quantile(0.99).Microseconds())/1e3, "p99-ms")
}
