// Package directory knows which nodes a cluster has and what they share. It is soft state: each
// node says what it is, asks others whether they are there, and compares what it knows with what
// they know.
package directory

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/peers"
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
	Hold() error     // makes this run the one that has the name of its node
}

// Options are those of a directory. Its functions are called by one goroutine at a time or by
// many; they must not wait, and may call the directory.
type Options struct {
	Self     wire.Address
	Version  string   // of exthost
	Features []string // of the wire, that this node knows
	MaxBody  int64    // the longest body that this node takes, in bytes
	MaxTools int      // of all other nodes together that have places; 0 is 2,000
	Sender   Sender
	Log      *slog.Logger // nil: none

	Use     func(node, extension string) bool // whether a place is of use here; nil: each
	Changed func()                            // there are other places; nil is not told
	Lost    func(run wire.Address)            // a run has gone, and does not answer calls any more; nil is not told

	Grace  time.Duration // that a run may be nobody's; 0 is 2 s
	Silent time.Duration // that a run may not answer; 0 is 10 s
	Forget time.Duration // that the places of a lost run stay; 0 is 30 s
}

// Own is what a node says of itself.
type Own struct {
	Leaving bool // it takes no more calls
	Shares  []Share
}

// Share is an extension that a node shares.
type Share struct {
	As string // peers.AsMine or peers.AsReplicas
	peers.Offer
}

// Directory is what one run knows of its cluster. Its methods may be called by many goroutines
// at once.
type Directory struct {
	o    Options
	wake chan struct{} // the next deadline may be sooner
	done chan struct{} // closed: the first look for another run of this name has ended

	mu sync.Mutex // guards s; nothing else is called under it
	s  state
}

type state struct{}

// New returns the directory of a run that has not joined yet.
func New(o Options) *Directory { return &Directory{o: o} }

// Run joins the cluster whenever there is a connection, and keeps the directory until ctx ends.
// It must be called once. At its end it says goodbye to the others.
func (d *Directory) Run(ctx context.Context) { <-ctx.Done() }

// Join waits until this run has its name in the cluster. The error, of kind config_invalid, says
// that another run has it. Without a connection it returns nil at once: what happens then is
// logged, and in Fault.
func (d *Directory) Join(ctx context.Context) error { return nil }

// Fault says why this run is not heard though it is connected: another has its name. "" is none.
func (d *Directory) Fault() string { return "" }

// Connected says whether there is a connection. Without one nobody is judged, and after
// Options.Silent nobody is there.
func (d *Directory) Connected(yes bool) {}

// SetOwn says what this node shares from now on. Others hear it within 100 ms.
func (d *Directory) SetOwn(own Own) {}

// Receive takes a message of node from: of the kinds Here, Gone, Lost, Probe, Probed, Want and
// Have. It reports false for another kind.
func (d *Directory) Receive(from string, h *wire.Head, body []byte) bool { return false }

// NotTaken takes the token of a message that no run took. It reports false for one of another
// sender, which does not begin with [Prefix].
func (d *Directory) NotTaken(what string) bool { return false }

// Places returns what others share and this node uses, by node and extension. A place is the
// same as before unless something of it changed. The list must not be modified.
func (d *Directory) Places() []*peers.Place { return nil }

// Nodes returns the other nodes, by name, without counts of calls.
func (d *Directory) Nodes() []status.Node { return nil }

// Alive reports whether the run is one of the cluster, and not lost.
func (d *Directory) Alive(run wire.Address) bool { return false }

// MaxBody returns the longest body that the run takes, in bytes; 0 if it is not known.
func (d *Directory) MaxBody(run wire.Address) int64 { return 0 }
