package sandbox_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"testing"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/testing/benchtest"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// ways are the sandboxes that are compared with no sandbox.
var ways = []struct {
	name  string
	table *ask.Table
}{
	{"bare", nil}, {"sandboxed", &ask.Table{Write: []string{"{state}"}}},
	{"node", &ask.Table{Profile: ask.ProfileNode}},
	{"hosts", &ask.Table{Profile: ask.ProfileNode, Net: []string{"api.example.com:443"}}},
}

// spec is a program in a sandbox; not sandboxed if table is nil.
func spec(b *testing.B, path string, table *ask.Table) process.Spec {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	contained := process.Contain(self) // runs the init of namespaces
	b.Cleanup(contained.Close)
	s := process.Spec{Path: path, Containment: contained}
	if table == nil {
		return s
	}
	dir := b.TempDir()
	policy, err := sandbox.Resolve(table, sandbox.Place{Dir: dir, State: dir + "/state"})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := process.Protect(policy, false, contained); err != nil {
		b.Skipf("NOT MEASURED: %s: %v", b.Name(), err)
	}
	s.Sandbox = policy
	return s
}

// BenchmarkStart compares the start and end of a sandboxed process with a bare one, in one run.
func BenchmarkStart(b *testing.B) {
	var ran []benchtest.Way
	for _, way := range ways {
		s := spec(b, "/bin/true", way.table)
		ran = append(ran, benchtest.Way{
			Name: way.name,
			Call: func() error {
				p, err := process.Start(context.Background(), s)
				if err != nil {
					return err
				}
				<-p.Done()
				return p.Stdout.Close()
			},
		})
	}
	benchtest.Load{Name: "start", Callers: 1, Calls: 20}.Compare(b, ran...)
}

// BenchmarkCall compares a line to a sandboxed process and back with a bare one, without any code of the host in
// between.
func BenchmarkCall(b *testing.B) {
	var ran []benchtest.Way
	for _, way := range ways {
		p, err := process.Start(b.Context(), spec(b, "/bin/cat", way.table))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = p.Stdin.Close()
			<-p.Done()
			_ = p.Stdout.Close()
		})
		out := bufio.NewReader(p.Stdout)
		ran = append(ran, benchtest.Way{
			Name: way.name,
			Call: func() error {
				if _, err := io.WriteString(p.Stdin, "a line of a call\n"); err != nil {
					return err
				}
				_, err := out.ReadSlice('\n')
				return err
			},
		})
	}
	benchtest.Load{Name: "call", Callers: 1, Calls: 5000}.Compare(b, ran...)
}
