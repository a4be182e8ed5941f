// Package directory knows which nodes a cluster has and what they share. It is soft state: each
// node says what it is, asks others whether they are there, and compares what it knows with what
// they know.
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
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Prefix begins each token that a directory gives a [Sender] as notTaken.
const Prefix = "d"

// Sender sends messages. A message may be lost, with and without an error.
type Sender interface {
	Send(to wire.Address, notTaken string, message []byte) error
	Broadcast(message []byte) error
	Any(message []byte) error
	MaxPayload() int // the longest message, in bytes
	Hold() error     // makes this run the one that has the name of its node, and one of those that any may be
}

// Options are those of a directory. Its functions are called by one goroutine at a time or by
// many; they must not wait, and may call the directory, but for Use.
type Options struct {
	Self     wire.Address
	Version  string   // of exthost
	Features []string // of the wire, that this node knows
	MaxBody  int64    // the longest body that this node takes, in bytes
	MaxTools int      // of all other nodes together that have places; 0 is 2,000
	Sender   Sender
	Log      *slog.Logger // nil: none

	// whether a place is of use here; nil: each. It is called under a lock and must only compare
	Use     func(node, extension string) bool
	Changed func()                 // there are other places; nil is not told
	Waiting func()                 // other approval requests wait at other nodes; nil is not told
	Lost    func(run wire.Address) // a run has gone, and does not answer calls any more; nil is not told

	Grace  time.Duration // that a run may be nobody's; 0 is 2 s
	Silent time.Duration // that a run may not answer; 0 is 10 s
	Forget time.Duration // that the places of a lost run stay; 0 is 30 s
}

// Own is what a node says of itself.
type Own struct {
	Leaving bool // it takes no more calls
	Shares  []Share
	Waiting int   // approval requests
	Asked   int64 // when those that wait were others last, in milliseconds since 1970
}

// Share is an extension that a node shares.
type Share struct {
	As string // peers.AsMine or peers.AsReplicas
	peers.Offer
}

// Directory is what one run knows of its cluster. Its methods may be called by many goroutines
// at once.
type Directory struct {
	o       Options
	wake    chan struct{} // there is a sooner deadline
	settled chan struct{} // closed: it is known whether another run has the name

	mu          sync.Mutex // guards what follows; nothing foreign is called under it
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

// Run joins the cluster whenever there is a connection, and keeps the directory until ctx ends.
// It must be called once. At its end it says goodbye to the others.
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

// update changes the state, and then does what the state wants to be done.
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
		default: // it is awake
		}
	}
}

// send sends a message, and reports false for one that may not be sent. What is lost otherwise is
// asked for again, or found missing by others.
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

// Join waits until this run has its name in the cluster, for about a second at most. The error,
// of kind config_invalid, says that another run has it. Without a connection it returns nil at
// once: what happens later is logged, and in Fault.
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

// Fault says why others do not hear this run though it is connected: another run has its name. ""
// is none.
func (d *Directory) Fault() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.fault
}

// Connected says whether there is a connection. Without one nobody is judged, and after
// Options.Silent nobody is there.
func (d *Directory) Connected(yes bool) {
	d.update(func(s *state, now time.Time) { s.connect(yes, now) })
}

// SetOwn says what this node shares from now on. Others hear it within 100 ms.
func (d *Directory) SetOwn(own Own) {
	d.update(func(s *state, now time.Time) { s.setOwn(own, now) })
}

// Receive takes a message of node from: of the kinds Here, Gone, Lost, Probe, Probed, Want and
// Have. It reports false for another kind.
func (d *Directory) Receive(from string, h *wire.Head, body []byte) bool {
	switch h.Kind {
	case wire.Here, wire.Gone, wire.Lost, wire.Probe, wire.Probed, wire.Want, wire.Have:
	default:
		return false
	}
	sender := wire.Address{Node: from, Run: h.Run}
	if wire.CheckName(from) != nil || sender == d.o.Self {
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

// NotTaken takes the token of a message that no run took. It reports false for one of another
// sender, which does not begin with [Prefix].
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

// token is what NotTaken is told of a question.
func token(seq uint64) string { return Prefix + strconv.FormatUint(seq, 10) }

// Places returns what others share and this node uses, by node. A place is the same as before
// unless something of it changed. The list must not be modified.
func (d *Directory) Places() []*peers.Place {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.places
}

// Nodes returns the other nodes, by name, without counts of calls.
func (d *Directory) Nodes() []status.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.s.nodes()
}

// Taker returns the run of a node that takes calls; false when the node is away or leaves.
func (d *Directory) Taker(node string) (run wire.Address, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.s.members[node]
	if m == nil || m.away || m.Leaving {
		return wire.Address{}, false
	}
	return wire.Address{Node: node, Run: m.Run}, true
}

// Knows reports whether a run that is there knows a feature, and which version of exthost it is.
func (d *Directory) Knows(run wire.Address, feature string) (version string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.s.present(run); m != nil {
		return m.Version, slices.Contains(m.Features, feature)
	}
	return "", false
}

// MaxBody returns the longest body that the run takes, in bytes; 0 if it is not known.
func (d *Directory) MaxBody(run wire.Address) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.s.present(run); m != nil {
		return m.MaxBody
	}
	return 0
}

// Staying returns the runs of the other nodes that are there and do not leave.
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
