package serve

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

// The greeting shows what the kernel enforces, and what it does not.
func TestGreetingOfASandbox(t *testing.T) {
	for _, tt := range []struct {
		box  *status.Sandbox
		want string
	}{
		{nil, ""},
		{&status.Sandbox{Holds: []string{"files", "network"}}, "      in a sandbox: files, network\n"},
		{&status.Sandbox{Lacks: []string{"files: not on plan9"}},
			"      ! its sandbox is not enforced; NOT enforced: files: not on plan9\n"},
	} {
		g := greeting{c: &console.Console{}, width: 100}
		g.extension(status.Extension{ID: "x", State: "ready", Sandbox: tt.box}, nil, nil)
		if _, got, _ := strings.Cut(g.b.String(), "\n"); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
