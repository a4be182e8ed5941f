// Package cluster carries calls between hosts, with exactly one outcome for each call. It tracks which nodes there
// are and which extensions they share.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/cluster/internal/credentials"
	"github.com/exthost/exthost/cluster/internal/directory"
	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/pair"
	"github.com/exthost/exthost/cluster/internal/quota"
	"github.com/exthost/exthost/cluster/internal/stream"
	"github.com/exthost/exthost/cluster/internal/throttle"
	"github.com/exthost/exthost/cluster/internal/wire"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

// Node is a host's membership in a cluster. It implements [peers.Cluster], for exthost.Options.Cluster.
type Node struct {
	o       Options
	servers *credentials.Credentials
	self    wire.Address
	link    atomic.Pointer[link.Link] // nil before Open
	members *directory.Directory
	pairs   *pair.Pairs
	remote  *remoteSessions
	quota   *quota.Quota
	local   localSessions
	traffic traffic
	streams atomic.Pointer[stream.Server] // serves requests of remote MCP sessions; nil: they are refused
	state   atomic.Pointer[connection]
	rtt     atomic.Int64 // round trip to the server in nanoseconds; 0: unknown

	host    peers.Host // set by Open, before any message arrives
	life    sync.WaitGroup
	closing context.Context // ends with Close
	close   context.CancelFunc

	shared atomic.Pointer[sharedTools]

	said struct {
		sync.Mutex // guards own, and keeps calls of members.SetOwn in order
		own        directory.Own
	}
}

// sharedTools holds the digests of the descriptors of shared tools, by extension and tool.
type sharedTools map[string]map[string]string

// connection is the state of the connection to a server.
type connection struct {
	connected bool
	reason    string // why it is not connected
	since     time.Time
	over      chan struct{} // closed when the next state replaces this one
}

var _ peers.Cluster = (*Node)(nil)

// New returns a node that has not joined yet. Its error is config_invalid.
func New(o Options) (*Node, error) {
	found, err := o.read()
	if err != nil {
		return nil, err
	}
	o.Log = slog.New(throttle.New(o.Log.Handler()))
	m := &o.Settings
	n := &Node{o: o, servers: found, self: wire.Address{Node: m.Node, Run: wire.NewRun()}}
	n.closing, n.close = context.WithCancel(context.Background())
	n.shared.Store(new(sharedTools))
	n.state.Store(&connection{reason: "it has not joined yet", over: make(chan struct{})})
	out := (*sender)(n)
	n.members = directory.New(directory.Options{
		Self:     n.self,
		Version:  o.Version,
		MaxBody:  o.MaxBody,
		MaxTools: m.MaxTools,
		Sender:   out,
		Log:      o.Log,
		Features: []string{featureOperations, wire.Batches},
		Use:      n.o.uses,
		Changed:  func() { n.host.PlacesChanged() },
		Waiting:  func() { n.host.WaitingChanged() },
		Lost:     n.lost,
		Grace:    m.Grace.Std(),
		Silent:   m.Silence.Std(),
		Forget:   m.Forget.Std(),
	})
	n.pairs = pair.New(pair.Options{
		Self:     n.self,
		Sender:   out,
		Unsent:   link.ErrUnsent,
		Node:     (*inbound)(n),
		Log:      o.Log,
		MaxBody:  n.maxBody,
		Batches:  func(to wire.Address) bool { _, ok := n.members.Knows(to, wire.Batches); return ok },
		MaxCalls: m.MaxCalls,
		Pulse:    m.Pulse.Std(),
		Grace:    m.Grace.Std(),
		Silence:  m.Silence.Std(),
	})
	n.remote, n.quota = newRemoteSessions(n.closing, n.pairs.Session), n.newQuota()
	return n, nil
}

