package relay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQuickAnswers: requests and responses are recorded in the order of their writes, even if the peer answers
// before anything was recorded.
func TestQuickAnswers(t *testing.T) {
	l := &link{}
	r := &relay{link: l, table: newTable()}
	for _, piece := range []struct {
		text     string
		fromHost bool
	}{
		{`{"id":1,"method":"ping"}` + "\n" + `{"id":2,"me`, false},
		{`{"id":1,"result":{}}` + "\n" + `{"id":7,"method":"roots/list"}` + "\n", true},
		{`thod":"ping"}` + "\n" + `{"id":7,"result":{}}` + "\n" + `{"id":1,"method":"ping"}` + "\n", false},
		{`{"id":2,"result":{}}` + "\n" + `{"id":8,"method":"roots/list"}` + "\n", true},
	} {
		if !r.pass(l, []byte(piece.text), piece.fromHost) {
			t.Fatal("the host has ended")
		}
	}
	r.passed()
	calls, asked := r.table.take()
	if diff := cmp.Diff([][]string{{"1"}, {"8"}}, [][]string{calls, asked}); diff != "" {
		t.Errorf("calls and what the host asked (-want +got):\n%s", diff)
	}
	if r.pass(&link{}, []byte("\n"), false) {
		t.Error("a piece is passed to a host that has ended")
	}
}

// TestRecallBehindAnAnswer: a request that an ended host did not receive can be recalled only before it is
// recorded. The host's last response, announced meanwhile, is recorded.
func TestRecallBehindAnAnswer(t *testing.T) {
	l := &link{}
	r := &relay{link: l, table: newTable()}
	r.pass(l, []byte(`{"id":1,"method":"ping"}`+"\n"), false)
	r.passed()
	r.pass(l, []byte(`{"id":2,"method":"ping"}`+"\n"), false)
	r.pass(l, []byte(`{"id":1,"result":{}}`+"\n"), true)
	if r.recall() {
		t.Error("a request is taken back that is recorded: it goes to the next host, and is answered as lost too")
	}
	r.passed()
	if calls, _ := r.table.take(); !cmp.Equal(calls, []string{"2"}) {
		t.Errorf("without an answer: %q", calls)
	}
}
