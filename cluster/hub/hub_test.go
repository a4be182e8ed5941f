//go:build !slim

package hub_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/hub"
	"github.com/exthost/exthost/cluster/internal/credentials"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// deadline bounds every wait of these tests.
const deadline = 60 * time.Second

var subjects = wire.Subjects{Cluster: "main"}

// made creates a cluster with the given hub addresses.
func made(t *testing.T, urls ...string) (dir string, f *hub.Files) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "cluster")
	f, err := hub.Init(dir, "main", urls)
	if err != nil {
		t.Fatal(err)
	}
	return dir, f
}

func open(t *testing.T, o hub.Options) *hub.Hub {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	h, err := hub.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, h) })
	return h
}

func end(t *testing.T, h *hub.Hub) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

// invite invites a node and reads its invitation.
func invite(t *testing.T, f *hub.Files, node string) *credentials.Credentials {
	t.Helper()
	text, err := f.Invite(node)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), node+".creds")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := credentials.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// client is the connection of a node.
type client struct {
	*nats.Conn
	refused chan error
	closed  chan struct{}
}

func dial(c *credentials.Credentials, url string, more ...nats.Option) (*client, error) {
	n := &client{refused: make(chan error, 16), closed: make(chan struct{})}
	o := append([]nats.Option{nats.UserJWT(func() (string, error) { return c.JWT, nil }, c.Sign), nats.Secure(c.TLS),
		nats.NoReconnect(), nats.Timeout(deadline),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case n.refused <- err:
			default:
			}
		}), nats.ClosedHandler(func(*nats.Conn) { close(n.closed) })}, more...)
	var err error
	n.Conn, err = nats.Connect(url, o...)
	return n, err
}

func reconnecting(o *nats.Options) error {
	o.AllowReconnect = true
	return nil
}

func connect(t *testing.T, c *credentials.Credentials, url string, more ...nats.Option) *client {
	t.Helper()
	n, err := dial(c, url, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// flush waits until the server has handled all messages so far.
func (c *client) flush(t *testing.T) {
	t.Helper()
	if err := c.FlushTimeout(deadline); err != nil {
		t.Fatal(err)
	}
}

func wait[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(deadline):
		t.Fatalf("%s: nothing within %v", what, deadline)
	}
	return v
}

// until polls, for conditions without an event.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx, cancel := context.WithTimeout(t.Context(), deadline); ; {
		if ok() {
			cancel()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			cancel()
			t.Fatalf("%s: not within %v", what, deadline)
		}
	}
}

// free returns unused addresses.
func free(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for _, port := range processtest.FreePorts(t, n) {
		addresses = append(addresses, "127.0.0.1:"+port)
	}
	return addresses
}

