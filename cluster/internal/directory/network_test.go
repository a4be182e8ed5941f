package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// network simulates the servers of a cluster: it delivers messages, and reports messages to unknown runs.
type network struct {
	t     *testing.T
	speed int // bytes per second that a node reads

	mu      sync.Mutex
	runs    map[wire.Address]*node
	holders map[string]*node
	cut     func(a, b string) bool                  // nil: no split
	lose    func(from, to string, kind string) bool // nil: no message is lost
	passed  map[string]int                          // messages by kind
	most    int                                     // maximum bytes queued for one node
	early   bool                                    // sends fail
}

// node is a run and its directory.
type node struct {
	*Directory
	self   wire.Address
	net    *network
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	queue   []delivery
	waiting int
	more    chan struct{}
	dead    bool
	paused  bool
	changes int
	lost    []wire.Address
}

type delivery struct {
	from     string
	notTaken string
	message  []byte
}

func newNetwork(t *testing.T) *network {
	return &network{
		t:       t,
		speed:   50 << 20,
		runs:    make(map[wire.Address]*node),
		holders: make(map[string]*node),
		passed:  make(map[string]int),
	}
}

// start starts a run that shares nothing yet.
func (n *network) start(name string, change ...func(*Options)) *node {
	x := &node{self: wire.Address{Node: name, Run: wire.NewRun()}, net: n, more: make(chan struct{}, 1)}
	o := Options{
		Self:     x.self,
		Version:  "1.2.3",
		MaxBody:  16 << 20,
		MaxTools: 100_000,
		Sender:   x,
		Changed:  func() { x.mu.Lock(); x.changes++; x.mu.Unlock() },
		Lost:     func(a wire.Address) { x.mu.Lock(); x.lost = append(x.lost, a); x.mu.Unlock() },
	}
	for _, f := range change {
		f(&o)
	}
	x.Directory = New(o)
	n.mu.Lock()
	n.runs[x.self] = x
	n.mu.Unlock()
	var ctx context.Context
	ctx, x.cancel = context.WithCancel(context.Background())
	x.done.Go(func() { x.Run(ctx) })
	x.done.Go(func() { x.read(ctx) })
	x.Connected(true)
	return x
}

// stop makes a run say goodbye; kill does not.
func (x *node) stop() { x.cancel(); x.done.Wait(); x.drop() }
func (x *node) kill() { x.drop(); x.cancel(); x.done.Wait() }

// told returns the runs that were reported as lost.
func (x *node) told() []wire.Address {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.lost)
}

func (x *node) changed() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.changes
}

func (x *node) drop() {
	x.net.mu.Lock()
	defer x.net.mu.Unlock()
	delete(x.net.runs, x.self)
	if x.net.holders[x.self.Node] == x {
		delete(x.net.holders, x.self.Node)
	}
	x.mu.Lock()
	x.dead = true
	x.mu.Unlock()
}

// read delivers received messages at the speed of the network.
func (x *node) read(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.more:
		}
		x.mu.Lock()
		if x.paused {
			x.mu.Unlock()
			continue
		}
		queue, bytes := x.queue, x.waiting
		x.queue = nil
		x.mu.Unlock()
		time.Sleep(time.Millisecond + time.Duration(bytes)*time.Second/time.Duration(x.net.speed))
		for _, d := range queue {
			if d.notTaken != "" {
				x.NotTaken(d.notTaken)
				continue
			}
			h, body, err := wire.Decode(d.message)
			if err != nil {
				x.net.t.Error(err)
				continue
			}
			x.Receive(d.from, h, body)
		}
		x.mu.Lock()
		x.waiting -= bytes
		x.mu.Unlock()
	}
}

func (x *node) pause(yes bool) {
	x.mu.Lock()
	x.paused = yes
	x.mu.Unlock()
	x.wakeReader()
}

func (x *node) wakeReader() {
	select {
	case x.more <- struct{}{}:
	default:
	}
}

func (n *network) deliver(x *node, d delivery) {
	x.mu.Lock()
	x.queue = append(x.queue, d)
	x.waiting += len(d.message)
	waiting := x.waiting
	x.mu.Unlock()
	n.most = max(n.most, waiting)
	x.wakeReader()
}

// pass delivers a message. The caller holds the lock.
func (n *network) pass(from *node, x *node, message []byte) bool {
	if x == nil || from.self.Node != x.self.Node && n.cut != nil && n.cut(from.self.Node, x.self.Node) {
		return false
	}
	h, _, err := wire.Decode(message)
	if err != nil {
		n.t.Error(err)
		return true
	}
	n.passed[h.Kind]++
	if n.lose == nil || !n.lose(from.self.Node, x.self.Node, h.Kind) {
		n.deliver(x, delivery{from: from.self.Node, message: message})
	}
	return true
}

