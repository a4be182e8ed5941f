package test

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/protocol"
)

// BenchmarkRecordedCall alternates calls with and without a recording. It reports both medians, their difference
// and their ratio; the difference must stay below 5 µs.
func BenchmarkRecordedCall(b *testing.B) {
	h := hosttest.NewFolder(b).Add("on", hosttest.BenchManifest).Add("off",
		hosttest.BenchManifest).Open(exthost.Options{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- h.Recordings().Record(ctx, exthost.RecordOptions{Extensions: []string{"on"}}, io.Discard)
	}()
	took := make(map[string][]time.Duration)
	names := []string{"off", "on"}
	for i := 0; b.Loop(); i++ {
		name := names[i%2]
		began := time.Now()
		if _, err := h.Do(ctx, &protocol.Call{
			Method: protocol.MethodToolsCall,
			Params: []byte(`{"name":"ext_` + name + `_echo","arguments":{"text":"twelve bytes"}}`),
		}); err != nil {
			b.Fatal(err)
		}
		took[name] = append(took[name], time.Since(began))
	}
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	for _, all := range took {
		slices.Sort(all)
	}
	if len(took["on"]) == 0 {
		return
	}
	off, on := took["off"][len(took["off"])/2], took["on"][len(took["on"])/2]
	b.ReportMetric(float64(off), "off-ns")
	b.ReportMetric(float64(on), "on-ns")
	b.ReportMetric(float64(on-off), "more-ns")
	b.ReportMetric(float64(on)/float64(off), "ratio")
}
