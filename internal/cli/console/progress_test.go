package console

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Nothing appears within a second. Then the line is replaced every second and cut to the terminal, and it is erased at
// the end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		width := func() int { return 20 }
		mark := func(text string) string { return "<" + text + ">" }
		stop := progress(&out, width, mark, func() string { return "never" })
		time.Sleep(progressTick - 1)
		stop()
		if out.Len() > 0 {
			t.Errorf("%q is shown within a second", &out)
		}
		texts := []string{"", "starting \x1b[2J", "starting notes, hub, and more"}
		stop = progress(&out, width, mark, func() (text string) {
			text, texts = texts[0], texts[1:]
			return text
		})
		time.Sleep(3*progressTick + 1)
		stop()
		stop()
		plain := strings.ReplaceAll(out.String(), "\r\x1b[K", "|")
		if diff := cmp.Diff(`|<starting… (2s)>|<starting… (3s)>|`, plain); diff != "" {
			t.Error(diff)
		}
	})
}
