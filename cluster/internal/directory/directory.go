// Package directory tracks the nodes of a cluster and what they share. It is soft state: every node announces
// itself, probes others, and compares its directory with theirs.
package directory

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Prefix is the prefix of the notTaken tokens of a directory.
const Prefix = "d"

// Sender sends messages. A message may be lost, with or without an error. If no run receives a message that was sent
// with a notTaken token, [Directory.NotTaken] must be called with the token.
type Sender interface {
	Send(to wire.Address, notTaken string, message []byte) error
	Broadcast(message []byte) error
	Any(message []byte) error
	MaxPayload() int // maximum size of a message in bytes
	Hold() error     // makes this run the holder of its node's name, so that messages to any node may reach it
}

// Options configures a directory. Its functions may be called concurrently and must not block. Except for
// Use, they may call methods of the directory.
type Options struct {
	Self     wire.Address
	Version  string   // of exthost
	Features []string // wire features that this node supports
	MaxBody  int64    // maximum body that this node accepts, in bytes
	MaxTools int      // tools in all places together; default 2000
	Sender   Sender
	Log      *slog.Logger // nil: discard

	// reports whether this node uses an extension; nil: always. It is called under a lock and must only compare names
	Use     func(node, extension string) bool
	Changed func()                 // reports changed places; may be nil
	Waiting func()                 // reports changed approval requests at remote nodes; may be nil
	Lost    func(run wire.Address) // reports a run that no longer answers calls; may be nil

	Grace  time.Duration // how long a run may be unreachable before it is lost; default 2 s
	Silent time.Duration // how long a run may be silent before it is lost; default 10 s
	Forget time.Duration // how long the places of a lost run remain; default 30 s
}

// Own is what a node announces about itself.
type Own struct {
	Leaving bool // this node accepts no more calls
	Shares  []Share
	Waiting int   // number of pending approval requests
	Asked   int64 // when the set of pending requests last changed, Unix milliseconds
}

// Share is a shared extension.
type Share struct {
	As string // peers.AsMine or peers.AsReplicas
	peers.Offer
}

// Directory is one run's view of its cluster. Its methods may be called concurrently.
type Directory struct {
	o       Options
	wake    chan struct{} // holds a token when the next deadline has become earlier
	settled chan struct{} // closed once it is known whether another run holds the name

	mu          sync.Mutex // guards what follows; Options.Use is the only foreign code that is called under it
	s           state
	toldSettled bool // settled is closed
}

// New returns the directory of a run that has not joined yet.
func New(o Options) *Directory {
	o.MaxTools = cmp.Or(o.MaxTools, 2000)
	o.Grace, o.Silent, o.Forget = cmp.Or(o.Grace, 2*time.Second), cmp.Or(o.Silent, 10*time.Second), cmp.Or(o.Forget,
		30*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Use == nil {
		o.Use = func(string, string) bool { return true }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Waiting == nil {
		o.Waiting = func() {}
	}
	if o.Lost == nil {
		o.Lost = func(wire.Address) {}
	}
	d := &Directory{o: o, wake: make(chan struct{}, 1), settled: make(chan struct{})}
	d.s.init(&d.o, time.Now())
	return d
}

// Run joins the cluster once there is a connection, and maintains the directory until ctx ends. Then it announces that
// this run is gone. It must be called once.
func (d *Directory) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			d.update((*state).end)
			return
		case <-timer.C:
		case <-d.wake:
		}
		var places, waiting bool
		d.update(func(s *state, now time.Time) { places, waiting = s.tick(now) })
		if places {
			d.o.Changed()
		}
		if waiting {
			d.o.Waiting()
		}
		d.mu.Lock()
		d.s.next = d.s.deadline()
		timer.Reset(time.Until(d.s.next))
		d.mu.Unlock()
	}
}

// update changes the state, and then performs the actions that the state has queued.
func (d *Directory) update(f func(s *state, now time.Time)) {
	room := max(min(chunk, d.o.Sender.MaxPayload()-forHead), leastRoom)
	d.mu.Lock()
	s := &d.s
	s.room = room
	f(s, time.Now())
	out, lost, logs := s.out, s.lost, s.logs
	s.out, s.lost, s.logs = nil, nil, nil
	if s.isSettled && !d.toldSettled {
		d.toldSettled = true
		close(d.settled)
	}
	sooner := s.deadline().Before(s.next)
	d.mu.Unlock()
	for _, l := range logs {
		d.o.Log.Log(context.Background(), l.level, l.text, l.args...)
	}
	var unsent []message
	for _, m := range out {
		if !d.send(&m) {
			unsent = append(unsent, m)
		}
	}
	if len(unsent) > 0 {
		d.mu.Lock()
		s.unsent(unsent, time.Now())
		sooner = sooner || s.deadline().Before(s.next)
		d.mu.Unlock()
	}
	for _, a := range lost {
		d.o.Lost(a)
	}
	if sooner {
		select {
		case d.wake <- struct{}{}:
		default: // Run has yet to take the previous token
		}
	}
}

