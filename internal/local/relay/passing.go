package relay

// passing is a piece that is being written and not recorded yet. The relay records a piece after its write, while
// the process that reads it wakes up. Responses are still recorded after their requests, because a piece is always
// recorded before the write of the next one in either direction.
type passing struct {
	piece    []byte // nil: all pieces are recorded
	fromHost bool
}

// pass records that piece is about to be written to l. It returns false if l is no longer the link of the relay: then
// piece must not be written.
func (r *relay) pass(l *link, piece []byte, fromHost bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link != l {
		return false
	}
	r.record()
	r.passing = passing{piece, fromHost}
	return true
}

// passed records the announced piece, unless the other direction has already recorded it. It returns the current
// link.
func (r *relay) passed() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record()
	return r.link
}

// recall withdraws an announced piece of the client that reached no host. It returns false if the piece was already
// recorded, because a piece of the host was announced meanwhile.
func (r *relay) recall() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passing.piece == nil || r.passing.fromHost {
		return false
	}
	r.passing.piece = nil
	return true
}

// record records the lines that end in the announced piece; r.mu must be held.
func (r *relay) record() {
	for piece := r.passing.piece; len(piece) > 0; {
		if r.passing.fromHost {
			piece = piece[r.received(piece):]
		} else {
			piece = piece[r.sent(piece):]
		}
	}
	r.passing.piece = nil
}

// sent reads the first line of a client's piece, records it if the line ends in the piece, and returns the number of
// bytes read.
func (r *relay) sent(piece []byte) int {
	whole := !r.scan.began
	n, ended := r.scan.scan(piece)
	if ended {
		r.table.sent(&r.scan.env)
	}
	if ended && whole {
		r.session.sent(&r.scan.env, piece[:n])
	}
	return n
}

// received does for a piece of the host what sent does for a piece of the client.
func (r *relay) received(piece []byte) int {
	scan := &r.link.scan
	n, ended := scan.scan(piece)
	if ended {
		r.table.received(&scan.env)
		r.session.received(&scan.env)
	}
	return n
}
