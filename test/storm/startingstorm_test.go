package storm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

// slow returns a folder with the scripted extension x. From its second start on, its handshake takes that long.
func slow(t *testing.T, takes time.Duration) *hosttest.Folder {
	f := hosttest.NewFolder(t)
	f.Add("x", hosttest.OffersTwo+
		"[transport]\nscript = \"x.sh\"\n[runtime]\nstart_timeout = \"5m\"\nmax_queue = 10000\n")
	f.Write("x/x.sh", fmt.Sprintf("#!/bin/sh\n[ -e \"$EXTHOST_STATE_DIR/begun\" ] && sleep %g\n",
		takes.Seconds())+strings.TrimPrefix(hosttest.Scripted, "#!/bin/sh\n"))
	f.Write("x/tools.json", hosttest.TwoTools)
	return f
}

// From the second start on, the list is complete within 100 ms, however long the handshake takes, and none of 10,000
// calls during the start fails for an unknown tool.
func TestListBeforeSlowHandshakes(t *testing.T) {
	if !stormtest.Full {
		t.Skip("handshakes of up to 90 s: set EXTHOST_STORM=1; TestCachedToolsWhileStarting runs always")
	}
	processtest.Leaks(t)
	for _, takes := range []time.Duration{500 * time.Millisecond, 7 * time.Second, 30 * time.Second, 90 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			f, state := slow(t, takes), t.TempDir()
			f.Open(exthost.Options{StateDir: state}).Close()
			var h *exthost.Host
			stormtest.Claim(t, "from the start to a complete list", 100*time.Millisecond,
				func() (time.Duration, string) {
					if h != nil {
						h.Close()
					}
					began := time.Now()
					h = f.Open(exthost.Options{StateDir: state, Mode: hosttest.Background})
					list := hosttest.Listed(t, h)
					took := time.Since(began)
					if !slices.Equal(list, []string{"ext_x_greet", "ext_x_part"}) {
						t.Errorf("listed %q", list)
					}
					return took, fmt.Sprintf("a handshake of %v", takes)
				})
			t.Parallel() // all claims have been measured by now, and the handshakes are waited for together
			errs := make([]error, 10_000)
			var wg sync.WaitGroup
			for n := range errs {
				wg.Go(func() {
					_, errs[n] = h.Do(t.Context(),
						&protocol.Call{
							Method: protocol.MethodToolsCall,
							Params: json.RawMessage(`{"name":"ext_x_greet"}`),
						})
				})
			}
			wg.Wait()
			outcomes := make(map[protocol.Kind]int)
			for _, err := range errs {
				outcomes[protocol.KindOf(err)]++
			}
			t.Logf("outcomes: %v", outcomes)
			if outcomes[protocol.ToolNotFound] > 0 || outcomes[""] == 0 {
				t.Errorf("%d calls of an unknown tool, %d answered", outcomes[protocol.ToolNotFound], outcomes[""])
			}
		})
	}
}

// At the first start, the first list has the tools of a server that its package runner takes 20 s to install.
func TestFirstListHasASlowInstallation(t *testing.T) {
	if !stormtest.Full {
		t.Skip("an installation of 20 s: set EXTHOST_STORM=1; TestFirstListWaits runs always")
	}
	processtest.Leaks(t)
	f, state := hosttest.NewFolder(t), t.TempDir()
	f.Add("npm", hosttest.OffersTwo+
		"[transport]\ncommand = \"./npx\"\nargs = [\"-y\", \"some-server\"]\nprotocol = \"native\"\n")
	f.Write("npm/npx", "#!/bin/sh\nsleep 20\n"+strings.TrimPrefix(hosttest.Scripted, "#!/bin/sh\n"))
	f.Write("npm/tools.json", hosttest.TwoTools)
	h := f.Open(exthost.Options{StateDir: state, Mode: hosttest.Background})
	raw, err := h.Do(t.Context(), &protocol.Call{Method: protocol.MethodToolsList})
	if err != nil || !strings.Contains(string(raw), "ext_npm_greet") {
		t.Errorf("the first list: %s, %v", raw, err)
	}
	if n := len(hosttest.LinesOf(t, state, "npm", "begun")); n != 1 {
		t.Errorf("started %d times", n)
	}
}
