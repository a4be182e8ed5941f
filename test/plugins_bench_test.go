package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

// BenchmarkPluginCall alternates calls of one program as a server of a plugin and as an extension with a plugin.toml,
// and reports both medians and their ratio.
func BenchmarkPluginCall(b *testing.B) {
	f := newPlugin(b, "reports", nil)
	f.stdio("a", nil, nil)
	f.Add("own", fmt.Sprintf("[transport]\nprotocol = \"mcp\"\ncommand = %q\nenv = { %s = \"plugged\" }\n",
		hosttest.Exe(b), processtest.ScriptVar))
	h := f.Open(exthost.Options{})
	tools := []string{"ext_own_look", "ext_reports_a_look"}
	took := map[string]stormtest.Durations{}
	call := func(tool string) {
		began := time.Now()
		_, err := h.Do(b.Context(), &protocol.Call{
			Method: protocol.MethodToolsCall,
			Params: []byte(`{"name":"` + tool + `","arguments":{}}`),
		})
		if err != nil {
			b.Fatal(err)
		}
		took[tool] = append(took[tool], time.Since(began))
	}
	if err := h.Ready(hosttest.Deadline(b)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, tool := range tools {
			call(tool)
		}
	}
	own, plugin := took[tools[0]].Quantile(0.5), took[tools[1]].Quantile(0.5)
	b.ReportMetric(float64(own), "ns/extension")
	b.ReportMetric(float64(plugin), "ns/plugin")
	b.ReportMetric(float64(plugin)/float64(own), "plugin/extension")
	b.ReportMetric(0, "ns/op")
}
