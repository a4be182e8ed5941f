package relay

// passing is a piece that is being passed on and is not recorded yet. It is recorded when it
// was written, while its reader wakes. An answer is recorded after its request all the same:
// of two pieces the first is recorded before the second is written, whoever writes it.
type passing struct {
	piece    []byte // nil: all is recorded
	fromHost bool
}

// pass announces a piece that is written next. It returns false if l has ended.
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

// passed records what was announced, unless the other direction has done so. It returns the link there is.
func (r *relay) passed() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record()
	return r.link
}

// recall takes back a piece of the client that was announced and reached no host. It returns false if the
// piece was recorded meanwhile, as it is before a piece of the host is announced.
func (r *relay) recall() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passing.piece == nil || r.passing.fromHost {
		return false
	}
	r.passing.piece = nil
	return true
}

// record records the lines that end in the piece that is being passed on; r.mu is locked.
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

// sent records the first line of a piece of the client, if it ends there, and returns its
// length.
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

// received does the same for a piece of the host.
func (r *relay) received(piece []byte) int {
	scan := &r.link.scan
	n, ended := scan.scan(piece)
	if ended {
		r.table.received(&scan.env)
		r.session.received(&scan.env)
	}
	return n
}
