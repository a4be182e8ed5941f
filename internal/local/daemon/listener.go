package daemon

import (
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/proc/peer"
)

// Listener returns the listener of the control socket. The listener closes connections of users other than this one
// and root, and logs them at Warn. It keeps a few descriptors back, so that the operator is admitted when the process
// has no other left, which it logs. Closing the listener removes the socket. Call it once.
func (d *Daemon) Listener(log *slog.Logger) net.Listener {
	d.seats.fill()
	return newListener(d.socket, log, &d.seats)
}

// Yield returns a listener that accepts connections of l unless descriptors that are kept for the operator are missing:
// a client must not take them.
func (d *Daemon) Yield(l net.Listener) net.Listener {
	return &yielding{Listener: l, seats: &d.seats, closed: make(chan struct{})}
}

// userListener accepts connections only from certain users: the host's, and root, who could become that user
// anyway.
type userListener struct {
	*net.UnixListener
	users []int // uids
	log   *slog.Logger
	seats *seats
}

func newListener(l *net.UnixListener, log *slog.Logger, s *seats) *userListener {
	return &userListener{UnixListener: l, users: []int{os.Geteuid(), 0}, log: log, seats: s}
}

// Accept implements [net.Listener].
func (g *userListener) Accept() (net.Conn, error) {
	g.seats.returned()
	for {
		conn, err := g.AcceptUnix()
		if file.Exhausted(err) {
			if g.seats.tells(time.Now()) {
				g.log.Error("no descriptor is left: the host takes no new connections and starts no processes, except "+
					"for the operator's commands", "next", "exthost check")
			}
			if g.seats.give(1) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		g.seats.lend(checkSeats) // until the next Accept
		other, err := peer.Unix(conn)
		other.Close()
		// The user is known without a descriptor. Who needs the process too has one answer more: that it is not known.
		if (err == nil || file.Exhausted(err)) && slices.Contains(g.users, other.UID) {
			return conn, nil
		}
		if err != nil {
			g.log.Warn("a process that cannot be told was kept from the socket of the host", "error", err)
		} else {
			g.log.Warn("another user was kept from the socket of the host", "uid", other.UID)
		}
		_ = conn.Close()
		g.seats.returned()
	}
}

// Close implements [net.Listener].
func (g *userListener) Close() error {
	g.seats.close()
	return g.UnixListener.Close()
}

// yielding is the result of [Daemon.Yield].
type yielding struct {
	net.Listener
	seats *seats

	once   sync.Once
	closed chan struct{}
}

// yieldPause is the time between two looks whether the seats are there again.
const yieldPause = 50 * time.Millisecond

// Accept implements [net.Listener].
func (y *yielding) Accept() (net.Conn, error) {
	for y.seats.short() {
		select {
		case <-y.closed:
			return nil, net.ErrClosed
		case <-time.After(yieldPause):
			y.seats.refill()
		}
	}
	return y.Listener.Accept()
}

// Close implements [net.Listener].
func (y *yielding) Close() error {
	y.once.Do(func() { close(y.closed) })
	return y.Listener.Close()
}

const (
	operatorSeats = 16 // descriptors kept for operators, whose commands have up to two connections each
	checkSeats    = 8  // descriptors needed to find out who has connected, at most
)

// seats are descriptors that are kept open to be given back when no other is left. The zero value keeps none. It is
// safe for concurrent use.
type seats struct {
	mu   sync.Mutex // guards the fields below
	most int
	kept []*os.File
	lent bool      // some are used to find out who has connected
	told time.Time // when the lack of descriptors was logged last
}

// fill opens the seats, as many as there are descriptors.
func (s *seats) fill() {
	s.mu.Lock()
	s.most = operatorSeats
	s.mu.Unlock()
	s.refill()
	s.mu.Lock()
	s.most = len(s.kept)
	s.mu.Unlock()
}

// refill opens the seats that are missing, as far as there are descriptors, unless some are lent.
func (s *seats) refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.kept) < s.most && !s.lent {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		s.kept = append(s.kept, f)
	}
}

// give closes n seats, so that a connection gets their descriptors; false if there are none.
func (s *seats) give(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.kept))
	for _, f := range s.kept[:n] {
		_ = f.Close()
	}
	s.kept = s.kept[n:]
	return n > 0
}

// lend closes n seats until returned is called, whether or not others are left: that is not known before they are used.
func (s *seats) lend(n int) {
	s.mu.Lock()
	s.lent = true
	s.mu.Unlock()
	s.give(n)
}

// returned opens the lent seats again.
func (s *seats) returned() {
	s.mu.Lock()
	s.lent = false
	s.mu.Unlock()
	s.refill()
}

// short reports whether seats are missing.
func (s *seats) short() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept) < s.most
}

// tellSpacing is the time between two log lines about a lack of descriptors.
const tellSpacing = time.Minute

// tells reports whether to log a lack of descriptors now.
func (s *seats) tells(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.told) < tellSpacing {
		return false
	}
	s.told = now
	return true
}

// close closes the seats for good.
func (s *seats) close() {
	s.mu.Lock()
	s.most = 0
	s.mu.Unlock()
	s.give(operatorSeats)
}