// send sends a message, and reports whether it was accepted. A message that is lost later is sent again, or its loss
// shows when other nodes compare their directories.
func (d *Directory) send(m *message) bool {
	if m.hold {
		if err := d.o.Sender.Hold(); err != nil {
			d.o.Log.Warn("another run of this node may start beside it", "error", err)
		}
		return true
	}
	m.head.Run = d.o.Self.Run
	raw, err := wire.Encode(&m.head, m.body)
	switch {
	case err != nil:
	case m.any:
		err = d.o.Sender.Any(raw)
	case m.to == wire.Address{}:
		err = d.o.Sender.Broadcast(raw)
	default:
		err = d.o.Sender.Send(m.to, m.notTaken, raw)
	}
	if err != nil {
		d.o.Log.Debug("a message about the cluster was not sent", "kind", m.head.Kind, "to", m.to.Node, "error", err)
	}
	return err == nil
}

// Join waits until this run holds its node's name, which usually takes less than a second. It fails with config_invalid
// if another run holds the name. Without a connection it returns nil at once: a conflict that is found later is logged,
// and Fault returns it.
func (d *Directory) Join(ctx context.Context) error {
	d.mu.Lock()
	connected := d.s.connected
	d.mu.Unlock()
	if !connected {
		return nil
	}
	select {
	case <-d.settled:
	case <-ctx.Done():
		return nil
	}
	if fault := d.Fault(); fault != "" {
		return protocol.Errorf(protocol.ConfigInvalid, "%s", fault)
	}
	return nil
}

// Fault returns why other nodes ignore this run although it is connected: another run holds its name. "": no
// fault.
func (d *Directory) Fault() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.fault
}

// Connected tells the directory whether there is a connection. Without one, no single run is considered lost; after
// Options.Silent, all runs are marked as away.
func (d *Directory) Connected(yes bool) {
	d.update(func(s *state, now time.Time) { s.connect(yes, now) })
}

// SetOwn changes what this node announces. Other nodes are told within 100 ms.
func (d *Directory) SetOwn(own Own) {
	d.update(func(s *state, now time.Time) { s.setOwn(own, now) })
}

// Receive handles messages of the kinds Here, Gone, Lost, Probe, Probed, Want and Have. It reports false for
// other kinds.
func (d *Directory) Receive(from string, h *wire.Head, body []byte) bool {
	switch h.Kind {
	case wire.Here, wire.Gone, wire.Lost, wire.Probe, wire.Probed, wire.Want, wire.Have:
	default:
		return false
	}
	sender := wire.Address{Node: from, Run: h.Run}
	if settings.CheckName(from) != nil || sender == d.o.Self {
		return true
	}
	var e *entry
	if h.Kind == wire.Here || h.Kind == wire.Probed && from == d.o.Self.Node {
		var err error
		if e, err = decodeEntry(body); err != nil || e.address() != sender {
			d.o.Log.Debug("a node of the cluster has sent what is no entry of its own", "node", from, "error", err)
			return true
		}
	}
	d.update(func(s *state, now time.Time) { s.receive(sender, h, e, body, now) })
	return true
}

// NotTaken tells the directory that no run received the message with the notTaken token what. It returns false for a
// token that does not begin with [Prefix], which belongs to another sender.
func (d *Directory) NotTaken(what string) bool {
	digits, ok := strings.CutPrefix(what, Prefix)
	if !ok {
		return false
	}
	if seq, err := strconv.ParseUint(digits, 10, 64); err == nil {
		d.update(func(s *state, now time.Time) { s.notTaken(seq, now) })
	}
	return true
}

// token returns the notTaken token of question seq.
func token(seq uint64) string { return Prefix + strconv.FormatUint(seq, 10) }

// Places returns the extensions that remote nodes share and this node uses, sorted by node. An unchanged
// place keeps its pointer. The list must not be modified.
func (d *Directory) Places() []*peers.Place {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.places
}

// Nodes returns the status of the remote nodes, sorted by name, without the counts of calls.
func (d *Directory) Nodes() []status.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.nodes()
}

// Taker returns the run to which calls to a node go. It returns false if the node is away or leaving.
func (d *Directory) Taker(node string) (run wire.Address, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.s.members[node]
	if m == nil || m.away || m.Leaving {
		return wire.Address{}, false
	}
	return wire.Address{Node: node, Run: m.Run}, true
}

// Knows reports whether a run is present and supports a feature. version is the run's version of exthost, "" if it is
// absent.
func (d *Directory) Knows(run wire.Address, feature string) (version string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.s.present(run); m != nil {
		return m.Version, slices.Contains(m.Features, feature)
	}
	return "", false
}

// MaxBody returns the maximum body that a run accepts in bytes, or 0 if it is unknown.
func (d *Directory) MaxBody(run wire.Address) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.s.present(run); m != nil {
		return m.MaxBody
	}
	return 0
}

// Staying returns the remote runs that are present and not leaving.
func (d *Directory) Staying() (runs []wire.Address) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.s.members {
		if !m.away && !m.Leaving {
			runs = append(runs, m.address())
		}
	}
	return runs
}
