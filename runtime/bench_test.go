//go:build unix

package runtime

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// BenchmarkOverhead compares Call with the Call of the connection below it, in turns on the same child. It reports both
// medians and their difference.
func BenchmarkOverhead(b *testing.B) {
	for name, protocolName := range map[string]string{"native": manifest.ProtocolNative, "mcp": manifest.ProtocolMCP} {
		b.Run(name, func(b *testing.B) {
			s := spec(b, `init echo; parrot {"content":[{"type":"text","text":"ok"}]}`)
			if protocolName == manifest.ProtocolMCP {
				s = mcpSpec(b, `init {"protocolVersion":"2025-11-25","capabilities":{}}; parrot {"content":[],"tools":[]}`, protocol.MCP20251125)
			}
			r := start(b, s)
			conn := r.Instance.(*StdioRuntime).child.Load().conn
			ctx := context.Background()
			q := &Request{
				Method: protocol.MethodToolsCall,
				Params: json.RawMessage(`{"name":"echo","arguments":{"text":"twelve bytes"}}`),
			}
			ways := []func() error{
				func() error { _, err := conn.Call(ctx, q.Method, q.Params, nil); return err },
				func() error { _, err := r.Call(ctx, q); return err },
			}
			took := make([][]time.Duration, len(ways))
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				if err := ways[i%2](); err != nil {
					b.Fatal(err)
				}
				took[i%2] = append(took[i%2], time.Since(began))
			}
			floor, call := median(took[0]), median(took[1])
			b.ReportMetric(float64(floor), "conn-ns")
			b.ReportMetric(float64(call), "call-ns")
			for i, way := range ways {
				b.ReportMetric(testing.AllocsPerRun(200, func() { _ = way() }),
					[]string{"conn-allocs", "call-allocs"}[i])
			}
		})
	}
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkDialect measures only the editing of the JSON.
func BenchmarkDialect(b *testing.B) {
	s := spec(b, "")
	params := json.RawMessage(`{"name":"echo","arguments":{"text":"twelve bytes"}}`)
	modern := newMCP(&s)
	modern.modern = true
	for name, d := range map[string]dialect{"native": &native{}, "mcp": newMCP(&s), "mcp2026": modern} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			q := &Request{Method: protocol.MethodToolsCall, Params: params}
			for b.Loop() {
				_, _, _ = d.outgoing(q, callerToken(q))
				if convert := d.converter(q.Method); convert != nil {
					_, _ = convert([]byte(`{"content":[{"type":"text","text":"ok"}]}`))
				}
			}
		})
	}
}
