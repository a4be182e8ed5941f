package directory

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

const (
	probeEach    = time.Second
	probeTimeout = time.Second            // a run that has not answered until then is silent
	again        = 250 * time.Millisecond // between probes of an unreachable run
	accusedGrace = 3 * time.Second        // how long a run may be silent after another node reported it lost
	maxJitter    = 500 * time.Millisecond // maximum delay before probing a run that another node reported lost
)

// doubt is the evidence that a run is gone. Any message of the run clears it.
type doubt struct {
	unreachable time.Time // since when the servers report that the run does not exist
	silent      time.Time // since when it does not answer
	accused     bool      // another node reported it lost
	due         time.Time // when to probe it again; zero: never
}

// question is a message that expects an answer.
type question struct {
	to   wire.Address // zero: any node
	at   time.Time
	end  time.Time // when the question times out
	want *want     // nil: a probe
}

// questions holds the messages to be sent, and the questions without an answer.
type questions struct {
	out   []message
	seq   uint64
	asked map[uint64]question
}

// ask queues a question.
func (q *questions) ask(to wire.Address, h wire.Head, timeout time.Duration, w *want, now time.Time) {
	q.seq++
	h.Seq = q.seq
	q.asked[q.seq] = question{to: to, at: now, end: now.Add(timeout), want: w}
	m := message{to: to, head: h, any: to == wire.Address{}}
	if !m.any {
		m.notTaken = token(q.seq)
	}
	q.out = append(q.out, m)
}

func (s *state) askPresence(to wire.Address, now time.Time) {
	if to.Run != wire.NameRun {
		for _, q := range s.asked {
			if q.want == nil && q.to == to {
				return // a probe is on its way
			}
		}
	}
	s.ask(to, wire.Head{Kind: wire.Probe, Gossip: wire.Gossip{Hash: s.hashText(), Clock: now.UnixMilli()}},
		probeTimeout, nil, now)
}

// probeOne probes one node. The ring lists all nodes; every second, each node probes the node that is shift places
// after itself. All nodes derive the same random shift from the time. So if their rings and clocks agree, each node is
// probed exactly once per second, else by a random number of nodes.
func (s *state) probeOne(now time.Time) {
	s.probe = now.Add(probeEach)
	n := uint64(len(s.ring))
	if n > 1 {
		own, _ := slices.BinarySearch(s.ring, s.o.Self.Node)
		shift := 1 + rand.New(rand.NewPCG(uint64(now.Unix()), n)).Uint64N(n-1)
		if m := s.members[s.ring[(uint64(own)+shift)%n]]; m != nil {
			s.askPresence(m.address(), now)
		}
	}
	if a, ok := s.lostRun(); ok {
		s.askPresence(a, now)
	}
}

// refused handles the report of the servers that run a does not exist.
func (s *state) refused(a wire.Address, now time.Time) {
	m := s.present(a)
	if m == nil {
		return
	}
	if m.unreachable.IsZero() {
		m.unreachable = now
	}
	if m.accused || now.Sub(m.unreachable) >= s.o.Grace {
		s.lose(m, now)
		return
	}
	s.suspect(m, now.Add(min(again, s.o.Grace-now.Sub(m.unreachable))))
}

// unanswered handles a run that has not answered since at.
func (s *state) unanswered(a wire.Address, at, now time.Time) {
	m := s.present(a)
	if m == nil {
		return
	}
	if m.silent.IsZero() {
		m.silent = at
	}
	bound := s.o.Silent
	if m.accused {
		bound = min(bound, accusedGrace)
	}
	if now.Sub(m.silent) >= bound {
		s.lose(m, now)
		return
	}
	s.suspect(m, now)
}

// lose marks a run as lost, and reports it to all nodes unless one of them reported it before.
func (s *state) lose(m *member, now time.Time) {
	a, accused := m.address(), m.accused
	level := slog.LevelWarn
	if !m.spoke { // it may never have existed
		level = slog.LevelDebug
	}
	s.say(level, "a node of the cluster is lost", "node", a.Node, "run", a.Run)
	s.leave(m, now)
	s.depart(a, true, now)
	if !accused {
		s.out = append(s.out, message{head: wire.Head{Kind: wire.Lost, Gossip: wire.Gossip{Node: a.Node, Of: a.Run}}})
	}
}

// heard handles any message of a run. It requests the entry of an unknown run.
func (s *state) heard(a wire.Address, now time.Time) {
	if g, ok := s.gone[a]; ok && !g.lost {
		return // it said goodbye, or another run took its name
	}
	delete(s.gone, a)
	m := s.members[a.Node]
	if m == nil || m.Run != a.Run {
		s.differ(a, now)
		return
	}
	if m.away {
		s.enter(m, now)
	}
	m.doubt, m.spoke = doubt{}, true
}

// probed handles the answer to a probe.
func (s *state) probed(q question, h *wire.Head, now time.Time) {
	m := s.present(q.to)
	if m == nil {
		return
	}
	m.rtt = now.Sub(q.at)
	if h.Clock > 0 {
		m.clock = time.Duration(h.Clock-q.at.Add(m.rtt/2).UnixMilli()) * time.Millisecond
	}
	if h.Hash != s.hashText() {
		s.differ(q.to, now)
	}
}

// doubts probes the doubted runs that are due.
func (s *state) doubts(now time.Time) {
	for m := range s.doubted {
		switch {
		case m.due.IsZero():
			delete(s.doubted, m) // a message of the run has cleared the doubt
		case !now.Before(m.due):
			m.due = time.Time{}
			delete(s.doubted, m)
			s.askPresence(m.address(), now)
		}
	}
}

// overdue ends the questions that have timed out.
func (s *state) overdue(now time.Time) {
	for seq, q := range s.asked {
		if now.Before(q.end) {
			continue
		}
		delete(s.asked, seq)
		s.noAnswer(q, false, now)
	}
}

// noAnswer handles a question without an answer. unreachable is set if the servers reported that the asked run does not
// exist.
func (s *state) noAnswer(q question, unreachable bool, now time.Time) {
	switch {
	case q.want != nil:
		s.wantFailed(q.want, now)
	case q.to.Run == wire.NameRun:
		s.join(now)
		return
	}
	if unreachable {
		s.refused(q.to, now)
	} else if q.want == nil {
		s.unanswered(q.to, q.at, now)
	}
}
