package relay

// passing is a piece that is being written and not recorded yet. It is recorded after the write, while its reader
// wakes up. Responses are still recorded after their requests, because recording a piece always precedes the
// write of the next one in either direction.
type passing struct {
	piece    []byte // nil: everything is recorded
	fromHost bool
}

// pass announces the next piece to write. It returns false if l has ended.
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

// passed records the announced piece, unless the other direction has. It returns the current link.
func (r *relay) passed() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record()
	return r.link
}

// recall withdraws an announced piece of the client that reached no host. It returns false if the piece was
// already recorded, which happens before a piece of the host is announced.
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

// sent records the first line of a client's piece if it ends there, and returns the number of bytes consumed.
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

// received is sent for a piece of the host.
func (r *relay) received(piece []byte) int {
	scan := &r.link.scan
	n, ended := scan.scan(piece)
	if ended {
		r.table.received(&scan.env)
		r.session.received(&scan.env)
	}
	return n
}
