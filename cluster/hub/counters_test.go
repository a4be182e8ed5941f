//go:build !slim

package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/cluster/internal/credentials"
	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/quota"
	"github.com/exthost/exthost/cluster/internal/wire"
	limits "github.com/exthost/exthost/governance/quota"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// asker sends requests to hubs, like a node.
type asker struct {
	*link.Link
	node string
}

func (a asker) Ask(ctx context.Context, subject string, header map[string]string, data []byte) ([]byte, error) {
	return a.Link.Ask(ctx, subjects.ToHub(quota.Operation("main", subject), a.node), header, data)
}

// leaser returns the quota of a new node.
func leaser(t *testing.T, c *credentials.Credentials, urls ...string) *quota.Quota {
	t.Helper()
	self := wire.Address{Node: c.Node, Run: wire.NewRun()}
	access := c.Access
	access.URLs = urls
	l, err := link.Connect(t.Context(),
		link.Options{
			Access:   access,
			Subjects: subjects,
			Self:     self,
			Received: func(link.Message) {},
			NotTaken: func(string) {},
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return quota.New(quota.Options{
		Cluster: "main",
		Node:    c.Node,
		Run:     self.Run,
		Asker:   asker{l, c.Node},
		Nodes:   func() int { return 3 },
	})
}

// window is so long that it does not end during a test.
const window = 50 * 365 * 24 * time.Hour

// leased leases from a limit of 80, once the counters exist.
func leased(t *testing.T, q *quota.Quota) limits.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*deadline) // electing a leader takes time
	defer cancel()
	for began := time.Now(); ; {
		l, err := q.Lease(ctx, limits.Claim{Policy: "p", Key: "k", Limit: 80, Window: window})
		if err == nil {
			t.Logf("a lease after %v", time.Since(began).Round(time.Millisecond))
			return l
		}
		if ctx.Err() != nil {
			t.Fatalf("no lease: %v", err)
		}
	}
}

// TestStoreIsPreparedBeforeConnections tests that no connection can store counters in a directory that the server
// still clears: the server has met the nodes' account when it begins to serve.
func TestStoreIsPreparedBeforeConnections(t *testing.T) {
	processtest.Leaks(t)
	dir, _ := made(t, "tls://127.0.0.1:7822")
	h := open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0", Store: filepath.Join(t.TempDir(), "store")})
	if n := h.StoringAccounts(); n != 1 {
		t.Errorf("%d accounts are prepared, want 1", n)
	}
}

// A node reaches the counters of its cluster through hubs, and nothing else of JetStream.
func TestCounters(t *testing.T) {
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	o := hub.Options{Dir: dir, Listen: "127.0.0.1:0", Store: filepath.Join(t.TempDir(), "store")}
	h := open(t, o)
	c := invite(t, f, "n1")
	if l := leased(t, leaser(t, c, h.URL())); l.Units != 3 || l.Size != 3 || l.Last {
		t.Errorf("%+v", l)
	}
	n := connect(t, c, h.URL(), nats.CustomInboxPrefix("exthost.1.main.to.n1.asked"))
	for _, subject := range []string{"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.KV_other",
		"$JS.API.STREAM.UPDATE.KV_exthost_main_quota", "$JS.API.STREAM.DELETE.KV_exthost_main_quota",
		"$JS.API.STREAM.PURGE.KV_exthost_main_quota", "$JS.API.STREAM.MSG.DELETE.KV_exthost_main_quota",
		"$JS.API.STREAM.INFO.KV_other", "$JS.API.CONSUMER.CREATE.KV_exthost_main_quota",
		"$JS.API.DIRECT.GET.KV_exthost_main_quota", "$JS.API.STREAM.INFO.KV_exthost_main_quota",
		"$JS.API.STREAM.MSG.GET.KV_exthost_main_quota", "$KV.exthost_main_quota.x", "$KV.other.x",
		"$KV.exthost_main_quota.x.y", "$SYS.REQ.SERVER.PING"} {
		if err := n.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, subject, n.refused); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	for _, subject := range []string{"_INBOX.>", subjects.ToHubs(), "$KV.>", "$JS.>", "exthost.1.main.to.n2.asked.>"} {
		if _, err := n.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, subject, n.refused); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	key := strings.Repeat("k", 24)
	if m, err := n.Request(subjects.ToHub(key, "n1"), make([]byte, 65<<10), deadline); err != nil ||
		!strings.Contains(string(m.Data), "exceeds") {
		t.Fatalf("%v: %.200s", err, m.Data)
	}
	end(t, h)
	again := open(t, o)
	if l := leased(t, leaser(t, c, again.URL())); l.Units != 3 {
		t.Errorf("after a restart: %+v", l)
	}
	if got := taken(t, again, c); got != 6 {
		t.Errorf("%d units are taken, of 2 leases of 3", got)
	}
}

