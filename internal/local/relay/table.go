package relay

// table holds the raw ids of requests in flight, in both directions. The stream buffers limit it: a host refuses
// excess requests, and the relay stops reading from a client that does not read the refusals.
type table struct {
	calls map[string]int      // number of client requests by id
	asked map[string]struct{} // host requests by id
}

func newTable() *table { return &table{make(map[string]int), make(map[string]struct{})} }

func (t *table) sent(e *envelope) {
	switch {
	case e.request():
		t.calls[e.id]++
	case e.response():
		delete(t.asked, e.id)
	case e.cancels != "": // a canceled request gets no response
		t.done(e.cancels)
	}
}

func (t *table) received(e *envelope) {
	switch {
	case e.request():
		t.asked[e.id] = struct{}{}
	case e.response():
		t.done(e.id)
	case e.cancels != "":
		delete(t.asked, e.cancels)
	}
}

func (t *table) done(id string) {
	if t.calls[id] > 1 {
		t.calls[id]--
	} else {
		delete(t.calls, id)
	}
}

func (t *table) take() (calls, asked []string) {
	for id, n := range t.calls {
		for range n {
			calls = append(calls, id)
		}
	}
	for id := range t.asked {
		asked = append(asked, id)
	}
	*t = *newTable()
	return calls, asked
}
