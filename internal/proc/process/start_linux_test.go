package process

import (
	"testing"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// BenchmarkStart measures the cost of containment and limits from Start to Done. The variants alternate.
func BenchmarkStart(b *testing.B) {
	path, env := processtest.Script(b, "out ready")
	c := Contain(path)
	b.Cleanup(c.Close)
	ways := []struct {
		name string
		c    *Containment
		l    limited.Limits
	}{{name: "bare"}, {name: "contained", c: c}, {name: "limited", c: c, l: limited.Limits{OpenFiles: 64}}}
	ready, done := make([]time.Duration, len(ways)), make([]time.Duration, len(ways))
	for b.Loop() {
		for i, w := range ways {
			began := time.Now()
			p, err := Start(b.Context(), Spec{Path: path, Env: env, Containment: w.c, Limits: w.l})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Stdout.Read(make([]byte, 6)); err != nil {
				b.Fatal(err)
			}
			ready[i] += time.Since(began)
			<-p.Done()
			done[i] += time.Since(began)
			p.Stdout.Close()
		}
	}
	for i, w := range ways {
		b.ReportMetric(float64(ready[i].Microseconds())/float64(b.N), w.name+"-ready-µs")
		b.ReportMetric(float64(done[i].Microseconds())/float64(b.N), w.name+"-done-µs")
	}
	b.ReportMetric(0, "ns/op")
}