// Open implements [peers.Cluster].
func (n *Node) Open(ctx context.Context, h peers.Host) error {
	n.host = h
	l, err := link.Connect(ctx, link.Options{
		Access:   n.servers.Access,
		Subjects: wire.Subjects{Cluster: n.o.Settings.Name},
		Self:     n.self,
		Log:      n.o.Log,
		Received: n.received,
		NotTaken: n.notTaken,
		State:    n.connected,
	})
	switch {
	case errors.Is(err, link.ErrRefused):
		return protocol.Errorf(protocol.ConfigInvalid,
			"cluster %s: %w; ask its operator for a new invitation: exthost cluster invite %s", n.o.Settings.Name, err,
			n.self.Node)
	case err != nil:
		return protocol.Errorf(protocol.ConfigInvalid, "cluster %s: %w", n.o.Settings.Name, err)
	}
	n.link.Store(l)
	if l.Connected() {
		n.connected(true, "")
	}
	n.life.Go(func() { n.members.Run(n.closing) })
	n.life.Go(func() { n.pairs.Run(n.closing) })
	n.life.Go(func() { n.measure(l) })
	return n.members.Join(ctx)
}

// leavingHeard is how long Close waits for other nodes to hear that this node leaves.
const leavingHeard = 200 * time.Millisecond

const (
	// closeWait bounds each wait of Close, except for calls in flight.
	closeWait = time.Second
	// handleWait bounds the wait for the handler of the last message, which only a busy machine delays.
	handleWait = 10 * time.Second
)

