//go:build unix

package runtime

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// R9: a flood is read at a limited rate, but an answer behind it counts even if the child
// has exited before the answer is read.
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