// A node can neither send as another node, nor receive another node's messages, nor forge a server's
// messages.
func TestIdentity(t *testing.T) {
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	h := open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0"})
	n1, n2 := connect(t, invite(t, f, "n1"), h.URL()), connect(t, invite(t, f, "n2"), h.URL())
	self := wire.Address{Node: "n1", Run: "aaaaaaaaaa"}
	got := make(chan *nats.Msg, 16)
	for _, subject := range subjects.Subscribe("n1") {
		if _, err := n1.ChanSubscribe(subject, got); err != nil {
			t.Fatal(err)
		}
	}
	n1.flush(t)
	if len(n1.refused) > 0 {
		t.Fatal(<-n1.refused)
	}
	for _, forged := range []string{
		subjects.To(self, "n3"),
		subjects.To(self, "n1"),
		subjects.NoResponder(self, "call7"),
		subjects.All("n1"),
		subjects.Any("n1"),
		"exthost.1.other.all.n2",
		"_INBOX.x",
		"$SYS.REQ.SERVER.PING",
		"$JS.API.INFO",
		"exthost.hub.record",
	} {
		if err := n2.Publish(forged, []byte("forged")); err != nil {
			t.Fatal(err)
		}
		n2.flush(t)
		if err := wait(t, forged, n2.refused); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", forged, err)
		}
	}
	for _, foreign := range []string{
		subjects.ToRun(self),
		">",
		"exthost.>",
		"exthost.1.main.to.*.*.*",
		"_INBOX.>",
		"$SYS.>",
		"exthost.hub.record",
		"exthost.1.other.all.*",
	} {
		if _, err := n2.SubscribeSync(foreign); err != nil {
			t.Fatal(err)
		}
		n2.flush(t)
		if err := wait(t, foreign, n2.refused); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", foreign, err)
		}
	}
	for _, own := range []string{subjects.To(self, "n2"), subjects.All("n2"), subjects.Any("n2")} {
		if err := n2.Publish(own, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if m := wait(t, own, got); m.Subject != own || string(m.Data) != "hello" {
			t.Errorf("%s: %s", own, m.Subject)
		}
	}
	absent := nats.NewMsg(subjects.To(wire.Address{Node: "n2", Run: "gone"}, "n1"))
	absent.Reply = subjects.NoResponder(self, "call7")
	if err := n1.PublishMsg(absent); err != nil {
		t.Fatal(err)
	}
	if m := wait(t, "503", got); m.Subject != absent.Reply || m.Header.Get("Status") != "503" {
		t.Errorf("%s: %v", m.Subject, m.Header)
	}
}

// Nobody connects without an invitation, without TLS, or with the key of another cluster.
func TestOnlyInvitedNodesConnect(t *testing.T) {
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	_, other := made(t, "tls://127.0.0.1:7822")
	h := open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0"})
	own, foreign := invite(t, f, "n1"), invite(t, other, "n1")
	plain := strings.Replace(h.URL(), "tls://", "nats://", 1)
	if _, err := nats.Connect(plain, nats.Timeout(deadline)); err == nil {
		t.Error("a client without TLS is let in")
	}
	_, err := nats.Connect(h.URL(), nats.Secure(own.TLS), nats.Timeout(deadline))
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without a user: %v", err)
	}
	if _, err := dial(foreign, h.URL()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("another cluster's node trusts this hub: %v", err)
	}
	foreign.TLS = own.TLS
	if _, err := dial(foreign, h.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("another cluster's node: %v", err)
	}
	stolen := *own
	stolen.Sign = foreign.Sign // has the JWT of an invitation, but not its seed
	if _, err := dial(&stolen, h.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the seed: %v", err)
	}
}

// A node that is revoked is disconnected while the hub runs, and stays out. Other nodes are not affected. The
// name can be invited again.
func TestRevoke(t *testing.T) {
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	h := open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0"})
	c1, c2 := invite(t, f, "n1"), invite(t, f, "n2")
	n1, n2 := connect(t, c1, h.URL()), connect(t, c2, h.URL())
	if _, err := f.Invite("n2"); !errors.Is(err, hub.ErrInvited) {
		t.Errorf("invited twice: %v", err)
	}
	other, err := hub.OpenFiles(dir) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := other.Revoke("n2"); err != nil {
		t.Fatal(err)
	}
	wait(t, "the revoked node is closed", n2.closed)
	t.Logf("closed after %v", time.Since(began).Round(time.Millisecond))
	if _, err := dial(c2, h.URL()); err == nil {
		t.Error("a revoked node is let in again")
	}
	if err := other.Revoke("n2"); !errors.Is(err, hub.ErrNotInvited) {
		t.Errorf("revoked twice: %v", err)
	}
	again := invite(t, f, "n2")
	connect(t, again, h.URL())
	if _, err := dial(c2, h.URL()); err == nil {
		t.Error("the old key is let in after its name was given anew")
	}
	n1.flush(t)
	end(t, h)
	h = open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0"})
	if _, err := dial(c2, h.URL()); err == nil {
		t.Error("the old key is let in by the next hub")
	}
	connect(t, again, h.URL())
	connect(t, c1, h.URL())
}