// Close implements [peers.Cluster].
func (n *Node) Close(ctx context.Context) error {
	l := n.link.Load()
	if l == nil {
		n.close()
		return n.pairs.Close(ctx)
	}
	n.shared.Store(new(sharedTools))
	stuck := time.AfterFunc(closeWait, l.Cut) // a server that does not read gets no goodbye
	n.setOwn(func(own *directory.Own) { *own = directory.Own{Leaving: true} })
	stuck.Stop()
	n.pairs.Leave()
	if len(n.members.Nodes()) > 0 { // calls that are sent until then are refused, not lost
		heard := time.NewTimer(leavingHeard)
		select {
		case <-heard.C:
		case <-ctx.Done():
		}
		heard.Stop()
	}
	streams := n.streams.Load()
	if streams != nil {
		streams.Drain(ctx)
	}
	n.pairs.Drain(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	var left error
	if streams != nil {
		left = streams.Close(ctx)
	}
	defer context.AfterFunc(ctx, l.Cut)()
	err := n.pairs.Close(ctx)
	n.close()
	n.life.Wait() // members.Run announces that this run is gone
	handled, stop := context.WithTimeout(context.WithoutCancel(ctx), handleWait)
	defer stop()
	return errors.Join(left, err, l.Close(handled))
}

// connected records the state of the connection, and wakes the goroutines that wait for a change.
func (n *Node) connected(yes bool, reason string) {
	for {
		before := n.state.Load()
		now := &connection{yes, reason, time.Now(), make(chan struct{})}
		if before.connected == yes {
			now.since = before.since
		}
		if n.state.CompareAndSwap(before, now) {
			close(before.over)
			break
		}
	}
	n.members.Connected(yes)
}

// received dispatches a message of another node.
func (n *Node) received(m link.Message) {
	for one := range wire.Messages(m.Data) {
		h, body, err := wire.Decode(one)
		if err != nil {
			n.o.Log.Warn("messages under the name of another node cannot be read", "node", m.From, "error", err)
			return
		}
		if !n.members.Receive(m.From, h, body) && m.Way == link.ToRun {
			n.pairs.Receive(m.From, h, body)
		}
	}
}

func (n *Node) notTaken(what string) {
	if !n.members.NotTaken(what) {
		n.pairs.NotTaken(what)
	}
}

// lost handles the end of a run.
func (n *Node) lost(run wire.Address) {
	n.pairs.Gone(run)
	n.remote.endRun(run)
	n.local.forget(run)
	if s := n.streams.Load(); s != nil {
		s.Gone(run)
	}
}

func (n *Node) maxBody(of wire.Address) int64 {
	if of == n.self {
		return n.o.MaxBody
	}
	if limit := n.members.MaxBody(of); limit > 0 {
		return limit
	}
	return n.o.MaxBody
}

// Offer implements [peers.Cluster].
func (n *Node) Offer(list []peers.Offer) {
	if n.closing.Err() != nil {
		return
	}
	var shares []directory.Share
	tools := make(sharedTools)
	for _, o := range list {
		as := n.o.sharedAs(o.Extension)
		if as == settings.ShareNone {
			continue
		}
		shares = append(shares, directory.Share{As: as, Offer: o})
		digests := make(map[string]string, len(o.Tools))
		for _, t := range o.Tools {
			digests[t.Name] = directory.Digest(t.Raw)
		}
		tools[o.Extension] = digests
	}
	n.shared.Store(&tools)
	n.setOwn(func(own *directory.Own) { own.Shares = shares })
}

// setOwn changes what this node announces. After it has announced that it leaves, nothing changes.
func (n *Node) setOwn(change func(*directory.Own)) {
	n.said.Lock()
	defer n.said.Unlock()
	if n.said.own.Leaving {
		return
	}
	change(&n.said.own)
	n.members.SetOwn(n.said.own)
}

// SharedAs implements [peers.Cluster].
func (n *Node) SharedAs(extension string) string { return n.o.sharedAs(extension) }

// Places implements [peers.Cluster].
func (n *Node) Places() []*peers.Place { return n.members.Places() }

// Call implements [peers.Cluster].
func (n *Node) Call(ctx context.Context, c *peers.Call) (json.RawMessage, error) {
	to, takes := n.members.Taker(c.Place.Node) // possibly a later run than the one of the place
	h := &wire.Head{
		Request: wire.Request{
			Extension: c.Place.Extension,
			Method:    c.Method,
			Notify:    c.Notify,
			Digest:    c.Digest,
			Trace:     c.Trace,
			Origin:    c.Origin,
		},
	}
	if s := c.Session; s != nil {
		h.Session = &wire.Session{
			ID:         s.ID,
			Caller:     s.Caller,
			Instance:   s.Instance,
			Version:    s.Version,
			Caps:       brief(s.Capabilities),
			ClientInfo: brief(s.ClientInfo),
		}
		if takes && !n.local.note(n.host, s, to) {
			h.Session.ID = ""
		}
	}
	var err error
	var result []byte
	if !takes {
		err = protocol.Errorf(protocol.NotReady, "it is away or leaving; exthost status shows the nodes")
	} else {
		result, err = n.deliver(ctx, to, h, c.Params, c.Client)
		if now, takes := n.members.Taker(to.Node); errors.Is(err, pair.ErrUnreachable) && takes && now == to {
			err = protocol.Errorf(protocol.NotReady, "it did not get the call: %w; exthost status shows the nodes",
				peers.ErrAway)
		}
	}
	n.traffic.out(c.Place.Node, err)
	if err == nil && !c.Notify {
		if bad := rawjson.Check(result); bad != nil {
			return nil, &protocol.Error{
				Kind:    protocol.InvalidResponse,
				Outcome: "unknown",
				Message: "the result is not JSON: " + bad.Error(),
			}
		}
	}
	return result, err
}

// maxTries bounds how often a call that its owner does not receive is sent.
const maxTries = 8

const unsentPause = 10 * time.Millisecond

// deliver sends a call to a run and returns the outcome. If the owner reports that it never received the call, deliver
// sends the call again with a new number; the owner refuses the former one for ever. If the call cannot be sent,
// deliver waits for a new connection, for up to cluster.grace.
func (n *Node) deliver(ctx context.Context, to wire.Address, h *wire.Head, params []byte, client protocol.Peer,
) ([]byte, error) {
	grace := n.o.Settings.Grace.Std()
	for began, tries := time.Now(), 1; ; tries++ {
		result, err := n.pairs.Call(ctx, to, h, params, client)
		switch {
		case errors.Is(err, pair.ErrNotReceived) && tries < maxTries:
		case errors.Is(err, link.ErrUnsent) && time.Since(began) <= grace:
			select { // the connection may have broken without n.state knowing it yet
			case <-time.After(unsentPause):
			case <-ctx.Done():
			}
		default:
			return result, err
		}
		if n.closing.Err() != nil || !n.connects(ctx, grace) {
			return result, err
		}
	}
}

// connects waits until the node is connected. It reports false once the connection has been lost for longer than grace,
// or when ctx ends.
func (n *Node) connects(ctx context.Context, grace time.Duration) bool {
	lost := n.state.Load()
	timer := time.NewTimer(time.Until(lost.since.Add(grace)))
	defer timer.Stop()
	for state := lost; !state.connected; state = n.state.Load() {
		select {
		case <-state.over:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// EndSession implements [peers.Cluster].
func (n *Node) EndSession(s *protocol.Session) {
	for _, run := range n.local.end(s) {
		n.pairs.Bye(run, s.ID)
	}
}

// sender sends the messages of the directory and of the pairs.
type sender Node

func (s *sender) use(send func(*link.Link) error) error {
	l := s.link.Load()
	if l == nil {
		return link.ErrUnsent
	}
	return send(l)
}

// Send implements [pair.Sender] and [directory.Sender].
func (s *sender) Send(to wire.Address, notTaken string, m []byte) error {
	return s.use(func(l *link.Link) error { return l.Send(to, notTaken, m) })
}

// Broadcast implements [directory.Sender].
func (s *sender) Broadcast(m []byte) error {
	return s.use(func(l *link.Link) error { return l.Broadcast(m) })
}

// Any implements [directory.Sender].
func (s *sender) Any(m []byte) error { return s.use(func(l *link.Link) error { return l.Any(m) }) }

// Hold implements [directory.Sender].
func (s *sender) Hold() error { return s.use((*link.Link).Hold) }

// MaxPayload implements [pair.Sender] and [directory.Sender].
func (s *sender) MaxPayload() int {
	if l := s.link.Load(); l != nil {
		return l.MaxPayload()
	}
	return 64 << 10
}

// inbound serves the messages of other nodes.
type inbound Node

// Run implements [pair.Node].
func (n *inbound) Run(ctx context.Context, from wire.Address, h *wire.Head, body []byte, client protocol.Peer,
) ([]byte, error) {
	switch h.Extension {
	case "":
		if s := n.streams.Load(); s != nil {
			return s.Run(ctx, from, h.Method, body)
		}
		return nil, protocol.Errorf(protocol.NotReady, "the node serves no clients over HTTP")
	case wire.Itself:
		return n.operate(ctx, from, h, body)
	}
	digests, shared := (*n.shared.Load())[h.Extension]
	if !shared {
		return nil, protocol.Errorf(protocol.NotReady, "the node does not share extension %q now", h.Extension)
	}
	if h.Digest != "" {
		name, _ := rawjson.Text(rawjson.Get(body, "name"))
		if digests[name] != h.Digest {
			return nil, protocol.Errorf(protocol.DescriptorChanged,
				"tool %q is not what its caller was shown; list the tools again", name)
		}
	}
	s, err := n.remote.session(n.host, from, h.Extension, h.Session)
	if err != nil {
		return nil, err
	}
	n.traffic.in(from.Node)
	return n.host.Do(ctx, &protocol.Call{
		Session:   s,
		Extension: h.Extension,
		Method:    h.Method,
		Params:    body,
		Notify:    h.Notify,
		Client:    client,
		Origin:    h.Origin,
	})
}

// Incoming implements [pair.Node].
func (n *inbound) Incoming(ctx context.Context, from wire.Address, h *wire.Head, body []byte, notify bool,
) ([]byte, error) {
	s := n.local.session(h.Session.ID, from)
	if s == nil {
		return nil, protocol.Errorf(protocol.ToolNotFound, "there is no such session")
	}
	for _, p := range n.members.Places() {
		if p.Node == from.Node && p.Run == from.Run && p.Extension == h.Extension {
			return n.host.Incoming(ctx, p, s, h.Method, body, notify)
		}
	}
	return nil, protocol.Errorf(protocol.ToolNotFound, "extension %q of the node is not used here", h.Extension)
}

// Ended implements [pair.Node].
func (n *inbound) Ended(from wire.Address, session string) { n.remote.end(from, session) }
