package relay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Requests and answers are recorded in the order in which they were written, also when the
// other side is so quick that nothing was recorded between two of them.
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