// A node cannot make a server send an answer to another node, whatever reply and subject it uses.
func TestAnswersReachWhoAsked(t *testing.T) {
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	h := open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0", Store: filepath.Join(t.TempDir(), "store")})
	c := invite(t, f, "n1")
	leased(t, leaser(t, c, h.URL()))
	n1, n2 := connect(t, c, h.URL(), nats.CustomInboxPrefix(subjects.Inbox("n1"))), connect(t, invite(t, f, "n2"),
		h.URL())
	self := wire.Address{Node: "n2", Run: "aaaaaaaaaa"}
	got := make(chan *nats.Msg, 4096)
	if _, err := n2.ChanSubscribe("exthost.1.main.to.n2.>", got); err != nil {
		t.Fatal(err)
	}
	n2.flush(t)
	key := strings.Repeat("k", 24)
	for range 100 {
		for _, what := range []string{"info", "get", key, "no key", "*"} {
			for _, reply := range []string{
				subjects.To(self, "n3"),
				subjects.To(self, "n1"),
				subjects.NoResponder(self, "call7"),
				subjects.Inbox("n2") + ".x",
				subjects.Inbox("n1") + "x.y",
			} {
				m := nats.NewMsg(strings.Replace(subjects.ToHub(what, "n1"), " ", ".", 1))
				m.Reply = reply
				m.Data = []byte(`{"last_by_subj":"$KV.exthost_main_quota.*"}`)
				if err := n1.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if m, err := n1.Request(subjects.ToHub("info", "n1"), nil, deadline); err != nil ||
		!strings.Contains(string(m.Data), "KV_exthost_main_quota") {
		t.Errorf("its own request: %v", err)
	}
	if err := n1.Publish(subjects.To(self, "n1"), []byte("last")); err != nil {
		t.Fatal(err)
	}
	if m := wait(t, "its own message", got); string(m.Data) != "last" {
		t.Errorf("%s: %.200s", m.Subject, m.Data)
	}
}

// taken returns how many units are taken of the counter that leased uses.
func taken(t *testing.T, h *hub.Hub, c *credentials.Credentials) (sum int64) {
	t.Helper()
	n := connect(t, c, h.URL(), nats.CustomInboxPrefix("exthost.1.main.to."+c.Node+".asked"))
	m, err := n.Request(subjects.ToHub("get", c.Node), []byte(`{"last_by_subj":"$KV.exthost_main_quota.*"}`), deadline)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Message struct {
			Data []byte `json:"data"`
		} `json:"message"`
	}
	var record struct {
		Taken map[string]int64 `json:"taken"`
	}
	if err := errors.Join(json.Unmarshal(m.Data, &found), json.Unmarshal(found.Message.Data, &record)); err != nil {
		t.Fatalf("%v: %s", err, m.Data)
	}
	for _, n := range record.Taken {
		sum += n
	}
	return sum
}

// Three hubs replicate the counters, so that one of them may end.
func TestThreeHubsReplicateCounters(t *testing.T) {
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	c := invite(t, f, "n1")
	listen, routes := free(t, 3), free(t, 3)
	var all []hub.Options
	var hubs []*hub.Hub
	var urls []string
	for i := range 3 {
		of := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.CopyFS(of, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := closed(of); err != nil {
			t.Fatal(err)
		}
		all = append(all, hub.Options{
			Dir:    of,
			Listen: listen[i],
			Routes: routes[i],
			Peers:  routes,
			Store:  filepath.Join(of, "store"),
		})
		hubs = append(hubs, open(t, all[i]))
		urls = append(urls, hubs[i].URL())
	}
	q := leaser(t, c, urls...)
	first := leased(t, q)
	end(t, hubs[0])
	second := leased(t, q)
	hubs[0] = open(t, all[0])
	end(t, hubs[1])
	third := leased(t, q)
	if sum := first.Units + second.Units + third.Units; sum != 9 {
		t.Errorf("%+v, %+v, %+v", first, second, third)
	}
	if got := taken(t, hubs[2], c); got != 9 {
		t.Errorf("%d units are taken, of 3 leases of 3", got)
	}
}

// A node may use many counters at once: its number of requests stays below the hub's limit per node.
func TestManyCountersAtOnce(t *testing.T) {
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	h := open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0", Store: filepath.Join(t.TempDir(), "store")})
	q := leaser(t, invite(t, f, "n1"), h.URL())
	leased(t, q)
	failed := make(chan error)
	const counters = 50
	for n := range counters {
		go func() {
			_, err := q.Lease(t.Context(), limits.Claim{Policy: "p", Key: fmt.Sprint(n), Limit: 80, Window: window})
			failed <- err
		}()
	}
	for range counters {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// A node gets leases while other nodes are revoked, which makes JetStream unavailable for a moment.
func TestCountersWhileNodesAreRevoked(t *testing.T) {
	if stormtest.Racing() {
		t.Skip("nats-server 2.15.2 has a race of its own here: addServiceImport against processServiceImport")
	}
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	h := open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0", Store: filepath.Join(t.TempDir(), "store")})
	q := leaser(t, invite(t, f, "n1"), h.URL())
	leased(t, q)
	ended, stop := context.WithCancel(t.Context())
	revoked := make(chan error)
	go func() {
		var err error
		for err == nil && ended.Err() == nil {
			err = h.SetClaims()
		}
		revoked <- err
	}()
	for n := range 200 {
		c := limits.Claim{
			Policy: "p",
			Key:    fmt.Sprint(n),
			Limit:  80,
			Window: window,
		}
		if _, err := q.Lease(t.Context(), c); err != nil {
			t.Error(err)
			break
		}
	}
	stop()
	if err := <-revoked; err != nil {
		t.Error(err)
	}
}
