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
	probeTimeout = time.Second            // without an answer a node is silent
	again        = 250 * time.Millisecond // between probes of a run that was nobody's
	accusedGrace = 3 * time.Second        // that a run may be silent which another node found lost
	maxJitter    = 500 * time.Millisecond // before a run that another node found lost is asked
)

// doubt is what speaks against a run being there. Any word of it ends the doubt.
type doubt struct {
	nobody  time.Time // since when the servers say that there is no such run
	silent  time.Time // since when it does not answer
	accused bool      // another node found it lost
	due     time.Time // when it is asked again; zero is not
}

// question is a message that waits for its answer.
type question struct {
	to   wire.Address // zero: any
	at   time.Time
	end  time.Time // without an answer until then, there is none
	want *want     // nil: a probe
}

// questions are the messages that are to be sent, and those that wait for answers.
type questions struct {
	out   []message
	seq   uint64
	asked map[uint64]question
}

// ask sends a message that wants an answer.
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
				return // it is asked already
			}
		}
	}
	s.ask(to, wire.Head{Kind: wire.Probe, Gossip: wire.Gossip{Hash: s.hashText(), Clock: now.UnixMilli()}},
		probeTimeout, nil, now)
}

// probeOne asks one node whether it is there. In each second every node asks the one that is as
// many places behind itself in the list of all; how many, changes at random with the second, and
// is the same for all. So each node is asked once in each second, as long as their lists and
// clocks are about equal; and where they are not, by a random one.
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

// refused takes it that a run is nobody's.
func (s *state) refused(a wire.Address, now time.Time) {
	m := s.present(a)
	if m == nil {
		return
	}
	if m.nobody.IsZero() {
		m.nobody = now
	}
	if m.accused || now.Sub(m.nobody) >= s.o.Grace {
		s.lose(m, now)
		return
	}
	s.suspect(m, now.Add(min(again, s.o.Grace-now.Sub(m.nobody))))
}

// unanswered takes it that a run has not answered since at.
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

// lose takes a run for lost and tells the others, unless one of them said it first.
func (s *state) lose(m *member, now time.Time) {
	a, accused := m.address(), m.accused
	level := slog.LevelWarn
	if !m.spoke { // it may never have been there
		level = slog.LevelDebug
	}
	s.say(level, "a node of the cluster is lost", "node", a.Node, "run", a.Run)
	s.leave(m, now)
	s.depart(a, true, now)
	if !accused {
		s.out = append(s.out, message{head: wire.Head{Kind: wire.Lost, Gossip: wire.Gossip{Node: a.Node, Of: a.Run}}})
	}
}

// heard takes a word of a run itself, and looks for the entry of one that is not known here.
func (s *state) heard(a wire.Address, now time.Time) {
	if g, ok := s.gone[a]; ok && !g.lost {
		return // it has said goodbye, or another has its name
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

// probed takes the answer to a probe.
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

// doubts asks the runs that are doubted and due.
func (s *state) doubts(now time.Time) {
	for m := range s.doubted {
		switch {
		case m.due.IsZero():
			delete(s.doubted, m) // it was heard
		case !now.Before(m.due):
			m.due = time.Time{}
			delete(s.doubted, m)
			s.askPresence(m.address(), now)
		}
	}
}

// overdue ends the questions that have waited too long.
func (s *state) overdue(now time.Time) {
	for seq, q := range s.asked {
		if now.Before(q.end) {
			continue
		}
		delete(s.asked, seq)
		s.noAnswer(q, false, now)
	}
}

// noAnswer takes it that a question has no answer, because its run is nobody's or silent.
func (s *state) noAnswer(q question, nobody bool, now time.Time) {
	switch {
	case q.want != nil:
		s.wantFailed(q.want, now)
	case q.to.Run == wire.NameRun:
		s.join(now)
		return
	}
	if nobody {
		s.refused(q.to, now)
	} else if q.want == nil {
		s.unanswered(q.to, q.at, now)
	}
}
