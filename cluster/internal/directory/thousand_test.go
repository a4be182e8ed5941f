package directory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/stormtest"
)

// 1,000 nodes join within 10 s, some of them die, and one changes. Without EXTHOST_STORM there are 150 nodes.
func TestThousandNodesJoin(t *testing.T) {
	count := stormtest.Sized(150, 1000)
	simulate(t, func(t *testing.T, n *network) {
		began := time.Now()
		nodes := make([]*node, count)
		for i := range nodes {
			time.Sleep(10 * time.Second / time.Duration(count))
			nodes[i] = n.start(fmt.Sprintf("n%d", i), func(o *Options) { o.MaxTools = 200 })
			nodes[i].share(extension("notes", "add", "list"))
		}
		within(t, 50*time.Second, "all agree", func() bool { return agree(nodes...) })
		n.mu.Lock()
		t.Logf("all agree %v after the first began; messages: %v; at most %d bytes have waited for one node",
			time.Since(began), n.passed, n.most)
		if n.most > 8<<20 { // servers disconnect clients with 64 MiB of pending messages
			t.Errorf("%d bytes have waited for one node", n.most)
		}
		clear(n.passed)
		n.mu.Unlock()
		within(t, 10*time.Second, "all have places", func() bool {
			return !slices.ContainsFunc(nodes, func(x *node) bool { return len(x.Places()) != 100 })
		})
		time.Sleep(20 * time.Second)
		n.mu.Lock()
		t.Logf("messages in 20 s at rest: %v", n.passed)
		clear(n.passed)
		n.mu.Unlock()

		for range 3 {
			i := rand.IntN(len(nodes))
			nodes[i].kill()
			nodes = slices.Delete(nodes, i, i+1)
			took := within(t, 5*time.Second, "all know of a death", func() bool { return agree(nodes...) })
			t.Logf("a death is known by all after %v", took)
		}
		nodes[7].share(extension("notes", "add", "list", "find"))
		time.Sleep(tooSoon) // the change is announced
		took := within(t, time.Second, "all know of a change", func() bool { return agree(nodes...) })
		t.Logf("a change is known by all after %v", took)
		n.mu.Lock()
		t.Logf("messages: %v; at most %d bytes have waited for one node", n.passed, n.most)
		n.mu.Unlock()
		for _, x := range nodes {
			if len(x.told()) != 3 {
				t.Fatalf("lost: %v, want the three that died", x.told())
			}
		}
	})
}
