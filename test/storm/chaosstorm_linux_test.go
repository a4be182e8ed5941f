package storm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
)

// chaos is a host over HTTP to which everything happens at once, in rounds.
type chaos struct {
	t       *testing.T
	f       *hosttest.Folder
	h       *exthost.Host
	url     string
	program string
	random  *rand.Rand

	mu   sync.Mutex // guards next
	next config.Config
}

// TestChaosKeepsNothing does to a host everything that operators, authors and the system do. The host must then
// keep no more memory than before.
func TestChaosKeepsNothing(t *testing.T) {
	if !stormtest.Full || stormtest.Racing() {
		t.Skip("minutes of chaos: set EXTHOST_STORM=1")
	}
	program := subject(t)
	processtest.Leaks(t)
	c := &chaos{t: t, f: hosttest.NewFolder(t), program: program, random: randomly(t)()}
	for i := range stormExtensions {
		c.f.Add(stormID(i), runs(program)+tireless)
	}
	c.next = *c.f.Config()
	c.h = c.f.OpenWith(c.f.Config(), exthost.Options{Reread: func() (*config.Config, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		cfg := c.next
		return &cfg, nil
	}})
	c.url = hosttest.OverHTTP(t, c.h)
	c.round(0)
	c.fill()
	// logs fill up to their bounds during the first try
	stormtest.Claim(t, "KiB more that are alive in the second half", 512, func() (int, string) {
		var alive []int
		for n := range 24 {
			c.round(n)
			alive = append(alive, c.alive()>>10)
		}
		first, second := slices.Min(alive[:12]), slices.Min(alive[12:])
		return second - first, fmt.Sprintf("%d KiB in the first of %v", first, alive)
	})
}

// fill fills the bounded records of a host: the latest calls, and the decisions about them.
func (c *chaos) fill() {
	for range 600 {
		ctx, cancel := context.WithTimeout(context.Background(), hosttest.Patience)
		_, _ = c.h.Call(ctx, "ext_"+stormID(0)+"_echo", map[string]any{"text": strings.Repeat("x", 8<<10)})
		cancel()
	}
}

// round lets clients call while extensions are killed, stopped and replaced.
func (c *chaos) round(n int) {
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() { c.client(n + i) })
	}
	for i := range stormExtensions {
		c.disturb(stormID(i))
	}
	c.reload(n)
	clients.Wait()
}

// disturb kills an extension, or stops it for a while.
func (c *chaos) disturb(id string) {
	pid := hosttest.PidOf(c.t, c.h, id)
	if c.random.IntN(2) == 0 {
		kill(pid)
		return
	}
	if pid > 0 && syscall.Kill(pid, syscall.SIGSTOP) == nil {
		time.AfterFunc(20*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
}

// reload changes an extension, breaks and mends another, adds or removes a third, and changes the policies.
func (c *chaos) reload(n int) {
	id := stormID(n % stormExtensions)
	c.f.Add(id, runs(c.program, fmt.Sprint("round", n))+tireless)
	broken := stormID((n + 1) % stormExtensions)
	c.f.Write(broken+"/plugin.toml", "[plugin\nid = ")
	guest := fmt.Sprint("guest", n%3)
	c.f.Add(guest, runs(c.program))
	spec := hosttest.GuardSpec(c.t, "guard", "guard")
	spec.Env["BUILD"] = fmt.Sprint(n)
	c.mu.Lock()
	c.next.Plugins = nil
	if n%2 == 0 {
		c.next.Plugins = append(c.next.Plugins, spec)
	}
	c.mu.Unlock()
	c.reloads()
	c.f.Add(broken, runs(c.program)+tireless)
	if err := os.RemoveAll(c.f.Dir + "/" + guest); err != nil {
		c.t.Error(err)
	}
	c.reloads()
}

func (c *chaos) reloads() {
	ctx, cancel := context.WithTimeout(context.Background(), hosttest.Patience)
	defer cancel()
	if _, err := c.h.Admin().Reload(ctx); err != nil && protocol.KindOf(err) != protocol.ShuttingDown {
		c.t.Errorf("reload: %v", err)
	}
}

// client lists and calls in a session of its own, and ends the session.
func (c *chaos) client(n int) {
	ctx, cancel := context.WithTimeout(context.Background(), hosttest.Patience)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "chaos", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: c.url + "/mcp"}, nil)
	if err != nil {
		c.t.Errorf("client: %v", err)
		return
	}
	defer session.Close()
	if _, err := session.ListTools(ctx, nil); err != nil {
		c.t.Errorf("tools/list: %v", err)
	}
	for i := range 10 { // many of them fail, because their extensions die
		calling, stop := context.WithTimeout(ctx, time.Duration(1+i)*50*time.Millisecond)
		_, _ = session.CallTool(calling,
			&mcp.CallToolParams{
				Name:      "ext_" + stormID((n+i)%stormExtensions) + "_echo",
				Arguments: map[string]any{"text": fmt.Sprint(n, i)},
			})
		stop()
	}
}

// alive returns the reachable memory in bytes once every extension is ready again.
func (c *chaos) alive() int {
	hosttest.Eventually(c.t, "all extensions are ready", func() bool {
		for _, x := range c.h.Status().Extensions {
			if x.State != "ready" {
				return false
			}
		}
		return c.h.Admin().Measures().Sessions == 0
	})
	http.DefaultClient.CloseIdleConnections()
	least, tick := math.MaxInt, time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for range 8 { // what has ended may take a moment to be gone, and pools empty in two collections
		<-tick.C
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, int(m.HeapAlloc))
	}
	return least
}
