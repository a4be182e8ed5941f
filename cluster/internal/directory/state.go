package directory

import (
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

const (
	maxMembers   = 4096
	maxGone      = 4096
	rememberGone = time.Hour
	tooSoon      = 100 * time.Millisecond // changes of this node within it are told together
	settle       = 50 * time.Millisecond  // changes of others within it are taken together
	settleEach   = 250 * time.Microsecond // for each node, if that is longer: all are looked at
	coalesce     = 250 * time.Millisecond // changes of places within it are told together
)

// state is everything that a directory knows. It is changed under Directory.mu by update alone.
// What it wants to be sent or told it puts into out, lost and logs, for update to do afterwards.
type state struct {
	room      int // bytes of an answer
	phase     phase
	isSettled bool   // it is known whether another run has the name, or there was no way to ask
	fault     string // another run has the name
	connected bool
	since     time.Time         // of connected
	offered   map[string]*offer // of this node, by extension
	announce  time.Time         // when the others hear of this node; zero is not
	announced time.Time         // when they last heard of it
	told      bool              // they have heard of it once

	probe time.Time // when the next node is asked whether it is there
	next  time.Time // when tick is called at the latest

	roster
	questions
	search
	offers
}

// message is one to be sent.
type message struct {
	to       wire.Address // zero: to all, or to any
	any      bool
	notTaken string
	head     wire.Head
	body     []byte
	hold     bool // nothing is sent; the name is held
}

// init makes the state of a run that has not joined yet.
func (s *state) init(o *Options, now time.Time) {
	s.since, s.offered = now, make(map[string]*offer)
	s.roster = newRoster(o, now)
	s.asked = make(map[uint64]question)
	s.search.all = s
	s.offers = offers{all: s, known: make(map[string]*offer), missing: make(map[string]*fetch)}
}
