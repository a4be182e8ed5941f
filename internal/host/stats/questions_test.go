package stats

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/status"
)

// Unanswered questions are listed, oldest first, up to a bound.
func TestOpenQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p History
		var answered []func()
		for i := range keptCalls + 10 {
			answered = append(answered,
				p.Asked(status.Question{Method: fmt.Sprint("m", i, strings.Repeat("x", 2*maxName))}))
			time.Sleep(time.Second)
		}
		list := p.Questions()
		if len(list) != keptCalls || !strings.HasPrefix(list[0].Method, "m0x") || len(list[0].Method) > maxName {
			t.Errorf("%d, the first %q", len(list), list[0].Method)
		}
		if took := time.Since(list[0].Since); took != (keptCalls+10)*time.Second {
			t.Errorf("the first is open for %v", took)
		}
		for _, end := range answered {
			end()
		}
		if list := p.Questions(); len(list) != 0 || len(p.open) != 0 {
			t.Errorf("%d are left", len(list))
		}
	})
}
