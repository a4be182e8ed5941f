package relay

// table has the requests that are in flight, by their raw ids: those of the client, and
// those of the host to the client. The buffers of the streams bound it: a host refuses what
// is too much, and a client that does not read the refusals is not read either.
type table struct {
	calls map[string]int // how many of the client have this id
	asked map[string]struct{}
}

func newTable() *table { return &table{make(map[string]int), make(map[string]struct{})} }

func (t *table) sent(e *envelope) {
	switch {
	case e.request():
		t.calls[e.id]++
	case e.response():
		delete(t.asked, e.id)
	case e.cancels != "": // which the host does not answer
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
