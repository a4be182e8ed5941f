//go:build unix

package runtime

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// R9: a flood is read no faster than it is worth, but the answer behind one counts
// though the child is gone before it is read.
func TestR9AnswerBehindALastFlood(t *testing.T) {
	fault(t)
	const flood = 8000 // notifications: about as many as the pipe and the reader hold
	r := start(t, spec(t, "init echo; read; half "+strings.Repeat(`{"method":"n"}`+"\n", flood)+`; say; answer "true"; exit 3`))
	raw, err := r.callTool()
	if err != nil || !strings.Contains(string(raw), "true") {
		t.Errorf("got %s, %v", raw, err)
	}
	wantContains(t, r.end(protocol.ChildExited).Error(), "exit status 3")
}
