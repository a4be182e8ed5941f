package stats

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/status"
)

// Calls that instances have for long are listed, the oldest first and up to a bound, in whatever order they return. A
// call whose caller is asked something is not among them.
func TestSlowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		tools := func() (names []string) {
			var s status.Extension
			c.Describe(&s)
			for _, slow := range s.Slow {
				names = append(names, slow.Tool)
			}
			return names
		}
		want := func(names ...string) {
			t.Helper()
			if diff := cmp.Diff(names, tools()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		list := make([]Flight, slowCalls+2)
		for i := range list {
			list[i] = Flight{Tool: fmt.Sprint(i), Caller: "bot", Since: time.Now()}
			c.Sent(&list[i])
			time.Sleep(time.Second)
		}
		want("0")
		time.Sleep(slowCall)
		want("0", "1", "2", "3", "4", "5", "6", "7")
		c.Returned(&list[0])
		c.Returned(&list[4])
		answered := c.Asks(&list[2])
		want("1", "3", "5", "6", "7", "8", "9")
		answered()
		c.Returned(&list[9])
		want("1", "2", "3", "5", "6", "7", "8")
		for _, i := range []int{8, 1, 2, 3, 5, 6, 7} {
			c.Returned(&list[i])
		}
		want()
		if c.flights.first != nil || c.flights.last != nil {
			t.Error("the list is not empty")
		}
		f := Flight{Since: time.Now()}
		if n := testing.AllocsPerRun(100, func() { c.Sent(&f); c.Returned(&f) }); n != 0 {
			t.Errorf("%v allocations for a call", n)
		}
	})
}
