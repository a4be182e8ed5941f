package directory

import (
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

const (
	maxMembers   = 4096
	maxGone      = 4096
	rememberGone = time.Hour
	tooSoon      = 100 * time.Millisecond // within it, changes of this node are announced together
	settle       = 50 * time.Millisecond  // within it, changes of remote nodes are processed together
	settleEach   = 250 * time.Microsecond // the same, per node, as all nodes are visited; the longer one counts
	coalesce     = 250 * time.Millisecond // within it, changed places are reported together
)

// state is the whole state of a directory. Only update changes it, under Directory.mu. It queues messages,
// losses and log lines in out, lost and logs, for update to process afterwards.
type state struct {
	room      int // maximum bytes of an answer
	phase     phase
	isSettled bool   // it is known whether another run holds the name, or nobody could be asked
	fault     string // another run holds the name
	connected bool
	since     time.Time         // when connected changed
	offered   map[string]*offer // offers of this node, by extension
	announce  time.Time         // when to announce this node; zero: never
	announced time.Time         // when it was last announced
	told      bool              // it has been announced

	probe time.Time // when to probe the next node
	next  time.Time // when tick is called at the latest

	roster
	questions
	search
	offers
}

// message is a queued message.
type message struct {
	to       wire.Address // zero: to all nodes, or to any
	any      bool
	notTaken string
	head     wire.Head
	body     []byte
	hold     bool // send nothing, but hold the name
}

// init sets the state of a run that has not joined yet.
func (s *state) init(o *Options, now time.Time) {
	s.since, s.offered = now, make(map[string]*offer)
	s.roster = newRoster(o, now)
	s.asked = make(map[uint64]question)
	s.search.all = s
	s.offers = offers{all: s, known: make(map[string]*offer), missing: make(map[string]*fetch)}
}