// Three hubs with separate directories, as on three machines, form one cluster: messages pass between them, an
// invitation or revocation at one takes effect at all, and two survive the death of the third.
func TestThreeHubsFormOneCluster(t *testing.T) {
	processtest.Leaks(t)
	listen, routes := free(t, 3), free(t, 3)
	dir, _ := made(t, "tls://"+listen[0], "tls://"+listen[1], "tls://"+listen[2])
	var hubs []*hub.Hub
	var files []*hub.Files
	for i := range listen {
		of := filepath.Join(t.TempDir(), "cluster")
		if err := os.CopyFS(of, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := closed(of); err != nil {
			t.Fatal(err)
		}
		hubs = append(hubs, open(t, hub.Options{Dir: of, Listen: listen[i], Routes: routes[i], Peers: routes}))
		one, err := hub.OpenFiles(of)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, one)
	}
	c1, c2 := invite(t, files[0], "n1"), invite(t, files[2], "n2")
	all := strings.Join(c1.URLs, ",")
	n1, n2 := connect(t, c1, hubs[0].URL()), connect(t, c2, all, nats.DontRandomize(), reconnecting,
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	for i, known := range files {
		until(t, "all hubs know both", func() bool {
			nodes, err := known.Nodes()
			if err != nil {
				t.Fatal(i, err)
			}
			return len(nodes) == 2
		})
	}
	self := wire.Address{Node: "n2", Run: "aaaaaaaaaa"}
	got := make(chan *nats.Msg, 16)
	if _, err := n2.ChanSubscribe(subjects.ToRun(self), got); err != nil {
		t.Fatal(err)
	}
	n2.flush(t)
	end(t, hubs[0])
	wait(t, "the node of the hub that ended", n1.closed)
	n1 = connect(t, c1, hubs[1].URL())
	until(t, "a message over a route", func() bool {
		if err := n1.Publish(subjects.To(self, "n1"), nil); err != nil {
			t.Fatal(err)
		}
		n1.flush(t)
		return len(got) > 0
	})
	if err := files[1].Revoke("n2"); err != nil {
		t.Fatal(err)
	}
	until(t, "the node is out, wherever it was", func() bool { _, err := dial(c2, hubs[2].URL()); return err != nil })
	if _, err := dial(c2, hubs[1].URL()); err == nil {
		t.Error("a revoked node is let in where it was revoked")
	}
	revived := open(t, hub.Options{Dir: dir, Listen: listen[0], Routes: routes[0], Peers: routes})
	until(t, "a hub that comes back learns it", func() bool { _, err := dial(c2, revived.URL()); return err != nil })
}

// closed makes a copied directory private.
func closed(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.Chmod(filepath.Join(dir, e.Name()), 0o600))
	}
	return errors.Join(err, os.Chmod(dir, 0o700))
}

// Errors name the fault and the remedy.
func TestOpenErrors(t *testing.T) {
	processtest.Leaks(t)
	dir, f := made(t, "tls://127.0.0.1:7822")
	h := open(t, hub.Options{Dir: dir, Listen: "127.0.0.1:0"})
	taken := strings.TrimPrefix(h.URL(), "tls://")
	for _, tt := range []struct {
		name, want string
		o          hub.Options
	}{
		{"no cluster", "exthost cluster init", hub.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"}},
		{"taken", "cluster.hub.listen", hub.Options{Dir: dir, Listen: taken}},
		{"no address", "host:port", hub.Options{Dir: dir, Listen: "7822"}},
	} {
		if _, err := hub.Open(t.Context(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := hub.Init(dir, "main", nil); !errors.Is(err, hub.ErrExists) {
		t.Errorf("made twice: %v", err)
	}
	for _, node := range []string{"", "nobody", "*", "a.b", ">"} {
		if _, err := f.Invite(node); err == nil {
			t.Errorf("%q is invited", node)
		}
	}
}
