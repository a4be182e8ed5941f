package sandbox_test

import (
	"testing"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/sandbox"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// BenchmarkStart compares the start and end of a process in sandboxes with that of a bare one, in one run. A
// call costs nothing more: nothing of the host stands between.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	place := sandbox.Place{Dir: dir, State: dir + "/state"}
	contained := process.Contain("")
	defer contained.Close()
	for _, way := range []struct {
		name  string
		table *ask.Table
	}{{"bare", nil}, {"sandboxed", &ask.Table{Write: []string{"{state}"}}}, {"node", &ask.Table{Profile: ask.ProfileNode}}} {
		b.Run(way.name, func(b *testing.B) {
			s := process.Spec{Path: "/bin/true", Containment: contained}
			if way.table != nil {
				policy, err := sandbox.Resolve(way.table, place)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := policy.Check(); err != nil {
					b.Skipf("NOT TESTED: %s: %v", b.Name(), err)
				}
				s.Sandbox = policy
			}
			for b.Loop() {
				p, err := process.Start(b.Context(), s)
				if err != nil {
					b.Fatal(err)
				}
				<-p.Done()
				p.Stdout.Close()
			}
		})
	}
}
