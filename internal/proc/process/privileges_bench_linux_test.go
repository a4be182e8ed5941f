package process

import (
	"testing"
	"time"
)

// BenchmarkPrivileges compares alternating starts with and without NewPrivileges: alone, when each start creates a
// thread, and beside another child.
func BenchmarkPrivileges(b *testing.B) {
	program, err := Resolve("true", "/", "/bin:/usr/bin")
	if err != nil {
		b.Fatal(err)
	}
	begin := func(s Spec) (*Process, time.Duration) {
		began := time.Now()
		p, err := Start(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		return p, time.Since(began)
	}
	end := func(p *Process) {
		<-p.Done()
		p.Stdout.Close()
	}
	compare := func(b *testing.B) {
		var total [2]time.Duration
		for b.Loop() {
			for i, free := range []bool{false, true} {
				p, took := begin(Spec{Path: program, NewPrivileges: free})
				end(p)
				total[i] += took
			}
		}
		b.ReportMetric(float64(total[0].Microseconds())/float64(b.N), "µs/restricted")
		b.ReportMetric(float64(total[1].Microseconds())/float64(b.N), "µs/free")
	}
	b.Run("alone", compare)
	b.Run("beside", func(b *testing.B) {
		cat, err := Resolve("cat", "/", "/bin:/usr/bin")
		if err != nil {
			b.Fatal(err)
		}
		p, _ := begin(Spec{Path: cat})
		compare(b)
		p.Stdin.Close()
		end(p)
	})
}