var errAway = errors.New("no connection")

func (x *node) Send(to wire.Address, notTaken string, message []byte) error {
	x.net.mu.Lock()
	defer x.net.mu.Unlock()
	target := x.net.runs[to]
	if to.Run == wire.NameRun {
		target = x.net.holders[to.Node]
	}
	if x.gone() {
		return errAway
	}
	if !x.net.pass(x, target, message) && notTaken != "" {
		x.net.deliver(x, delivery{notTaken: notTaken})
	}
	return nil
}

func (x *node) gone() bool { return x.net.early || x.net.runs[x.self] != x }

func (x *node) Broadcast(message []byte) error {
	x.net.mu.Lock()
	defer x.net.mu.Unlock()
	if x.gone() {
		return errAway
	}
	h, _, _ := wire.Decode(message)
	for _, to := range x.net.runs {
		if to == x || x.net.cut != nil && x.net.cut(x.self.Node, to.self.Node) {
			continue
		}
		x.net.passed[h.Kind]++
		if x.net.lose == nil || !x.net.lose(x.self.Node, to.self.Node, h.Kind) {
			x.net.deliver(to, delivery{from: x.self.Node, message: message})
		}
	}
	return nil
}

func (x *node) Any(message []byte) error {
	x.net.mu.Lock()
	defer x.net.mu.Unlock()
	if x.gone() {
		return errAway
	}
	for _, to := range x.net.holders { // in random order
		if to != x && x.net.pass(x, to, message) {
			return nil
		}
	}
	return nil
}

func (x *node) MaxPayload() int { return 1 << 20 }

func (x *node) Hold() error {
	x.net.mu.Lock()
	defer x.net.mu.Unlock()
	x.net.holders[x.self.Node] = x
	return nil
}

// stopAll stops all runs.
func (n *network) stopAll() {
	n.mu.Lock()
	var all []*node
	for _, x := range n.runs {
		all = append(all, x)
	}
	n.mu.Unlock()
	for _, x := range all {
		x.kill()
	}
}

// within waits until f is true. It fails the test after the time at.
func within(t *testing.T, at time.Duration, what string, f func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !f() {
		if time.Since(start) > at {
			t.Fatalf("not within %v: %s", at, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

// agree reports whether all nodes have equal directories.
func agree(nodes ...*node) bool {
	known := func(x *node) (hash sum, count int) {
		x.Directory.mu.Lock()
		defer x.Directory.mu.Unlock()
		return x.s.hash, len(x.s.ring)
	}
	first, _ := known(nodes[0])
	return !slices.ContainsFunc(nodes, func(x *node) bool {
		hash, count := known(x)
		return hash != first || count != len(nodes)
	})
}

// extension returns a share with tools.
func extension(id string, tools ...string) Share {
	s := Share{As: peers.AsMine, Offer: peers.Offer{Extension: id, Protocol: "native", State: "ready"}}
	for _, name := range tools {
		s.Tools = append(s.Tools,
			protocol.Tool{Name: name, Raw: fmt.Appendf(nil, `{"name": %q,  "inputSchema": {"type":"object"}}`, name)})
	}
	return s
}

func (x *node) share(s ...Share) { x.SetOwn(Own{Shares: s}) }

// placeTexts returns the places of a node as texts.
func (x *node) placeTexts() (list []string) {
	for _, p := range x.Places() {
		text := p.ID()
		for _, tool := range p.Tools {
			text += " " + tool.Name
			if p.Digests[tool.Name] != Digest(tool.Raw) {
				text += "?"
			}
		}
		if p.Leaving {
			text += " leaving"
		}
		list = append(list, text)
	}
	return list
}

func (x *node) has(places ...string) func() bool {
	return func() bool { return slices.Equal(x.placeTexts(), places) }
}

// simulate runs a test in a synctest bubble with a network.
func simulate(t *testing.T, f func(t *testing.T, n *network)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		defer n.stopAll()
		f(t, n)
	})
}

func several(n *network, prefix string, count int) (nodes []*node) {
	for i := range count {
		x := n.start(fmt.Sprintf("%s%d", prefix, i))
		x.share(extension("notes", "add", "list"))
		nodes = append(nodes, x)
	}
	return nodes
}

// Alive reports whether the run is present.
func (d *Directory) Alive(run wire.Address) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.present(run) != nil
}
